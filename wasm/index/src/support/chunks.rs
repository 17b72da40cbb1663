//! Long tables that grow without copying. A doubling table would leave its old block in linear memory as a hole, and half of its
//! new block empty.

use std::ops::{Index, IndexMut};

use crate::support::footprint::of_table;
use crate::support::headroom::{growth, AROUND};

/// The number of elements of a chunk.
const CHUNK: usize = 1024;

/// A table in chunks of equal size. The first chunk grows by a quarter until it has that size, because most tables stay short.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Chunks { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, element: T) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(if self.len == 0 { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let chunk = &mut self.chunks[self.len / CHUNK];
        if chunk.len() == chunk.capacity() {
            chunk.reserve_exact(enlarged(chunk.len()) - chunk.len());
        }
        chunk.push(element);
        self.len += 1;
    }

    /// Returns the element at `position`, if there is one.
    pub fn get(&self, position: usize) -> Option<&T> {
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
    }

    /// Returns the element at `position` and those after it in its chunk.
    #[inline(always)]
    pub fn from(&self, position: usize) -> &[T] {
        &self.chunks[position / CHUNK][position % CHUNK..]
    }

    /// Exchanges two elements.
    pub fn swap(&mut self, one: usize, other: usize) {
        let (first, second) = (one.min(other), one.max(other));
        let (before, from) = self.chunks.split_at_mut(second / CHUNK);
        match before.get_mut(first / CHUNK) {
            Some(chunk) => std::mem::swap(&mut chunk[first % CHUNK], &mut from[0][second % CHUNK]),
            None => from[0].swap(first % CHUNK, second % CHUNK),
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.len = 0;
    }

    /// Keeps the first `len` elements, of which there is at least one, and frees the memory of the rest.
    pub fn truncate(&mut self, len: usize) {
        self.shorten(len);
        if let [first] = &mut self.chunks[..] {
            first.shrink_to_fit();
        }
        self.chunks.shrink_to_fit();
    }

    /// Keeps the first `len` elements, and frees the chunks that this empties.
    pub fn shorten(&mut self, len: usize) {
        self.chunks.truncate(len.div_ceil(CHUNK));
        if let Some(last) = self.chunks.last_mut() {
            last.truncate((len - 1) % CHUNK + 1);
        }
        self.len = len;
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.chunks) + self.chunks.iter().map(of_table).sum::<usize>()
    }

    /// Returns the bytes that pushing `more` elements may allocate.
    pub fn growth(&self, more: usize) -> usize {
        let len = self.len + more;
        let (former, room) = match &self.chunks[..] {
            [former @ .., last] => (former.len(), last.capacity()),
            [] => (0, 0),
        };
        let in_last = (len - former * CHUNK).min(CHUNK);
        let chunks = len.div_ceil(CHUNK).saturating_sub(former + 1);
        let (mut room, mut bytes) = (room, 0);
        while room < in_last {
            room = enlarged(room);
            bytes += room * size_of::<T>() + AROUND;
        }
        if len > self.chunks.len() * CHUNK {
            bytes += growth(&self.chunks, chunks + usize::from(self.chunks.is_empty())) + AROUND;
        }
        bytes + chunks * (CHUNK * size_of::<T>() + AROUND)
    }
}

/// Returns the room of a first chunk after it was full with `len` elements.
fn enlarged(len: usize) -> usize {
    (len + len / 4 + 4).min(CHUNK)
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, position: usize) -> &T {
        &self.chunks[position / CHUNK][position % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, position: usize) -> &mut T {
        &mut self.chunks[position / CHUNK][position % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_were_put() {
        let mut chunks = Chunks::default();
        for i in 0..3 * CHUNK + 7 {
            if i >= CHUNK {
                assert_eq!(chunks.growth(1) > 0, i % CHUNK == 0, "{i}");
            }
            chunks.push(i);
        }
        chunks[CHUNK] = 5;
        assert_eq!((chunks.len(), chunks[0], chunks[CHUNK], chunks[3 * CHUNK]), (3 * CHUNK + 7, 0, 5, 3 * CHUNK));
        assert_eq!(chunks.iter().count(), chunks.len());
        assert_eq!(chunks.from(2 * CHUNK + 1), (2 * CHUNK + 1..3 * CHUNK).collect::<Vec<_>>());
        assert_eq!(chunks.from(3 * CHUNK).len(), 7);
        assert!(chunks.growth(CHUNK) >= CHUNK * size_of::<usize>());
        for (one, other) in [(3, 7), (7, 3), (5, 2 * CHUNK + 1), (2 * CHUNK + 1, 5), (CHUNK + 1, CHUNK + 1)] {
            let before = (chunks[one], chunks[other]);
            chunks.swap(one, other);
            assert_eq!((chunks[other], chunks[one]), before);
        }
        for len in [3 * CHUNK, 2 * CHUNK + 1, CHUNK, 5, 0] {
            chunks.shorten(len);
            assert_eq!((chunks.len(), chunks.iter().count()), (len, len));
            assert_eq!(chunks.chunks.len(), len.div_ceil(CHUNK));
        }
        chunks.push(3);
        assert_eq!((chunks.len(), chunks[0]), (1, 3));
    }
}
