//! Passing a leaf list: which of its entries an event is not kept from, and which of these it makes true.
//!
//! No branch depends on the event: what passes is foreseen for none of the thousands of entries that a search comes upon.
//! In the sandbox four of them are tested at once, by vectors.

use super::Entry;
use crate::event::probe::Probe;
use crate::expression::store::ProgramId;
use crate::subscriptions::Slot;

/// Marks the slot of an entry that is proven but for exceptions, of which the event may have one. The bit is free: of 4 GiB
/// a subscription takes more than four bytes.
pub(crate) const IN_DOUBT: Slot = 1 << 31;

/// How many entries passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Those whose slots were noted.
    pub proven: usize,
    /// Those whose programs were noted.
    pub to_run: usize,
}

/// Notes what the event with these probes is not kept from: the slots of the entries that prove themselves, and the programs
/// of the others. Both lists have room for all of the entries: each is written, and written over where it did not pass.
#[cfg(target_arch = "wasm32")]
#[inline(always)]
pub(crate) fn scan(entries: &[Entry], probes: &[Probe], slots: &mut [Slot], programs: &mut [ProgramId]) -> Passed {
    let mut passed = Passed::default();
    let (fours, rest) = entries.as_chunks();
    for four in fours {
        let [proven, to_run] = vectors::test(four, probes);
        slots[passed.proven..][..4].copy_from_slice(&proven.subjects);
        programs[passed.to_run..][..4].copy_from_slice(&to_run.subjects);
        passed.proven += proven.count;
        passed.to_run += to_run.count;
    }
    one_by_one(rest, probes, slots, programs, passed)
}

/// The same without vectors.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn scan(entries: &[Entry], probes: &[Probe], slots: &mut [Slot], programs: &mut [ProgramId]) -> Passed {
    one_by_one(entries, probes, slots, programs, Passed::default())
}

#[inline(always)]
fn one_by_one(
    entries: &[Entry],
    probes: &[Probe],
    slots: &mut [Slot],
    programs: &mut [ProgramId],
    mut passed: Passed,
) -> Passed {
    for entry in entries {
        let tested = entry.filter.test(probes);
        let proves = entry.filter.proves();
        slots[passed.proven] = entry.subject | if tested.is_in_doubt { IN_DOUBT } else { 0 };
        programs[passed.to_run] = entry.subject;
        passed.proven += usize::from(tested.passes & proves);
        passed.to_run += usize::from(tested.passes & !proves);
    }
    passed
}

#[cfg(target_arch = "wasm32")]
mod vectors {
    use core::arch::wasm32::*;

    use super::super::filter;
    use super::{Entry, Probe, IN_DOUBT};
    use crate::simd::load_words;

    /// Some of four subjects.
    pub struct Picked {
        /// These first, then anything.
        pub subjects: [u32; 4],
        pub count: usize,
    }

    /// Those of four entries that pass and prove themselves, and those that pass and do not.
    #[inline(always)]
    pub fn test(entries: &[Entry; 4], probes: &[Probe]) -> [Picked; 2] {
        let [subjects, marks, low, span] = columns(entries.each_ref().map(|entry| row(entry.words())));
        let probed = entries.each_ref().map(|entry| load_words(entry.filter.probe(probes).words()));
        let [mask_low, mask_high, value, defined] = columns(probed);
        // As for a single filter, but that all ones stand for true.
        let in_range = u32x4_le(u32x4_sub(value, low), span);
        let shared = v128_or(v128_and(mask_low, low), v128_and(mask_high, span));
        let in_mask = u32x4_ne(shared, u32x4_splat(0));
        let is_mask = is_marked(marks, filter::MASK);
        let proves = is_marked(marks, filter::PROVES);
        let is_except = v128_and(is_mask, proves);
        let meets = v128_bitselect(in_mask, in_range, is_mask);
        let passes = v128_or(meets, v128_and(is_except, defined));
        let in_doubt = v128_and(v128_and(meets, is_except), u32x4_splat(IN_DOUBT));
        let slots = v128_or(subjects, in_doubt);
        [pick(slots, v128_and(passes, proves)), pick(subjects, v128_andnot(passes, proves))]
    }

    /// An entry is no array, and read whole all the same.
    #[inline(always)]
    fn row([first, second, third, fourth]: [u32; 4]) -> v128 {
        u32x4(first, second, third, fourth)
    }

    /// Four rows as four columns.
    #[inline(always)]
    fn columns(rows: [v128; 4]) -> [v128; 4] {
        let [a, b, c, d] = rows;
        let [ab_front, cd_front] = [u32x4_shuffle::<0, 4, 1, 5>(a, b), u32x4_shuffle::<0, 4, 1, 5>(c, d)];
        let [ab_back, cd_back] = [u32x4_shuffle::<2, 6, 3, 7>(a, b), u32x4_shuffle::<2, 6, 3, 7>(c, d)];
        [
            u32x4_shuffle::<0, 1, 4, 5>(ab_front, cd_front),
            u32x4_shuffle::<2, 3, 6, 7>(ab_front, cd_front),
            u32x4_shuffle::<0, 1, 4, 5>(ab_back, cd_back),
            u32x4_shuffle::<2, 3, 6, 7>(ab_back, cd_back),
        ]
    }

    /// All ones where a word has the bit `mark`.
    #[inline(always)]
    fn is_marked(words: v128, mark: u32) -> v128 {
        i32x4_shr(u32x4_shl(words, mark.leading_zeros()), 31)
    }

    /// For each set of four lanes the numbers of its lanes' bytes, a word for each lane; the rest is of no use.
    const LANES: [[u32; 4]; 16] = {
        let mut lanes = [[0; 4]; 16];
        let mut set = 0;
        while set < 16 {
            let (mut lane, mut to) = (0, 0);
            while lane < 4 {
                lanes[set][to] = 0x0302_0100 + 0x0404_0404 * lane;
                to += set >> lane & 1;
                lane += 1;
            }
            set += 1;
        }
        lanes
    };

    #[inline(always)]
    fn pick(subjects: v128, which: v128) -> Picked {
        let set = u32x4_bitmask(which);
        let [first, second, third, fourth] = LANES[usize::from(set % 16)];
        let picked = u8x16_swizzle(subjects, u32x4(first, second, third, fourth));
        let subjects = [
            u32x4_extract_lane::<0>(picked),
            u32x4_extract_lane::<1>(picked),
            u32x4_extract_lane::<2>(picked),
            u32x4_extract_lane::<3>(picked),
        ];
        Picked { subjects, count: set.count_ones() as usize }
    }
}
