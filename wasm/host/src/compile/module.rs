//! A compiled module, as a resource, with its imports and exports.

use std::sync::Arc;

use rustler::{Encoder, Env, Resource, Term};
use wasmtime::{Engine, ExternType, Mutability, ValType};

use crate::compile::bounds::{self, Refusal};
use crate::compile::code_files::SavedGlobals;
use crate::compile::code_folders::{Folders, Origin};
use crate::compile::engine;
use crate::compile::rewrite;
use crate::compile::saved_globals;
use crate::failure::Failure;
use crate::system::background::DropLater;
use crate::system::counts::{self, Counted};
use crate::system::quota::{self, Taken};
use crate::terms::atoms;

pub struct Module(pub Arc<Compiled>);

#[rustler::resource_impl]
impl Resource for Module {}

pub struct Compiled {
    module: DropLater<Code>,
    /// The bytes from which it was compiled.
    bytes: Box<[u8]>,
    /// The globals that snapshots contain, or the reason why the module cannot have snapshots.
    saved_globals: SavedGlobals,
    _counted: Counted,
}

struct Code {
    module: wasmtime::Module,
    _mappings: Taken,
    /// That of the file from which the code was loaded.
    _descriptor: Option<Taken>,
}

/// The mappings of a module: its code, and the read-only data before and after it.
const MAPPINGS: usize = 4;

impl Compiled {
    /// Loads the code of a module from a folder, or else compiles the module. Takes seconds for a large one, so it must not
    /// run on a scheduler. `digest` is the SHA-256 of the bytes.
    ///
    /// # Errors
    ///
    /// `BadModule` if the bytes are not a module that can run here, `Overloaded` if the host may take no more mappings, and
    /// `OutOfMemory` if the system refuses memory for the code. The VM aborts if the compiler itself is refused memory.
    pub fn new(bytes: &[u8], digest: &[u8], folders: &Folders) -> Result<(Self, Origin), Failure> {
        let engine = engine::get()?;
        let mappings = quota::mappings().take(MAPPINGS, "a module")?;
        // Without a descriptor the module is compiled.
        let descriptor = quota::descriptors().take(1, "a module").ok();
        let loaded = descriptor.and_then(|descriptor| Some((folders.load(engine, digest)?, descriptor)));
        let ((module, saved_globals, origin), descriptor) = match loaded {
            Some((loaded, descriptor)) => (loaded, Some(descriptor)),
            None => {
                let module = compile(engine, bytes)?;
                let saved_globals = saved_globals::globals(bytes);
                let origin = folders.store(digest, &module, &saved_globals);
                ((module, saved_globals, origin), None)
            }
        };
        let compiled = Self {
            module: DropLater::new(Code { module, _mappings: mappings, _descriptor: descriptor }),
            bytes: bytes.into(),
            saved_globals,
            _counted: Counted::new(&counts::MODULES),
        };
        Ok((compiled, origin))
    }

    /// Returns the names of the globals that snapshots contain.
    ///
    /// # Errors
    ///
    /// `BadModule` if the module cannot be replicated.
    pub fn saved_globals(&self) -> Result<&[String], Failure> {
        self.saved_globals.as_deref().map_err(|why| {
            Failure::bad_module(format!(
                "the module cannot be replicated: {why}; see docs/contributing/abi.md, Replicas"
            ))
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn module(&self) -> &wasmtime::Module {
        &self.module.module
    }

    /// `[{module, name, type}]`
    pub fn imports<'a>(&self, env: Env<'a>) -> Term<'a> {
        let imports = self.module().imports();
        imports
            .map(|import| (import.module(), import.name(), describe(env, &import.ty())))
            .collect::<Vec<_>>()
            .encode(env)
    }

    /// `[{name, type}]`
    pub fn exports<'a>(&self, env: Env<'a>) -> Term<'a> {
        let exports = self.module().exports();
        exports.map(|export| (export.name(), describe(env, &export.ty()))).collect::<Vec<_>>().encode(env)
    }
}

fn compile(engine: &Engine, bytes: &[u8]) -> Result<wasmtime::Module, Failure> {
    bounds::check(bytes).map_err(|refusal| match refusal {
        Refusal::Invalid(error) => Failure::not_a_module(&error),
        Refusal::Bound(what) => Failure::bad_module(format!("the module is too large: {what}")),
    })?;
    let divided = rewrite::with_checks(bytes).map_err(|error| Failure::not_a_module(&error))?;
    wasmtime::Module::from_binary(engine, &divided).map_err(|error| Failure::from_compiler(&error))
}

fn describe<'a>(env: Env<'a>, external: &ExternType) -> Term<'a> {
    match external {
        ExternType::Func(function) => {
            (atoms::function(), types(env, function.params()), types(env, function.results())).encode(env)
        }
        ExternType::Global(global) => {
            let mutability = match global.mutability() {
                Mutability::Const => atoms::constant(),
                Mutability::Var => atoms::mutable(),
            };
            (atoms::global(), value_type(global.content()), mutability).encode(env)
        }
        ExternType::Memory(memory) => {
            let bits = if memory.is_64() { 64 } else { 32 };
            (atoms::memory(), bits, memory.minimum(), memory.maximum()).encode(env)
        }
        ExternType::Table(table) => (atoms::table(), table.minimum(), table.maximum()).encode(env),
        ExternType::Tag(_) => (atoms::tag(),).encode(env),
    }
}

fn types<'a>(env: Env<'a>, types: impl Iterator<Item = ValType>) -> Term<'a> {
    types.map(|ty| value_type(&ty)).collect::<Vec<_>>().encode(env)
}

fn value_type(ty: &ValType) -> rustler::Atom {
    match ty {
        ValType::I32 => atoms::i32(),
        ValType::I64 => atoms::i64(),
        ValType::F32 => atoms::f32(),
        ValType::F64 => atoms::f64(),
        ValType::V128 => atoms::v128(),
        ValType::Ref(_) => atoms::reference(),
    }
}
