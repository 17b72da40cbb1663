//! The sandboxed module of stateful rules: exports the engine through the ABI of `docs/contributing/abi.md`, Rules.
//!
//! A module instance has one engine. The host calls one export at a time.

mod reply;
mod state;

use be_tree_rules::Call;
use state::{Operation, Request, State, STATE};

be_tree_module::exports!(STATE: State, version: 1);

/// Begins an operation. `most` is the number of its firings: -1 the engine's limit, -2 and -3 none.
fn operate(most: i32, operation: Operation) -> i32 {
    let call = match most {
        -1 => Call::Fire,
        -2 => Call::Reload,
        -3 => Call::ReloadWaiting,
        most => Call::FireAtMost(most as u32),
    };
    STATE.with(|state| state.operate(Request { call, operation }))
}

/// Makes an engine without facts from the rules in the inbox. Returns the warnings about them.
#[no_mangle]
pub extern "C" fn be_tree_rules(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.rules(length as usize)))
}

/// Makes the room that the last operation lacked.
#[no_mangle]
pub extern "C" fn be_tree_room() -> i32 {
    STATE.with(|state| state.change(State::room))
}

/// Begins a transaction, and commits all earlier operations.
#[no_mangle]
pub extern "C" fn be_tree_begin() -> i32 {
    STATE.with(|state| state.change(State::begin))
}

/// Rolls back all operations since the transaction began.
#[no_mangle]
pub extern "C" fn be_tree_roll_back() -> i32 {
    STATE.with(|state| state.change(State::roll_back))
}

/// Sets the limits in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_limits(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.set_limits(length as usize)))
}

/// Inserts the facts in the inbox from position `from` on, and fires at most `most` rules: -1 fires as many as the limit allows, -2
/// none (matches count as fired), -3 none, and facts beyond the watermark wait without moving time. No fact may have a later time
/// than `latest`.
#[no_mangle]
pub extern "C" fn be_tree_assert(length: u32, from: u32, most: i32, latest: i64) -> i32 {
    operate(most, Operation::Assert { length: length as usize, from, latest })
}

/// Checks the facts in the inbox, and returns the partition of each. No fact may have a later time than `latest`.
#[no_mangle]
pub extern "C" fn be_tree_route(length: u32, latest: i64) -> i32 {
    STATE.with(|state| state.read(|state| state.route(length as usize, latest)))
}

/// Retracts a fact, and fires rules.
#[no_mangle]
pub extern "C" fn be_tree_retract(id: u64, most: i32) -> i32 {
    operate(most, Operation::Retract(id))
}

/// Moves time to `now` milliseconds, and fires rules.
#[no_mangle]
pub extern "C" fn be_tree_advance(now: i64, most: i32) -> i32 {
    operate(most, Operation::Advance(now))
}

/// Fires the rules that are due.
#[no_mangle]
pub extern "C" fn be_tree_run(most: i32) -> i32 {
    operate(most, Operation::Run)
}

/// Returns at most `most` facts of the type in the inbox, those numbered below `before`, newest first.
#[no_mangle]
pub extern "C" fn be_tree_facts(length: u32, before: u64, most: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.facts(length as usize, before, most as usize)))
}

/// Returns the event times of the sources.
#[no_mangle]
pub extern "C" fn be_tree_sources() -> i32 {
    STATE.with(|state| state.read(State::sources))
}

/// Returns at most `most` facts waiting for the watermark, from the place `from` on, in no order.
#[no_mangle]
pub extern "C" fn be_tree_waiting(from: u32, most: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.waiting(from, most)))
}

/// Explains the rule in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_explain(length: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.explain(length as usize)))
}

/// Returns counts and sizes.
#[no_mangle]
pub extern "C" fn be_tree_info() -> i32 {
    STATE.with(|state| state.read(State::info))
}
