//! Compiling off the schedulers, and each module once.
//!
//! Whoever asks for a module that waits or is being compiled is answered with the others; whoever asks for one that is
//! still in use is answered at once. The table itself keeps no module alive.
//!
//! Compiling takes seconds and hundreds of megabytes for the largest modules (`bounds`) and cannot be stopped. So at most
//! two modules are compiled at a time, a bounded queue waits, and a module whose askers died is dropped from it.

use std::collections::{HashMap, VecDeque};
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
/// How many modules are compiled at a time.
const COMPILERS: usize = 2;
/// How many modules may wait for a compiler.
const QUEUE: usize = 64;

/// A SHA-256 of the module's bytes.
type Digest = Vec<u8>;

#[derive(Default)]
struct Table {
    entries: HashMap<Digest, Entry>,
    queue: VecDeque<Job>,
    /// How many threads compile.
    compilers: usize,
}

enum Entry {
    /// It waits in the queue, or is being compiled.
    Wanted(Vec<Asker>),
    Compiled(Weak<Compiled>),
}

/// A module to be compiled. A large binary is shared with its sender, not copied.
struct Job {
    digest: Digest,
    env: OwnedEnv,
    bytes: SavedTerm,
}

/// A process that waits for `{reference, {:ok, module}}` or `{reference, {:error, kind, message}}`.
struct Asker {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Answers the module if it is there, or sees to it that the caller is sent it.
pub fn request(env: Env, reference: Term, digest: &[u8], bytes: Term) -> Result<Option<Arc<Compiled>>, Failure> {
    with_table(|table| {
        let asker = Asker::new(env, reference);
        match table.entries.get_mut(digest) {
            Some(Entry::Wanted(askers)) => {
                askers.push(asker);
                return Ok(None);
            }
            Some(Entry::Compiled(module)) => {
                if let Some(module) = module.upgrade() {
                    return Ok(Some(module));
                }
            }
            None => table.forget_unused(),
        }
        table.make_room(env)?;
        table.start_compiler()?;
        table.queue.push_back(Job::new(digest, bytes));
        table.entries.insert(digest.to_vec(), Entry::Wanted(vec![asker]));
        Ok(None)
    })
}

/// The caller no longer waits for the module. Answers whether it did until now: otherwise its answer is there, or on its
/// way.
pub fn withdraw(env: Env, digest: &[u8]) -> bool {
    with_table(|table| {
        let Some(Entry::Wanted(askers)) = table.entries.get_mut(digest) else { return false };
        let before = askers.len();
        askers.retain(|asker| asker.pid != env.pid());
        askers.len() < before
    })
}

impl Table {
    fn forget_unused(&mut self) {
        self.entries.retain(|_, entry| !matches!(entry, Entry::Compiled(module) if module.strong_count() == 0));
    }

    /// Sees to it that the queue has room for one more.
    fn make_room(&mut self, env: Env) -> Result<(), Failure> {
        if self.queue.len() >= QUEUE {
            let Self { entries, queue, .. } = self;
            queue.retain(|job| is_wanted(entries, &job.digest, env));
        }
        if self.queue.len() < QUEUE {
            return Ok(());
        }
        Err(Failure::new(Kind::Overloaded, format!("{QUEUE} modules wait to be compiled already; try again later")))
    }

    /// Starts another thread, unless there are enough. Those that run take the whole queue.
    fn start_compiler(&mut self) -> Result<(), Failure> {
        if self.compilers == COMPILERS {
            return Ok(());
        }
        let compiler = thread::Builder::new().name("be_tree_compiler".into()).stack_size(COMPILER_STACK);
        match compiler.spawn(compile_all) {
            Ok(_handle) => {
                self.compilers += 1;
                Ok(())
            }
            Err(_) if self.compilers > 0 => Ok(()),
            Err(error) => {
                let message = format!("the host has no thread for the compiler: {error}");
                Err(Failure::new(Kind::OutOfMemory, message))
            }
        }
    }

    /// The next module that a living process wants. Without one the calling thread ends.
    fn next(&mut self) -> Option<Job> {
        while let Some(job) = self.queue.pop_front() {
            if job.env.run(|env| is_wanted(&mut self.entries, &job.digest, env)) {
                return Some(job);
            }
        }
        self.compilers -= 1;
        None
    }
}

/// Whether a living process waits for a module. One that none waits for is forgotten.
fn is_wanted(entries: &mut HashMap<Digest, Entry>, digest: &Digest, env: Env) -> bool {
    if let Some(Entry::Wanted(askers)) = entries.get_mut(digest) {
        askers.retain(|asker| asker.pid.is_alive(env));
        if !askers.is_empty() {
            return true;
        }
    }
    entries.remove(digest);
    false
}

/// What a compiler's thread does.
fn compile_all() {
    while let Some(job) = with_table(Table::next) {
        let outcome = job.compile();
        answer(job.digest, outcome);
    }
}

fn answer(digest: Digest, outcome: Result<Arc<Compiled>, Failure>) {
    let entry = with_table(|table| match &outcome {
        Ok(module) => table.entries.insert(digest, Entry::Compiled(Arc::downgrade(module))),
        Err(_) => table.entries.remove(&digest),
    });
    if let Some(Entry::Wanted(askers)) = entry {
        for asker in askers {
            asker.send(&outcome);
        }
    }
}

fn with_table<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    let mut guard: MutexGuard<Option<Table>> = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    work(guard.get_or_insert_with(Table::default))
}

impl Job {
    fn new(digest: &[u8], bytes: Term) -> Self {
        let env = OwnedEnv::new();
        let bytes = env.save(bytes);
        Self { digest: digest.to_vec(), env, bytes }
    }

    fn compile(&self) -> Result<Arc<Compiled>, Failure> {
        self.env.run(|env| {
            let bytes = rustler::Binary::from_term(self.bytes.load(env));
            let bytes = bytes.map_err(|_| Failure::bad_module("a module is a binary"))?;
            catch_unwind(AssertUnwindSafe(|| Compiled::new(&bytes)))
                .unwrap_or_else(|_| Err(Failure::bad_module("the compiler gave up on this module")))
                .map(Arc::new)
        })
    }
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
