//! The greater and the lesser of two numbers.

/// The greater of two numbers. `f32::max` is a call in the sandbox, as it also has to do with what is no number.
pub(crate) fn greater<T: PartialOrd>(a: T, b: T) -> T {
    if a > b {
        a
    } else {
        b
    }
}

/// The lesser of two numbers.
pub(crate) fn lesser<T: PartialOrd>(a: T, b: T) -> T {
    if a < b {
        a
    } else {
        b
    }
}
