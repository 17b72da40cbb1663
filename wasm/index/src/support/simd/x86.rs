//! Vectors of x86-64, whose processors all have SSE2, and nearly all SSSE3.

use core::arch::asm;
use core::arch::x86_64::*;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use super::{Portable, Vector};

/// A vector of x86-64.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct X86(__m128i);

#[inline(always)]
fn load<T: Copy, const N: usize>(lanes: &[T; N]) -> X86 {
    const { assert!(size_of::<[T; N]>() == size_of::<__m128i>()) };
    // SAFETY: the reference is to as many bytes as a vector has, all initialized, as numbers have no padding; the
    // instruction requires no alignment.
    X86(unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) })
}

/// Calls instructions of SSE2, none of which takes a pointer.
macro_rules! sse2 {
    ($instructions:expr) => {
        // SAFETY: every processor of x86-64 has SSE2, and instructions without a pointer have no other requirement.
        unsafe { $instructions }
    };
}

/// Computes with the lanes of two vectors as floats.
macro_rules! floats {
    ($instruction:ident, $one:expr, $other:expr) => {
        sse2!(_mm_castps_si128($instruction(_mm_castsi128_ps($one), _mm_castsi128_ps($other))))
    };
}

/// Looks up bytes by one instruction. A place of 128 or more gives zero, and only the lowest four bits of others count.
///
/// The intrinsic would be a call, as the caller is compiled for any processor.
///
/// # Safety
///
/// The processor must have SSSE3.
#[inline(always)]
unsafe fn look_up(mut bytes: __m128i, places: __m128i) -> __m128i {
    // SAFETY: the instruction reads and writes the two registers; the processor has it by the caller's promise.
    unsafe {
        asm!("pshufb {0}, {1}", inout(xmm_reg) bytes, in(xmm_reg) places, options(pure, nomem, nostack, preserves_flags))
    };
    bytes
}

impl Default for X86 {
    #[inline(always)]
    fn default() -> Self {
        X86(sse2!(_mm_setzero_si128()))
    }
}

operators! { X86:
    BitAnd bitand = |a, b| sse2!(_mm_and_si128(a, b));
    BitOr bitor = |a, b| sse2!(_mm_or_si128(a, b));
    BitXor bitxor = |a, b| sse2!(_mm_xor_si128(a, b));
}

impl Not for X86 {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        self ^ X86(sse2!(_mm_set1_epi8(-1)))
    }
}

impl Vector for X86 {
    loads! {
        of_u8: [u8; 16];
        of_u16: [u16; 8];
        of_u32: [u32; 4];
        of_u64: [u64; 2];
        of_f32: [f32; 4];
    }

    lane_by_lane! { X86:
        add_u16 = |a, b| sse2!(_mm_add_epi16(a, b));
        sub_u8 = |a, b| sse2!(_mm_sub_epi8(a, b));
        sub_u32 = |a, b| sse2!(_mm_sub_epi32(a, b));
        add_f32 = |a, b| floats!(_mm_add_ps, a, b);
        sub_f32 = |a, b| floats!(_mm_sub_ps, a, b);
        mul_f32 = |a, b| floats!(_mm_mul_ps, a, b);
        eq_u8 = |a, b| sse2!(_mm_cmpeq_epi8(a, b));
        eq_u32 = |a, b| sse2!(_mm_cmpeq_epi32(a, b));
    }
    #[inline(always)]
    fn to_u32(self) -> [u32; 4] {
        let [low, high] = self.to_u64();
        [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
    }

    #[inline(always)]
    fn to_u64(self) -> [u64; 2] {
        [self.0, sse2!(_mm_unpackhi_epi64(self.0, self.0))].map(|half| sse2!(_mm_cvtsi128_si64(half)) as u64)
    }

    #[inline(always)]
    fn splat_u8(lane: u8) -> Self {
        X86(sse2!(_mm_set1_epi8(lane as i8)))
    }

    #[inline(always)]
    fn splat_u32(lane: u32) -> Self {
        X86(sse2!(_mm_set1_epi32(lane as i32)))
    }

    #[inline(always)]
    fn splat_f32(lane: f32) -> Self {
        Self::splat_u32(lane.to_bits())
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.eq_u8(Self::default()).signs_u8() == u16::MAX
    }

    #[inline(always)]
    fn le_u32(self, other: Self) -> Self {
        // The instruction compares signed integers. Flipped sign bits make the comparison unsigned.
        let [one, other] = [self, other].map(|vector| vector ^ Self::splat_u32(1 << 31));
        !X86(sse2!(_mm_cmpgt_epi32(one.0, other.0)))
    }

    #[inline(always)]
    fn shr_u8(self, bits: u32) -> Self {
        // SSE2 has no shift of bytes. The mask clears the bits that come from the neighboring byte.
        X86(sse2!(_mm_srl_epi16(self.0, _mm_cvtsi32_si128(bits as i32)))) & Self::splat_u8(u8::MAX >> bits)
    }

    #[inline(always)]
    fn shr_u32(self, bits: u32) -> Self {
        X86(sse2!(_mm_srl_epi32(self.0, _mm_cvtsi32_si128(bits as i32))))
    }

    #[inline(always)]
    fn shl_u32(self, bits: u32) -> Self {
        X86(sse2!(_mm_sll_epi32(self.0, _mm_cvtsi32_si128(bits as i32))))
    }

    #[inline(always)]
    fn signs_u8(self) -> u16 {
        sse2!(_mm_movemask_epi8(self.0)) as u16
    }

    #[inline(always)]
    fn signs_u32(self) -> u8 {
        sse2!(_mm_movemask_ps(_mm_castsi128_ps(self.0))) as u8
    }

    #[inline(always)]
    fn signs_u16(self, other: Self) -> u16 {
        // Packing keeps the sign.
        X86(sse2!(_mm_packs_epi16(self.0, other.0))).signs_u8()
    }

    #[inline(always)]
    fn swizzle(self, places: Self) -> Self {
        if is_x86_feature_detected!("ssse3") {
            // The saturating addition turns places of 16 and more into 128 and more.
            let places = sse2!(_mm_adds_epu8(places.0, _mm_set1_epi8(0x70)));
            // SAFETY: the processor has SSSE3, which was tested just now.
            return X86(unsafe { look_up(self.0, places) });
        }
        let [bytes, places] = [self, places].map(|vector| Portable::of_u64(&vector.to_u64()));
        Self::of_u64(&bytes.swizzle(places).to_u64())
    }

    #[inline(always)]
    fn shuffle_u32<const A: usize, const B: usize, const C: usize, const D: usize>(self, other: Self) -> Self {
        let lanes = [self.to_u32(), other.to_u32()];
        let [a, b, c, d] = [A, B, C, D].map(|lane| lanes[lane / 4][lane % 4] as i32);
        X86(sse2!(_mm_setr_epi32(a, b, c, d)))
    }
}
