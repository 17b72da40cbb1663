//! A merge sort in steps, each of which can be interrupted and repeated. It sorts runs and merges them from one list into
//! another. Only a finished pass exchanges the lists.

use crate::error::Error;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

/// The number of ids in a first run, and of those that a merging step moves.
const RUN: usize = 1024;

/// A merge sort of a list of ids with a spare list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sort {
    spare: Vec<u64>,
    checkpoint: [Progress; 2],
    current: usize,
}

/// The progress of a sort.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    len: usize,
    /// The length of sorted runs in the source list; 0 while the first runs are made.
    width: usize,
    /// The spare list is the source.
    from_spare: bool,
    /// The start of the pair of runs that is merged. `left` and `right` count the merged ids of each.
    pair: usize,
    left: usize,
    right: usize,
}

impl Sort {
    /// Makes room for `ids` ids.
    pub fn reserve(&mut self, ids: usize) -> Result<(), Error> {
        grow(&mut self.spare, ids)
    }

    pub fn has_room(&self, ids: usize) -> bool {
        ids <= self.spare.len()
    }

    /// Starts to sort `len` ids.
    pub fn start(&mut self, len: usize) {
        self.commit(Progress { len, ..Progress::default() });
    }

    /// Runs one step of the sort. Returns whether `ids` are sorted.
    pub fn step(&mut self, ids: &mut [u64]) -> bool {
        let mut progress = self.checkpoint[self.current & 1];
        let len = progress.len;
        if progress.width >= len && !progress.from_spare && (progress.width > 0 || len == 0) {
            return true;
        }
        let spare = &mut self.spare[..len];
        let (from, to): (&[u64], &mut [u64]) = if progress.from_spare { (spare, ids) } else { (ids, spare) };
        if progress.width == 0 {
            let end = (progress.pair + RUN).min(len);
            to[progress.pair..end].copy_from_slice(&from[progress.pair..end]);
            to[progress.pair..end].sort_unstable();
            progress.pair = end;
        } else {
            merge(from, to, &mut progress);
        }
        if progress.pair == len {
            let width = if progress.width == 0 { RUN } else { 2 * progress.width };
            progress = Progress { len, width, from_spare: !progress.from_spare, ..Progress::default() };
        }
        self.commit(progress);
        false
    }

    fn commit(&mut self, progress: Progress) {
        let other = (self.current & 1) ^ 1;
        self.checkpoint[other] = progress;
        in_order();
        self.current = other;
        in_order();
    }
}

/// Moves up to [`RUN`] ids of the present pair of runs.
fn merge(from: &[u64], to: &mut [u64], progress: &mut Progress) {
    let Progress { len, width, pair, .. } = *progress;
    let middle = (pair + width).min(len);
    let end = (pair + 2 * width).min(len);
    let (left, right) = (&from[pair..middle], &from[middle..end]);
    if right.is_empty() {
        // The last run has no partner: a list of one run is only moved back.
        let moved = (progress.left + RUN).min(left.len());
        to[pair + progress.left..pair + moved].copy_from_slice(&left[progress.left..moved]);
        *progress = if moved < left.len() {
            Progress { left: moved, ..*progress }
        } else {
            Progress { pair: end, left: 0, right: 0, ..*progress }
        };
        return;
    }
    for _ in 0..RUN {
        let place = pair + progress.left + progress.right;
        let next_left = left.get(progress.left);
        let next_right = right.get(progress.right);
        match (next_left, next_right) {
            (Some(&l), Some(&r)) if r < l => {
                to[place] = r;
                progress.right += 1;
            }
            (Some(&l), _) => {
                to[place] = l;
                progress.left += 1;
            }
            (None, Some(&r)) => {
                to[place] = r;
                progress.right += 1;
            }
            (None, None) => {
                progress.pair = end;
                progress.left = 0;
                progress.right = 0;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_ids_is_sorted_even_when_every_step_is_done_twice() {
        for len in [0, 1, 2, RUN - 1, RUN, RUN + 1, 5 * RUN + 7, 8 * RUN] {
            let mut state = 12345_u64;
            let mut ids: Vec<u64> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state >> 20
            })
            .take(len)
            .collect();
            let mut expected = ids.clone();
            expected.sort_unstable();
            let mut sort = Sort::default();
            sort.reserve(len).unwrap();
            sort.start(len);
            loop {
                // An interrupted step has written values that it will write again.
                let mut cut_off = sort.clone();
                let done_before = cut_off.step(&mut ids);
                sort.spare.copy_from_slice(&cut_off.spare);
                if sort.step(&mut ids) {
                    assert!(done_before);
                    break;
                }
            }
            assert_eq!(ids, expected);
        }
    }
}
