//! A sender: it appends the messages of one process to its open page.

use std::sync::Arc;

use super::open::Open;
use super::page::Page;
use super::queue::{Outcome, Queue};

/// The result of `Sender::append`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    Done,
    /// It is done, and the writer must be woken.
    Wake,
    /// There is no room for the message: its sender must wait.
    Full,
    /// The message was dropped.
    Dropped,
    /// The overflow closed the queue.
    Disconnected,
    /// The queue is closed.
    Closed,
    /// The settings were changed since `epoch`.
    Stale,
}

pub struct Sender {
    queue: Arc<Queue>,
    open: Arc<Open>,
}

impl Sender {
    pub fn new(queue: &Arc<Queue>) -> Self {
        Self { queue: queue.clone(), open: queue.enter() }
    }

    /// Appends a message. `turn`: the writer woke the sender, so it goes before the senders that wait.
    pub fn append(&self, message: &[u8], epoch: u64, turn: bool) -> Appended {
        let queue = &self.queue;
        let mut state = self.open.lock();
        if queue.is_closed() || state.ended {
            return Appended::Closed;
        }
        if queue.epoch() != epoch {
            return Appended::Stale;
        }
        let (page_bytes, page_messages) = queue.page();
        if let Some(page) = &mut state.page {
            if page.bytes.len() + message.len() <= page_bytes && page.lengths.len() < page_messages {
                page.push(message);
                state.accepted += 1;
                return Appended::Done;
            }
        }
        // A message that is longer than a page goes alone, behind the open page.
        let alone = message.len() > page_bytes;
        let mut wake = match queue.push(&mut state.page, alone.then_some(message), turn) {
            Outcome::Pushed { wake } => wake,
            Outcome::Full => return Appended::Full,
            Outcome::Dropped => return Appended::Dropped,
            Outcome::Disconnected => return Appended::Disconnected,
        };
        if !alone {
            state.page = Some(Page::new(message));
            if !std::mem::replace(&mut state.listed, true) {
                wake |= queue.list(self.open.clone());
            }
        }
        state.accepted += 1;
        if wake {
            Appended::Wake
        } else {
            Appended::Done
        }
    }

    /// Ends the sender after its process. Its open page moves into the queue, or is dropped if there is no room.
    pub fn end(&self) {
        self.queue.leave(&self.open);
    }
}
