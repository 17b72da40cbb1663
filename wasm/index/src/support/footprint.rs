//! The bytes that tables take of the heap, with the allocator's own.

use std::hash::{BuildHasher, Hash};

use hashbrown::{HashMap, HashTable};

/// The allocator's bytes in front of each block. Blocks are aligned to twice as many, and have at least four times as many.
const BLOCK_HEAD: usize = size_of::<usize>();

/// Returns the heap bytes of a block, which are none for an empty block.
pub(crate) fn of_block(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes + BLOCK_HEAD).next_multiple_of(2 * BLOCK_HEAD).max(4 * BLOCK_HEAD),
    }
}

/// Returns the bytes of a table's elements, without those that an element holds elsewhere.
pub(crate) fn of_table<T>(table: &Vec<T>) -> usize {
    of_block(table.capacity() * size_of::<T>())
}

/// Returns the bytes of a boxed slice, without those that an element holds elsewhere.
pub(crate) fn of_slice<T>(slice: &[T]) -> usize {
    of_block(size_of_val(slice))
}

/// Returns the bytes of a hash table, without those that an element holds elsewhere.
pub(crate) fn of_hash_table<T>(table: &HashTable<T>) -> usize {
    of_block(table.allocation_size())
}

/// Returns the bytes of a hash map, without those that an element holds elsewhere.
pub(crate) fn of_hash_map<K: Eq + Hash, V, S: BuildHasher>(map: &HashMap<K, V, S>) -> usize {
    of_block(map.allocation_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_block_adds_the_head_and_rounds_up() {
        let head = size_of::<usize>();
        assert_eq!([0, 1, 3 * head].map(of_block), [0, 4 * head, 4 * head]);
        assert_eq!([3 * head + 1, 5 * head, 7 * head].map(of_block), [6 * head, 6 * head, 8 * head]);
    }
}
