//! The folders of the crate are layers: code uses what is in its own folder and in those before it.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest layer to the highest; `lib.rs` says what each is about.
const LAYERS: [&str; 9] = ["failure", "system", "terms", "memory", "compile", "machine", "instance", "calls", "nifs"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The modules of the crate that code names, each with its line.
fn named(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| {
        let paths = line.split("crate::").skip(1);
        paths.map(move |path| (path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap(), line))
    })
}

#[test]
fn no_folder_uses_a_later_one() {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut upward = Vec::new();
    let mut downward = 0;
    for path in rust_files(&source()) {
        let within = path.strip_prefix(source()).unwrap();
        let first = within.components().next().unwrap().as_os_str().to_str().unwrap();
        if first == "lib.rs" {
            continue;
        }
        let own = rank(first.trim_end_matches(".rs")).unwrap_or_else(|| panic!("{first} is no layer"));
        for (name, line) in named(&fs::read_to_string(&path).unwrap()) {
            let other = rank(name).unwrap_or_else(|| panic!("{}: {name} is no layer", within.display()));
            downward += usize::from(other < own);
            if other > own {
                upward.push(format!("{}: {}", within.display(), line.trim()));
            }
        }
    }
    assert!(downward > 50, "the test reads what code uses");
    assert!(upward.is_empty(), "upward:\n{}", upward.join("\n"));
}
