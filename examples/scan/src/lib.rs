//! An index module for BeTree without an index: subscriptions form a list, and a search evaluates each.
//!
//! It was written from `docs/abi.md` alone, without code of the built-in module. `state.rs` explains why a search may be
//! stopped anywhere.

mod error;
mod evaluate;
mod event;
mod explain;
mod expression;
mod json;
mod schema;
mod state;
mod term;
mod value;
mod vocabulary;

use state::with_state;

#[no_mangle]
pub extern "C" fn be_tree_abi() -> i32 {
    1
}

#[no_mangle]
pub extern "C" fn be_tree_inbox(length: u32) -> u32 {
    with_state(|state| state.inbox(length as usize))
}

#[no_mangle]
pub extern "C" fn be_tree_outbox() -> u32 {
    with_state(|state| state.outbox())
}

#[no_mangle]
pub extern "C" fn be_tree_schema(length: u32) -> i32 {
    with_state(|state| state.schema(length as usize))
}

#[no_mangle]
pub extern "C" fn be_tree_insert(length: u32) -> i32 {
    with_state(|state| state.insert(length as usize))
}

#[no_mangle]
pub extern "C" fn be_tree_delete(id: u64) -> i32 {
    with_state(|state| state.delete(id))
}

#[no_mangle]
pub extern "C" fn be_tree_search(format: i32, event: u32, ids: i32, form: i32) -> i32 {
    with_state(|state| state.search(format, event as usize, usize::try_from(ids).ok(), form))
}

#[no_mangle]
pub extern "C" fn be_tree_search_many(number: u64, count: u32, events: u32, ids: i32, form: i32) -> i32 {
    let ids = usize::try_from(ids).ok();
    with_state(|state| state.search_many(number, count as usize, events as usize, ids, form))
}

#[no_mangle]
pub extern "C" fn be_tree_more(number: u64) -> i32 {
    with_state(|state| state.more(number))
}

#[no_mangle]
pub extern "C" fn be_tree_resume() -> i32 {
    with_state(|state| state.resume())
}

#[no_mangle]
pub extern "C" fn be_tree_prepare(format: i32, event: u32) -> i32 {
    with_state(|state| state.prepare(format, event as usize))
}

#[no_mangle]
pub extern "C" fn be_tree_explain(format: i32, event: u32, id: u64) -> i32 {
    with_state(|state| state.explain(format, event as usize, id))
}

#[no_mangle]
pub extern "C" fn be_tree_info() -> i32 {
    with_state(|state| state.info())
}
