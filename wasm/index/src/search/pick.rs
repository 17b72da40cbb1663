//! Picking turns matching slots into their ids.

use crate::catalog::ids::{Row, ROW};
use crate::cost;
use crate::search::first_chunk_mut;
use crate::search::matches::{Slots, GROUP};
use crate::support::bits::ones;

/// The room for the ids of a group and one more row. A full row is written even if only its first ids count.
pub(super) const ROOM: usize = GROUP as usize + ROW;

/// For each byte, the places of its ones, followed by zeros.
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut found) = (0, 0);
        while place < 8 {
            places[byte][found] = place;
            found += byte >> place & 1;
            place += 1;
        }
        byte += 1;
    }
    places
};

/// Writes the ids of `slots`, whose rows are `rows`. Returns their number. Another function handles dense and listed rows, so
/// that this loop keeps its values in registers: with few matches, most words have a single match.
#[inline(never)]
pub(super) fn pick(slots: Slots, rows: &[Row], to: &mut [u64; ROOM]) -> usize {
    let mut picked = 0;
    for (place, bits) in slots.words() {
        match &rows[place] {
            Row::From(first) if bits.count_ones() < cost::MIN_BULK_IDS => {
                let mut write = |place: u32| {
                    to[picked % GROUP as usize] = first.wrapping_add(place.into());
                    picked += 1;
                };
                // Every word has at least one slot.
                write(bits.trailing_zeros());
                ones(u64::from(bits & bits.wrapping_sub(1))).for_each(|place| write(place as u32));
            }
            row => picked += pick_row(bits, row, first_chunk_mut(&mut to[picked % GROUP as usize..])),
        }
    }
    picked
}

/// Writes the ids of the slots in one row whose bits are one. [`pick`] calls it for many slots and for listed rows. Returns
/// their number.
#[inline(never)]
fn pick_row(bits: u32, row: &Row, to: &mut [u64; ROW]) -> usize {
    match row {
        Row::From(first) => pick_many(bits, |place| first.wrapping_add(place as u64), to),
        Row::Listed(ids) if bits.count_ones() >= cost::MIN_BULK_IDS => pick_many(bits, |place| ids[place % ROW], to),
        Row::Listed(ids) => ones(u64::from(bits)).zip(to).map(|(place, to)| *to = ids[place % ROW]).count(),
    }
}

/// Writes eight ids at a time, for eight slots. The next write overwrites the excess, so no branch depends on the bits.
#[inline]
fn pick_many(bits: u32, id: impl Fn(usize) -> u64, to: &mut [u64; ROW]) -> usize {
    let mut picked = 0;
    for (eight, byte) in (0..).step_by(8).zip(bits.to_le_bytes()) {
        if let Some(to) = to[picked..].first_chunk_mut::<8>() {
            *to = PLACES[usize::from(byte)].map(|place| id(eight + usize::from(place)));
        }
        picked += byte.count_ones() as usize;
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::matches::SlotSet;

    #[test]
    fn what_is_picked_is_where_bits_are_one() {
        let listed = |first: u64| Row::Listed(Box::new(std::array::from_fn(|place| first + 7 * place as u64)));
        let all = [1, 1 << 31, 0x8000_0001, 0x0000_03fe, 0x0000_03ff, 0x0f0f_3333, u32::MAX - 1, u32::MAX];
        let rows: Vec<Row> = (0..32).map(|n| if n % 3 == 1 { listed(1000 * n) } else { Row::From(1000 * n) }).collect();
        let mut set = SlotSet::default();
        set.reserve(2048).unwrap();
        // Few words, all words, and all bits of all words.
        for words in [
            vec![(3, 0x10), (4, 0x8001), (31, 1)],
            (0..32).map(|n| (n, all[n as usize % 8])).collect(),
            (0..32).map(|n| (n, u32::MAX)).collect(),
        ] {
            set.begin(2048);
            words.iter().for_each(|&(word, bits)| set.insert_word(32 + word, bits));
            let ids = |&(word, bits): &(u32, u32)| {
                let row = &rows[word as usize];
                (0..32).filter(move |place| bits >> place & 1 == 1).map(|place| row.id(place))
            };
            let expected: Vec<u64> = words.iter().flat_map(ids).collect();
            let mut to = [0; ROOM];
            let mut picked = 0;
            let rest = set.groups(0, 1, |slots| {
                picked = pick(slots, &rows, &mut to);
                picked
            });
            assert_eq!(rest, None);
            assert_eq!(to[..picked], expected);
        }
    }
}
