//! Threads for what neither a scheduler nor a destructor should do: one unmaps memories and frees compiled code, another
//! wakes the process whose turn has come, which is not to wait for the first.

use std::ops::{Deref, DerefMut};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::OnceLock;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

static REAPER: Worker = Worker::new("be_tree_reaper");
static WAKER: Worker = Worker::new("be_tree_waker");

/// A thread that does one job after the other.
struct Worker {
    name: &'static str,
    jobs: OnceLock<Sender<Job>>,
}

/// Starts the threads; answers whether they run.
pub fn start() -> bool {
    REAPER.start() && WAKER.start()
}

/// Has `job` done on the reaper's thread.
pub fn later(job: impl FnOnce() + Send + 'static) {
    REAPER.send(Box::new(job));
}

/// Has `job`, which wakes processes, done on the waker's thread.
pub fn wake_later(job: impl FnOnce() + Send + 'static) {
    WAKER.send(Box::new(job));
}

impl Worker {
    const fn new(name: &'static str) -> Self {
        Self { name, jobs: OnceLock::new() }
    }

    fn start(&self) -> bool {
        if self.jobs.get().is_some() {
            return true;
        }
        let (sender, receiver) = channel::<Job>();
        let started = thread::Builder::new().name(self.name.into()).spawn(move || {
            for job in receiver {
                // The panic hook has told of a panic already; the jobs behind it still have to be done.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        });
        started.is_ok() && self.jobs.set(sender).is_ok()
    }

    fn send(&self, job: Job) {
        // The library does not load without the thread, and the thread ends only with the process.
        let jobs = self.jobs.get().expect("the threads start with the library");
        let _ = jobs.send(job);
    }
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
