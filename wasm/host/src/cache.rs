//! Compiling off the schedulers, and each module once.
//!
//! Whoever asks for a module that is being compiled is answered with the others; whoever asks for one that is still
//! in use is answered at once. The table itself keeps no module alive.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, ResourceArc, Term};

use crate::failure::{Failure, Kind};
use crate::module::{Compiled, Module};
use crate::terms::{self, atoms};

/// Cranelift recurses over what the module nests.
const COMPILER_STACK: usize = 16 << 20;

/// A SHA-256 of the module's bytes.
type Digest = Vec<u8>;

enum Entry {
    Compiling(Vec<Asker>),
    Compiled(Weak<Compiled>),
}

/// A process that waits for `{reference, {:ok, module}}` or `{reference, {:error, kind, message}}`.
struct Asker {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

static TABLE: Mutex<Option<HashMap<Digest, Entry>>> = Mutex::new(None);

/// Answers the module if it is there, or sees to it that the caller is sent it.
pub fn request(env: Env, reference: Term, digest: &[u8], bytes: Term) -> Result<Option<Arc<Compiled>>, Failure> {
    let mut guard = table();
    let table = guard.get_or_insert_with(HashMap::new);
    let asker = Asker::new(env, reference);
    match table.get_mut(digest) {
        Some(Entry::Compiling(askers)) => {
            askers.push(asker);
            return Ok(None);
        }
        Some(Entry::Compiled(module)) => {
            if let Some(module) = module.upgrade() {
                return Ok(Some(module));
            }
        }
        None => table.retain(|_, entry| !matches!(entry, Entry::Compiled(module) if module.strong_count() == 0)),
    }
    start(digest.to_vec(), bytes)?;
    table.insert(digest.to_vec(), Entry::Compiling(vec![asker]));
    Ok(None)
}

/// A large binary is shared with the thread, not copied.
fn start(digest: Digest, bytes: Term) -> Result<(), Failure> {
    let env = OwnedEnv::new();
    let bytes = env.save(bytes);
    let compiler = thread::Builder::new().name("be_tree_compiler".into()).stack_size(COMPILER_STACK);
    let started = compiler.spawn(move || {
        let outcome = env.run(|env| compile(bytes.load(env)));
        answer(digest, outcome);
    });
    started
        .map(drop)
        .map_err(|error| Failure::new(Kind::OutOfMemory, format!("the host has no thread for the compiler: {error}")))
}

fn compile(bytes: Term) -> Result<Arc<Compiled>, Failure> {
    let bytes = rustler::Binary::from_term(bytes).map_err(|_| Failure::bad_module("a module is a binary"))?;
    catch_unwind(AssertUnwindSafe(|| Compiled::new(&bytes)))
        .unwrap_or_else(|_| Err(Failure::bad_module("the compiler gave up on this module")))
        .map(Arc::new)
}

fn answer(digest: Digest, outcome: Result<Arc<Compiled>, Failure>) {
    let entry = {
        let mut guard = table();
        let table = guard.get_or_insert_with(HashMap::new);
        match &outcome {
            Ok(module) => table.insert(digest, Entry::Compiled(Arc::downgrade(module))),
            Err(_) => table.remove(&digest),
        }
    };
    if let Some(Entry::Compiling(askers)) = entry {
        for asker in askers {
            asker.send(&outcome);
        }
    }
}

fn table() -> MutexGuard<'static, Option<HashMap<Digest, Entry>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Asker {
    fn new(env: Env, reference: Term) -> Self {
        let own = OwnedEnv::new();
        let reference = own.save(reference);
        Self { pid: env.pid(), env: own, reference }
    }

    fn send(self, outcome: &Result<Arc<Compiled>, Failure>) {
        let Self { pid, env, reference } = self;
        env.run(|env| {
            let answer = match outcome {
                Ok(module) => (atoms::ok(), ResourceArc::new(Module(module.clone()))).encode(env),
                Err(failure) => terms::error(env, failure),
            };
            // An asker who died has no use for the answer.
            let _ = env.send(&pid, (reference.load(env), answer));
        });
    }
}
