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

operators! { Wasm:
    BitAnd bitand = v128_and;
    BitOr bitor = v128_or;
    BitXor bitxor = v128_xor;
}

impl Not for Wasm {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Wasm(v128_not(self.0))
    }
}

impl Vector for Wasm {
    loads! {
        of_u8: [u8; 16];
        of_u16: [u16; 8];
        of_u32: [u32; 4];
        of_u64: [u64; 2];
        of_f32: [f32; 4];
    }

    lane_by_lane! { Wasm:
        add_u16 = u16x8_add;
        sub_u8 = u8x16_sub;
        sub_u32 = u32x4_sub;
        add_f32 = f32x4_add;
        sub_f32 = f32x4_sub;
        mul_f32 = f32x4_mul;
        eq_u8 = u8x16_eq;
        eq_u32 = u32x4_eq;
        le_u32 = u32x4_le;
        swizzle = u8x16_swizzle;
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
    fn shuffle_u32<const A: usize, const B: usize, const C: usize, const D: usize>(self, other: Self) -> Self {
        Wasm(u32x4_shuffle::<A, B, C, D>(self.0, other.0))
    }
}
