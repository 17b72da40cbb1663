//! Handles are the numbers by which the parts of an index refer to one another.
//!
//! Each table has a type of handle of its own, so a number of one table cannot be used with another. A handle takes 32 bits.
//! It becomes a position only by [`index`](NodeId::index), and a part of a packed word only by [`word`](NodeId::word).

/// Defines a handle with its conversions.
macro_rules! handle {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $visibility struct $name(u32);

        impl $name {
            /// Returns the handle of the element at this position of its table. No table has more than 2^32 elements.
            #[inline(always)]
            $visibility const fn from_index(index: usize) -> Self {
                debug_assert!(index as u64 <= u32::MAX as u64);
                $name(index as u32)
            }

            /// Returns the position of the element in its table.
            #[inline(always)]
            $visibility const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the handle that [`Self::word`] encoded.
            #[inline(always)]
            $visibility const fn from_word(word: u32) -> Self {
                $name(word)
            }

            /// Returns the handle as a part of a packed word.
            #[inline(always)]
            $visibility const fn word(self) -> u32 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

pub(crate) use handle;

handle! {
    /// The position of a subscription in [`crate::catalog::subscriptions::Subscriptions`].
    pub(crate) struct Slot
}

impl Slot {
    /// No slot.
    pub const NONE: Slot = Slot(u32::MAX);
    /// The number of slots in a word of a set of slots.
    pub const IN_WORD: u32 = u32::BITS;

    /// Returns the position of this slot in a set of slots: its word, and its bit there.
    #[inline(always)]
    pub const fn in_set(self) -> (u32, u32) {
        (self.0 / Slot::IN_WORD, self.0 % Slot::IN_WORD)
    }

    /// Returns the slot of a bit in a word of a set of slots.
    #[inline(always)]
    pub const fn of_set(word: u32, bit: u32) -> Slot {
        Slot(word * Slot::IN_WORD + bit)
    }
}

/// The position of a program in a [`crate::compile::store::Programs`], in one of two forms (see [`Home`]).
///
/// A program in a chunk has the number of the chunk in the upper half, and the position of its first word in the lower half.
/// A large program has a number of its own and a mark in the highest bit. The bit is free, because all chunks in 4 GiB
/// need fewer numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct ProgramId(u32);

/// The memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A part of the chunk with this number, from the word `start` on.
    InChunk { chunk: usize, start: usize },
    /// The allocation with this number, which is of this program alone.
    Alone(usize),
}

impl ProgramId {
    /// Marks a large program.
    const ALONE: u32 = 1 << 31;
    /// The bits of the first word's position.
    const START_BITS: u32 = 16;
    const START: u32 = (1 << ProgramId::START_BITS) - 1;

    /// Returns the position of a program in the chunk with this number, from the word `start` on.
    pub const fn in_chunk(chunk: usize, start: usize) -> ProgramId {
        ProgramId((chunk as u32) << ProgramId::START_BITS | start as u32)
    }

    /// Returns the position of the large program with this number.
    pub const fn alone(number: usize) -> ProgramId {
        ProgramId(number as u32 | ProgramId::ALONE)
    }

    /// Returns the memory of the program.
    #[inline(always)]
    pub const fn home(self) -> Home {
        match self.0 & ProgramId::ALONE {
            0 => Home::InChunk {
                chunk: (self.0 >> ProgramId::START_BITS) as usize,
                start: (self.0 & ProgramId::START) as usize,
            },
            _ => Home::Alone((self.0 & !ProgramId::ALONE) as usize),
        }
    }

    /// Returns the position of the first word of the program's chunk, and the number of words from there to the program. A
    /// large program is a chunk by itself.
    #[inline]
    pub const fn split(self) -> (ProgramId, u32) {
        match self.0 & ProgramId::ALONE {
            0 => (ProgramId(self.0 & !ProgramId::START), self.0 & ProgramId::START),
            _ => (self, 0),
        }
    }

    /// Returns the position that [`ProgramId::word`] encoded.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Self {
        ProgramId(word)
    }

    /// Returns the position as a part of a packed word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.0
    }
}

handle! {
    /// The number of a predicate in the table of predicates.
    pub(crate) struct PredicateId
}

impl PredicateId {
    /// No predicate.
    pub const NONE: PredicateId = PredicateId(u32::MAX);
}

handle! {
    /// The number of a node.
    pub(crate) struct NodeId
}

impl NodeId {
    /// The node at which every search starts.
    pub const ROOT: NodeId = NodeId(0);
    /// The node whose list every search scans in addition. Its expressions have filters that decide them for most events.
    /// No level leads to this node.
    pub const SCANNED: NodeId = NodeId(1);
    /// No node.
    pub const NONE: NodeId = NodeId(u32::MAX);
}

handle! {
    /// The number of a value level.
    pub(crate) struct LevelId
}

handle! {
    /// The position of an expression in [`crate::boolean::windows::Dense`].
    pub(crate) struct DensePosition
}
