//! Lanes are sets of events in vectors, for the hottest loop. The compiler turns plain words into vectors in some places
//! only, and moves them to and fro.

use std::ops::{BitAnd, BitOr, BitXor};

use crate::boolean::bit_sliced::bits::Bits;
use vector::Vector;

/// The same set as [`Bits`], in vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes([Vector; 2]);

impl Lanes {
    pub const NONE: Lanes = Lanes([vector::ZERO; 2]);

    #[inline(always)]
    pub fn is_empty(self) -> bool {
        let Lanes([low, high]) = self;
        vector::is_zero(vector::or(low, high))
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes::NONE
    }
}

impl BitAnd for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn bitand(self, Lanes(other): Lanes) -> Lanes {
        Lanes([vector::and(self.0[0], other[0]), vector::and(self.0[1], other[1])])
    }
}

impl BitOr for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn bitor(self, Lanes(other): Lanes) -> Lanes {
        Lanes([vector::or(self.0[0], other[0]), vector::or(self.0[1], other[1])])
    }
}

impl BitXor for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn bitxor(self, Lanes(other): Lanes) -> Lanes {
        Lanes([vector::xor(self.0[0], other[0]), vector::xor(self.0[1], other[1])])
    }
}

impl From<Bits> for Lanes {
    fn from(bits: Bits) -> Lanes {
        let [a, b, c, d] = bits.words();
        Lanes([vector::new([a, b]), vector::new([c, d])])
    }
}

impl From<Lanes> for Bits {
    fn from(Lanes([low, high]): Lanes) -> Bits {
        let ([a, b], [c, d]) = (vector::words(low), vector::words(high));
        Bits::of_words([a, b, c, d])
    }
}

#[cfg(target_arch = "wasm32")]
mod vector {
    use core::arch::wasm32::{u64x2, u64x2_extract_lane, v128_any_true};
    pub use core::arch::wasm32::{v128 as Vector, v128_and as and, v128_or as or, v128_xor as xor};

    pub const ZERO: Vector = u64x2(0, 0);

    pub fn new([low, high]: [u64; 2]) -> Vector {
        u64x2(low, high)
    }

    pub fn words(vector: Vector) -> [u64; 2] {
        [u64x2_extract_lane::<0>(vector), u64x2_extract_lane::<1>(vector)]
    }

    #[inline(always)]
    pub fn is_zero(vector: Vector) -> bool {
        !v128_any_true(vector)
    }
}

/// Outside of the sandbox the compiler generates good code for words.
#[cfg(not(target_arch = "wasm32"))]
mod vector {
    pub type Vector = [u64; 2];

    pub const ZERO: Vector = [0; 2];

    pub fn new(words: [u64; 2]) -> Vector {
        words
    }

    pub fn words(vector: Vector) -> [u64; 2] {
        vector
    }

    #[inline(always)]
    pub fn is_zero(vector: Vector) -> bool {
        vector == ZERO
    }

    #[inline(always)]
    pub fn and(a: Vector, b: Vector) -> Vector {
        [a[0] & b[0], a[1] & b[1]]
    }

    #[inline(always)]
    pub fn or(a: Vector, b: Vector) -> Vector {
        [a[0] | b[0], a[1] | b[1]]
    }

    #[inline(always)]
    pub fn xor(a: Vector, b: Vector) -> Vector {
        [a[0] ^ b[0], a[1] ^ b[1]]
    }
}
