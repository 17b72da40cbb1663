//! The numbers by which the parts of an index refer to one another.

/// The position of a subscription in [`crate::catalog::subscriptions::Subscriptions`].
pub type Slot = u32;

/// The position of a program: its chunk in the upper half, its first word in the lower half. A large program, which is in no
/// chunk, has a number of its own and a mark in the highest bit.
pub type ProgramId = u32;

/// The number of a predicate in the table of predicates.
pub type PredicateId = u32;

/// The number of a node.
pub type NodeId = u32;

/// The number of a value level.
pub type LevelId = u32;

/// The position of an expression in [`crate::boolean::windows::Dense`].
pub type DensePosition = u32;
