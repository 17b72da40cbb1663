//! The store of all programs: chunks of words that many programs share, without an allocation or a pointer for each. A
//! program of more than `MAX_SHARED_WORDS` words has an allocation of its own.

use crate::compile::words::{Chunk, Words, AHEAD, PLACES};
use crate::handles::{Home, ProgramId, Slot};
use crate::support::footprint::{of_block, of_table};
use crate::support::headroom::growth;
use crate::support::headroom::AROUND;

/// The greatest number of words of a program in a chunk. A step of a search runs such a program to its end, and may stop
/// inside a larger one.
const MAX_SHARED_WORDS: usize = 2048;

/// The number of chunks whose room is tested in one branch.
const CHUNKS_AT_ONCE: usize = 64;

/// A first-fit store of programs. Removing a program leaves a hole, which merges with adjacent holes. A program goes to the
/// first chunk with room for it, so the last chunks become empty and are freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    chunks: Vec<Box<Chunk>>,
    /// The number of words of each chunk's largest hole.
    largest: Vec<u16>,
    /// The start of each chunk's first hole, or [`NO_HOLE`].
    first: Vec<u16>,
    /// The large programs. An empty element is a free number. The last element is never empty.
    alone: Vec<Vec<u32>>,
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
fn holes(chunk: &Chunk, first: u16) -> impl Iterator<Item = (usize, Hole)> + '_ {
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
    /// The program starts at this position of the chunk.
    InChunk(&'a Chunk, usize),
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
            Home::InChunk { chunk, start } => Code::InChunk(&self.chunks[chunk], start),
            Home::Alone(number) => Code::Alone(&self.alone[number]),
        }
    }

    /// Changes the slot of the subscription of the program at `id`.
    pub fn set_slot(&mut self, id: ProgramId, slot: Slot) {
        match id.home() {
            Home::InChunk { chunk, start } => self.chunks[chunk][start] = slot.word(),
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
        let chunk = self.chunk_with_room(len).unwrap_or_else(|| self.add_chunk());
        let start = self.take_place(chunk, len);
        self.chunks[chunk][start..][..len].copy_from_slice(program);
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
        let kept = self.largest.iter().rposition(|&largest| usize::from(largest) < PLACES).map_or(0, |last| last + 1);
        self.chunks.truncate(kept);
        self.largest.truncate(kept);
        self.first.truncate(kept);
    }

    /// Returns the bytes that the programs take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let Programs { chunks, largest, first, alone } = self;
        let tables = of_table(chunks) + of_table(largest) + of_table(first) + of_table(alone);
        tables + chunks.len() * of_block(size_of::<Chunk>()) + alone.iter().map(of_table).sum::<usize>()
    }

    /// Returns the bytes that inserting a program of up to `words` words may allocate, besides a large program's own words.
    pub fn growth(&self, words: usize) -> usize {
        let alone = if words > MAX_SHARED_WORDS { growth(&self.alone, 1) } else { 0 };
        if self.chunk_with_room(words.min(MAX_SHARED_WORDS)).is_some() {
            return alone;
        }
        let tables = growth(&self.chunks, 1) + growth(&self.largest, 1) + growth(&self.first, 1);
        tables + 2 * AROUND + size_of::<Chunk>() + alone
    }

    /// Frees all memory. No program may be in use.
    pub fn clear(&mut self) {
        *self = Programs::default();
    }

    /// Returns the first chunk that has a hole of at least `len` words.
    fn chunk_with_room(&self, len: usize) -> Option<usize> {
        let has_room = |&largest: &u16| usize::from(largest) >= len;
        // Tests many chunks at a time, without a branch for each.
        let some = self
            .largest
            .chunks(CHUNKS_AT_ONCE)
            .position(|some| some.iter().fold(false, |any, of| any | has_room(of)))?;
        let first = some * CHUNKS_AT_ONCE;
        self.largest[first..].iter().position(has_room).map(|position| first + position)
    }

    /// Adds a chunk that is one hole, and returns its number.
    fn add_chunk(&mut self) -> usize {
        // Built on the heap, because a chunk is larger than the stack.
        let chunk = vec![0; PLACES + AHEAD].into_boxed_slice().try_into();
        let mut chunk: Box<Chunk> = chunk.unwrap_or_else(|_| unreachable!("it has as many words"));
        chunk[0] = Hole { len: PLACES, next: NO_HOLE }.word();
        self.chunks.push(chunk);
        self.largest.push(PLACES as u16);
        self.first.push(0);
        self.chunks.len() - 1
    }

    /// Takes `len` words from the smallest hole of a chunk that fits them (best fit). Returns their start.
    fn take_place(&mut self, number: usize, len: usize) -> usize {
        let chunk = &mut self.chunks[number];
        // The hole before the current one, whose word has the link to it. `None` at the first hole.
        let mut before = None;
        let mut chosen: Option<(usize, Hole, Option<usize>)> = None;
        let mut largest_other = 0;
        for (start, hole) in holes(chunk, self.first[number]) {
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
        match before {
            Some(before) => chunk[before] = Hole { next, ..Hole::read(chunk[before]) }.word(),
            None => self.first[number] = next as u16,
        }
        self.largest[number] = largest_other.max(left) as u16;
        start
    }

    /// Makes `len` words of a chunk a hole, and merges it with adjacent holes.
    fn give_place(&mut self, number: usize, start: usize, len: usize) {
        let chunk = &mut self.chunks[number];
        // Clears the words: no part of a deleted expression remains.
        chunk[start..][..len].fill(0);
        let before = holes(chunk, self.first[number]).take_while(|(at, _)| *at < start).last();
        let next = before.map_or(usize::from(self.first[number]), |(_, hole)| hole.next);
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
                self.first[number] = start as u16;
                chunk[start] = hole.word();
            }
        }
        self.largest[number] = self.largest[number].max(hole.len as u16);
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
                let chunks = programs.chunks.len();
                held.push((programs.insert(&program), program));
                assert!(needs || programs.chunks.len() == chunks);
            }
            if step % 100 == 0 {
                validate(&programs, &held);
            }
        }
        assert!(held.iter().all(|(id, program)| programs.get(*id)[..program.len()] == *program));
        held.drain(..).for_each(|(id, program)| programs.remove(id, program.len()));
        assert!(programs.chunks.is_empty());
    }

    fn validate(programs: &Programs, held: &[(ProgramId, Vec<u32>)]) {
        for (number, chunk) in programs.chunks.iter().enumerate() {
            let mut is_free = vec![true; PLACES];
            for (id, program) in held {
                match id.home() {
                    Home::InChunk { chunk, start } if chunk == number => is_free[start..][..program.len()].fill(false),
                    _ => {}
                }
            }
            let mut end = None;
            let mut free = 0;
            for (start, hole) in holes(chunk, programs.first[number]) {
                assert!(end.is_none_or(|end| start > end));
                assert!(is_free[start..][..hole.len].iter().all(|free| *free));
                assert!(chunk[start + 1..][..hole.len - 1].iter().all(|word| *word == 0));
                (end, free) = (Some(start + hole.len), free + hole.len);
            }
            assert_eq!(free, is_free.iter().filter(|free| **free).count());
            let largest = holes(chunk, programs.first[number]).map(|(_, hole)| hole.len).max();
            assert_eq!(usize::from(programs.largest[number]), largest.unwrap_or(0));
        }
    }
}
