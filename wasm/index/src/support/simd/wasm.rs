//! Vectors of WebAssembly: each operation is one instruction or two.

use core::arch::wasm32::*;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use super::Vector;

/// A vector of WebAssembly.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Wasm(v128);

/// Loads sixteen bytes by one instruction. A vector that is built from its lanes may be loaded in parts.
#[inline(always)]
fn load<T: Copy, const N: usize>(lanes: &[T; N]) -> Wasm {
    const { assert!(size_of::<[T; N]>() == size_of::<v128>()) };
    // SAFETY: the reference is to as many bytes as a vector has, all initialized as the lanes are numbers, which have no
    // padding; the instruction requires no alignment.
    Wasm(unsafe { v128_load(lanes.as_ptr().cast()) })
}

impl Default for Wasm {
    #[inline(always)]
    fn default() -> Self {
        Self::splat_u32(0)
    }
}

impl BitAnd for Wasm {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Wasm(v128_and(self.0, other.0))
    }
}

impl BitOr for Wasm {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Wasm(v128_or(self.0, other.0))
    }
}

impl BitXor for Wasm {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Wasm(v128_xor(self.0, other.0))
    }
}

impl Not for Wasm {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Wasm(v128_not(self.0))
    }
}

impl Vector for Wasm {
    #[inline(always)]
    fn of_u8(lanes: &[u8; 16]) -> Self {
        load(lanes)
    }

    #[inline(always)]
    fn of_u16(lanes: &[u16; 8]) -> Self {
        load(lanes)
    }

    #[inline(always)]
    fn of_u32(lanes: &[u32; 4]) -> Self {
        load(lanes)
    }

    #[inline(always)]
    fn of_u64(lanes: &[u64; 2]) -> Self {
        load(lanes)
    }

    #[inline(always)]
    fn of_f32(lanes: &[f32; 4]) -> Self {
        load(lanes)
    }

    #[inline(always)]
    fn to_u32(self) -> [u32; 4] {
        [
            u32x4_extract_lane::<0>(self.0),
            u32x4_extract_lane::<1>(self.0),
            u32x4_extract_lane::<2>(self.0),
            u32x4_extract_lane::<3>(self.0),
        ]
    }

    #[inline(always)]
    fn to_u64(self) -> [u64; 2] {
        [u64x2_extract_lane::<0>(self.0), u64x2_extract_lane::<1>(self.0)]
    }

    #[inline(always)]
    fn splat_u8(lane: u8) -> Self {
        Wasm(u8x16_splat(lane))
    }

    #[inline(always)]
    fn splat_u32(lane: u32) -> Self {
        Wasm(u32x4_splat(lane))
    }

    #[inline(always)]
    fn splat_f32(lane: f32) -> Self {
        Wasm(f32x4_splat(lane))
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        !v128_any_true(self.0)
    }

    #[inline(always)]
    fn add_u16(self, other: Self) -> Self {
        Wasm(u16x8_add(self.0, other.0))
    }

    #[inline(always)]
    fn sub_u8(self, other: Self) -> Self {
        Wasm(u8x16_sub(self.0, other.0))
    }

    #[inline(always)]
    fn sub_u32(self, other: Self) -> Self {
        Wasm(u32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    fn add_f32(self, other: Self) -> Self {
        Wasm(f32x4_add(self.0, other.0))
    }

    #[inline(always)]
    fn sub_f32(self, other: Self) -> Self {
        Wasm(f32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    fn mul_f32(self, other: Self) -> Self {
        Wasm(f32x4_mul(self.0, other.0))
    }

    #[inline(always)]
    fn eq_u8(self, other: Self) -> Self {
        Wasm(u8x16_eq(self.0, other.0))
    }

    #[inline(always)]
    fn eq_u32(self, other: Self) -> Self {
        Wasm(u32x4_eq(self.0, other.0))
    }

    #[inline(always)]
    fn le_u32(self, other: Self) -> Self {
        Wasm(u32x4_le(self.0, other.0))
    }

    #[inline(always)]
    fn shr_u8(self, bits: u32) -> Self {
        Wasm(u8x16_shr(self.0, bits))
    }

    #[inline(always)]
    fn shr_u32(self, bits: u32) -> Self {
        Wasm(u32x4_shr(self.0, bits))
    }

    #[inline(always)]
    fn shl_u32(self, bits: u32) -> Self {
        Wasm(u32x4_shl(self.0, bits))
    }

    #[inline(always)]
    fn signs_u8(self) -> u16 {
        u8x16_bitmask(self.0)
    }

    #[inline(always)]
    fn signs_u32(self) -> u8 {
        u32x4_bitmask(self.0)
    }

    #[inline(always)]
    fn signs_u16(self, other: Self) -> u16 {
        // Narrowing keeps the sign.
        i8x16_bitmask(i8x16_narrow_i16x8(self.0, other.0))
    }

    #[inline(always)]
    fn swizzle(self, places: Self) -> Self {
        Wasm(u8x16_swizzle(self.0, places.0))
    }

    #[inline(always)]
    fn shuffle_u32<const A: usize, const B: usize, const C: usize, const D: usize>(self, other: Self) -> Self {
        Wasm(u32x4_shuffle::<A, B, C, D>(self.0, other.0))
    }
}
