//! The buffers of the ABI, and the record of an interrupted change.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use be_tree_index::error::{Error, Kind};

use crate::memory::{self, in_order};
use crate::outbox::{Outbox, NOTHING};
use crate::refusal::{damaged, Outcome, Refusal};
use crate::sizes;

/// The least bytes of an inbox.
const FIRST_INBOX: u32 = 4096;

/// An inbox from this size on is freed when the host next asks for a small one.
const LARGE_INBOX: u32 = 1 << 20;

/// The record of a change of the heap.
///
/// A change that began and did not end was interrupted by a trap. From then on the heap is not used.
#[derive(Default)]
pub struct HeapChange(AtomicBool);

impl HeapChange {
    fn is_begun(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn begin(&self) {
        self.0.store(true, Relaxed);
        in_order();
    }

    fn end(&self) {
        in_order();
        self.0.store(false, Relaxed);
        in_order();
    }

    /// Runs `work`, the part of an interruptible operation that changes the heap, and must not be interrupted. What the operation has
    /// in the search arena stays there. `work` drops all that it allocates and does not keep.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.begin();
        memory::use_heap();
        let result = work();
        memory::use_search_memory(false);
        self.end();
        result
    }
}

/// The inbox and the outbox.
#[derive(Default)]
pub struct Port {
    changing: HeapChange,
    inbox: Vec<u8>,
    /// The error of a change that was refused.
    change_error: Vec<u8>,
    /// The result of an operation that may be interrupted, in the search arena.
    transient: Vec<u8>,
    /// The words that the host reads.
    pub outbox: Outbox,
}

impl Port {
    /// Returns whether a change was interrupted.
    pub fn is_damaged(&self) -> bool {
        self.changing.is_begun()
    }

    /// Fails if a change was interrupted.
    ///
    /// # Errors
    ///
    /// [`Kind::Trap`].
    pub(crate) fn check(&self) -> Outcome {
        if self.is_damaged() {
            return Err(damaged().into());
        }
        Ok(())
    }

    /// Returns the inbox if it has `length` bytes and need not shrink.
    pub(crate) fn present_inbox(&self, length: u32) -> Option<*const u8> {
        let length = length.max(FIRST_INBOX);
        let is_large = self.inbox.len() > LARGE_INBOX as usize && length <= LARGE_INBOX;
        (!is_large && length as usize <= self.inbox.len()).then_some(self.inbox.as_ptr())
    }

    /// Replaces the inbox by one of at least this number of bytes, if memory allows. No operation may be in progress in the search
    /// arena, which the inbox may take.
    pub(crate) fn new_inbox(&mut self, bytes: usize) -> Option<*const u8> {
        self.abandon();
        // A large inbox is freed first, without copying its content, so that its memory can be reused. A small one stays until its
        // successor is allocated, so that a refusal changes nothing.
        if self.inbox.len() > LARGE_INBOX as usize {
            self.inbox = Vec::new();
        }
        let mut inbox = Vec::new();
        memory::lend(true);
        let is_there = inbox.try_reserve_exact(bytes).is_ok();
        memory::lend(false);
        if is_there {
            inbox.resize(inbox.capacity(), 0);
            self.inbox = inbox;
        }
        is_there.then_some(self.inbox.as_ptr())
    }

    /// Returns the first `length` bytes of the inbox.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfBounds`].
    pub fn message(&self, length: usize) -> Result<&[u8], Error> {
        message(&self.inbox, length)
    }

    /// Returns the first `length` bytes of the inbox, and the outbox.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfBounds`].
    pub fn message_and_outbox(&mut self, length: usize) -> Result<(&[u8], &mut Outbox), Error> {
        Ok((message(&self.inbox, length)?, &mut self.outbox))
    }

    /// Returns all bytes of the inbox, and the outbox.
    pub fn inbox_and_outbox(&mut self) -> (&[u8], &mut Outbox) {
        (&self.inbox, &mut self.outbox)
    }

