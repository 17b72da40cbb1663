//! The folders of the crate are layers: code uses what is in its own folder and in those before it. No files use each other in a
//! circle, except a folder's module and its own files. Tests may use anything.

// Left out in the sandbox, because there are no files.
#![cfg(not(target_arch = "wasm32"))]

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest layer to the highest; `lib.rs` says what each is about.
const LAYERS: [&str; 20] = [
    "error",
    "cost",
    "support",
    "handles",
    "term",
    "model",
    "language",
    "event",
    "patterns",
    "compile",
    "catalog",
    "eval",
    "plan",
    "tree",
    "boolean",
    "reasons",
    "room",
    "index",
    "search",
    "diagnostics",
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

/// The modules of the crate that code names, each with its line.
fn named(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code);
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
        if first == "lib.rs" || within.ends_with("tests.rs") {
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
    assert!(downward > 100, "the test reads what code uses");
    assert!(upward.is_empty(), "upward:\n{}", upward.join("\n"));
}

/// The modules of the crate by their paths, each with its file.
fn modules() -> Vec<(Vec<String>, PathBuf)> {
    let module = |path: PathBuf| {
        let within = path.strip_prefix(source()).unwrap().with_extension("");
        let mut names: Vec<String> = within.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
        names.pop_if(|last| last == "mod");
        (names, path)
    };
    let files = rust_files(&source()).into_iter().map(module);
    files.filter(|(names, _)| !matches!(names.last().map(String::as_str), Some("lib" | "tests"))).collect()
}

/// The paths that code names from `module` on, without `crate`, each group of braces as the module before it and as its members.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let parent = &module[..module.len() - 1];
    let mut found = Vec::new();
    for (prefix, start) in [("crate::", &[][..]), ("super::", parent)] {
        for rest in code.split(prefix).skip(1) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
            let (path, rest) = rest.split_at(end);
            let path: Vec<String> = start
                .iter()
                .cloned()
                .chain(path.split("::").filter(|name| !name.is_empty()).map(str::to_owned))
                .collect();
            let group = rest.strip_prefix('{').and_then(|group| group.split('}').next()).unwrap_or("");
            for member in group.split(',') {
                found.push([&path[..], &[member.trim().to_owned()]].concat());
            }
            found.push(path);
        }
    }
    found
}

/// The modules that lie in circles of `uses`, or between two circles.
fn in_circles(uses: &[Vec<usize>]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..uses.len()).collect();
    loop {
        let before = left.clone();
        let is_used = |module: &usize| before.iter().any(|&user| uses[user].contains(module));
        left.retain(|module| uses[*module].iter().any(|used| before.contains(used)) && is_used(module));
        if left.len() == before.len() {
            return left;
        }
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let modules = modules();
    let uses = modules.iter().map(|(module, file)| {
        let used = paths(&fs::read_to_string(file).unwrap(), module).into_iter().filter_map(|path| {
            let known = |len: usize| modules.iter().position(|(other, _)| other[..] == path[..len]);
            (1..=path.len()).rev().find_map(known)
        });
        // A folder's module and the files in it may use each other.
        used.filter(|&used| !module.starts_with(&modules[used].0) && !modules[used].0.starts_with(module)).collect()
    });
    let uses: Vec<Vec<usize>> = uses.collect();
    assert!(uses.iter().map(Vec::len).sum::<usize>() > 300, "the test reads what code uses");
    let circles: Vec<String> = in_circles(&uses).into_iter().map(|module| modules[module].0.join("::")).collect();
    assert!(circles.is_empty(), "files in circles: {}", circles.join(", "));
}
