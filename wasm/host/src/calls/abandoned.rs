//! A thread that finishes abandoned calls: those that lost their caller.
//!
//! Cutting off a change would leave the module's memory inconsistent. So the thread continues the call, for as much
//! fuel as any real change needs (`Call::run_turn`). Many calls may be abandoned, and some never end by themselves, so
//! they take turns of a millisecond. A new call has the first turn, because few calls need a second one. The thread
//! drops a call that may be cut off, which unwinds its fiber.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::OnceLock;
use std::thread;

use crate::calls::call::Call;

static CALLS: OnceLock<Sender<Call>> = OnceLock::new();

/// Starts the thread. Returns whether it runs.
pub fn start() -> bool {
    if CALLS.get().is_some() {
        return true;
    }
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("be_tree_finisher".into()).spawn(move || take_turns(&receiver));
    started.is_ok() && CALLS.set(sender).is_ok()
}

/// Finishes or unwinds the call on the thread. The machine then returns to its instance.
pub fn finish(call: Call) {
    // The library does not load without the thread, and the thread ends only with the process.
    let calls = CALLS.get().expect("the thread starts with the library");
    let _ = calls.send(call);
}

fn take_turns(new: &Receiver<Call>) {
    let mut unfinished = VecDeque::new();
    while let Some(call) = next(new, &mut unfinished) {
        // The panic hook has reported the panic, and the other calls must still be finished.
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

/// Runs a turn. Returns the call if it needs another turn.
fn turn(mut call: Call) -> Option<Call> {
    call.run_turn().then_some(call)
}
