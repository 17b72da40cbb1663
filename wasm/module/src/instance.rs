//! The operations that all modules share: buffers, changes, reads, and requests that a trap may interrupt.
//!
//! A change must run to its end: it allocates on the heap, and an interrupted change leaves the instance damaged. A read or a
//! request may be interrupted at any instruction, because it allocates in the search arena only. After an interruption, a read
//! starts again. A request continues: [`Instance::resume`] finds it in the state, and the outbox's progress tells how far it got.

use be_tree_index::error::{Error, Kind};

use crate::memory;
use crate::outbox::{Outbox, NOTED, NOTHING};
use crate::port::{self, Port};
use crate::refusal::Outcome;

/// The state of a module's instance.
pub trait Instance: Sized {
    /// A request that may be interrupted.
    type Request;

    /// Returns the buffers of the ABI.
    fn port(&mut self) -> &mut Port;

    /// Forgets the contents of the search arena, and the request that they belong to.
    fn abandon(&mut self);

    /// Stores a request before it runs.
    fn store(&mut self, request: Self::Request);

    /// Runs the stored request to its end, from its start or from where it was interrupted.
    ///
    /// # Errors
    ///
    /// Those of the request.
    fn advance(&mut self) -> Outcome;

    /// Begins an operation that changes nothing.
    fn begin_read(&mut self) {
        self.port().begin_read();
    }

    /// Cleans up after a change, whether it succeeded or not.
    fn after_change(&mut self) {}

    /// Runs the stored request, and returns its status. Modules override this to do more than reply at the end of a request.
    fn finish(&mut self) -> i32 {
        self.reply_to_request()
    }

    /// Runs the stored request, and writes its error, if any, to the outbox. Returns its status.
    fn reply_to_request(&mut self) -> i32 {
        self.port().outbox.clear();
        let outcome = self.port().check().and_then(|()| self.advance());
        self.port().status(outcome)
    }

    /// Returns a buffer of at least `length` bytes, if memory allows.
    fn inbox(&mut self, length: u32) -> Option<*const u8> {
        if let Some(inbox) = self.port().present_inbox(length) {
            return Some(inbox);
        }
        let bytes = port::inbox_bytes(length)?;
        if self.port().is_damaged() {
            return port::temporary_inbox(bytes);
        }
        self.port().mark_change();
        self.abandon();
        let inbox = self.port().new_inbox(bytes);
        self.port().unmark_change();
        inbox
    }

    /// Returns the address of the outbox.
    fn outbox(&mut self) -> *const Outbox {
        &raw const self.port().outbox
    }

    /// Runs an operation that must not be interrupted, and records its end. Returns its status.
    fn change(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        if self.port().is_damaged() {
            return self.read(|_| Ok(()));
        }
        self.port().begin_change();
        self.abandon();
        memory::lend(true);
        let outcome = operation(self);
        self.after_change();
        self.port().end_change(outcome)
    }

    /// Runs an operation that changes nothing, and returns its status.
    fn read(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        self.begin_read();
        let outcome = self.port().check().and_then(|()| operation(self));
        self.port().status(outcome)
    }

    /// Stores the request, then runs it. [`Instance::resume`] continues it once it is stored.
    fn operate(&mut self, request: Self::Request) -> i32 {
        self.port().outbox.advance_to(NOTHING);
        self.store(request);
        self.port().outbox.advance_to(NOTED);
        self.go_on()
    }

    /// Continues an interrupted request.
    fn resume(&mut self) -> i32 {
        if self.port().outbox.progress() == NOTHING {
            return self.refuse("there is no operation to resume; start one");
        }
        self.go_on()
    }

    /// Refuses an operation before it begins, with the kind not found.
    fn refuse(&mut self, message: &str) -> i32 {
        self.begin_read();
        self.port().status(Err(Error::new(Kind::NotFound, message).into()))
    }

    /// Runs the stored request to its end.
    fn go_on(&mut self) -> i32 {
        memory::use_search_memory(self.port().outbox.progress() == NOTED);
        let status = self.finish();
        // The last store: the request cannot be continued after it.
        self.port().outbox.advance_to(NOTHING);
        status
    }
}
