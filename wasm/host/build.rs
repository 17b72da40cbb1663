//! Links the library so that it is never unmapped, and gives the code that it compiles the name of this build.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // The library starts a thread and wasmtime's signal handlers, and the BEAM closes the library of a module that is purged.
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    let mut hasher = DefaultHasher::new();
    // The lock file has the version of wasmtime, and the sources have its settings and the rewriting of modules.
    for path in ["build.rs", "Cargo.toml", "../Cargo.lock", "src"] {
        println!("cargo:rerun-if-changed={path}");
        for file in files(Path::new(path))? {
            fs::read(file)?.hash(&mut hasher);
        }
    }
    println!("cargo:rustc-env=BE_TREE_HOST_BUILD={:016x}", hasher.finish());
    Ok(())
}

/// Returns the files at or below a path, in the order of their paths.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let below = entries.iter().map(|entry| files(entry)).collect::<io::Result<Vec<_>>>()?;
    Ok(below.concat())
}
