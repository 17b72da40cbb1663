//! The stacks of calls: one for each machine, with memory only while a call needs it.
//!
//! wasmtime keeps the stack of a store for all of its calls, so a machine owns the addresses of a stack for life. An
//! open stack takes mappings and memory, so a machine opens its stack for a call. Opening and closing take as long as
//! many a search, so the last opened stacks stay open between calls: as many as an eighth of the mappings that the system
//! allows. The quota of mappings closes the oldest ones before it refuses a request.
//!
//! An idle stack keeps the memory that its calls touched: some pages, or up to `STACK_BYTES` after a deep recursion. So all
//! but the newest `MAX_DEEP` stacks are drained: they keep `KEPT_BYTES`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use wasmtime::{Error, Func, Instance, Module, StackCreator, StackMemory, Store, TypedFunc};

use crate::failure::{Failure, Kind};
use crate::memory::arena::{Arena, Slot};
use crate::memory::limits::Limits;
use crate::system::quota::{self, Taken};

/// The bytes of a stack.
pub const STACK_BYTES: usize = 2 << 20;
/// The bytes before a stack, towards which it grows, which are never memory. Half a large page, so that no large page
/// fits inside a stack, which uses few small pages.
const GUARD_BYTES: usize = 1 << 20;
/// The most stacks that stay open between calls, whatever the system allows: `KEPT_BYTES` each.
const MAX_KEPT_OPEN: usize = 16_384;
/// The share of the system's mappings that the stacks that stay open may take.
const KEPT_OPEN_SHARE: usize = 8;
/// The most stacks that keep all memory that their calls touched.
const MAX_DEEP: usize = 256;
/// The bytes at the top of a stack that draining keeps. A search of a small index touches two pages.
const KEPT_BYTES: usize = 16 << 10;
/// The mappings of a stack: its open part, and the closed gap before it.
const STACK_MAPPINGS: usize = 2;

static ARENA: Arena = Arena::new(2 * GUARD_BYTES + STACK_BYTES, 1_024);

/// The stacks that stay open, the oldest first. A stack may be closed or gone since.
static OPEN: Mutex<VecDeque<Weak<Stack>>> = Mutex::new(VecDeque::new());
/// Whether there are more than `MAX_DEEP` of them.
static ARE_MANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The stack that `Stacks` returns to the next store on this thread.
    static NEXT: RefCell<Option<Arc<Stack>>> = const { RefCell::new(None) };
}

pub struct Stack {
    /// One of the constants below. Only the thread of the machine's one call starts or ends the use. Any other thread
    /// may close the stack between calls.
    state: AtomicU8,
    addresses: Mutex<Addresses>,
    start: usize,
}

struct Addresses {
    slot: Slot,
    /// The mappings of an open stack.
    mappings: Option<Taken>,
}

const CLOSED: u8 = 0;
/// Open, in `OPEN`, and not in use.
const IDLE: u8 = 1;
/// In use, and in `OPEN`.
const USED: u8 = 2;
/// In use, and to be closed at the end of the use.
const LAST: u8 = 3;
/// Not in use, and drained by a thread that has the lock.
const DRAINED: u8 = 4;

/// The use of an open stack, which ends when this is dropped.
pub struct InUse {
    stack: Arc<Stack>,
    is_deep: bool,
}

impl Stack {
    /// Returns a closed stack.
    pub fn new() -> Result<Arc<Self>, Failure> {
        let slot = ARENA.slot().map_err(|error| no_room(&error))?;
        let start = slot.start().addr() + GUARD_BYTES;
        let addresses = Mutex::new(Addresses { slot, mappings: None });
        Ok(Arc::new(Self { state: AtomicU8::new(CLOSED), addresses, start }))
    }

    /// Begins a use of the stack, and opens it if it is closed.
    ///
    /// # Errors
    ///
    /// `Overloaded` or `OutOfMemory` if it cannot be opened.
    pub fn enter(self: &Arc<Self>) -> Result<InUse, Failure> {
        if !self.swap_state(IDLE, USED) && self.open()? {
            keep(self);
        }
        Ok(InUse { stack: self.clone(), is_deep: false })
    }

    /// Opens the stack for a use. Returns whether it was closed: another thread may just have drained it.
    fn open(&self) -> Result<bool, Failure> {
        // Before the lock, because a lack of mappings closes other stacks, each under its lock.
        let mappings = quota::mappings().take_for_call(STACK_MAPPINGS)?;
        // Wait for a thread that is closing or draining the stack.
        let mut addresses = self.addresses();
        if self.swap_state(IDLE, USED) {
            return Ok(false);
        }
        addresses.slot.open(GUARD_BYTES, GUARD_BYTES + STACK_BYTES).map_err(|error| no_room(&error))?;
        addresses.mappings = Some(mappings);
        self.state.store(USED, Ordering::Release);
        Ok(true)
    }

