//! Checks the layers of the crate: code uses its own folder and earlier ones, and the files of a folder have no import cycle. Tests
//! may use anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest layer to the highest; `lib.rs` says what each is about.
const LAYERS: [&str; 24] = [
    "error",
    "value",
    "layout",
    "clock",
    "language",
    "memory",
    "fact",
    "cells",
    "keys",
    "compile",
    "selection",
    "tables",
    "step",
    "aggregate",
    "matches",
    "facts",
    "firing",
    "time",
    "partitions",
    "announce",
    "engine",
    "explain",
    "input",
    "cut_off",
];

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

/// Returns the modules that a file names below `crate`, without its unit tests: `crate::a::{b::c, d}` has `a::b` and `a::d`.
fn named(path: &Path) -> BTreeSet<(String, String)> {
    let code = fs::read_to_string(path).unwrap();
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let word =
        |text: &str| text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let mut names = BTreeSet::new();
    for path in code.split("crate::").skip(1) {
        let layer = word(path);
        let rest = path[layer.len()..].strip_prefix("::").unwrap_or("");
        let list = rest.strip_prefix('{').map_or(rest, |list| list.split('}').next().unwrap());
        let parts = if rest.starts_with('{') { list.split(',').map(word).collect() } else { vec![word(rest)] };
        names.extend(parts.into_iter().map(|part| (layer.clone(), part)));
    }
    names
}

/// Returns the layer of a file, and its name in its folder or "".
fn place(path: &Path) -> (String, String) {
    let within = path.strip_prefix(source()).unwrap().with_extension("");
    let mut parts = within.components().map(|part| part.as_os_str().to_str().unwrap().to_owned());
    (parts.next().unwrap(), parts.next().unwrap_or_default())
}

#[test]
fn no_layer_uses_a_later_one() {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let (mut upward, mut downward) = (Vec::new(), 0);
    for path in rust_files(&source()) {
        let (layer, _) = place(&path);
        if layer == "lib" {
            continue;
        }
        let own = rank(&layer).unwrap_or_else(|| panic!("{layer} is no layer"));
        for (name, part) in named(&path) {
            let other = rank(&name).unwrap_or_else(|| panic!("{}: {name} is no layer", path.display()));
            downward += usize::from(other < own);
            if other > own {
                upward.push(format!("{}: {name}::{part}", path.display()));
            }
        }
    }
    assert!(downward > 100, "the test reads what code uses");
    assert!(upward.is_empty(), "upward:\n{}", upward.join("\n"));
}

#[test]
fn files_of_a_folder_have_no_import_circle() {
    let files = rust_files(&source());
    let places: BTreeSet<_> = files.iter().map(|path| place(path)).collect();
    let mut uses: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for path in &files {
        let own = place(path);
        if own.1.is_empty() || own.1 == "mod" {
            continue;
        }
        let others =
            named(path).into_iter().filter(|other| other.0 == own.0 && *other != own && places.contains(other));
        let others = others.collect();
        uses.insert(own, others);
    }
    assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 30, "the test reads what code uses");
    // Removes files without remaining imports until none is left.
    while let Some(file) = uses.iter().find(|(_, others)| !others.iter().any(|other| uses.contains_key(other))) {
        let file = file.0.clone();
        uses.remove(&file);
    }
    assert!(uses.is_empty(), "circles: {:?}", uses.keys());
}
