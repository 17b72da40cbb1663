//! The layout of an operation's word. From the low bits: its code (5 bits), the value on which it jumps (1 bit), its
//! attribute (10 bits), and its jump distance in words (16 bits).
//!
//! General programs use it, and so do [`booleans`](crate::compile::booleans) that are not packed.

use crate::event::digest;
use crate::model::attribute::AttributeId;

/// The bits of an operation's code.
pub(crate) const CODE: u32 = (1 << 5) - 1;
/// The value on which an operation jumps.
pub(crate) const ON: u32 = 1 << 5;
const ATTRIBUTE_SHIFT: u32 = 6;
/// The bits of an attribute, after a shift by [`ATTRIBUTE_SHIFT`].
pub(crate) const ATTRIBUTE: u32 = (1 << 10) - 1;
pub(crate) const JUMP_SHIFT: u32 = 16;

/// The last attribute that an operation can name.
pub(crate) const LAST_ATTRIBUTE: AttributeId = AttributeId::from_word(ATTRIBUTE);

/// Jump distances that end the program: the expression is true, or false.
pub(crate) const ACCEPT: u32 = 0xffff;
pub(crate) const REJECT: u32 = 0xfffe;
/// The codes of operations.
pub(crate) mod code {
    pub const REJECT: u32 = 0;
    pub const ACCEPT: u32 = 1;
    /// Jumps to the position in the next word. Only long programs have it, after a test that may skip it.
    pub const GO: u32 = 2;
    /// Evaluates a predicate of the table. The next word is its id.
    pub const SHARED: u32 = 3;
    /// All tests of a program over [`booleans`](crate::compile::booleans).
    pub const PACKED: u32 = 4;
    /// A list of integers has one, none or all of the constants of a [`List`](crate::compile::constants::List).
    pub const ONE_OF_INTEGERS: u32 = 5;
    pub const NONE_OF_INTEGERS: u32 = 6;
    pub const ALL_OF_INTEGERS: u32 = 7;
    /// The same for lists of strings, by string id.
    pub const ONE_OF_STRINGS: u32 = 8;
    pub const NONE_OF_STRINGS: u32 = 9;
    pub const ALL_OF_STRINGS: u32 = 10;
    /// The first of six codes, one for each relation to a float. The constant takes two words.
    pub const FLOAT: u32 = 11;
    /// From this code on, the value's digest decides. `IN` and `NOT_IN`: an integer or a string id is in a list, or is not.
    pub const IN: u32 = 17;
    pub const NOT_IN: u32 = 18;
    /// From this code on, `ORDERINGS` of `eval/run.rs` has the results. A boolean is true; a value is undefined, or defined.
    pub const TRUE: u32 = 19;
    pub const NULL: u32 = 20;
    pub const NOT_NULL: u32 = 21;
    /// The first of six codes, one for each relation to a 32-bit integer. String ids use two of them: equal and not equal.
    pub const SCALAR: u32 = 22;
}

/// The position of the first operation of a program.
pub(crate) const START: u32 = 1;

/// The number of digests that operations may read. The first one belongs to no attribute.
pub(crate) const DIGESTS: usize = digest::place(LAST_ATTRIBUTE) + 1;

/// Returns the part of an operation's word that names `attribute`, which is at most [`LAST_ATTRIBUTE`].
pub(crate) fn naming(attribute: AttributeId) -> u32 {
    attribute.word() << ATTRIBUTE_SHIFT
}

/// Returns the attribute that an operation's word names.
#[inline(always)]
pub(crate) fn named(word: u32) -> AttributeId {
    AttributeId::from_word(word >> ATTRIBUTE_SHIFT & ATTRIBUTE)
}
