//! A page: messages of one sender, one after the other.

use std::time::Instant;

use super::limits::Amount;

/// Its bytes are shared with a binary of the BEAM, without a copy.
pub struct Page {
    pub bytes: Vec<u8>,
    /// The length of each message.
    pub lengths: Vec<u32>,
    /// When its first message came.
    pub since: Instant,
}

impl Page {
    /// Begins a page with a message.
    pub fn new(message: &[u8]) -> Self {
        let mut page = Self { bytes: Vec::new(), lengths: Vec::new(), since: Instant::now() };
        page.push(message);
        page
    }

    /// Appends a message, whose length fits `u32`.
    pub fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.lengths.push(message.len() as u32);
    }

    pub fn amount(&self) -> Amount {
        Amount { bytes: self.bytes.len() as u64, messages: self.lengths.len() as u64 }
    }
}
