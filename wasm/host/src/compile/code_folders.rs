//! The folders that have code: that of the library's build, and the cache that a user names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustler::{Atom, Binary, Decoder, NifResult, Term};
use wasmtime::{Engine, Module};

use crate::compile::code_files::{self, SavedGlobals};
use crate::terms::atoms;

/// Decoded from `{built, cache}`, each a path or `nil`.
pub struct Folders {
    /// The code of the built-in modules. Nothing is written to it.
    built: Option<PathBuf>,
    cache: Option<PathBuf>,
}

/// The place that a module's code came from.
#[derive(Clone, Copy)]
enum Source {
    Built,
    Cache,
    Compiled,
}

pub struct Origin {
    source: Source,
    /// The reason why the cache could not be used, if it differs from the last one in this process.
    pub fault: Option<String>,
}

impl<'a> Decoder<'a> for Folders {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let (built, cache): (Option<Binary>, Option<Binary>) = term.decode()?;
        let path = |bytes: Binary| PathBuf::from(OsStr::from_bytes(&bytes));
        Ok(Self { built: built.map(path), cache: cache.map(path) })
    }
}

impl Folders {
    /// Returns a module and its globals if a folder has its code.
    pub fn load(&self, engine: &Engine, digest: &[u8]) -> Option<(Module, SavedGlobals, Origin)> {
        let load = |folder: &Path, source| {
            let (module, globals) = code_files::load(folder, engine, digest)?;
            Some((module, globals, Origin { source, fault: None }))
        };
        let built = self.built.as_deref().and_then(|built| load(built, Source::Built));
        built.or_else(|| {
            // If the cache is refused, `store` reports the reason.
            let cache = self.cache.as_deref().filter(|cache| code_files::make_private(cache).is_ok())?;
            let loaded = load(cache, Source::Cache)?;
            code_files::touch(cache, digest);
            Some(loaded)
        })
    }

    /// Writes the code of a module that was compiled to the cache, if there is one.
    pub fn store(&self, digest: &[u8], module: &Module, globals: &SavedGlobals) -> Origin {
        let stored = self.cache.as_deref().map_or(Ok(()), |cache| {
            code_files::make_private(cache)?;
            code_files::store(cache, digest, module, globals).map_err(|error| error.to_string())
        });
        Origin { source: Source::Compiled, fault: stored.err().filter(|fault| is_new(fault)) }
    }
}

/// Returns whether a fault differs from the last one, so that a cache that cannot be used is reported once.
fn is_new(fault: &str) -> bool {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = *last != fault;
    fault.clone_into(&mut last);
    is_new
}

impl Origin {
    pub fn source(&self) -> Atom {
        match self.source {
            Source::Built => atoms::built(),
            Source::Cache => atoms::cache(),
            Source::Compiled => atoms::compiled(),
        }
    }
}