    /// Returns all bytes of the inbox, the outbox, and the record of changes, for a request that also changes the heap.
    pub fn inbox_outbox_and_heap(&mut self) -> (&[u8], &mut Outbox, &HeapChange) {
        (&self.inbox, &mut self.outbox, &self.changing)
    }

    /// Returns whether the port holds anything of earlier operations.
    pub fn is_used(&self) -> bool {
        self.inbox.capacity() > 0 || self.change_error.capacity() > 0 || memory::has_searches()
    }

    /// Frees the buffers of the port. Part of a change.
    pub fn forget(&mut self) {
        self.abandon();
        *self = Port { changing: HeapChange(AtomicBool::new(true)), ..Port::default() };
    }

    /// Records that the heap changes until [`Port::unmark_change`].
    pub(crate) fn mark_change(&self) {
        self.changing.begin();
    }

    /// Records that the heap is consistent.
    pub(crate) fn unmark_change(&self) {
        self.changing.end();
    }

    /// Records that the heap changes until [`Port::end_change`].
    pub(crate) fn begin_change(&mut self) {
        self.outbox.advance_to(NOTHING);
        self.mark_change();
        self.change_error.clear();
        self.outbox.clear();
        self.abandon();
    }

    /// Records the end of the change, and writes its error, if any, to the outbox. Returns its status.
    pub(crate) fn end_change(&mut self, outcome: Outcome) -> i32 {
        memory::lend(false);
        if let Err(refusal) = &outcome {
            refusal.write(&mut self.change_error);
            self.outbox.send(&self.change_error);
        }
        self.unmark_change();
        i32::from(outcome.is_err())
    }

    /// Begins an operation that changes nothing. It allocates in the search arena only, so it may be interrupted anywhere.
    pub fn begin_read(&mut self) {
        self.outbox.advance_to(NOTHING);
        memory::use_search_memory(true);
        self.transient = Vec::new();
        self.outbox.clear();
    }

    /// Returns the status of an operation that may be interrupted, and writes its error, if any, to the outbox.
    pub(crate) fn status(&mut self, outcome: Outcome) -> i32 {
        match outcome {
            Ok(()) => 0,
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Writes an error to the outbox. Returns the status of a refused operation.
    fn refuse(&mut self, refusal: &Refusal) -> i32 {
        self.reply(|out| refusal.write(out));
        1
    }

    /// Puts the bytes that `write` appends to an empty list into the outbox.
    pub fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.transient = Vec::new();
        write(&mut self.transient);
        self.outbox.send(&self.transient);
    }

    /// Replies as [`Port::reply`] does; `write` also gets the first `length` bytes of the inbox.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfBounds`], and those of `write`.
    pub fn reply_to(
        &mut self,
        length: usize,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.transient = Vec::new();
        write(message(&self.inbox, length)?, &mut self.transient)?;
        self.outbox.send(&self.transient);
        Ok(())
    }

    /// Forgets the result in the search arena. An interrupted operation may have left it inconsistent.
    fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.transient));
    }
}

/// Returns a buffer of at least this number of bytes in the search arena, if memory allows.
///
/// After an interrupted change the heap cannot be trusted. The buffer lets the host make the next call, which returns the error.
pub(crate) fn temporary_inbox(bytes: usize) -> Option<*const u8> {
    memory::use_search_memory(true);
    let mut inbox = Vec::<u8>::new();
    inbox.try_reserve_exact(bytes).ok()?;
    Some(ManuallyDrop::new(inbox).as_ptr())
}

/// Returns the inbox size for messages of `length` bytes, or `None` if it exceeds memory.
pub(crate) fn inbox_bytes(length: u32) -> Option<usize> {
    sizes::room_for(length.max(FIRST_INBOX)).map(|bytes| bytes as usize)
}

fn message(inbox: &[u8], length: usize) -> Result<&[u8], Error> {
    inbox.get(..length).ok_or_else(|| {
        let message = format!("{length} bytes are announced, but the inbox has {}; ask for a larger one", inbox.len());
        Error::new(Kind::OutOfBounds, message)
    })
}
