//! Tests of shared bytes without the rest of the library, which links only into the BEAM.

#[path = "../src/memory/shared_bytes.rs"]
mod shared_bytes;

use shared_bytes::{SharedBytes, SharedBytesBuilder};

/// The bytes of a page of these tests: more than are kept without a file.
const PAGE: usize = 512 << 10;

/// Four pages: the first without long runs of zeros, the others zeros but for two bytes.
fn bytes() -> Vec<u8> {
    let mut bytes = vec![0; 4 * PAGE];
    for (index, byte) in bytes[..PAGE].iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    bytes[2 * PAGE] = 7;
    bytes[4 * PAGE - 1] = 9;
    bytes
}

fn freeze(bytes: &[u8]) -> SharedBytes {
    SharedBytes::new(bytes.len(), &[(0, bytes)]).unwrap()
}

fn read(frozen: &SharedBytes, offset: usize, length: usize) -> Vec<u8> {
    let mut target = vec![1; length];
    frozen.read(offset, &mut target).unwrap();
    target
}

#[test]
fn read_returns_the_original_bytes() {
    let bytes = bytes();
    for length in [0, 1, 4095, 4096, 4097, PAGE, PAGE + 4096, bytes.len()] {
        let frozen = freeze(&bytes[..length]);
        assert_eq!(frozen.length(), length);
        assert_eq!(read(&frozen, 0, length), &bytes[..length]);
        assert!(frozen.read(0, &mut vec![0; length + 1]).is_err());
    }
    assert_eq!(read(&freeze(&bytes), 2 * PAGE - 1, 3), [0, 7, 0]);
}

#[test]
fn is_file_is_false_for_few_bytes() {
    let bytes = vec![1; 256 << 10];
    let is_file = |length, parts: &[(usize, &[u8])]| SharedBytes::is_file(length, parts);
    assert!(!is_file(0, &[]));
    assert!(!is_file(4 << 20, &[(1 << 20, &bytes)]));
    assert_eq!(is_file(4 << 20, &[(1 << 20, &bytes), (0, &[1])]), cfg!(target_os = "linux"));
    assert_eq!(is_file((4 << 20) + 1, &[]), cfg!(target_os = "linux"));
}

#[test]
fn read_returns_parts_among_zeros() {
    let bytes = bytes();
    let parts = [(0, &bytes[..100]), (5000, &bytes[..PAGE + 4096]), (3 * PAGE, &bytes[..0]), (4 * PAGE - 1, &[9][..])];
    let frozen = SharedBytes::new(4 * PAGE, &parts).unwrap();
    let mut expected = vec![0; 4 * PAGE];
    parts.iter().for_each(|(at, part)| expected[*at..*at + part.len()].copy_from_slice(part));
    assert_eq!(frozen.length(), 4 * PAGE);
    assert_eq!(read(&frozen, 0, 4 * PAGE), expected);
}

#[test]
fn builder_copies_long_bytes_in_chunks() {
    assert!(SharedBytesBuilder::new(4 << 20).is_none());
    let bytes: Vec<u8> = bytes().into_iter().cycle().take((9 << 20) + 4096).collect();
    // Only Linux keeps them in a file.
    let Some(mut freezing) = SharedBytesBuilder::new(bytes.len()) else { return };
    assert!(freezing.add(&[0; 100], 200).is_err());
    let parts = (1..).take_while(|_| !freezing.add(&bytes, PAGE).unwrap()).count() + 1;
    assert_eq!(parts, bytes.len().div_ceil(PAGE));
    let frozen = freezing.finish().unwrap();
    assert_eq!(frozen.length(), bytes.len());
    assert!(read(&frozen, 0, bytes.len()) == bytes);
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;

    use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

    /// Some bytes of memory, each of them 3.
    fn memory(length: usize) -> *mut u8 {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses a place that is free, for bytes that are valid as they are.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) }.unwrap();
        slice(start.cast(), length).fill(3);
        start.cast()
    }

    fn slice<'a>(start: *mut u8, length: usize) -> &'a mut [u8] {
        // SAFETY: called with memory of that length, and no two slices of one memory are alive at a time.
        unsafe { std::slice::from_raw_parts_mut(start, length) }
    }

    fn free(start: *mut u8, length: usize) {
        // SAFETY: nothing refers to the memory any more.
        unsafe { munmap(start.cast(), length) }.unwrap();
    }

    #[test]
    fn mappings_do_not_see_the_writes_of_one_another() {
        let bytes = bytes();
        let frozen = freeze(&bytes);
        let memories = [memory(5 * PAGE), memory(5 * PAGE)];
        for start in memories {
            // SAFETY: the memory is longer than what is frozen, and nothing refers to it.
            assert!(unsafe { frozen.map_over(start) }.unwrap());
        }
        slice(memories[0], 5 * PAGE)[..2 * PAGE].fill(5);
        assert_eq!(slice(memories[1], 5 * PAGE)[..4 * PAGE], bytes);
        assert_eq!(slice(memories[0], 5 * PAGE)[2 * PAGE..4 * PAGE], bytes[2 * PAGE..]);
        assert_eq!(slice(memories[0], 5 * PAGE)[4 * PAGE..], [3; PAGE]);
        assert_eq!(read(&frozen, 0, bytes.len()), bytes);
        // A mapping outlives its file.
        drop(frozen);
        assert_eq!(slice(memories[1], 5 * PAGE)[..4 * PAGE], bytes);
        for start in memories {
            free(start, 5 * PAGE);
        }
    }

    #[test]
    fn map_over_refuses_unaligned_starts_and_lengths() {
        let start = memory(4 * PAGE);
        let whole = freeze(&bytes()[..2 * PAGE]);
        let part = freeze(&bytes()[..PAGE + 100]);
        // SAFETY: the memory is longer than what is frozen, and nothing refers to it.
        unsafe {
            assert!(!whole.map_over(start.add(8)).unwrap());
            assert!(!part.map_over(start).unwrap());
        }
        assert_eq!(slice(start, 4 * PAGE), [3; 4 * PAGE]);
        free(start, 4 * PAGE);
    }
}
