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

/// The position of a subscription in [`crate::catalog::subscriptions::Subscriptions`].
pub type Slot = u32;

/// The position of a program: its chunk in the upper half, its first word in the lower half. A large program, which is in no
/// chunk, has a number of its own and a mark in the highest bit.
pub type ProgramId = u32;

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
    /// The node whose list every search passes in addition. Its expressions have filters that decide them for most events.
    /// No level leads to this node.
    pub const LIKELY: NodeId = NodeId(1);
    /// No node.
    pub const NONE: NodeId = NodeId(u32::MAX);
}

handle! {
    /// The number of a value level.
    pub(crate) struct LevelId
}

/// The position of an expression in [`crate::boolean::windows::Dense`].
pub type DensePosition = u32;
