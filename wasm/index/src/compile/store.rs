//! The store of all programs: chunks of words that many programs share, without an allocation or a pointer for each. A
//! program of more than `MAX_SHARED_WORDS` words has an allocation of its own.
//!
//! The first chunk is *short* until it has `MAX_SHORT_WORDS` words: it grows with its programs, because an instance may have
//! thousands of small indexes. Reads of a short chunk check its bounds. When the chunk becomes a full one, its programs keep their
//! positions.

use crate::compile::words::{Chunk, Words, AHEAD, PLACES};
use crate::handles::{Home, ProgramId, Slot};
use crate::support::footprint::{of_block, of_table};
use crate::support::headroom::growth;
use crate::support::headroom::AROUND;

/// The greatest number of words of a program in a chunk. A step of a search runs such a program to its end, and may stop
/// inside a larger one.
const MAX_SHARED_WORDS: usize = 2048;

/// The greatest number of words of a short chunk. A full chunk has sixteen times as many.
const MAX_SHORT_WORDS: usize = PLACES / 16;

/// The number of words by which a short chunk grows, besides a quarter of its length.
const SHORT_STEP: usize = 32;

/// The number of chunks whose room is tested in one branch.
const CHUNKS_AT_ONCE: usize = 64;

/// A first-fit store of programs. Removing a program leaves a hole, which merges with adjacent holes. A program goes to the
/// first chunk with room for it, so the last chunks become empty and are freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// The only chunk while it is short. Empty if there is a full chunk.
    short: Vec<u32>,
    /// The full chunks.
    chunks: Vec<Box<Chunk>>,
    /// The holes of each chunk.
    holes: Vec<Holes>,
    /// The large programs. An empty element is a free number. The last element is never empty.
    alone: Vec<Vec<u32>>,
}

/// The holes of a chunk.
#[derive(Clone, Copy, Debug)]
struct Holes {
    /// The number of words of the largest hole.
    largest: u16,
    /// The start of the first hole, or [`NO_HOLE`].
    first: u16,
}

/// The end of a list of holes: the position after a chunk's last.
const NO_HOLE: usize = PLACES;

/// A hole, described by its first word. Its other words are zero. So the list of holes takes no memory, and freeing
/// allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    len: usize,
    /// The start of the chunk's next hole, or [`NO_HOLE`].
    next: usize,
}

impl Hole {
    fn read(word: u32) -> Self {
        Hole { len: (word >> 16) as usize, next: (word & 0xffff) as usize }
    }

    /// Neither number exceeds 32,768, so each fits 16 bits.
    fn word(self) -> u32 {
        (self.len << 16 | self.next) as u32
    }
}

/// Returns the holes of a chunk with their starts, in ascending order.
fn holes(chunk: &[u32], first: u16) -> impl Iterator<Item = (usize, Hole)> + '_ {
    let mut at = usize::from(first);
    std::iter::from_fn(move || {
        let hole = (at != NO_HOLE).then(|| Hole::read(chunk[at]))?;
        let start = std::mem::replace(&mut at, hole.next);
        Some((start, hole))
    })
}

/// A program with the words after it, in the form that a run reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Code<'a> {
    /// The program starts at this position of a full chunk.
    InChunk(&'a Chunk, usize),
    /// The program starts these words: those of its own allocation, or the rest of a short chunk.
    Alone(&'a [u32]),
}

impl Code<'_> {
    /// Returns the slot of its subscription, which is its first word.
    #[inline(always)]
    pub fn slot(self) -> Slot {
        Slot::from_word(match self {
            Code::InChunk(chunk, start) => chunk.word(start),
            Code::Alone(words) => words.word(0),
        })
    }
}

impl Programs {
    /// Returns the words of the program at `id`, and all words after it in its chunk.
    pub fn get(&self, id: ProgramId) -> &[u32] {
        match self.code(id) {
            Code::InChunk(chunk, start) => &chunk[start..],
            Code::Alone(words) => words,
        }
    }

