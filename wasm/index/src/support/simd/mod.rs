//! Vectors of sixteen bytes. A routine over vectors is generic, so it is written once. It runs with the vector instructions
//! of the sandbox or of x86-64, or with plain loops, and tests compare them. The plain loops also run in the portable guest,
//! which is built without `simd128`.

/// Implements operators of a vector by functions of two registers.
macro_rules! operators {
    ($vector:ident: $($operator:ident $method:ident = $of:expr;)*) => { $(
        impl $operator for $vector {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                $vector($of(self.0, other.0))
            }
        }
    )* };
}

/// Defines methods of a vector by functions of two registers.
macro_rules! lane_by_lane {
    ($vector:ident: $($method:ident = $of:expr;)*) => { $(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            $vector($of(self.0, other.0))
        }
    )* };
}

/// Defines methods that load the lanes of a vector by the function `load`.
#[cfg(any(target_feature = "simd128", target_arch = "x86_64"))]
macro_rules! loads {
    ($($method:ident: $lanes:ty;)*) => { $(
        #[inline(always)]
        fn $method(lanes: &$lanes) -> Self {
            load(lanes)
        }
    )* };
}

#[cfg(any(not(target_feature = "simd128"), test))]
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_feature = "simd128")]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::{BitAnd, BitOr, BitXor, Not};

#[cfg(any(target_arch = "x86_64", test))]
pub(crate) use portable::Portable;
#[cfg(not(any(target_feature = "simd128", target_arch = "x86_64")))]
pub(crate) use portable::Portable as Fastest;
#[cfg(target_feature = "simd128")]
pub(crate) use wasm::Wasm as Fastest;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::X86 as Fastest;

/// The bytes of a vector.
pub(crate) const BYTES: usize = 16;

/// A vector: sixteen bytes, or lanes of two, four or eight bytes each, the first lane in the first bytes.
///
/// A name ends with the type of the lanes. The sign of a lane is its highest bit.
///
/// The default is all zeros.
pub(crate) trait Vector:
    Copy + Default + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    fn of_u8(lanes: &[u8; 16]) -> Self;
    fn of_u16(lanes: &[u16; 8]) -> Self;
    fn of_u32(lanes: &[u32; 4]) -> Self;
    fn of_u64(lanes: &[u64; 2]) -> Self;
    fn of_f32(lanes: &[f32; 4]) -> Self;
    fn to_u32(self) -> [u32; 4];
    fn to_u64(self) -> [u64; 2];

    /// Returns a vector with `lane` in each lane.
    fn splat_u8(lane: u8) -> Self;
    fn splat_u32(lane: u32) -> Self;
    fn splat_f32(lane: f32) -> Self;

    /// Returns whether all bits are zero.
    fn is_zero(self) -> bool;

    /// Adds or subtracts lane by lane. The results wrap.
    fn add_u16(self, other: Self) -> Self;
    fn sub_u8(self, other: Self) -> Self;
    fn sub_u32(self, other: Self) -> Self;

    /// Computes lane by lane. The bits of a NaN differ among processors.
    fn add_f32(self, other: Self) -> Self;
    fn sub_f32(self, other: Self) -> Self;
    fn mul_f32(self, other: Self) -> Self;

    /// Compares lane by lane. All bits of a lane are ones where the comparison holds, and zeros elsewhere.
    fn eq_u8(self, other: Self) -> Self;
    fn eq_u32(self, other: Self) -> Self;
    fn le_u32(self, other: Self) -> Self;

    /// Shifts each lane by `bits`, fewer than its width, and fills with zeros.
    fn shr_u8(self, bits: u32) -> Self;
    fn shr_u32(self, bits: u32) -> Self;
    fn shl_u32(self, bits: u32) -> Self;

    /// Returns the signs of all lanes, the first in the lowest bit.
    fn signs_u8(self) -> u16;
    fn signs_u32(self) -> u8;
    /// Returns the signs of the lanes of `self` and then those of `other`.
    fn signs_u16(self, other: Self) -> u16;

    /// Returns for each byte of `places` the byte of `self` at that place, or zero if there is none.
    fn swizzle(self, places: Self) -> Self;

    /// Returns the lanes `A` to `D` of the eight lanes of `self` and `other`.
    fn shuffle_u32<const A: usize, const B: usize, const C: usize, const D: usize>(self, other: Self) -> Self;
}
