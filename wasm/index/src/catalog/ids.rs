//! The ids by rank. Subscriptions that are numbered as they are inserted have consecutive ids, and the first id of a row then
//! determines the others. So a search reads only the first id, which saves a cache miss for each match.

use crate::handles::Rank;
use crate::support::chunks::Chunks;

/// The number of ranks of a row.
pub(crate) const ROW: usize = 32;

/// The ids of [`ROW`] ranks, from a multiple of [`ROW`] on.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    /// Consecutive ids from this one on.
    From(u64),
    Listed(Box<[u64; ROW]>),
}

impl Row {
    pub fn id(&self, place: usize) -> u64 {
        match self {
            Row::From(first) => first.wrapping_add(place as u64),
            Row::Listed(ids) => ids[place],
        }
    }

    fn set(&mut self, place: usize, id: u64) {
        if self.id(place) == id {
            return;
        }
        match self {
            Row::From(first) => {
                let mut ids = Box::new(std::array::from_fn(|place| first.wrapping_add(place as u64)));
                ids[place] = id;
                *self = Row::Listed(ids);
            }
            Row::Listed(ids) => ids[place] = id,
        }
    }
}

/// The ids of all ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    rows: Chunks<Row>,
    len: usize,
}

impl Ids {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, id: u64) {
        if self.len.is_multiple_of(ROW) {
            self.rows.push(Row::From(id));
        } else {
            self.rows[self.len / ROW].set(self.len % ROW, id);
        }
        self.len += 1;
    }

    /// Appends ids that no subscription has, up to `len` in all. They take no list of ids.
    pub fn pad(&mut self, len: usize) {
        for _ in self.len..len {
            let last = self.len.checked_sub(1).map_or(0, |last| self.get(Rank::from_index(last)));
            self.push(last.wrapping_add(1));
        }
    }

    pub fn set(&mut self, rank: Rank, id: u64) {
        self.rows[rank.index() / ROW].set(rank.index() % ROW, id);
    }

    pub fn get(&self, rank: Rank) -> u64 {
        self.rows[rank.index() / ROW].id(rank.index() % ROW)
    }

    /// Returns the first of the ranks below `end`, whose ids ascend, with an id of at least `id`, or `end`.
    pub fn position(&self, id: u64, end: usize) -> usize {
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low.midpoint(high);
            if self.get(Rank::from_index(middle)) < id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the rows from rank `first` on, a multiple of 1,024. They cover at least 1,024 ranks, or all that there are.
    #[inline(always)]
    pub fn rows(&self, first: Rank) -> &[Row] {
        self.rows.from(first.index() / ROW)
    }

    /// Returns the bytes that setting `more` ids may allocate after `padding` others are appended. Each id may be the first of its
    /// row that is not consecutive.
    pub fn growth(&self, more: usize, padding: usize) -> usize {
        self.rows.growth((more + padding).div_ceil(ROW) + 1)
            + (more + usize::from(padding > 0)) * size_of::<[u64; ROW]>()
    }

    /// Returns the bytes that a new table of `len` ids may take, if `listed` of its rows are not consecutive.
    pub fn bytes(len: usize, listed: usize) -> usize {
        Ids::default().rows.growth(len.div_ceil(ROW)) + listed * size_of::<[u64; ROW]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_the_id_it_was_given_last() {
        let mut ids = Ids::default();
        let mut expected = Vec::new();
        let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for i in 0..5000_u64 {
            // Consecutive rows, rows that stop being consecutive, rows that never are, and ids that wrap around.
            let id = match i / 50 % 4 {
                0 | 1 => 7 + i,
                2 => scattered(i),
                _ => (u64::MAX - 10).wrapping_add(i % 50),
            };
            ids.push(id);
            expected.push(id);
        }
        for i in (0..5000).step_by(70) {
            let id = if i % 140 == 0 { expected[i] } else { scattered(i as u64) };
            ids.set(Rank::from_index(i), id);
            expected[i] = id;
        }
        assert_eq!(ids.len(), expected.len());
        assert!((0..).map(Rank::from_index).zip(&expected).all(|(rank, &id)| ids.get(rank) == id));
        assert!(ids.rows.iter().any(|row| matches!(row, Row::From(_))));
        for first in (0..5000).step_by(1024) {
            let told = ids.rows(Rank::from_index(first)).iter().flat_map(|row| (0..ROW).map(|place| row.id(place)));
            let most = (expected.len() - first).min(1024);
            assert!(told.take(most).eq(expected[first..][..most].iter().copied()));
        }
    }

    #[test]
    fn padding_takes_no_lists_and_a_position_is_found_before_it() {
        let mut ids = Ids::default();
        ids.pad(0);
        assert_eq!(ids.len(), 0);
        (0..100).for_each(|i| ids.push(10 + i));
        ids.pad(1024);
        assert_eq!(ids.len(), 1024);
        assert!(ids.rows.iter().all(|row| matches!(row, Row::From(_))));
        for (id, position) in [(0, 0), (10, 0), (11, 1), (109, 99), (110, 100), (u64::MAX, 100)] {
            assert_eq!(ids.position(id, 100), position);
        }
        assert_eq!(ids.position(5, 0), 0);
    }
}