    /// Returns the program at `id` in the form that a run reads.
    #[inline(always)]
    pub fn code(&self, id: ProgramId) -> Code<'_> {
        match id.home() {
            Home::InChunk { chunk, start } => match self.chunks.get(chunk) {
                Some(chunk) => Code::InChunk(chunk, start),
                None => Code::Alone(&self.short[start..]),
            },
            Home::Alone(number) => Code::Alone(&self.alone[number]),
        }
    }

    /// Changes the slot of the subscription of the program at `id`.
    pub fn set_slot(&mut self, id: ProgramId, slot: Slot) {
        match id.home() {
            Home::InChunk { chunk, start } => self.chunk_mut(chunk)[start] = slot.word(),
            Home::Alone(number) => self.alone[number][0] = slot.word(),
        }
    }

    /// Prefetches the first cache lines of some programs. The result depends on every word read, so that no read is
    /// optimised away.
    #[inline(always)]
    pub fn prefetch<const N: usize>(&self, programs: &[ProgramId; N]) -> u32 {
        let lines = |words: &Chunk, start: usize| words.word(start) ^ words.word(start + 16) ^ words.word(start + 32);
        programs.iter().fold(0, |sum, &id| match self.code(id) {
            Code::InChunk(chunk, start) => sum ^ lines(chunk, start),
            Code::Alone(words) => sum ^ words.word(0),
        })
    }

    pub fn insert(&mut self, program: &[u32]) -> ProgramId {
        let len = program.len();
        if len > MAX_SHARED_WORDS {
            return self.insert_alone(program);
        }
        let chunk = self.chunk_with_room(len).unwrap_or_else(|| self.make_room(len));
        let start = self.take_place(chunk, len);
        self.chunk_mut(chunk)[start..][..len].copy_from_slice(program);
        ProgramId::in_chunk(chunk, start)
    }

    /// Frees the program of `len` words at `id`. Allocates nothing.
    pub fn remove(&mut self, id: ProgramId, len: usize) {
        let (chunk, start) = match id.home() {
            Home::InChunk { chunk, start } => (chunk, start),
            Home::Alone(number) => {
                debug_assert_eq!(self.alone[number].len(), len, "a program has its own length");
                self.alone[number] = Vec::new();
                let kept = self.alone.iter().rposition(|program| !program.is_empty()).map_or(0, |last| last + 1);
                self.alone.truncate(kept);
                return;
            }
        };
        self.give_place(chunk, start, len);
        if self.chunks.is_empty() {
            return self.trim_short();
        }
        let kept = self.holes.iter().rposition(|of| usize::from(of.largest) < PLACES).map_or(0, |last| last + 1);
        self.chunks.truncate(kept);
        self.holes.truncate(kept);
    }

    /// Returns the bytes that the programs take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let Programs { short, chunks, holes, alone } = self;
        let tables = of_table(short) + of_table(chunks) + of_table(holes) + of_table(alone);
        tables + chunks.len() * of_block(size_of::<Chunk>()) + alone.iter().map(of_table).sum::<usize>()
    }

    /// Returns the bytes that inserting a program of up to `words` words may allocate, besides a large program's own words.
    pub fn growth(&self, words: usize) -> usize {
        let alone = if words > MAX_SHARED_WORDS { growth(&self.alone, 1) } else { 0 };
        if self.chunk_with_room(words.min(MAX_SHARED_WORDS)).is_some() {
            return alone;
        }
        let tables = growth(&self.chunks, 1) + growth(&self.holes, 1) + 3 * AROUND + alone;
        tables
            + self.short_len_for(words.min(MAX_SHARED_WORDS)).map_or(size_of::<Chunk>(), |len| len * size_of::<u32>())
    }

    /// Frees all memory. No program may be in use.
    pub fn clear(&mut self) {
        *self = Programs::default();
    }

    /// Returns the first chunk that has a hole of at least `len` words.
    fn chunk_with_room(&self, len: usize) -> Option<usize> {
        let has_room = |of: &Holes| usize::from(of.largest) >= len;
        // Tests many chunks at a time, without a branch for each.
        let some =
            self.holes.chunks(CHUNKS_AT_ONCE).position(|some| some.iter().fold(false, |any, of| any | has_room(of)))?;
        let first = some * CHUNKS_AT_ONCE;
        self.holes[first..].iter().position(has_room).map(|position| first + position)
    }

    fn chunk_mut(&mut self, number: usize) -> &mut [u32] {
        match self.chunks.get_mut(number) {
            Some(chunk) => &mut chunk[..],
            None => &mut self.short,
        }
    }

    /// Returns the length of a short chunk that has `len` more words, or `None` if that needs a full chunk.
    fn short_len_for(&self, len: usize) -> Option<usize> {
        let before = self.short.len();
        let after = before + (before / 4 + SHORT_STEP).max(len);
        (self.chunks.is_empty() && after <= MAX_SHORT_WORDS).then_some(after)
    }

    /// Makes a hole of at least `len` words, and returns the number of its chunk.
    fn make_room(&mut self, len: usize) -> usize {
        let Some(after) = self.short_len_for(len) else { return self.add_chunk() };
        let before = self.short.len();
        self.short.reserve_exact(after - before);
        self.short.resize(after, 0);
        if self.holes.is_empty() {
            self.holes.push(Holes { largest: 0, first: NO_HOLE as u16 });
        }
        self.give_place(0, before, after - before);
        0
    }

    /// Shrinks a short chunk that ends with a long hole. Allocates nothing.
    fn trim_short(&mut self) {
        let Some(of) = self.holes.first_mut() else { unreachable!("a short chunk has holes") };
        let len = self.short.len();
        let last = holes(&self.short, of.first).last().filter(|(start, hole)| start + hole.len == len);
        let Some((start, hole)) = last else { return };
        if start == 0 {
            self.short = Vec::new();
            self.holes.clear();
            return;
        }
        let kept = start / 4 + SHORT_STEP;
        if hole.len > 2 * kept {
            self.short[start] = Hole { len: kept, ..hole }.word();
            self.short.truncate(start + kept);
            self.short.shrink_to_fit();
            of.largest = holes(&self.short, of.first).map(|(_, hole)| hole.len as u16).max().unwrap_or(0);
        }
    }

    /// Adds a full chunk, and returns its number. The first one takes over the programs of the short chunk. The rest is one hole.
    fn add_chunk(&mut self) -> usize {
        // Built on the heap, because a chunk is larger than the stack.
        let chunk = vec![0; PLACES + AHEAD].into_boxed_slice().try_into();
        let mut chunk: Box<Chunk> = chunk.unwrap_or_else(|_| unreachable!("it has as many words"));
        let short = std::mem::take(&mut self.short);
        chunk[..short.len()].copy_from_slice(&short);
        self.chunks.push(chunk);
        let number = self.chunks.len() - 1;
        if short.is_empty() {
            self.holes.push(Holes { largest: 0, first: NO_HOLE as u16 });
        }
        self.give_place(number, short.len(), PLACES - short.len());
        number
    }

    /// Takes `len` words from the smallest hole of a chunk that fits them (best fit). Returns their start.
    fn take_place(&mut self, number: usize, len: usize) -> usize {
        let first = self.holes[number].first;
        let chunk = self.chunk_mut(number);
        // The hole before the current one, whose word has the link to it. `None` at the first hole.
        let mut before = None;
        let mut chosen: Option<(usize, Hole, Option<usize>)> = None;
        let mut largest_other = 0;
        for (start, hole) in holes(chunk, first) {
            let is_better = hole.len >= len && chosen.is_none_or(|(_, chosen, _)| hole.len < chosen.len);
            let passed_over = if is_better { chosen.map_or(0, |(_, chosen, _)| chosen.len) } else { hole.len };
            largest_other = largest_other.max(passed_over);
            if is_better {
                chosen = Some((start, hole, before));
            }
            before = Some(start);
        }
        let Some((start, hole, before)) = chosen else { unreachable!("a hole of the chunk is as large") };
        let left = hole.len - len;
        let next = match left {
            0 => hole.next,
            _ => {
                chunk[start + len] = Hole { len: left, next: hole.next }.word();
                start + len
            }
        };
        let first = match before {
            Some(before) => {
                chunk[before] = Hole { next, ..Hole::read(chunk[before]) }.word();
                first
            }
            None => next as u16,
        };
        self.holes[number] = Holes { largest: largest_other.max(left) as u16, first };
        start
    }

    /// Makes `len` words of a chunk a hole, and merges it with adjacent holes.
    fn give_place(&mut self, number: usize, start: usize, len: usize) {
        let Holes { mut largest, mut first } = self.holes[number];
        let chunk = self.chunk_mut(number);
        // Clears the words: no part of a deleted expression remains.
        chunk[start..][..len].fill(0);
        let before = holes(chunk, first).take_while(|(at, _)| *at < start).last();
        let next = before.map_or(usize::from(first), |(_, hole)| hole.next);
        debug_assert!(start + len <= next, "a program ends before the next hole");
        debug_assert!(before.is_none_or(|(at, hole)| at + hole.len <= start), "a program is in no hole");
        let mut hole = Hole { len, next };
        // [`NO_HOLE`] is the end of the chunk, where no hole can start.
        if next == start + len && next != NO_HOLE {
            let behind = Hole::read(chunk[next]);
            chunk[next] = 0;
            hole = Hole { len: len + behind.len, next: behind.next };
        }
        match before {
            Some((at, before)) if at + before.len == start => {
                hole.len += before.len;
                chunk[at] = hole.word();
            }
            Some((at, before)) => {
                chunk[at] = Hole { next: start, ..before }.word();
                chunk[start] = hole.word();
            }
            None => {
                first = start as u16;
                chunk[start] = hole.word();
            }
        }
        largest = largest.max(hole.len as u16);
        self.holes[number] = Holes { largest, first };
    }

    fn insert_alone(&mut self, program: &[u32]) -> ProgramId {
        // A linear search takes less time than copying the program.
        let free = self.alone.iter().position(Vec::is_empty).unwrap_or_else(|| {
            self.alone.push(Vec::new());
            self.alone.len() - 1
        });
        self.alone[free] = program.to_vec();
        ProgramId::alone(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_any_size_come_back_and_places_are_given_back() {
        let mut programs = Programs::default();
        let mut lengths =
            vec![1, 4, 5, 1000, MAX_SHARED_WORDS - 4, MAX_SHARED_WORDS, MAX_SHARED_WORDS + 1, 3 * PLACES, 2];
        lengths.extend([MAX_SHARED_WORDS; 40]);
        let make = |len: usize| -> Vec<u32> { (0..len as u32).map(|word| word ^ len as u32).collect() };
        let ids: Vec<ProgramId> = lengths.iter().map(|&len| programs.insert(&make(len))).collect();
        for (&id, &len) in ids.iter().zip(&lengths) {
            assert_eq!(programs.get(id)[..len], make(len));
        }
        let chunks = programs.chunks.len();
        assert!(chunks > 2);
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|place| place * 31 % 7);
        for &place in &order {
            programs.remove(ids[place], lengths[place]);
        }
        assert!(programs.chunks.is_empty() && programs.alone.is_empty());
    }

    #[test]
    fn programs_of_a_short_chunk_keep_their_positions_when_it_becomes_full() {
        let mut programs = Programs::default();
        let make = |number: u32| [number, number ^ 7, number + 1, 3];
        let mut held = Vec::new();
        for number in 0..2_000 {
            held.push((programs.insert(&make(number)), make(number).to_vec()));
            let is_short = 4 * held.len() <= MAX_SHORT_WORDS * 4 / 5;
            assert!(!is_short || programs.chunks.is_empty(), "{number}");
            if number % 50 == 0 || number % 64 == 63 {
                validate(&programs, &held);
            }
        }
        assert_eq!((programs.short.len(), programs.chunks.len()), (0, 1));
        // A short chunk takes little more than its programs, also after it was longer.
        let mut programs = Programs::default();
        let ids: Vec<ProgramId> = (0..300).map(|number| programs.insert(&make(number))).collect();
        for (number, &id) in ids.iter().enumerate().rev() {
            let words = 4 * (number + 1);
            let most = 4 * (words + words + 4 * SHORT_STEP);
            assert!(programs.heap_bytes() <= most, "{number}: {} bytes", programs.heap_bytes());
            programs.remove(id, 4);
        }
        assert!(programs.short.is_empty() && programs.holes.is_empty());
    }

    /// Inserts and removes programs of changing lengths. The holes always cover exactly the words of no program, with one
    /// hole for each gap.
    #[test]
    fn holes_merge_and_the_last_chunks_are_given_back() {
        let mut state = 1_u64;
        let mut number = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut programs = Programs::default();
        let mut held: Vec<(ProgramId, Vec<u32>)> = Vec::new();
        for step in 0..20_000 {
            // Waves of many programs, of few programs, and of rising lengths.
            let most = if step % 5_000 < 3_500 { 600 } else { 20 };
            if held.len() > most || !held.is_empty() && number(3) == 0 {
                let (id, program) = held.swap_remove(number(held.len()));
                assert_eq!(programs.get(id)[..program.len()], program);
                programs.remove(id, program.len());
            } else {
                let len = 1 + number(1 + step / 20);
                let program: Vec<u32> = (0..len as u32).map(|word| word ^ step as u32 | 1).collect();
                let needs = programs.growth(len) > 0;
                let words = |programs: &Programs| (programs.chunks.len(), programs.short.len());
                let before = words(&programs);
                held.push((programs.insert(&program), program));
                assert!(needs || words(&programs) == before);
            }
            if step % 100 == 0 {
                validate(&programs, &held);
            }
        }
        assert!(held.iter().all(|(id, program)| programs.get(*id)[..program.len()] == *program));
        held.drain(..).for_each(|(id, program)| programs.remove(id, program.len()));
        assert!(programs.chunks.is_empty() && programs.short.is_empty());
    }

    fn validate(programs: &Programs, held: &[(ProgramId, Vec<u32>)]) {
        for number in 0..programs.holes.len() {
            let chunk = programs.get(ProgramId::in_chunk(number, 0));
            let len = if programs.chunks.is_empty() { chunk.len() } else { PLACES };
            let Holes { largest, first } = programs.holes[number];
            let mut is_free = vec![true; len];
            for (id, program) in held {
                match id.home() {
                    Home::InChunk { chunk, start } if chunk == number => is_free[start..][..program.len()].fill(false),
                    _ => {}
                }
            }
            let mut end = None;
            let mut free = 0;
            for (start, hole) in holes(chunk, first) {
                assert!(end.is_none_or(|end| start > end));
                assert!(is_free[start..][..hole.len].iter().all(|free| *free));
                assert!(chunk[start + 1..][..hole.len - 1].iter().all(|word| *word == 0));
                (end, free) = (Some(start + hole.len), free + hole.len);
            }
            assert_eq!(free, is_free.iter().filter(|free| **free).count());
            let expected = holes(chunk, first).map(|(_, hole)| hole.len).max();
            assert_eq!(usize::from(largest), expected.unwrap_or(0));
        }
    }
}
