//! The scan of a leaf list finds the entries that an event passes, and those that it proves.
//!
//! No branch depends on the event, because the results of thousands of entries are unpredictable. Vectors test four entries at
//! once. An entry joined to the next one is never listed: if it fails, it holds the next entry back (`Fronts`).

#[cfg(test)]
mod tests;

use crate::event::digest::Table;
use crate::handles::{ProgramId, Slot};
use crate::plan::filter;
use crate::support::simd::Vector;
use crate::tree::{Entry, Subject};

/// The slot of a sufficient entry that passed, with a mark if the event may fail the entry's demands: the program must run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Proven(u32);

/// The mark of an entry that the event may fail. Slots are below 2^30, because a subscription takes more than four
/// bytes of 4 GiB.
const MAY_FAIL: u32 = 1 << 31;

impl Proven {
    fn new(subject: Subject, may_fail: bool) -> Self {
        Proven(subject.word() | if may_fail { MAY_FAIL } else { 0 })
    }

    #[inline(always)]
    pub fn may_fail(self) -> bool {
        self.0 & MAY_FAIL != 0
    }

    #[inline(always)]
    pub fn slot(self) -> Slot {
        Slot::from_word(self.0 & !MAY_FAIL)
    }
}

/// The upper bound of the number of slots or programs in a list. It is a power of two, so one instruction masks a position,
/// and no branch checks for room.
pub(crate) const PLACES: usize = 1024;
/// The number of elements written at once. The next write overwrites the excess.
const AT_ONCE: usize = 4;

/// The length of a [`List`].
pub(crate) const LENGTH: usize = PLACES + AT_ONCE;

/// A list of slots or programs.
pub(crate) type List<T> = [T; LENGTH];

/// The number of entries that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The sufficient entries, whose slots are listed.
    pub proven: usize,
    /// The other entries, whose programs are listed.
    pub to_run: usize,
}

/// Lists the entries that the event with these digests passes, after those already `passed`. Sufficient entries are listed
/// by slot, others by program.
#[inline(always)]
pub(crate) fn scan<V: Vector>(
    entries: &[Entry],
    digests: &(impl Table + ?Sized),
    slots: &mut List<Proven>,
    programs: &mut List<ProgramId>,
    mut passed: Passed,
) -> Passed {
    let Some(last) = entries.last_chunk() else {
        return one_by_one(entries, digests, slots, programs, passed);
    };
    let mut list = |[proven, to_run]: [Picked<u32>; 2]| {
        passed.proven = write(proven.map(Proven), slots, passed.proven);
        passed.to_run = write(to_run.map(ProgramId::from_word), programs, passed.to_run);
    };
    let mut fronts = Fronts::default();
    let (fours, rest) = entries.as_chunks();
    for four in fours {
        list(test::<V>(four, digests, &mut fronts, !0));
    }
    // The remaining zero to three entries are tested as the end of the last four, because a loop over them would often end in a
    // branch misprediction. The first of the four never counts, so the entry before it does not matter.
    list(test::<V>(last, digests, &mut fronts, 0b1111_0000 >> rest.len()));
    passed
}

/// Writes the picked elements at the position `at` of a list. Returns the position after them.
#[inline(always)]
fn write<T: Copy>(picked: Picked<T>, list: &mut List<T>, at: usize) -> usize {
    list[at % PLACES..][..AT_ONCE].copy_from_slice(&picked.lanes);
    at + picked.count
}

/// Like [`scan`], one entry after the other, which is cheaper for fewer than four.
#[inline(always)]
fn one_by_one(
    entries: &[Entry],
    digests: &(impl Table + ?Sized),
    slots: &mut List<Proven>,
    programs: &mut List<ProgramId>,
    mut passed: Passed,
) -> Passed {
    let mut front = Front::default();
    for entry in entries {
        debug_assert!(passed.proven.max(passed.to_run) < PLACES, "as many as fit are passed");
        let tested = entry.filter.test(digests);
        let (proves, is_joined) = (entry.filter.is_sufficient(), entry.is_joined());
        let passes = tested.passes & !front.holds_back & !is_joined;
        let may_fail = tested.may_fail | front.may_fail;
        slots[passed.proven % PLACES] = Proven::new(entry.subject, may_fail);
        programs[passed.to_run % PLACES] = entry.subject.as_program();
        passed.proven += usize::from(passes & proves);
        passed.to_run += usize::from(passes & !proves);
        front = Front { holds_back: is_joined & !tested.passes, may_fail: is_joined & tested.may_fail };
    }
    passed
}

/// The effect of an entry on the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    holds_back: bool,
    may_fail: bool,
}

