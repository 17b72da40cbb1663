//! The greater and the lesser of two numbers.

/// Returns the greater of two numbers. `f32::max` is a call in the sandbox, because it also handles NaN.
pub(crate) fn greater<T: PartialOrd>(a: T, b: T) -> T {
    if a > b {
        a
    } else {
        b
    }
}

/// Returns the lesser of two numbers.
pub(crate) fn lesser<T: PartialOrd>(a: T, b: T) -> T {
    if a < b {
        a
    } else {
        b
    }
}
