//! Reads the `use` paths of a crate: its folders are layers, and its files have no import circle. Tests may use anything.

use std::fs;
use std::path::{Path, PathBuf};

/// A crate by the `src` of its manifest's folder.
pub struct Crate {
    source: PathBuf,
    /// Each module's path below `crate`, with its file and the paths that it names.
    modules: Vec<Module>,
}

struct Module {
    path: Vec<String>,
    named: Vec<Vec<String>>,
}

impl Crate {
    /// Reads the crate in the folder `manifest`.
    pub fn read(manifest: &str) -> Self {
        let source = Path::new(manifest).join("src");
        let mut modules = Vec::new();
        for file in rust_files(&source) {
            let within = file.strip_prefix(&source).unwrap().with_extension("");
            let mut path: Vec<String> = within.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
            path.pop_if(|last| last == "mod");
            if !matches!(path.last().map(String::as_str), Some("lib" | "tests")) {
                let named = named(&fs::read_to_string(&file).unwrap(), &path);
                modules.push(Module { path, named });
            }
        }
        Self { source, modules }
    }

    /// Checks that no folder uses a later one of `layers`, and that more than `least` uses of lower ones were found.
    pub fn check_layers(&self, layers: &[&str], least: usize) {
        let rank = |name: &str| layers.iter().position(|layer| *layer == name);
        let mut upward = Vec::new();
        let mut downward = 0;
        for Module { path, named } in &self.modules {
            let user = rank(&path[0]).unwrap_or_else(|| panic!("{} is no layer", path[0]));
            for name in named {
                let used = rank(&name[0]).unwrap_or_else(|| panic!("{}: {} is no layer", path.join("::"), name[0]));
                downward += usize::from(used < user);
                if used > user {
                    upward.push(format!("{}: {}", path.join("::"), name.join("::")));
                }
            }
        }
        assert!(downward > least, "found {downward} uses in {}", self.source.display());
        assert!(upward.is_empty(), "upward:\n{}", upward.join("\n"));
    }

    /// Checks that no files use each other in a circle, except a folder's module and its own files, and that more than `least` uses
    /// were found.
    pub fn check_circles(&self, least: usize) {
        let uses: Vec<Vec<usize>> = self.modules.iter().map(|module| self.uses(module)).collect();
        let found: usize = uses.iter().map(Vec::len).sum();
        assert!(found > least, "found {found} uses in {}", self.source.display());
        let circles: Vec<String> =
            in_circles(&uses).into_iter().map(|module| self.modules[module].path.join("::")).collect();
        assert!(circles.is_empty(), "files in circles: {}", circles.join(", "));
    }

    /// The modules that a module names, without its parents and children.
    fn uses(&self, Module { path, named }: &Module) -> Vec<usize> {
        let find = |name: &Vec<String>| {
            let known = |len: usize| self.modules.iter().position(|other| other.path[..] == name[..len]);
            (1..=name.len()).rev().find_map(known)
        };
        let is_relative = |used: &usize| {
            let other = &self.modules[*used].path;
            path.starts_with(other) || other.starts_with(path)
        };
        named.iter().filter_map(find).filter(|used| !is_relative(used)).collect()
    }
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

/// Returns the paths below `crate` that the code of `module` names, without its unit tests. `crate::a::{b::c, d}` names `a`, `a::b::c`
/// and `a::d`.
fn named(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let parent = &module[..module.len() - 1];
    let mut found = Vec::new();
    for (prefix, start) in [("crate::", &[][..]), ("super::", parent)] {
        for rest in code.split(prefix).skip(1) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
            let (path, rest) = rest.split_at(end);
            let path: Vec<String> = start.iter().cloned().chain(names(path)).collect();
            let group = rest.strip_prefix('{').and_then(|group| group.split('}').next()).unwrap_or("");
            found.extend(group.split(',').map(|member| path.iter().cloned().chain(names(member)).collect()));
            found.push(path);
        }
    }
    found.retain(|path: &Vec<String>| !path.is_empty());
    found
}

fn names(path: &str) -> impl Iterator<Item = String> + '_ {
    path.trim().split("::").filter(|name| !name.is_empty()).map(str::to_owned)
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
