//! How much may wait for a sink, and what happens to more.

use std::ops::{Add, AddAssign, SubAssign};

/// A number of messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub bytes: u64,
    pub messages: u64,
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, messages: self.messages + other.messages }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.messages -= other.messages;
    }
}

impl Amount {
    /// Whether neither number exceeds that of `limit`.
    pub fn fits(self, limit: Self) -> bool {
        self.bytes <= limit.bytes && self.messages <= limit.messages
    }
}

/// The treatment of a message that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Its sender waits.
    Block,
    /// It is dropped.
    DropNew,
    /// The oldest pages of the queue are dropped.
    DropOld,
    /// The queue is closed.
    Disconnect,
}

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The bytes of a page.
    pub page: usize,
    /// The hard limit of the queue.
    pub hard: Amount,
    pub overflow: Overflow,
}

/// A page has at most one message out of this many that the queue may hold, so that small queues have several pages.
const PAGES_OF_A_QUEUE: u64 = 4;

impl Limits {
    /// The limit at which an overload ends.
    pub fn soft(&self) -> Amount {
        Amount { bytes: self.hard.bytes / 2, messages: self.hard.messages / 2 }
    }

    /// The messages of a page.
    pub fn page_messages(&self) -> usize {
        usize::try_from(self.hard.messages / PAGES_OF_A_QUEUE).unwrap_or(usize::MAX).max(1)
    }
}
