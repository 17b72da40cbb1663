//! Large pages under a module's memory.
//!
//! What searches of a large index read lies anywhere in it. With pages of 4 KiB, most reads then wait for the processor
//! to find out where the page is, twice over in a virtual machine; with pages of 2 MiB it knows.

/// Asks the system for large pages from `start` on, for as much of `length` bytes as is memory, now or later. A page is
/// large only where a whole one fits between what is readable and writable, so a small memory takes no more than before.
/// It is a wish: where it is not granted, nothing changes.
#[cfg(target_os = "linux")]
pub fn prefer_large(start: *mut u8, length: usize) {
    use rustix::mm::{madvise, Advice};
    use rustix::param::page_size;

    if !start.addr().is_multiple_of(page_size()) {
        return;
    }
    // SAFETY: this advice changes no byte, no protection and no mapping, only by what pages the kernel holds it; so it
    // does no harm wherever the range leads.
    let _ = unsafe { madvise(start.cast(), length, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
pub fn prefer_large(_start: *mut u8, _length: usize) {}
