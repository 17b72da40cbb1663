//! Expressions over booleans alone are evaluated many at a time.

pub(crate) mod bit_sliced;
pub(crate) mod windows;
