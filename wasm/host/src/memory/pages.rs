//! Large and small pages under a module's memory.
//!
//! A search of a large index reads all over it. With pages of 4 KiB most reads are TLB misses, which are twice as long in a
//! virtual machine. With pages of 2 MiB few are. But the system clears a page when it is first written, and nothing divides
//! that: it took a virtual machine up to five milliseconds for a large page. So the room for a large input has small ones.

/// Asks the system for large pages for the part of `length` bytes from `start` on that is memory, now or later. Only a whole
/// page of readable and writable addresses can be large, so a small memory takes no more than before. If the system refuses,
/// nothing changes.
pub fn prefer_large(start: *mut u8, length: usize) {
    advise(start, length, Pages::Large);
}

/// Asks the system for small pages for the part of `length` bytes from `start` on that is not written yet. If the system
/// refuses, nothing changes.
pub fn prefer_small(start: *mut u8, length: usize) {
    advise(start, length, Pages::Small);
}

enum Pages {
    Large,
    Small,
}

#[cfg(target_os = "linux")]
fn advise(start: *mut u8, length: usize, pages: Pages) {
    use rustix::mm::{madvise, Advice};
    use rustix::param::page_size;

    if !start.addr().is_multiple_of(page_size()) {
        return;
    }
    let advice = match pages {
        Pages::Large => Advice::LinuxHugepage,
        Pages::Small => Advice::LinuxNoHugepage,
    };
    // SAFETY: this advice changes no byte, no protection and no address, only the size of the kernel's pages; so it is
    // harmless for any range.
    let _ = unsafe { madvise(start.cast(), length, advice) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_start: *mut u8, _length: usize, _pages: Pages) {}