    /// Frees the memory of a stack but the `KEPT_BYTES` at its top, and leaves it open and idle, if its state is `from`.
    /// Returns whether that was its state.
    fn drain(&self, from: u8) -> bool {
        let mut addresses = self.addresses();
        let drains = self.swap_state(from, DRAINED);
        if drains {
            // SAFETY: a stack that is not in use has no frames, and a call that would use it waits for the lock.
            unsafe { addresses.slot.drain(GUARD_BYTES, GUARD_BYTES + STACK_BYTES - KEPT_BYTES) };
            self.state.store(IDLE, Ordering::Release);
        }
        drains
    }

    /// Stops keeping the stack open: closes it now, or after its use. Returns whether it closed it.
    fn retire(&self) -> bool {
        loop {
            match self.state.load(Ordering::Acquire) {
                USED if self.swap_state(USED, LAST) => return false,
                IDLE if self.close(IDLE) => return true,
                USED | IDLE => {}
                // Wait for the end.
                DRAINED => drop(self.addresses()),
                _ => return false,
            }
        }
    }

    /// Closes the stack if its state is `from`. Returns whether that was its state.
    fn close(&self, from: u8) -> bool {
        let mut addresses = self.addresses();
        let closes = self.swap_state(from, CLOSED);
        // SAFETY: a stack that is not in use has no frames, and a call that would use it waits for the lock.
        if closes && unsafe { addresses.slot.close() }.is_ok() {
            addresses.mappings = None;
        }
        closes
    }

    /// Instantiates `module` in a new store, which takes this stack for all of its calls. The stack must be open.
    pub fn instantiate(self: &Arc<Self>, store: &mut Store<Limits>, module: &Module) -> wasmtime::Result<Instance> {
        struct Provided;
        impl Drop for Provided {
            fn drop(&mut self) {
                NEXT.take();
            }
        }
        NEXT.replace(Some(self.clone()));
        let _provided = Provided;
        // The first call makes the store take its stack, also if the module has no start function.
        let empty: TypedFunc<(), ()> = Func::wrap(&mut *store, || {}).typed(&*store)?;
        block_on(empty.call_async(&mut *store, ()))?;
        block_on(Instance::new_async(store, module, &[]))
    }

    /// Closes an unused stack, as opening many other stacks would.
    pub fn forget(&self) {
        self.close(IDLE);
    }

    fn swap_state(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        // Code that may panic runs before any change under this lock.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds an opened stack to those that stay open. Closes the oldest ones beyond the limit.
fn keep(stack: &Arc<Stack>) {
    let mut open = open_stacks();
    open.push_back(Arc::downgrade(stack));
    let shallow = open.len().checked_sub(MAX_DEEP + 1).and_then(|index| open[index].upgrade());
    ARE_MANY.store(open.len() > MAX_DEEP, Ordering::Relaxed);
    let oldest = if open.len() > max_kept_open() { open.pop_front() } else { None };
    // The locks of stacks come after this one is released.
    drop(open);
    if let Some(shallow) = shallow {
        shallow.drain(IDLE);
    }
    if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
        oldest.retire();
    }
}

/// Closes stacks that only stay open to save time, the oldest first, until `mappings` mappings are free.
fn reclaim(mappings: usize) {
    let mut closed = 0;
    while closed < mappings {
        let Some(oldest) = open_stacks().pop_front() else { return };
        if oldest.upgrade().is_some_and(|oldest| oldest.retire()) {
            closed += STACK_MAPPINGS;
        }
    }
}

fn max_kept_open() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        quota::mappings().reclaim_by(reclaim);
        (quota::mappings().limit() / KEPT_OPEN_SHARE / STACK_MAPPINGS).clamp(MAX_DEEP, MAX_KEPT_OPEN)
    })
}

fn open_stacks() -> MutexGuard<'static, VecDeque<Weak<Stack>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InUse {
    /// Makes the end of the use drain the stack. For a use that takes so long that this does not matter.
    pub fn drain_at_end(&mut self) {
        self.is_deep = ARE_MANY.load(Ordering::Relaxed);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let is_idle = if self.is_deep { self.stack.drain(USED) } else { self.stack.swap_state(USED, IDLE) };
        if !is_idle {
            self.stack.close(LAST);
        }
    }
}

/// Runs a future of a store that does not yield, so the first poll completes it.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

fn no_room(error: &std::io::Error) -> Failure {
    Failure::new(Kind::OutOfMemory, format!("the host has no stack for a call: {error}"))
}

/// Provides stacks to wasmtime.
pub struct Stacks;

// SAFETY: a stack has a guard in front of it, lies at whole pages, and is zeros when it is first opened. A machine keeps it
// open while wasmtime uses it: a machine that calls has an `InUse`.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let provided = NEXT.take().filter(|_| size == STACK_BYTES);
        let stack = provided
            .ok_or_else(|| Error::msg(format!("wasmtime asks for a second stack, or for one of {size} bytes")))?;
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
        self.0.start..self.0.start + STACK_BYTES
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let pointer = std::ptr::with_exposed_provenance_mut::<u8>;
        pointer(self.0.start - GUARD_BYTES)..pointer(self.0.start)
    }
}
