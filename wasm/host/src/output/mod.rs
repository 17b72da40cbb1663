//! Messages of many senders, on their way to one sink.
//!
//! A *sender* appends messages to its *open page*. A full page moves into the *queue*, if the limits admit it, and an open
//! page does so after a while (`Queue::sweep`). A writer takes pages from the head of the queue (`Queue::next`), and reports
//! whether they were delivered (`Queue::settle`).
//!
//! The pages and the counts live here, and not in the processes of the BEAM, because these can be killed between any two
//! operations. Each operation runs under the locks, so a kill falls before or after it. Hence at every moment
//! `accepted = delivered + dropped + lost + pending`, where `pending` is the number of messages in pages.
//!
//! A lock of a sender is taken before that of the queue, never after it.

mod counts;
mod limits;
mod open;
mod page;
mod queue;
mod sender;

pub use limits::{Amount, Limits, Overflow};
pub use queue::{Queue, Room};
pub use sender::{Appended, Sender};
