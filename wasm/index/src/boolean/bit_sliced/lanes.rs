//! Lanes are sets of events in vectors, for the hottest loop. The compiler turns plain words into vectors in some places
//! only, and moves them to and fro.

use std::ops::{BitAnd, BitOr, BitXor};

use crate::boolean::bit_sliced::bits::Bits;
use crate::support::simd::Vector;

/// The same set as [`Bits`], in vectors. The default is the empty set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lanes<V>([V; 2]);

impl<V: Vector> Lanes<V> {
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        let Lanes([low, high]) = self;
        (low | high).is_zero()
    }
}

impl<V: Vector> BitAnd for Lanes<V> {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Lanes([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }
}

impl<V: Vector> BitOr for Lanes<V> {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Lanes([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }
}

impl<V: Vector> BitXor for Lanes<V> {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Lanes([self.0[0] ^ other.0[0], self.0[1] ^ other.0[1]])
    }
}

impl<V: Vector> From<Bits> for Lanes<V> {
    fn from(bits: Bits) -> Self {
        let [a, b, c, d] = bits.words();
        Lanes([V::of_u64(&[a, b]), V::of_u64(&[c, d])])
    }
}

impl<V: Vector> From<Lanes<V>> for Bits {
    fn from(Lanes([low, high]): Lanes<V>) -> Self {
        let ([a, b], [c, d]) = (low.to_u64(), high.to_u64());
        Bits::of_words([a, b, c, d])
    }
}
