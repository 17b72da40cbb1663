//! All state of an engine: 32-bit words in one block, changed by atomic steps.
//!
//! An address is a position in the block. Address 0 is null.

mod barrier;
mod full;
mod heap;
pub(crate) mod order;
mod pages;
mod room;
mod strings;
mod table;
mod transaction;
mod words;

pub(crate) use crate::layout::Address;
pub(crate) use full::Full;
pub(crate) use heap::Heap;
pub(crate) use order::Order;
pub(crate) use pages::Pages;
pub(crate) use room::Room;
pub(crate) use strings::StringTable;
pub(crate) use table::Table;
pub(crate) use words::{mix, Words};
