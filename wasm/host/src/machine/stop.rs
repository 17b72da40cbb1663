//! The stop word: a word in a module's memory that asks a change to give up.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::failure::Failure;

/// The reason to give up, which the module writes into its error (`docs/abi.md`).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    Timeout = 1,
    Fuel = 2,
}

impl Reason {
    /// Decodes the argument of the NIF. 0 is no request.
    pub fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Reason::Timeout),
            _ => Some(Reason::Fuel),
        }
    }
}

/// The address of the word, in the address space of the host.
#[derive(Clone, Copy)]
pub struct StopWord(NonNull<AtomicU32>);

// SAFETY: it is an address of an atomic, in memory that belongs to no thread.
unsafe impl Send for StopWord {}

impl StopWord {
    /// Returns the word at `address` of the memory of `size` bytes that begins at `base`.
    ///
    /// # Errors
    ///
    /// `BadModule` if the memory has no aligned word there.
    pub fn new(base: *mut u8, size: usize, address: usize) -> Result<Self, Failure> {
        let is_inside = address.checked_add(4).is_some_and(|end| end <= size);
        let word = NonNull::new(base.wrapping_add(address).cast::<AtomicU32>());
        match word.filter(|word| is_inside && word.is_aligned()) {
            Some(word) => Ok(Self(word)),
            None => Err(Failure::bad_module(format!(
                "the stop word is at {address}, which is no aligned word of the memory of {size} bytes"
            ))),
        }
    }

    /// Asks the change to give up.
    ///
    /// # Safety
    ///
    /// The machine of the memory exists, and none of its code runs.
    pub unsafe fn set(self, reason: Reason) {
        // SAFETY: `new` found the word inside the memory and aligned, and memories neither move nor shrink (`engine`). The
        // machine keeps its memory, which only its code and this function access, one at a time: the caller's promise. Any
        // four bytes are a valid atomic.
        unsafe { self.0.as_ref() }.store(reason as u32, Relaxed);
    }
}
