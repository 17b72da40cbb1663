//! Vectors in plain Rust.

use std::array::from_fn;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use super::{Vector, BYTES};

/// A vector in an array.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub(crate) struct Portable([u8; BYTES]);

impl Portable {
    #[inline(always)]
    fn to_u16(self) -> [u16; 8] {
        from_fn(|lane| u16::from_le_bytes(self.bytes(2 * lane)))
    }

    #[inline(always)]
    fn bytes<const N: usize>(self, from: usize) -> [u8; N] {
        from_fn(|byte| self.0[from + byte])
    }
}

type Register = [u8; BYTES];

#[inline(always)]
fn each_u8(a: Register, b: Register, of: impl Fn(u8, u8) -> u8) -> Register {
    from_fn(|lane| of(a[lane], b[lane]))
}

#[inline(always)]
fn each_u16(a: Register, b: Register, of: impl Fn(u16, u16) -> u16) -> Register {
    let [a, b] = [a, b].map(|register| Portable(register).to_u16());
    Portable::of_u16(&from_fn(|lane| of(a[lane], b[lane]))).0
}

#[inline(always)]
fn each_u32(a: Register, b: Register, of: impl Fn(u32, u32) -> u32) -> Register {
    let [a, b] = [a, b].map(|register| Portable(register).to_u32());
    Portable::of_u32(&from_fn(|lane| of(a[lane], b[lane]))).0
}

#[inline(always)]
fn each_f32(a: Register, b: Register, of: impl Fn(f32, f32) -> f32) -> Register {
    each_u32(a, b, |a, b| of(f32::from_bits(a), f32::from_bits(b)).to_bits())
}

/// Returns a word with the lowest bit of each of `lanes`, the first in the lowest bit.
#[inline(always)]
fn collect(lanes: impl Iterator<Item = u32>) -> u32 {
    lanes.enumerate().fold(0, |word, (lane, bit)| word | bit << lane)
}

operators! { Portable:
    BitAnd bitand = |a, b| each_u8(a, b, |a, b| a & b);
    BitOr bitor = |a, b| each_u8(a, b, |a, b| a | b);
    BitXor bitxor = |a, b| each_u8(a, b, |a, b| a ^ b);
}

impl Not for Portable {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Portable(self.0.map(|byte| !byte))
    }
}

impl Vector for Portable {
    lane_by_lane! { Portable:
        add_u16 = |a, b| each_u16(a, b, u16::wrapping_add);
        sub_u8 = |a, b| each_u8(a, b, u8::wrapping_sub);
        sub_u32 = |a, b| each_u32(a, b, u32::wrapping_sub);
        add_f32 = |a, b| each_f32(a, b, |a, b| a + b);
        sub_f32 = |a, b| each_f32(a, b, |a, b| a - b);
        mul_f32 = |a, b| each_f32(a, b, |a, b| a * b);
        eq_u8 = |a, b| each_u8(a, b, |a, b| if a == b { u8::MAX } else { 0 });
        eq_u32 = |a, b| each_u32(a, b, |a, b| if a == b { u32::MAX } else { 0 });
        le_u32 = |a, b| each_u32(a, b, |a, b| if a <= b { u32::MAX } else { 0 });
    }

    #[inline(always)]
    fn of_u8(lanes: &[u8; 16]) -> Self {
        Portable(*lanes)
    }

    #[inline(always)]
    fn of_u16(lanes: &[u16; 8]) -> Self {
        Portable(from_fn(|byte| lanes[byte / 2].to_le_bytes()[byte % 2]))
    }

    #[inline(always)]
    fn of_u32(lanes: &[u32; 4]) -> Self {
        Portable(from_fn(|byte| lanes[byte / 4].to_le_bytes()[byte % 4]))
    }

    #[inline(always)]
    fn of_u64(lanes: &[u64; 2]) -> Self {
        Portable(from_fn(|byte| lanes[byte / 8].to_le_bytes()[byte % 8]))
    }

    #[inline(always)]
    fn of_f32(lanes: &[f32; 4]) -> Self {
        Self::of_u32(&lanes.map(f32::to_bits))
    }

    #[inline(always)]
    fn to_u32(self) -> [u32; 4] {
        from_fn(|lane| u32::from_le_bytes(self.bytes(4 * lane)))
    }

    #[inline(always)]
    fn to_u64(self) -> [u64; 2] {
        from_fn(|lane| u64::from_le_bytes(self.bytes(8 * lane)))
    }

    #[inline(always)]
    fn splat_u8(lane: u8) -> Self {
        Portable([lane; BYTES])
    }

    #[inline(always)]
    fn splat_u32(lane: u32) -> Self {
        Self::of_u32(&[lane; 4])
    }

    #[inline(always)]
    fn splat_f32(lane: f32) -> Self {
        Self::of_f32(&[lane; 4])
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.to_u64() == [0; 2]
    }

    #[inline(always)]
    fn shr_u8(self, bits: u32) -> Self {
        Portable(self.0.map(|lane| lane >> bits))
    }

    #[inline(always)]
    fn shr_u32(self, bits: u32) -> Self {
        Self::of_u32(&self.to_u32().map(|lane| lane >> bits))
    }

    #[inline(always)]
    fn shl_u32(self, bits: u32) -> Self {
        Self::of_u32(&self.to_u32().map(|lane| lane << bits))
    }

    #[inline(always)]
    fn signs_u8(self) -> u16 {
        collect(self.0.into_iter().map(|lane| u32::from(lane >> 7))) as u16
    }

    #[inline(always)]
    fn signs_u32(self) -> u8 {
        collect(self.to_u32().into_iter().map(|lane| lane >> 31)) as u8
    }

    #[inline(always)]
    fn signs_u16(self, other: Self) -> u16 {
        let lanes = self.to_u16().into_iter().chain(other.to_u16());
        collect(lanes.map(|lane| u32::from(lane >> 15))) as u16
    }

    #[inline(always)]
    fn swizzle(self, places: Self) -> Self {
        Portable(places.0.map(|place| {
            let byte = self.0[usize::from(place) % BYTES];
            if usize::from(place) < BYTES {
                byte
            } else {
                0
            }
        }))
    }

    #[inline(always)]
    fn shuffle_u32<const A: usize, const B: usize, const C: usize, const D: usize>(self, other: Self) -> Self {
        let lanes = [self.to_u32(), other.to_u32()];
        Self::of_u32(&[A, B, C, D].map(|lane| lanes[lane / 4][lane % 4]))
    }
}
