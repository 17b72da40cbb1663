//! The numbers by which the parts of an index refer to one another.

/// The place of a subscription in [`crate::catalog::subscriptions::Subscriptions`].
pub type Slot = u32;

/// Where a program is: the chunk in the upper half, the word in the lower. Of one that is alone its number, and a mark in the highest bit.
pub type ProgramId = u32;

/// The number of a predicate that a table of predicates holds.
pub type PredicateId = u32;

/// The number of a node.
pub type NodeId = u32;

/// The number of a value level.
pub type LevelId = u32;

/// The position of an expression in [`Dense`].
pub type DensePosition = u32;
