//! One thread for calls that lost their caller and must not be cut off where they stand.
//!
//! A call that is cut off in the middle of a change would leave the module's memory half changed. So it goes on for a
//! while: for as much fuel as an honest call needs (`Call::go_on`). Many may have to, and some never end by themselves, so
//! they take turns of a millisecond. A call that has just come goes first: hardly any needs a second turn.
//! Then, and at once where nothing speaks against it, the call is dropped, which unwinds its fiber.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::OnceLock;
use std::thread;

use crate::call::Call;

static CALLS: OnceLock<Sender<Call>> = OnceLock::new();

/// Starts the thread; answers whether it runs.
pub fn start() -> bool {
    if CALLS.get().is_some() {
        return true;
    }
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("be_tree_finisher".into()).spawn(move || take_turns(&receiver));
    started.is_ok() && CALLS.set(sender).is_ok()
}

/// Has the call finished or unwound; then its machine goes home.
pub fn finish(call: Call) {
    // The library does not load without the thread, and the thread ends only with the process.
    let calls = CALLS.get().expect("the finisher starts with the library");
    let _ = calls.send(call);
}

fn take_turns(new: &Receiver<Call>) {
    let mut unfinished = VecDeque::new();
    while let Some(call) = next(new, &mut unfinished) {
        // The panic hook has told of a panic already; the other calls still have to be finished.
        if let Ok(Some(call)) = catch_unwind(AssertUnwindSafe(|| turn(call))) {
            unfinished.push_back(call);
        }
    }
}

fn next(new: &Receiver<Call>, unfinished: &mut VecDeque<Call>) -> Option<Call> {
    if unfinished.is_empty() {
        return new.recv().ok();
    }
    new.try_recv().ok().or_else(|| unfinished.pop_front())
}

/// Answers the call if it needs another turn.
fn turn(mut call: Call) -> Option<Call> {
    call.go_on().then_some(call)
}
