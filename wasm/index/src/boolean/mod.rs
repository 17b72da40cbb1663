//! Expressions over booleans alone, which are evaluated many at a time.

pub(crate) mod bit_sliced;
pub(crate) mod windows;
