//! Loads or compiles modules off the schedulers, and each of them once.
//!
//! Requests for a module that waits or is being compiled share its result. A request for a module that is still in use
//! returns it at once. The table itself keeps no module alive.
//!
//! Compiling takes seconds and hundreds of megabytes for the largest modules (`bounds`), and cannot be stopped. So at most
//! two modules are compiled at a time, a bounded queue waits, and a module whose askers have all died is removed from it.

use std::collections::{HashMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, ResourceArc, Term};

use crate::failure::{Failure, Kind};
use crate::folders::{Folders, Origin};
use crate::module::{Compiled, Module};
use crate::terms::{self, atoms};

/// The bytes of a compiler's stack. Cranelift recurses into the nesting of a module.
const COMPILER_STACK: usize = 16 << 20;
/// The number of modules that are compiled at a time.
const COMPILERS: usize = 2;
/// The number of modules that may wait for a compiler.
const QUEUE: usize = 64;

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
    /// The module waits in the queue, or is being compiled.
    Wanted(Vec<Asker>),
    Compiled(Weak<Compiled>),
}

/// A module to load or to compile. A large binary is shared with its sender and not copied.
struct Job {
    digest: Digest,
    folders: Folders,
    env: OwnedEnv,
    bytes: SavedTerm,
}

/// A process that waits for `{reference, {:ok, module}}` or `{reference, {:error, kind, message}}`. The first process that
/// asked for a module receives `{reference, {:ok, module, source, fault}}`.
struct Asker {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Returns the module if it is compiled. Otherwise queues it, and the caller receives it by a message.
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
        table.queue.push_back(Job::new(digest, bytes, folders));
        table.entries.insert(digest.to_vec(), Entry::Wanted(vec![asker]));
        Ok(None)
    })
}

impl Table {
    fn forget_unused(&mut self) {
        self.entries.retain(|_, entry| !matches!(entry, Entry::Compiled(module) if module.strong_count() == 0));
    }

    /// Makes room for one more job, by removing jobs that no living process wants.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the queue stays full.
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

    /// Starts another thread, unless there are enough. The running threads empty the queue.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if no thread runs and the system refuses one.
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
                let mend = "raise the limits of the process on memory and threads (ulimit -v and -u)";
                Err(Failure::new(
                    Kind::OutOfMemory,
                    format!("the host has no thread for the compiler: {error}; {mend}"),
                ))
            }
        }
    }

    /// Returns the next module that a living process wants. If there is none, the calling thread ends.
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

/// Returns whether a living process waits for a module. If none does, removes it from the table.
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
        for (position, asker) in askers.into_iter().enumerate() {
            asker.send(&outcome, position == 0);
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

impl Asker {
    fn new(env: Env, reference: Term) -> Self {
        let own = OwnedEnv::new();
        let reference = own.save(reference);
        Self { pid: env.pid(), env: own, reference }
    }

    fn send(self, outcome: &Result<(Arc<Compiled>, Origin), Failure>, is_first: bool) {
        let Self { pid, env, reference } = self;
        env.run(|env| {
            let reply = match outcome {
                Ok((module, origin)) => {
                    let module = ResourceArc::new(Module(module.clone()));
                    if is_first {
                        (atoms::ok(), module, origin.source(), &origin.fault).encode(env)
                    } else {
                        (atoms::ok(), module).encode(env)
                    }
                }
                Err(failure) => terms::error(env, failure),
            };
            // The send fails only if the asker has died.
            let _ = env.send(&pid, (reference.load(env), reply));
        });
    }
}
