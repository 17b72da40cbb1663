//! Binary heaps in words: the greatest element comes first.

use crate::memory::{Address, Full, Words};

/// A heap, given by the address of its three words: capacity, length, and address of the elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap(pub Address);

impl Heap {
    pub fn len(self, words: &Words) -> u32 {
        words.get(self.0 + 1)
    }

    /// Returns the greatest element.
    #[inline]
    pub fn first(self, words: &Words) -> Option<u32> {
        (self.len(words) > 0).then(|| words.get(words.get(self.0 + 2)))
    }

    /// Adds an element. `before` compares two elements.
    pub fn push(self, words: &mut Words, element: u32, before: impl Fn(&Words, u32, u32) -> bool) -> Result<(), Full> {
        let length = self.len(words);
        if length == words.get(self.0) {
            self.enlarge(words)?;
        }
        words.set(self.0 + 1, length + 1)?;
        let base = words.get(self.0 + 2);
        let mut at = length;
        while at > 0 {
            let parent = words.get(base + (at - 1) / 2);
            if !before(words, element, parent) {
                break;
            }
            words.set(base + at, parent)?;
            at = (at - 1) / 2;
        }
        words.set(base + at, element)
    }

    /// Removes the greatest element.
    pub fn pop(self, words: &mut Words, before: impl Fn(&Words, u32, u32) -> bool) -> Result<(), Full> {
        let length = self.len(words) - 1;
        words.set(self.0 + 1, length)?;
        if length == 0 {
            return Ok(());
        }
        let last = words.get(words.get(self.0 + 2) + length);
        self.replace_first(words, last, before)
    }

    /// Replaces the greatest element by another.
    pub fn replace_first(
        self,
        words: &mut Words,
        element: u32,
        before: impl Fn(&Words, u32, u32) -> bool,
    ) -> Result<(), Full> {
        let (length, base) = (self.len(words), words.get(self.0 + 2));
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= length {
                break;
            }
            if child + 1 < length && before(words, words.get(base + child + 1), words.get(base + child)) {
                child += 1;
            }
            let greater = words.get(base + child);
            if !before(words, greater, element) {
                break;
            }
            words.set(base + at, greater)?;
            at = child;
        }
        words.set(base + at, element)
    }

    /// Doubles the capacity.
    pub(super) fn enlarge(self, words: &mut Words) -> Result<(), Full> {
        let (before, old) = (words.get(self.0), words.get(self.0 + 2));
        let room = (2 * before).max(8);
        let base = words.allocate(room)?;
        for place in 0..before {
            words.raw(base + place, words.get(old + place));
        }
        if before > 0 {
            words.free(old, before)?;
        }
        words.set(self.0, room)?;
        words.set(self.0 + 2, base)
    }
}
