//! Files of compiled code by themselves: the library can only be linked into the BEAM.

#[path = "../src/compile/code_files.rs"]
mod code_files;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, process, thread};

use code_files::SavedGlobals;
use wasmtime::{Config, Engine, Instance, Module, Store};

const DIGEST: [u8; 32] = [7; 32];
/// A module with a function `f` that returns 42.
#[rustfmt::skip]
const WASM: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0,
    1, 5, 1, 0x60, 0, 1, 0x7f,
    3, 2, 1, 0,
    7, 5, 1, 1, b'f', 0, 0,
    10, 6, 1, 4, 0, 0x41, 42, 0x0b,
];

/// A folder that is deleted at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("be_tree_code_{test}_{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        code_files::make_private(&path).unwrap();
        Self(path)
    }

    /// Stores the module, and returns the path of its file.
    fn store(&self, engine: &Engine, globals: &SavedGlobals) -> PathBuf {
        code_files::store(&self.0, &DIGEST, &Module::from_binary(engine, WASM).unwrap(), globals).unwrap();
        self.files().pop().unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn loads(folder: &Path, engine: &Engine) -> bool {
    let Some((module, _)) = code_files::load(folder, engine, &DIGEST) else { return false };
    let mut store = Store::new(engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let function = instance.get_typed_func::<(), i32>(&mut store, "f").unwrap();
    assert_eq!(function.call(&mut store, ()).unwrap(), 42);
    true
}

#[test]
fn stored_code_is_loaded_with_its_globals() {
    let folder = Folder::new("stored");
    let engine = Engine::default();
    let cases: [SavedGlobals; 4] = [
        Ok(vec![]),
        Ok(vec!["__stack_pointer".into(), String::new(), "\0\n".into()]),
        Err("it has 2 memories".into()),
        Err(String::new()),
    ];
    for globals in cases {
        folder.store(&engine, &globals);
        assert_eq!(folder.files().len(), 1);
        assert!(loads(&folder.0, &engine));
        assert_eq!(code_files::load(&folder.0, &engine, &DIGEST).unwrap().1, globals);
    }
    assert!(code_files::load(&folder.0, &engine, &[8; 32]).is_none());
    assert!(!loads(Path::new("/nowhere"), &engine));
}

#[test]
fn damaged_files_are_not_loaded_and_are_replaced() {
    let folder = Folder::new("damaged");
    let engine = Engine::default();
    let path = folder.store(&engine, &Ok(vec!["g".into()]));
    let bytes = fs::read(&path).unwrap();
    for length in [0, 1, 11, 12, 67, 68, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(!loads(&folder.0, &engine), "{length} bytes");
    }
    // A prime step, so that each section and each field of the trailer is damaged.
    let trailer = bytes.len() - 80;
    for position in (0..bytes.len()).step_by(251).chain(trailer..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        fs::write(&path, damaged).unwrap();
        assert!(!loads(&folder.0, &engine), "byte {position}");
    }
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    assert!(!loads(&folder.0, &engine));
    folder.store(&engine, &Ok(vec![]));
    assert!(loads(&folder.0, &engine));
}

/// Returns a file with a CRC-32 that fits its changed content.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 12;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.windows(from.len()).position(|window| window == from).expect("the text is in the file");
    bytes[at..at + to.len()].copy_from_slice(to);
    resealed(bytes)
}

#[test]
fn code_of_another_module_build_or_wasmtime_is_not_loaded() {
    let folder = Folder::new("foreign");
    let engine = Engine::default();
    let path = folder.store(&engine, &Ok(vec![]));
    let bytes = fs::read(&path).unwrap();
    assert_eq!(resealed(bytes.clone()), bytes);
    let build = env!("BE_TREE_HOST_BUILD").as_bytes();
    let version = b"\x0248";
    for (from, to) in [(build, &b"0123456789abcdef"[..]), (&DIGEST[..], &[8; 32][..]), (&version[..], &b"\x0247"[..])] {
        fs::write(&path, replace(&bytes, from, to)).unwrap();
        assert!(!loads(&folder.0, &engine));
    }
    fs::write(&path, b"\x7fELF").unwrap();
    assert!(!loads(&folder.0, &engine));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_for_a_cpu_with_an_unknown_feature_is_not_loaded() {
    let folder = Folder::new("cpu");
    let engine = Engine::default();
    let path = folder.store(&engine, &Ok(vec![]));
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, replace(&bytes, b"has_sse3", b"has_sse9")).unwrap();
    assert!(!loads(&folder.0, &engine));
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn code_for_a_cpu_with_fewer_features_is_loaded() {
    let folder = Folder::new("fewer");
    let mut config = Config::new();
    // wasmtime compiles for the least CPU of a target that is named.
    config.target("x86_64-unknown-linux-gnu").unwrap();
    folder.store(&Engine::new(&config).unwrap(), &Ok(vec![]));
    assert!(loads(&folder.0, &Engine::default()));
}

#[test]
fn code_of_an_engine_with_other_settings_is_not_loaded() {
    let folder = Folder::new("settings");
    let mut config = Config::new();
    config.consume_fuel(true);
    folder.store(&Engine::new(&config).unwrap(), &Ok(vec![]));
    assert!(!loads(&folder.0, &Engine::default()));
    assert!(code_files::load(&folder.0, &Engine::new(&config).unwrap(), &DIGEST).is_some());
}

#[test]
fn a_folder_to_which_others_may_write_is_refused() {
    let folder = Folder::new("private");
    let below = folder.0.join("a/b");
    code_files::make_private(&below).unwrap();
    assert_eq!(fs::metadata(&below).unwrap().permissions().mode() & 0o777, 0o700);
    for (mode, is_private) in [(0o755, true), (0o775, false), (0o757, false), (0o700, true)] {
        fs::set_permissions(&below, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(code_files::make_private(&below).is_ok(), is_private, "{mode:o}");
    }
    fs::write(folder.0.join("file"), "").unwrap();
    assert!(code_files::make_private(&folder.0.join("file")).is_err());
    assert!(code_files::make_private(&folder.0.join("file/below")).is_err());
}

#[test]
fn a_store_that_fails_leaves_no_part() {
    let folder = Folder::new("fails");
    let engine = Engine::default();
    let path = folder.store(&engine, &Ok(vec![]));
    fs::remove_file(&path).unwrap();
    // A file cannot replace a folder.
    fs::create_dir(&path).unwrap();
    let module = Module::from_binary(&engine, WASM).unwrap();
    assert!(code_files::store(&folder.0, &DIGEST, &module, &Ok(vec![])).is_err());
    assert_eq!(folder.files(), [path]);
    assert!(!loads(&folder.0, &engine));
}

#[test]
fn threads_that_store_and_load_at_once_see_complete_files() {
    let folder = Folder::new("at_once");
    let engine = Engine::default();
    folder.store(&engine, &Ok(vec![]));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let module = Module::from_binary(&engine, WASM).unwrap();
                for _ in 0..50 {
                    code_files::store(&folder.0, &DIGEST, &module, &Ok(vec![])).unwrap();
                    assert!(loads(&folder.0, &engine));
                }
            });
        }
    });
    assert_eq!(folder.files().len(), 1);
}

#[test]
fn the_least_recently_used_files_are_deleted_first() {
    let folder = Folder::new("least");
    let engine = Engine::default();
    let path = folder.store(&engine, &Ok(vec![]));
    let length = fs::metadata(&path).unwrap().len();
    for (name, age) in [("a.code", 300), ("b.code.1-2.part", 200), ("c.code", 100), ("kept", 400)] {
        let file = fs::File::create(folder.0.join(name)).unwrap();
        file.set_len(length).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
    }
    code_files::shrink(&folder.0, 2 * length).unwrap();
    let mut left: Vec<_> = folder.files().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    left.sort();
    assert!(left.contains(&"c.code".into()) && left.contains(&"kept".into()) && loads(&folder.0, &engine));
    assert_eq!(left.len(), 3);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(500);
    fs::File::open(&path).unwrap().set_modified(old).unwrap();
    code_files::touch(&folder.0, &DIGEST);
    code_files::shrink(&folder.0, length).unwrap();
    assert!(loads(&folder.0, &engine));
}
