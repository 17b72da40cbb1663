//! The programs of all expressions, in large chunks of words: no allocation for each, and no pointer to follow.

/// Where a program is: the chunk in the upper half, the word in the lower.
pub(crate) type ProgramId = u32;

/// The chunk that a program is in, and where in its words it starts.
pub(crate) fn place(id: ProgramId) -> (u32, u32) {
    (id >> 16, id & 0xffff)
}

/// Words of a chunk. A longer program has a chunk of its own.
const CHUNK: usize = 1 << 15;

/// A store of programs. A place that is given back is used again for a program of the same length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    chunks: Vec<Vec<u32>>,
    /// The chunk that new programs are put into.
    open: usize,
    /// For each length the places of programs of that length that were given back.
    free: Vec<Vec<ProgramId>>,
    free_chunks: Vec<usize>,
}

impl Programs {
    /// The program at `id`, and whatever follows it in its chunk.
    pub fn get(&self, id: ProgramId) -> &[u32] {
        let (chunk, word) = place(id);
        &self.chunks[chunk as usize][word as usize..]
    }

    /// The words of a chunk.
    pub fn chunk(&self, number: u32) -> &[u32] {
        &self.chunks[number as usize]
    }

    pub fn insert(&mut self, program: &[u32]) -> ProgramId {
        let len = program.len();
        if len > CHUNK {
            return self.insert_alone(program);
        }
        if let Some(id) = self.free.get_mut(len).and_then(Vec::pop) {
            let (chunk, word) = place(id);
            self.chunks[chunk as usize][word as usize..][..len].copy_from_slice(program);
            return id;
        }
        if !self.has_room(len) {
            self.open = self.new_chunk(Vec::with_capacity(CHUNK));
        }
        let chunk = &mut self.chunks[self.open];
        let word = chunk.len();
        chunk.extend_from_slice(program);
        (self.open as u32) << 16 | word as u32
    }

    /// Gives back the place at `id` of a program of `len` words.
    pub fn remove(&mut self, id: ProgramId, len: usize) {
        if len > CHUNK {
            let chunk = (id >> 16) as usize;
            self.chunks[chunk] = Vec::new();
            self.free_chunks.push(chunk);
            return;
        }
        if self.free.len() <= len {
            self.free.resize_with(len + 1, Vec::new);
        }
        self.free[len].push(id);
    }

    /// Bytes that inserting a program of up to so many `words` may take beyond its own.
    pub fn growth(&self, words: usize) -> usize {
        if self.has_room(words) {
            return 0;
        }
        crate::predicates::growth(&self.chunks, 1) + CHUNK * size_of::<u32>()
    }

    /// Whether a program of so many words goes into the open chunk.
    fn has_room(&self, words: usize) -> bool {
        self.chunks.get(self.open).is_some_and(|chunk| chunk.len() + words <= chunk.capacity())
    }

    fn insert_alone(&mut self, program: &[u32]) -> ProgramId {
        (self.new_chunk(program.to_vec()) as u32) << 16
    }

    fn new_chunk(&mut self, chunk: Vec<u32>) -> usize {
        match self.free_chunks.pop() {
            Some(place) => {
                self.chunks[place] = chunk;
                place
            }
            None => {
                self.chunks.push(chunk);
                self.chunks.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_any_size_come_back_and_places_are_used_again() {
        let mut programs = Programs::default();
        let lengths = [1, 4, 5, 1000, CHUNK - 4, CHUNK, CHUNK + 1, 3 * CHUNK, 2];
        let make = |len: usize| -> Vec<u32> { (0..len as u32).map(|word| word ^ len as u32).collect() };
        let ids: Vec<ProgramId> = lengths.iter().map(|&len| programs.insert(&make(len))).collect();
        for (&id, &len) in ids.iter().zip(&lengths) {
            assert_eq!(programs.get(id)[..len], make(len));
        }
        let chunks = programs.chunks.len();
        for (&id, &len) in ids.iter().zip(&lengths) {
            programs.remove(id, len);
        }
        for &len in &lengths {
            let id = programs.insert(&make(len));
            assert!(ids.contains(&id));
            assert_eq!(programs.get(id)[..len], make(len));
        }
        assert_eq!(programs.chunks.len(), chunks);
    }
}
