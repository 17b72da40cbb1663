//! All state of an engine: 32-bit words in one block, which change by steps that happen wholly or not at all.
//!
//! An address is a position in the block. The address 0 stands for none.

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
