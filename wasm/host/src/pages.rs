//! Large pages under a module's memory.
//!
//! A search of a large index reads all over it. With pages of 4 KiB most reads are TLB misses, which are twice as long in a
//! virtual machine. With pages of 2 MiB few are.

/// Asks the system for large pages for the part of `length` bytes from `start` on that is memory, now or later. Only a whole
/// page of readable and writable addresses can be large, so a small memory takes no more than before. If the system refuses,
/// nothing changes.
#[cfg(target_os = "linux")]
pub fn prefer_large(start: *mut u8, length: usize) {
    use rustix::mm::{madvise, Advice};
    use rustix::param::page_size;

    if !start.addr().is_multiple_of(page_size()) {
        return;
    }
    // SAFETY: this advice changes no byte, no protection and no mapping, only the size of the kernel's pages; so it is
    // harmless for any range.
    let _ = unsafe { madvise(start.cast(), length, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
pub fn prefer_large(_start: *mut u8, _length: usize) {}
