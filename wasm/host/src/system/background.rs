//! Background threads, for work that would block a scheduler or a destructor. The reaper unmaps memories and frees
//! compiled code. The waker sends messages, which so never wait behind the reaper's work.

use std::ops::{Deref, DerefMut};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::OnceLock;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

static REAPER: Worker = Worker::new("be_tree_reaper");
static WAKER: Worker = Worker::new("be_tree_waker");

/// A thread that runs one job after another.
struct Worker {
    name: &'static str,
    jobs: OnceLock<Sender<Job>>,
}

/// Starts the threads. Returns whether they run.
pub fn start() -> bool {
    REAPER.start() && WAKER.start()
}

/// Queues `job` for the reaper's thread.
pub fn later(job: impl FnOnce() + Send + 'static) {
    REAPER.send(Box::new(job));
}

/// Queues `job`, which sends messages to processes, for the waker's thread.
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
                // The panic hook has reported the panic, and the next jobs must still run.
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

/// A value that the reaper's thread drops, whichever thread drops its owner.
pub struct DropLater<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DropLater<T> {
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Deref for DropLater<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken only by drop")
    }
}

impl<T: Send + 'static> DerefMut for DropLater<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken only by drop")
    }
}

impl<T: Send + 'static> Drop for DropLater<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        later(move || drop(value));
    }
}
