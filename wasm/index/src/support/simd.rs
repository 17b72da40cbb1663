//! Vector instructions, which need `unsafe`: reading sixteen bits of an event at once, collecting signs, and loading four
//! words.

/// The number of bytes of the event's bits that one instruction reads from.
pub(crate) const PAGE: usize = 16;

/// A part of an event's bits.
pub(crate) type Page = [u8; PAGE];

/// The bits of an event that form a word: the byte of each bit, and its mask in that byte. If a mask is zero, the bit of the
/// word is one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Selection {
    pub bytes: [u8; PAGE],
    pub masks: [u8; PAGE],
}

impl Selection {
    pub const NONE: Selection = Selection { bytes: [0; PAGE], masks: [0; PAGE] };
}

/// Reads the words of all selections from the event's bits.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(crate) fn gather<const PAGES: usize, const N: usize>(
    pages: &[Page; PAGES],
    selections: &[[Selection; 4]; N],
) -> [[u16; 4]; N] {
    // Four at a time, so that the loop's own cost is small.
    selections.each_ref().map(|four| four.each_ref().map(|selection| wasm::gather(pages, selection)))
}

/// Reads the words of all selections from the event's bits.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub(crate) fn gather<const PAGES: usize, const N: usize>(
    pages: &[Page; PAGES],
    selections: &[[Selection; 4]; N],
) -> [[u16; 4]; N] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("ssse3") {
        // SAFETY: the processor has SSSE3, which was tested just now.
        return unsafe { x86::gather(pages, selections) };
    }
    portable::gather(pages, selections)
}

/// The bits of an event of up to 255 bits that form a word, or [`NO_COLUMN`] for a bit that is zero.
pub(crate) type Picked = [u8; PAGE];

/// The bit that is zero in every event.
pub(crate) const NO_COLUMN: u8 = u8::MAX;

/// Reads a word of 64 bits from the event's bits. [`Picked`] takes half the memory of a [`Selection`], and some more
/// instructions.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(crate) fn pick<const PAGES: usize>(pages: &[Page; PAGES], picked: &[Picked; 4]) -> [u16; 4] {
    picked.each_ref().map(|picked| wasm::pick(pages, picked))
}

/// Reads a word of 64 bits from the event's bits.
#[cfg(not(target_arch = "wasm32"))]
#[inline(always)]
pub(crate) fn pick<const PAGES: usize>(pages: &[Page; PAGES], picked: &[Picked; 4]) -> [u16; 4] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("ssse3") {
        // SAFETY: the processor has SSSE3, which was tested just now.
        return unsafe { x86::pick(pages, picked) };
    }
    portable::pick(pages, picked)
}

/// The mask of each column in its byte, from the column's lowest three bits.
const PLACES: Page = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

/// Returns the highest bits of sixteen words.
#[cfg(target_arch = "wasm32")]
pub(crate) fn signs(words: &[u16; 16]) -> u16 {
    wasm::signs(words)
}

/// Returns the highest bits of sixteen words.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn signs(words: &[u16; 16]) -> u16 {
    words.iter().enumerate().fold(0, |signs, (i, word)| signs | (word >> 15) << i)
}

#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::load_words;

#[cfg(target_arch = "wasm32")]
mod wasm {
    use core::arch::wasm32::*;

    use super::{Page, Picked, Selection, PAGE, PLACES};

    #[inline(always)]
    pub fn gather<const PAGES: usize>(pages: &[Page; PAGES], selection: &Selection) -> u16 {
        read(pages, load(&selection.bytes), load(&selection.masks))
    }

    #[inline(always)]
    pub fn pick<const PAGES: usize>(pages: &[Page; PAGES], picked: &Picked) -> u16 {
        let columns = load(picked);
        let masks = i8x16_swizzle(load(&PLACES), v128_and(columns, u8x16_splat(7)));
        read(pages, u8x16_shr(columns, 3), masks)
    }

    #[inline(always)]
    fn read<const PAGES: usize>(pages: &[Page; PAGES], bytes: v128, masks: v128) -> u16 {
        // A byte of another page reads as zero here.
        let mut found = i8x16_swizzle(load(&pages[0]), bytes);
        for page in 1..PAGES {
            let bytes = u8x16_sub(bytes, u8x16_splat((page * PAGE) as u8));
            found = v128_or(found, i8x16_swizzle(load(&pages[page]), bytes));
        }
        u8x16_bitmask(u8x16_eq(v128_and(found, masks), masks))
    }

