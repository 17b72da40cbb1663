//! The programs of all expressions: in large chunks of words, with no allocation for each, and no pointer to follow. Large
//! ones are alone.

use super::words::{Chunk, Words, AHEAD, PLACES};
use crate::predicates::growth;

/// Where a program is: the chunk in the upper half, the word in the lower. Of one that is alone its number, and [`ALONE`].
pub(crate) type ProgramId = u32;

/// Marks a program that is alone. The bit is free: 4 GiB have no room for so many chunks.
const ALONE: ProgramId = 1 << 31;

/// Programs of more words than this are alone. A step of a search may run a part of one of these, but all of any other.
const LARGEST: usize = 2048;

/// The chunk that a program is in, and where in its words it starts.
pub(crate) fn place(id: ProgramId) -> (u32, u32) {
    match id & ALONE {
        0 => (id >> 16, id & 0xffff),
        _ => (id, 0),
    }
}

/// A store of programs. A place that is given back is used again for a program of the same length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    chunks: Vec<Box<Chunk>>,
    /// How many words of the last chunk are taken.
    taken: usize,
    /// For each length the places of programs of that length that were given back.
    free: Vec<Vec<ProgramId>>,
    /// Programs that are alone.
    alone: Vec<Vec<u32>>,
    free_alone: Vec<ProgramId>,
}

/// A program and whatever follows it, as they are to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Code<'a> {
    /// It starts at this place of the chunk.
    InChunk(&'a Chunk, usize),
    Alone(&'a [u32]),
}

impl Code<'_> {
    /// Its first word.
    #[inline(always)]
    pub fn first(self) -> u32 {
        match self {
            Code::InChunk(chunk, start) => chunk.word(start),
            Code::Alone(words) => words.word(0),
        }
    }
}

impl Programs {
    /// The program at `id`, and whatever follows it in its chunk.
    pub fn get(&self, id: ProgramId) -> &[u32] {
        match self.code(id) {
            Code::InChunk(chunk, start) => &chunk[start..],
            Code::Alone(words) => words,
        }
    }

    /// The words of a chunk.
    pub fn chunk(&self, number: u32) -> &[u32] {
        match number & ALONE {
            0 => &self.chunks[number as usize][..],
            _ => &self.alone[(number & !ALONE) as usize],
        }
    }

    /// The program at `id`, as it is to be run.
    #[inline(always)]
    pub fn code(&self, id: ProgramId) -> Code<'_> {
        match id & ALONE {
            0 => Code::InChunk(&self.chunks[(id >> 16) as usize], (id & 0xffff) as usize),
            _ => Code::Alone(&self.alone[(id & !ALONE) as usize]),
        }
    }

    /// Reads a word of each of the first lines of memory that some programs take; answers what hangs on all of these.
    #[inline(always)]
    pub fn touch<const N: usize>(&self, programs: &[ProgramId; N]) -> u32 {
        let lines = |words: &Chunk, start: usize| words.word(start) ^ words.word(start + 16) ^ words.word(start + 32);
        programs.iter().fold(0, |sum, &id| match self.code(id) {
            Code::InChunk(chunk, start) => sum ^ lines(chunk, start),
            Code::Alone(words) => sum ^ words.word(0),
        })
    }

    pub fn insert(&mut self, program: &[u32]) -> ProgramId {
        let len = program.len();
        if len > LARGEST {
            return self.insert_alone(program);
        }
        let freed = self.free.get_mut(len).and_then(Vec::pop);
        let id = freed.unwrap_or_else(|| self.new_place(len));
        let (chunk, word) = place(id);
        self.chunks[chunk as usize][word as usize..][..len].copy_from_slice(program);
        id
    }

    /// Gives back the place at `id` of a program of `len` words.
    pub fn remove(&mut self, id: ProgramId, len: usize) {
        if len > LARGEST {
            self.alone[(id & !ALONE) as usize] = Vec::new();
            self.free_alone.push(id);
            return;
        }
        if self.free.len() <= len {
            self.free.resize_with(len + 1, Vec::new);
        }
        self.free[len].push(id);
    }

    /// Bytes that giving back a program of `len` words may request, for the lists of free places.
    pub fn removal(&self, len: usize) -> usize {
        if len > LARGEST {
            return growth(&self.free_alone, 1);
        }
        match self.free.get(len) {
            Some(free) => growth(free, 1).max(4 * size_of::<ProgramId>()),
            None => growth(&self.free, len + 1 - self.free.len()) + 4 * size_of::<ProgramId>(),
        }
    }

    /// Bytes that inserting a program of up to so many `words` may take beyond its own.
    pub fn growth(&self, words: usize) -> usize {
        let alone = if words > LARGEST { growth(&self.alone, 1) } else { 0 };
        if self.has_room(words.min(LARGEST)) {
            return alone;
        }
        growth(&self.chunks, 1) + size_of::<Chunk>() + alone
    }

    /// Whether a program of so many words goes into the last chunk.
    fn has_room(&self, words: usize) -> bool {
        !self.chunks.is_empty() && self.taken + words <= PLACES
    }

    /// A place that no program had.
    fn new_place(&mut self, len: usize) -> ProgramId {
        if !self.has_room(len) {
            // Not made on the stack, which is smaller.
            let chunk = vec![0; PLACES + AHEAD].into_boxed_slice().try_into();
            self.chunks.push(chunk.unwrap_or_else(|_| unreachable!("it has as many words")));
            self.taken = 0;
        }
        let word = self.taken;
        self.taken += len;
        (self.chunks.len() as u32 - 1) << 16 | word as u32
    }

    fn insert_alone(&mut self, program: &[u32]) -> ProgramId {
        let id = self.free_alone.pop().unwrap_or_else(|| {
            self.alone.push(Vec::new());
            (self.alone.len() as u32 - 1) | ALONE
        });
        self.alone[(id & !ALONE) as usize] = program.to_vec();
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_any_size_come_back_and_places_are_used_again() {
        let mut programs = Programs::default();
        let mut lengths = vec![1, 4, 5, 1000, LARGEST - 4, LARGEST, LARGEST + 1, 3 * PLACES, 2];
        lengths.extend([LARGEST; 40]);
        let make = |len: usize| -> Vec<u32> { (0..len as u32).map(|word| word ^ len as u32).collect() };
        let ids: Vec<ProgramId> = lengths.iter().map(|&len| programs.insert(&make(len))).collect();
        for (&id, &len) in ids.iter().zip(&lengths) {
            assert_eq!(programs.get(id)[..len], make(len));
        }
        let chunks = programs.chunks.len();
        assert!(chunks > 2);
        for (&id, &len) in ids.iter().zip(&lengths) {
            programs.remove(id, len);
        }
        for &len in &lengths {
            assert_eq!(programs.growth(0), 0);
            let id = programs.insert(&make(len));
            assert!(ids.contains(&id));
            assert_eq!(programs.get(id)[..len], make(len));
        }
        assert_eq!(programs.chunks.len(), chunks);
    }
}
