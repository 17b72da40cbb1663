//! The leaves of a window are read from the bits of an event, sixteen at a time: see README.md.

use std::array::from_fn;

use crate::support::simd::{Vector, BYTES};

/// A vector's bytes of an event's bits.
pub(super) type Page = [u8; BYTES];

/// The bits of an event that form a word: the byte of each bit, and its mask in that byte. If a mask is zero, the bit of the
/// word is one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(super) struct Selection {
    pub bytes: [u8; BYTES],
    pub masks: [u8; BYTES],
}

impl Selection {
    pub const NONE: Selection = Selection { bytes: [0; BYTES], masks: [0; BYTES] };
}

/// The bits of an event of up to 255 bits that form a word, or [`NO_COLUMN`] for a bit that is zero.
pub(super) type Picked = [u8; BYTES];

/// The bit that is zero in every event.
pub(super) const NO_COLUMN: u8 = u8::MAX;

/// The mask of each column in its byte, from the column's lowest three bits.
const MASKS: Page = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

/// Reads the words of all selections from the event's bits. Four in a row, so that a loop over them costs little.
#[inline(always)]
pub(super) fn gather<V: Vector, const PAGES: usize, const N: usize>(
    pages: &[V; PAGES],
    selections: &[[Selection; 4]; N],
) -> [[u16; 4]; N] {
    selections
        .each_ref()
        .map(|four| four.each_ref().map(|Selection { bytes, masks }| read(pages, V::of_u8(bytes), V::of_u8(masks))))
}

/// Reads a word of 64 bits from the event's bits. [`Picked`] takes half the memory of a [`Selection`], and some more
/// instructions.
#[inline(always)]
pub(super) fn pick<V: Vector, const PAGES: usize>(pages: &[V; PAGES], picked: &[Picked; 4]) -> [u16; 4] {
    picked.each_ref().map(|picked| {
        let columns = V::of_u8(picked);
        let masks = V::of_u8(&MASKS).swizzle(columns & V::splat_u8(7));
        read(pages, columns.shr_u8(3), masks)
    })
}

/// Returns the bits of a word: for each byte, whether its mask is set in the byte of the event at that place.
#[inline(always)]
fn read<V: Vector, const PAGES: usize>(pages: &[V; PAGES], bytes: V, masks: V) -> u16 {
    // A byte of another page reads as zero here.
    let mut found = pages[0].swizzle(bytes);
    for (number, page) in pages.iter().enumerate().skip(1) {
        found = found | page.swizzle(bytes.sub_u8(V::splat_u8((number * BYTES) as u8)));
    }
    (found & masks).eq_u8(masks).signs_u8()
}

/// Returns the vectors of an event's bits.
#[inline(always)]
pub(super) fn vectors<V: Vector, const PAGES: usize>(pages: &[Page; PAGES]) -> [V; PAGES] {
    from_fn(|page| V::of_u8(&pages[page]))
}