    #[inline(always)]
    pub fn signs(words: &[u16; 16]) -> u16 {
        let [low, high] = [&words[..8], &words[8..]].map(|half| half.as_ptr());
        // SAFETY: each half is sixteen bytes; no alignment is required.
        let (low, high) = unsafe { (v128_load(low.cast()), v128_load(high.cast())) };
        // Narrowing keeps the sign.
        i8x16_bitmask(i8x16_narrow_i16x8(low, high))
    }

    /// Loads four words at once. A vector that is built from four words may be loaded in parts.
    #[inline(always)]
    pub fn load_words(words: &[u32; 4]) -> v128 {
        // SAFETY: these are sixteen bytes; no alignment is required.
        unsafe { v128_load(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load(bytes: &Page) -> v128 {
        // SAFETY: these are sixteen bytes; no alignment is required.
        unsafe { v128_load(bytes.as_ptr().cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{Page, Picked, Selection, PAGE, PLACES};

    #[target_feature(enable = "ssse3")]
    pub fn gather<const PAGES: usize, const N: usize>(
        pages: &[Page; PAGES],
        selections: &[[Selection; 4]; N],
    ) -> [[u16; 4]; N] {
        let mut words = [[0; 4]; N];
        for (words, selections) in words.iter_mut().zip(selections) {
            for (word, selection) in words.iter_mut().zip(selections) {
                *word = read(pages, load(&selection.bytes), load(&selection.masks));
            }
        }
        words
    }

    #[target_feature(enable = "ssse3")]
    pub fn pick<const PAGES: usize>(pages: &[Page; PAGES], picked: &[Picked; 4]) -> [u16; 4] {
        let mut words = [0; 4];
        for (word, picked) in words.iter_mut().zip(picked) {
            let columns = load(picked);
            let masks = _mm_shuffle_epi8(load(&PLACES), _mm_and_si128(columns, _mm_set1_epi8(7)));
            // There is no shift of bytes. The mask removes the bits of the neighbor.
            let bytes = _mm_and_si128(_mm_srli_epi16(columns, 3), _mm_set1_epi8(0x1f));
            *word = read(pages, bytes, masks);
        }
        words
    }

    #[target_feature(enable = "ssse3")]
    fn read<const PAGES: usize>(pages: &[Page; PAGES], bytes: __m128i, masks: __m128i) -> u16 {
        let mut found = _mm_setzero_si128();
        for (number, page) in pages.iter().enumerate() {
            let bytes = _mm_sub_epi8(bytes, _mm_set1_epi8((number * PAGE) as u8 as i8));
            // An index of 128 and more reads as zero. The addition makes the index of every byte of another page that large.
            let bytes = _mm_adds_epu8(bytes, _mm_set1_epi8(0x70));
            found = _mm_or_si128(found, _mm_shuffle_epi8(load(page), bytes));
        }
        let found = _mm_cmpeq_epi8(_mm_and_si128(found, masks), masks);
        _mm_movemask_epi8(found) as u16
    }

    #[target_feature(enable = "ssse3")]
    fn load(bytes: &Page) -> __m128i {
        // SAFETY: these are sixteen bytes; no alignment is required.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }
}

/// The same for processors without such instructions.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod portable {
    use super::{Page, Picked, Selection, PAGE, PLACES};

    pub fn gather<const PAGES: usize, const N: usize>(
        pages: &[Page; PAGES],
        selections: &[[Selection; 4]; N],
    ) -> [[u16; 4]; N] {
        selections.each_ref().map(|four| four.each_ref().map(|selection| read(pages, selection)))
    }

    pub fn pick<const PAGES: usize>(pages: &[Page; PAGES], picked: &[Picked; 4]) -> [u16; 4] {
        picked.each_ref().map(|picked| {
            let bytes = picked.map(|column| column / 8);
            let masks = picked.map(|column| PLACES[usize::from(column % 8)]);
            read(pages, &Selection { bytes, masks })
        })
    }

    fn read<const PAGES: usize>(pages: &[Page; PAGES], selection: &Selection) -> u16 {
        let mut word = 0;
        for (bit, (&byte, &mask)) in selection.bytes.iter().zip(&selection.masks).enumerate() {
            let page = usize::from(byte) / PAGE;
            let found = pages.get(page).map_or(0, |page| page[usize::from(byte) % PAGE]);
            word |= u16::from(found & mask == mask) << bit;
        }
        word
    }
}
