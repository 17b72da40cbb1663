//! The sandboxed module: the index behind the ABI of `docs/abi.md`, and nothing else.
//!
//! It is one instance of one index. Whoever calls it calls one export at a time.

mod answer;
#[cfg(target_arch = "wasm32")]
mod heap;
mod memory;
mod request;
mod sizes;
mod stack;
mod state;

use state::{with_state, Request, State};

/// The version of the ABI.
const VERSION: i32 = 1;

/// The version of the ABI that this module speaks.
#[no_mangle]
pub extern "C" fn be_tree_abi() -> i32 {
    VERSION
}

/// The address of a buffer of at least `length` bytes, or 0 where memory is refused.
#[no_mangle]
pub extern "C" fn be_tree_inbox(length: u32) -> u32 {
    with_state(|state| state.inbox(length).map_or(0, |address| address as usize as u32))
}

/// The address of three `u32`: where the last answer lies, its length in bytes, and how far a search has come.
#[no_mangle]
pub extern "C" fn be_tree_outbox() -> u32 {
    with_state(|state| state.outbox() as usize as u32)
}

/// Makes an empty index over the attributes in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_schema(length: u32) -> i32 {
    with_state(|state| state.change(|state| state.schema(length as usize)))
}

/// Inserts the subscriptions in the inbox: all of them or none.
#[no_mangle]
pub extern "C" fn be_tree_insert(length: u32) -> i32 {
    with_state(|state| state.change(|state| state.insert(length as usize)))
}

/// Deletes one subscription.
#[no_mangle]
pub extern "C" fn be_tree_delete(id: u64) -> i32 {
    with_state(|state| state.change(|state| state.delete(id)))
}

/// Whether the index is empty and a new instance would take much less memory: 1 or 0.
#[no_mangle]
pub extern "C" fn be_tree_spent() -> i32 {
    with_state(|state| i32::from(state.is_spent()))
}

/// Searches for the event in the inbox; `ids` bytes of packed ids behind it, or -1 for all.
#[no_mangle]
pub extern "C" fn be_tree_search(format: i32, event: u32, ids: i32, form: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    with_state(|state| state.search(Request::Search { format, event: event as usize, only, form }))
}

/// Searches for many events, `bytes` bytes in the inbox, each behind its format and its length; `ids` as above.
#[no_mangle]
pub extern "C" fn be_tree_search_many(number: u64, events: u32, bytes: u32, ids: i32, form: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    with_state(|state| state.search(Request::Batch { number, events, bytes: bytes as usize, only, form }))
}

/// The next part of the answer to the batch with this number.
#[no_mangle]
pub extern "C" fn be_tree_more(number: u64) -> i32 {
    with_state(|state| state.more(number))
}

/// Keeps from now on what `be_tree_reasons` needs.
#[no_mangle]
pub extern "C" fn be_tree_keep_reasons() -> i32 {
    with_state(|state| state.change(State::keep_reasons))
}

/// Searches like `be_tree_search`, and tells of each subscription that does not match which attribute decided.
#[no_mangle]
pub extern "C" fn be_tree_reasons(format: i32, event: u32, ids: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    with_state(|state| state.search(Request::Reasons { format, event: event as usize, only }))
}

/// Goes on with a search, or a batch of searches, that a trap stopped.
#[no_mangle]
pub extern "C" fn be_tree_resume() -> i32 {
    with_state(State::resume)
}

/// Decodes the event in the inbox; the answer is an event of format 3.
#[no_mangle]
pub extern "C" fn be_tree_prepare(format: i32, event: u32) -> i32 {
    with_state(|state| state.search(Request::Prepare { format, event: event as usize }))
}

/// Explains the subscription `id` for the event in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_explain(format: i32, event: u32, id: u64) -> i32 {
    with_state(|state| state.read(|state| state.explain(format, event as usize, id)))
}

/// Checks the subscriptions in the inbox, and inserts none of them.
#[no_mangle]
pub extern "C" fn be_tree_check(length: u32) -> i32 {
    with_state(|state| state.change(|state| state.check(length as usize)))
}

/// Draws the tree.
#[no_mangle]
pub extern "C" fn be_tree_draw() -> i32 {
    with_state(|state| state.read(State::draw))
}

/// Counts and sizes.
#[no_mangle]
pub extern "C" fn be_tree_info() -> i32 {
    with_state(|state| state.read(State::info))
}

/// Forgets all but the subscriptions, and wipes what is free, so that the memory can be kept as an image.
#[no_mangle]
pub extern "C" fn be_tree_forget() -> i32 {
    // Before, so that nothing old gets into what is written; after, so that nothing of this stays.
    stack::wipe();
    let status = forget();
    stack::wipe();
    status
}

/// Not inlined, so that the wiped stack begins where this function's does.
#[inline(never)]
fn forget() -> i32 {
    with_state(|state| state.change(State::forget))
}
