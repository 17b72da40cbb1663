//! The ids of slots, in rows of 32. Subscriptions with serial ids fill rows of consecutive ids, so the first id of a row
//! determines the others. A search then reads only the first id, which saves a cache miss for each match.

use crate::handles::Slot;
use crate::support::chunks::Chunks;
use crate::support::footprint::of_slice;

/// The number of slots of a row.
pub(crate) const ROW: usize = 32;

/// The ids of [`ROW`] slots, from a multiple of [`ROW`] on.
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

/// The ids of all slots.
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

    pub fn set(&mut self, slot: Slot, id: u64) {
        self.rows[slot.index() / ROW].set(slot.index() % ROW, id);
    }

    pub fn get(&self, slot: Slot) -> u64 {
        self.row(slot).id(slot.index() % ROW)
    }

    /// Returns the row that contains `slot`.
    fn row(&self, slot: Slot) -> &Row {
        &self.rows[slot.index() / ROW]
    }

    /// Returns the rows from slot `first` on, a multiple of 1,024. They cover at least 1,024 slots, or all remaining ones.
    #[inline(always)]
    pub fn rows(&self, first: Slot) -> &[Row] {
        self.rows.from(first.index() / ROW)
    }

    /// Returns the bytes that the ids take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let listed = self.rows.iter().map(|row| match row {
            Row::From(_) => 0,
            Row::Listed(ids) => of_slice(&ids[..]),
        });
        self.rows.heap_bytes() + listed.sum::<usize>()
    }

    /// Returns the bytes that a new table of `len` ids may take, if `listed` of its rows are not consecutive.
    pub fn bytes(len: usize, listed: usize) -> usize {
        Ids::default().rows.growth(len.div_ceil(ROW)) + listed * size_of::<[u64; ROW]>()
    }

    /// Returns the bytes that setting `more` ids may allocate. In the worst case each id turns one more row into a listed one.
    pub fn growth(&self, more: usize) -> usize {
        self.rows.growth(more.div_ceil(ROW) + 1) + more * size_of::<[u64; ROW]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_the_id_it_was_given_last() {
        let mut ids = Ids::default();
        let mut expected = Vec::new();
        let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for i in 0..5000_u64 {
            // Rows of consecutive ids, rows that stop being consecutive, rows of scattered ids, and ids that wrap around.
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
            ids.set(Slot::from_index(i), id);
            expected[i] = id;
        }
        assert_eq!(ids.len(), expected.len());
        assert!((0..).map(Slot::from_index).zip(&expected).all(|(slot, &id)| ids.get(slot) == id));
        assert!(ids.rows.iter().any(|row| matches!(row, Row::From(_))));
        for first in (0..5000).step_by(1024) {
            let told = ids.rows(Slot::from_index(first)).iter().flat_map(|row| (0..ROW).map(|place| row.id(place)));
            let most = (expected.len() - first).min(1024);
            assert!(told.take(most).eq(expected[first..][..most].iter().copied()));
        }
    }
}
