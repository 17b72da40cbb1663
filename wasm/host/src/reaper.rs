//! One thread for what neither a scheduler nor a destructor should do: unwinding the fiber of a cancelled call,
//! unmapping a memory, freeing compiled code, and waking the process whose turn it is after either.

use std::ops::{Deref, DerefMut};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::OnceLock;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

static JOBS: OnceLock<Sender<Job>> = OnceLock::new();

/// Starts the thread; answers whether it runs.
pub fn start() -> bool {
    if JOBS.get().is_some() {
        return true;
    }
    let (sender, receiver) = channel::<Job>();
    let started = thread::Builder::new().name("be_tree_reaper".into()).spawn(move || {
        for job in receiver {
            // The panic hook has told of a panic already; the jobs behind it still have to be done.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    });
    started.is_ok() && JOBS.set(sender).is_ok()
}

/// Has `job` done on the reaper's thread, after those handed over before it.
pub fn later(job: impl FnOnce() + Send + 'static) {
    // The library does not load without the thread, and the thread ends only with the process.
    let jobs = JOBS.get().expect("the reaper starts with the library");
    let _ = jobs.send(Box::new(job));
}

/// A value that is dropped on the reaper's thread, wherever its owner is dropped.
pub struct Reaped<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Reaped<T> {
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Deref for Reaped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken only by drop")
    }
}

impl<T: Send + 'static> DerefMut for Reaped<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken only by drop")
    }
}

impl<T: Send + 'static> Drop for Reaped<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        later(move || drop(value));
    }
}
