//! A merge sort in steps, each of which can be interrupted and repeated. It sorts runs and merges them from one list into
//! another. Only a finished pass exchanges the lists.
//!
//! The first ids may ascend already. Then only the others are sorted, and joined with the first.

use crate::error::Error;
use crate::support::checkpoint::Checkpoint;
use crate::support::headroom::grow;

/// The number of ids in an initial run, and the number that a step moves.
const RUN: usize = 1024;

/// A merge sort of a list of ids with a spare list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sort {
    spare: Vec<u64>,
    checkpoint: Checkpoint<Progress>,
}

/// The progress of a sort.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    pass: Pass,
    len: usize,
    /// The number of ids that ascend already.
    ascending: usize,
    /// The length of sorted runs in the source list.
    width: usize,
    /// The spare list is the source.
    from_spare: bool,
    /// The start of the current run, of the current pair of runs, or of the ids to join or to move back.
    start: usize,
    /// The number of ids already merged from the left run and from the right run.
    left: usize,
    right: usize,
    /// The end of the ids to move back.
    end: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pass {
    /// Sorts runs, into the spare list.
    Runs,
    /// Merges pairs of runs, from one list into the other.
    Merge,
    /// Merges the ascending first part with the sorted rest, into the spare list.
    Join,
    /// Moves the joined ids back.
    Back,
    #[default]
    Done,
}

impl Sort {
    /// Makes room for `ids` ids.
    pub fn reserve(&mut self, ids: usize) -> Result<(), Error> {
        grow(&mut self.spare, ids)
    }

    pub fn has_room(&self, ids: usize) -> bool {
        ids <= self.spare.len()
    }

    /// Starts to sort `len` ids. The first `ascending` of them are sorted already.
    pub fn start(&mut self, ascending: usize, len: usize) {
        let pass = if ascending < len { Pass::Runs } else { Pass::Done };
        self.checkpoint.commit(Progress { pass, len, ascending, start: ascending, ..Progress::default() });
    }

    /// Runs one step of the sort. Returns whether `ids` are sorted.
    pub fn step(&mut self, ids: &mut [u64]) -> bool {
        let mut progress = self.checkpoint.load();
        let spare = &mut self.spare[..progress.len];
        match progress.pass {
            Pass::Runs => progress.sort_run(ids, spare),
            Pass::Merge if progress.from_spare => progress.merge_pair(spare, ids),
            Pass::Merge => progress.merge_pair(ids, spare),
            Pass::Join => progress.join(ids, spare),
            Pass::Back => progress.move_back(ids, spare),
            Pass::Done => {}
        }
        self.checkpoint.commit(progress);
        progress.pass == Pass::Done
    }
}

impl Progress {
    fn sort_run(&mut self, ids: &[u64], spare: &mut [u64]) {
        let end = (self.start + RUN).min(self.len);
        let run = &mut spare[self.start..end];
        run.copy_from_slice(&ids[self.start..end]);
        run.sort_unstable();
        self.start = end;
        if end == self.len {
            self.end_pass(RUN);
        }
    }

    /// Selects the next pass. The runs now have `width` ids, and are in the other list.
    fn end_pass(&mut self, width: usize) {
        let from_spare = !self.from_spare;
        let pass = match () {
            () if from_spare || width < self.len - self.ascending => Pass::Merge,
            () if self.ascending > 0 => Pass::Join,
            () => Pass::Done,
        };
        *self = Progress { pass, width, from_spare, start: self.ascending, left: 0, right: 0, ..*self };
    }

    /// Moves ids of the present pair of runs. The last run may have no partner, and a list of one run is only moved back.
    fn merge_pair(&mut self, from: &[u64], to: &mut [u64]) {
        let middle = (self.start + self.width).min(self.len);
        let end = (self.start + 2 * self.width).min(self.len);
        let (left, right) = (&from[self.start..middle], &from[middle..end]);
        self.merge(left, right, &mut to[self.start..end]);
        if self.left + self.right == end - self.start {
            (self.start, self.left, self.right) = (end, 0, 0);
            if end == self.len {
                self.end_pass(2 * self.width);
            }
        }
    }

