//! Access to the words of programs.
//!
//! A bounds check of each word is a branch, and fuel is counted at each branch. So programs share chunks of a length that is
//! known at compile time, and positions are reduced to that length.

/// The number of positions of a [`Chunk`]. A power of two, so that one instruction reduces a position to this range.
pub(crate) const PLACES: usize = 1 << 15;
/// The number of words that [`Words::ahead`] returns.
pub(crate) const AHEAD: usize = 8;

/// The words that programs share, and [`AHEAD`] more, so that [`Words::ahead`] at the last position stays inside.
pub(crate) type Chunk = [u32; PLACES + AHEAD];

/// Words that contain a program.
pub(crate) trait Words: Copy {
    /// Returns the word at a position, or an arbitrary word past the end.
    fn word(self, at: usize) -> u32;

    /// Returns the next [`AHEAD`] words from a position on. Words past the end are arbitrary.
    fn ahead(self, at: usize) -> [u32; AHEAD];
}

impl Words for &Chunk {
    #[inline(always)]
    fn word(self, at: usize) -> u32 {
        self[at % PLACES]
    }

    #[inline(always)]
    fn ahead(self, at: usize) -> [u32; AHEAD] {
        let from = at % PLACES;
        std::array::from_fn(|word| self[from + word])
    }
}

impl Words for &[u32] {
    #[inline(always)]
    fn word(self, at: usize) -> u32 {
        self.get(at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn ahead(self, at: usize) -> [u32; AHEAD] {
        std::array::from_fn(|word| self.word(at + word))
    }
}