/// Returns the number of `entries` to scan, at most `room`. It never separates two joined entries.
#[inline]
pub(crate) fn fitting(entries: &[Entry], room: usize) -> usize {
    if entries.len() <= room {
        return entries.len();
    }
    match entries[..room].last() {
        Some(last) if last.is_joined() => room - 1,
        _ => room,
    }
}

/// Selected lanes out of four.
struct Picked<T> {
    /// The picked lanes first, then arbitrary ones.
    lanes: [T; AT_ONCE],
    count: usize,
}

impl Picked<u32> {
    #[inline(always)]
    fn map<T>(self, decode: impl Fn(u32) -> T) -> Picked<T> {
        Picked { lanes: self.lanes.map(decode), count: self.count }
    }
}

/// The effects of four entries on their successors. Only the sign of each lane counts.
#[derive(Clone, Copy, Default)]
struct Fronts<V> {
    hold_back: V,
    may_fail: V,
}

/// Returns the entries of four that pass: the sufficient ones, and the others. Entries without a bit in `counted` are
/// ignored. `fronts`: in, the results of the previous four entries; out, those of these four.
#[inline(always)]
fn test<V: Vector>(
    entries: &[Entry; 4],
    digests: &(impl Table + ?Sized),
    fronts: &mut Fronts<V>,
    counted: u8,
) -> [Picked<u32>; 2] {
    let [subjects, marks, low, span] = columns(entries.each_ref().map(|entry| V::of_u32(&entry.words())));
    let probed = entries.each_ref().map(|entry| V::of_u32(entry.filter.digest(digests).words()));
    let [mask_low, mask_high, value, defined] = columns(probed);
    // The same test as for a single filter, except that only the sign of a lane means true; its other bits are arbitrary. So
    // a mark only needs a shift into the sign.
    let marked = |mark: u32| marks.shl_u32(mark.leading_zeros());
    let none = V::splat_u32(0);
    let above = value.sub_u32(low);
    let in_range = above.le_u32(span);
    let at_end = above.eq_u32(none) | above.eq_u32(span);
    let beside_mask = (mask_low & low).eq_u32(none) | (mask_high & span).eq_u32(none);
    let (is_mask, is_except, proves) = (marked(filter::MASK), marked(filter::EXCEPT), marked(filter::SUFFICIENT));
    let meets = (is_mask & !beside_mask) | (in_range & !is_mask);
    let blurred_end = at_end & marked(filter::BLURRED);
    let is_neither = is_mask & marked(filter::BLURRED);
    let passes = (((meets | is_except) & defined) | (marked(filter::LAX) & !defined)) & !(is_mask & blurred_end);
    let may_fail = ((meets & is_except) | blurred_end) & !is_neither;
    let is_joined = marked(filter::JOINED);
    let these = Fronts { hold_back: is_joined & !passes, may_fail: is_joined & may_fail };
    let passes = passes & !(is_joined | behind(fronts.hold_back, these.hold_back));
    let may_fail = may_fail | behind(fronts.may_fail, these.may_fail);
    *fronts = these;
    let slots = subjects | (may_fail & V::splat_u32(MAY_FAIL));
    [pick(slots, passes & proves, counted), pick(subjects, passes & !proves, counted)]
}

/// Transposes four rows to four columns.
#[inline(always)]
fn columns<V: Vector>(rows: [V; 4]) -> [V; 4] {
    let [a, b, c, d] = rows;
    let [ab_front, cd_front] = [a.shuffle_u32::<0, 4, 1, 5>(b), c.shuffle_u32::<0, 4, 1, 5>(d)];
    let [ab_back, cd_back] = [a.shuffle_u32::<2, 6, 3, 7>(b), c.shuffle_u32::<2, 6, 3, 7>(d)];
    [
        ab_front.shuffle_u32::<0, 1, 4, 5>(cd_front),
        ab_front.shuffle_u32::<2, 3, 6, 7>(cd_front),
        ab_back.shuffle_u32::<0, 1, 4, 5>(cd_back),
        ab_back.shuffle_u32::<2, 3, 6, 7>(cd_back),
    ]
}

/// Returns for each of the four `lanes` the lane before it.
#[inline(always)]
fn behind<V: Vector>(before: V, lanes: V) -> V {
    before.shuffle_u32::<3, 4, 5, 6>(lanes)
}

/// For each subset of four lanes, the indices of its lanes' bytes, a word for each lane. The rest is unused.
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
fn pick<V: Vector>(subjects: V, which: V, counted: u8) -> Picked<u32> {
    let set = which.signs_u32() & counted;
    let picked = subjects.swizzle(V::of_u32(&LANES[usize::from(set % 16)]));
    Picked { lanes: picked.to_u32(), count: set.count_ones() as usize }
}