    /// Joins the two parts of the list. Ids of the first part below the second part, and ids of the second part above the first
    /// part, are already in place.
    fn join(&mut self, ids: &[u64], spare: &mut [u64]) {
        let (first, second) = ids[..self.len].split_at(self.ascending);
        if (self.left, self.right) == (0, 0) {
            self.start = first.partition_point(|id| *id < second[0]);
        }
        let first = &first[self.start..];
        if !first.is_empty() {
            self.merge(first, second, &mut spare[self.start..]);
        }
        if self.left == first.len() {
            self.end = self.start + self.left + self.right;
            self.pass = if self.end == self.start { Pass::Done } else { Pass::Back };
        }
    }

    fn move_back(&mut self, ids: &mut [u64], spare: &[u64]) {
        let end = (self.start + RUN).min(self.end);
        ids[self.start..end].copy_from_slice(&spare[self.start..end]);
        self.start = end;
        if end == self.end {
            self.pass = Pass::Done;
        }
    }

    /// Merges about [`RUN`] more ids of two lists into `to`.
    fn merge(&mut self, left: &[u64], right: &[u64], to: &mut [u64]) {
        let Progress { left: mut l, right: mut r, .. } = *self;
        let end = l + r + RUN;
        while l + r < end {
            match (left.get(l), right.get(r)) {
                (Some(&a), Some(&b)) if b < a => {
                    to[l + r] = b;
                    r += 1;
                }
                (Some(&a), Some(_)) => {
                    to[l + r] = a;
                    l += 1;
                }
                (Some(_), None) => {
                    let moved = (end - r).min(left.len());
                    to[l + r..moved + r].copy_from_slice(&left[l..moved]);
                    l = moved;
                }
                (None, Some(_)) => {
                    let moved = (end - l).min(right.len());
                    to[l + r..l + moved].copy_from_slice(&right[r..moved]);
                    r = moved;
                }
                (None, None) => break,
            }
        }
        (self.left, self.right) = (l, r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    /// Sorts `ids`, and does each step twice. The first `ascending` ids are sorted already.
    fn sort_twice(ids: &[u64], ascending: usize) -> Vec<u64> {
        let mut ids = ids.to_vec();
        let mut sort = Sort::default();
        sort.reserve(ids.len()).unwrap();
        sort.start(ascending, ids.len());
        loop {
            // An interrupted step leaves values that its repetition overwrites.
            let mut cut_off = sort.clone();
            let done_before = cut_off.step(&mut ids);
            sort.spare.copy_from_slice(&cut_off.spare);
            if sort.step(&mut ids) {
                assert!(done_before && sort.step(&mut ids));
                return ids;
            }
        }
    }

    #[test]
    fn any_number_of_ids_is_sorted_even_when_every_step_is_done_twice() {
        let random = &mut Random::new(1);
        for len in [0, 1, 2, RUN - 1, RUN, RUN + 1, 5 * RUN + 7, 8 * RUN] {
            let ids: Vec<u64> = (0..len).map(|_| random.next() >> 20).collect();
            let mut expected = ids.clone();
            expected.sort_unstable();
            assert_eq!(sort_twice(&ids, 0), expected);
        }
    }

    #[test]
    fn ids_that_ascend_are_joined_with_the_others() {
        let random = &mut Random::new(2);
        for first in [0, 1, 2, 500, RUN, 5 * RUN + 7] {
            for second in [0, 1, 3, 40, RUN, 3 * RUN] {
                // The second part is below, above, or among the first.
                for (low, range) in [(0, 1 << 10), (1 << 41, 1 << 40), (0, 1 << 42), (1 << 30, 1 << 31)] {
                    let mut ids: Vec<u64> = (0..first).map(|_| 2048 + random.next() % (1 << 40)).collect();
                    ids.sort_unstable();
                    ids.extend((0..second).map(|_| low + random.next() % range));
                    let mut expected = ids.clone();
                    expected.sort_unstable();
                    assert_eq!(sort_twice(&ids, first), expected, "{first} {second} {low}");
                }
            }
        }
    }
}
