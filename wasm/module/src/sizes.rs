//! Sizes and addresses of a 32-bit memory. It has at most 4 GiB, one byte more than a 32-bit number can count.

/// A page of wasm.
#[cfg(any(target_arch = "wasm32", test))]
pub(crate) const PAGE: u32 = 64 * 1024;

/// Returns the end of a memory of `pages` pages. The last byte of 65,536 pages is left out.
#[cfg(any(target_arch = "wasm32", test))]
pub(crate) fn end_of(pages: u32) -> u32 {
    pages.saturating_mul(PAGE)
}

/// Returns the buffer size for a message of `length` bytes, with slack for the next one, or `None` if it exceeds memory.
pub(crate) fn room_for(length: u32) -> Option<u32> {
    length.checked_add(length / 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_memory_is_never_before_its_start() {
        assert_eq!(end_of(0), 0);
        assert_eq!(end_of(1), 65_536);
        assert_eq!(end_of(65_535), u32::MAX - 65_535);
        assert_eq!(end_of(65_536), u32::MAX);
        assert_eq!(end_of(u32::MAX), u32::MAX);
    }

    #[test]
    fn room_is_never_less_than_what_it_is_for() {
        assert_eq!(room_for(0), Some(0));
        assert_eq!(room_for(4096), Some(4096 + 256));
        let largest = (u64::from(u32::MAX) * 16 / 17) as u32 + 1;
        for length in (largest - 100..largest + 100).chain([u32::MAX / 2, u32::MAX - 1, u32::MAX]) {
            let room = u64::from(length) + u64::from(length) / 16;
            assert_eq!(room_for(length).map(u64::from), Some(room).filter(|&room| room <= u64::from(u32::MAX)));
        }
    }
}
