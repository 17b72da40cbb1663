//! The counts of an output.

use super::limits::Amount;

/// Counts of messages since the start, and the amounts that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of `append`, the dropped ones included.
    pub accepted: u64,
    /// Messages that the sink took.
    pub delivered: u64,
    /// Messages that an overflow cost.
    pub dropped: u64,
    /// Messages that the sink refused, or that a killed process held.
    pub lost: u64,
    /// Messages in the open pages of senders.
    pub open: Amount,
    /// Messages in the queue.
    pub queued: Amount,
    /// Messages of the job that is not settled yet.
    pub in_hand: Amount,
    /// Pages of the queue.
    pub pages: u64,
    /// Living senders.
    pub senders: u64,
    /// Microseconds since the first message of the oldest page came.
    pub lateness: u64,
    /// Whether the hard limit was reached, and the soft limit not since.
    pub overloaded: bool,
}
