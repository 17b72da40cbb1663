//! Reading the words of programs.
//!
//! To ask before each word whether there is one is a branch, and at each branch fuel is counted. So the programs of a chunk are
//! read from a table whose length is known when this is compiled, by places that cannot be beyond it.

/// Places of a [`Chunk`]: a power of two, so that to cut a place down to these takes one instruction.
pub(crate) const PLACES: usize = 1 << 15;
/// So many words are read at once.
pub(crate) const AHEAD: usize = 8;

/// Words that programs share, and as many behind the last place as are read at once.
pub(crate) type Chunk = [u32; PLACES + AHEAD];

/// Words that a program is among.
pub(crate) trait Words: Copy {
    /// The word at a place; behind the last one, any.
    fn word(self, at: usize) -> u32;

    /// The words from a place on; behind the last one, any.
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
