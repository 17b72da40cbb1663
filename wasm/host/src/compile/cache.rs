//! The module cache: loads or compiles each module once, on threads of its own.
//!
//! Requests for a module in the queue or in the compiler share the result. A request for a module that is in use
//! returns it at once. The table has only weak references to modules.
//!
//! Compiling the largest modules takes seconds and hundreds of megabytes (`bounds`), and cannot be stopped. So at most
//! two modules are compiled at a time, the queue is bounded, and a module leaves it when all its askers have died.

use std::collections::{HashMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use rustler::env::SavedTerm;
use rustler::{Encoder, Env, OwnedEnv, ResourceArc, Term};

use crate::compile::code_folders::{Folders, Origin};
use crate::compile::module::{Compiled, Module};
use crate::failure::{Failure, Kind};
use crate::terms::reply::Receiver;
use crate::terms::{self, atoms};

/// The bytes of the stack of a compiler's thread, because Cranelift recurses into nested blocks.
const COMPILER_STACK_BYTES: usize = 16 << 20;
/// The most modules that are compiled at a time.
const MAX_COMPILERS: usize = 2;
/// The most modules that wait for a compiler.
const MAX_QUEUED_MODULES: usize = 64;

/// The SHA-256 of a module's bytes.
type Digest = Vec<u8>;

#[derive(Default)]
struct Table {
    entries: HashMap<Digest, Entry>,
    queue: VecDeque<Job>,
    /// The number of threads that compile.
    compilers: usize,
}

enum Entry {
    /// The module is in the queue or in a compiler.
    Wanted(Vec<Receiver>),
    Compiled(Weak<Compiled>),
}

/// A module to load or to compile. It shares a large binary with its sender.
struct Job {
    digest: Digest,
    folders: Folders,
    env: OwnedEnv,
    bytes: SavedTerm,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Returns the module if it is compiled. Otherwise queues it, and later sends it to the caller.
///
/// # Errors
///
/// `Overloaded` if too many modules wait, and `OutOfMemory` if there is no thread to compile it.
pub fn request(
    env: Env,
    reference: Term,
    digest: &[u8],
    bytes: Term,
    folders: Folders,
) -> Result<Option<Arc<Compiled>>, Failure> {
    with_table(|table| {
        let asker = Receiver::new(env, reference);
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
        table.queue.push_back(Job::new(digest, bytes, folders));
        table.entries.insert(digest.to_vec(), Entry::Wanted(vec![asker]));
        Ok(None)
    })
}

impl Table {
    fn forget_unused(&mut self) {
        self.entries.retain(|_, entry| !matches!(entry, Entry::Compiled(module) if module.strong_count() == 0));
    }

    /// Makes room for one more job in a full queue, by removing jobs whose askers have all died.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the queue stays full.
    fn make_room(&mut self, env: Env) -> Result<(), Failure> {
        if self.queue.len() >= MAX_QUEUED_MODULES {
            let Self { entries, queue, .. } = self;
            queue.retain(|job| is_wanted(entries, &job.digest, env));
        }
        if self.queue.len() < MAX_QUEUED_MODULES {
            return Ok(());
        }
        Err(Failure::new(
            Kind::Overloaded,
            format!("{MAX_QUEUED_MODULES} modules wait to be compiled already; try again later"),
        ))
    }

    /// Starts another thread, unless the most are running. The running threads empty the queue.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if no thread runs and the system refuses one.
    fn start_compiler(&mut self) -> Result<(), Failure> {
        if self.compilers == MAX_COMPILERS {
            return Ok(());
        }
        let compiler = thread::Builder::new().name("be_tree_compiler".into()).stack_size(COMPILER_STACK_BYTES);
        match compiler.spawn(compile_all) {
            Ok(_handle) => {
                self.compilers += 1;
                Ok(())
            }
            Err(_) if self.compilers > 0 => Ok(()),
            Err(error) => {
                let mend = "raise the limits of the process on memory and threads (ulimit -v and -u)";
                Err(Failure::new(
                    Kind::OutOfMemory,
                    format!("the host has no thread for the compiler: {error}; {mend}"),
                ))
            }
        }
    }

    /// Returns the next job with a living asker. After `None` the calling thread must end.
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

/// Returns whether a module has a living asker. Otherwise removes the module from the table.
fn is_wanted(entries: &mut HashMap<Digest, Entry>, digest: &Digest, env: Env) -> bool {
    if let Some(Entry::Wanted(askers)) = entries.get_mut(digest) {
        askers.retain(|asker| asker.is_alive(env));
        if !askers.is_empty() {
            return true;
        }
    }
    entries.remove(digest);
    false
}

/// Runs on a compiler's thread.
fn compile_all() {
    while let Some(job) = with_table(Table::next) {
        let outcome = job.compile();
        publish(job.digest, outcome);
    }
}

/// Records the outcome for a module, and sends it to all askers.
fn publish(digest: Digest, outcome: Result<(Arc<Compiled>, Origin), Failure>) {
    let entry = with_table(|table| match &outcome {
        Ok((module, _)) => table.entries.insert(digest, Entry::Compiled(Arc::downgrade(module))),
        Err(_) => table.entries.remove(&digest),
    });
    if let Some(Entry::Wanted(askers)) = entry {
        let mut reply = Reply { outcome, is_first: true };
        for asker in askers {
            // The send fails only if the asker has died.
            asker.send(None, &reply);
            reply.is_first = false;
        }
    }
}

/// `{:ok, module}` or `{:error, kind, message}`, and `{:ok, module, source, fault}` for the first process that asked.
struct Reply {
    outcome: Result<(Arc<Compiled>, Origin), Failure>,
    is_first: bool,
}

impl Encoder for Reply {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match &self.outcome {
            Ok((module, origin)) => {
                let module = ResourceArc::new(Module(module.clone()));
                if self.is_first {
                    (atoms::ok(), module, origin.source(), &origin.fault).encode(env)
                } else {
                    (atoms::ok(), module).encode(env)
                }
            }
            Err(failure) => terms::error(env, failure),
        }
    }
}

fn with_table<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    let mut guard: MutexGuard<Option<Table>> = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    work(guard.get_or_insert_with(Table::default))
}

impl Job {
    fn new(digest: &[u8], bytes: Term, folders: Folders) -> Self {
        let env = OwnedEnv::new();
        let bytes = env.save(bytes);
        Self { digest: digest.to_vec(), folders, env, bytes }
    }

    fn compile(&self) -> Result<(Arc<Compiled>, Origin), Failure> {
        self.env.run(|env| {
            let bytes = rustler::Binary::from_term(self.bytes.load(env));
            let bytes = bytes.map_err(|_| Failure::bad_module("a module is a binary"))?;
            catch_unwind(AssertUnwindSafe(|| Compiled::new(&bytes, &self.digest, &self.folders)))
                .unwrap_or_else(|_| Err(Failure::bad_module("the compiler gave up on this module")))
                .map(|(module, origin)| (Arc::new(module), origin))
        })
    }
}
