//! The open page of one sender.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::page::Page;

#[derive(Default)]
pub struct Open {
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    pub page: Option<Page>,
    /// The messages that its sender appended.
    pub accepted: u64,
    /// The queue lists it among the open pages.
    pub listed: bool,
    /// The process of the sender ended.
    pub ended: bool,
}

impl Open {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
