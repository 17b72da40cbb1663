//! The stacks of calls: one for each machine, which has memory only while it is needed.
//!
//! wasmtime keeps the stack of a store's last call for the next call. So a machine has the addresses of a stack for its
//! whole life, and opens the stack, which then takes mappings and memory, for the time of a call. The `KEPT` stacks that
//! were opened last stay open between calls: a machine that is often called seldom opens its stack.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wasmtime::{Error, StackCreator, StackMemory};

use crate::arena::{Arena, Slot};
use crate::failure::{Failure, Kind};
use crate::quota::{self, Taken};

/// The bytes of a stack.
pub const LENGTH: usize = 2 << 20;
/// What is in front of a stack and never memory: a stack grows towards it. Half a large page, so that no whole one fits
/// into a stack, which uses a few small ones.
const GUARD: usize = 1 << 20;
/// How many stacks stay open between calls.
const KEPT: usize = 256;
/// An open stack, and what is not open between it and the one before.
const MAPPINGS: usize = 2;

static ARENA: Arena = Arena::new(2 * GUARD + LENGTH, 1_024);

/// The stacks that stay open, in the order in which they were opened, and which of them is the oldest.
static OPEN: Mutex<(usize, [Weak<Stack>; KEPT])> = Mutex::new((0, [const { Weak::new() }; KEPT]));

thread_local! {
    /// What `Stacks` gives to the store that asks for its first stack on this thread.
    static NEXT: RefCell<Option<Arc<Stack>>> = const { RefCell::new(None) };
}

pub struct Stack {
    /// One of the constants below. A machine runs one call at a time, so only one thread takes a stack into use or out of
    /// it; any other may close it between calls.
    state: AtomicU8,
    addresses: Mutex<Addresses>,
    start: usize,
}

struct Addresses {
    slot: Slot,
    /// Of a stack that is open.
    mappings: Option<Taken>,
}

const CLOSED: u8 = 0;
/// Open, in `OPEN`, and in no use.
const IDLE: u8 = 1;
/// In use, and in `OPEN`.
const USED: u8 = 2;
/// In use, and to be closed then.
const LAST: u8 = 3;

/// A stack that is open and in use until this is dropped.
pub struct InUse(Arc<Stack>);

impl Stack {
    /// A stack that is not open.
    pub fn new() -> Result<Arc<Self>, Failure> {
        let slot = ARENA.slot().map_err(|error| no_room(&error))?;
        let start = slot.start().addr() + GUARD;
        let addresses = Mutex::new(Addresses { slot, mappings: None });
        Ok(Arc::new(Self { state: AtomicU8::new(CLOSED), addresses, start }))
    }

    /// Opens the stack, if it is not, for a call of the one machine that has it.
    ///
    /// # Errors
    ///
    /// `Overloaded` or `OutOfMemory` where it is not open and cannot be opened.
    pub fn enter(self: &Arc<Self>) -> Result<InUse, Failure> {
        if !self.turn(IDLE, USED) {
            self.open()?;
            let oldest = keep(self);
            if let Some(oldest) = oldest.upgrade() {
                oldest.retire();
            }
        }
        Ok(InUse(self.clone()))
    }

    fn open(&self) -> Result<(), Failure> {
        // Whoever closes it meanwhile has the lock.
        let mut addresses = self.addresses();
        let mappings = quota::mappings().take_for_call(MAPPINGS)?;
        addresses.slot.open(GUARD, GUARD + LENGTH).map_err(|error| no_room(&error))?;
        addresses.mappings = Some(mappings);
        self.state.store(USED, Ordering::Release);
        Ok(())
    }

    /// The stack is no longer among those that stay open.
    fn retire(&self) {
        loop {
            let retired = match self.state.load(Ordering::Acquire) {
                USED => self.turn(USED, LAST),
                IDLE => self.close(IDLE),
                _ => true,
            };
            if retired {
                return;
            }
        }
    }

    /// Closes the stack, and answers whether its state was `from`.
    fn close(&self, from: u8) -> bool {
        let mut addresses = self.addresses();
        let closes = self.turn(from, CLOSED);
        // SAFETY: a stack in no use has no frames, and who would use it waits for the lock.
        if closes && unsafe { addresses.slot.close() }.is_ok() {
            addresses.mappings = None;
        }
        closes
    }

    /// Runs `work`, in which the first store that needs a stack has this one.
    pub fn provide<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Provided;
        impl Drop for Provided {
            fn drop(&mut self) {
                NEXT.take();
            }
        }
        NEXT.replace(Some(self.clone()));
        let _provided = Provided;
        work()
    }

    /// Closes a stack in no use, as if many others had been opened since.
    pub fn forget(&self) {
        self.close(IDLE);
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        // What may panic under this lock comes before any change.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a stack that was opened among those that stay open, in the place of the one that it answers.
fn keep(stack: &Arc<Stack>) -> Weak<Stack> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (oldest, stacks) = &mut *open;
    let place = *oldest;
    *oldest = (place + 1) % KEPT;
    std::mem::replace(&mut stacks[place], Arc::downgrade(stack))
}

impl Drop for InUse {
    fn drop(&mut self) {
        if !self.0.turn(USED, IDLE) {
            self.0.close(LAST);
        }
    }
}

fn no_room(error: &std::io::Error) -> Failure {
    Failure::new(Kind::OutOfMemory, format!("the host has no stack for a call: {error}"))
}

/// Gives wasmtime its stacks.
pub struct Stacks;

// SAFETY: a stack has a guard in front of it, lies at whole pages, and is zeros when it is first opened. Whoever has
// wasmtime use it keeps it open meanwhile: a machine that calls has an `InUse`.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let provided = NEXT.take().filter(|_| size == LENGTH);
        let stack =
            provided.ok_or_else(|| Error::msg(format!("wasmtime wants a second stack, or one of {size} bytes")))?;
        Ok(Box::new(Owned(stack)))
    }
}

struct Owned(Arc<Stack>);

// SAFETY: see `Stacks`.
unsafe impl StackMemory for Owned {
    fn top(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.range().end)
    }

    fn range(&self) -> Range<usize> {
        self.0.start..self.0.start + LENGTH
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let pointer = std::ptr::with_exposed_provenance_mut::<u8>;
        pointer(self.0.start - GUARD)..pointer(self.0.start)
    }
}
