//! Advice to the system on the page sizes of a module's memory.
//!
//! A search of a large index reads at random addresses. With pages of 4 KiB most reads are TLB misses, which take twice
//! as long in a virtual machine; with pages of 2 MiB few are. But the system clears a page at its first write, without
//! yielding: clearing a large page took a virtual machine up to five milliseconds. So the room for a large input has
//! small pages.

/// Asks for large pages in the `length` bytes from `start` on, for present and future memory. A large page needs 2 MiB
/// of open addresses, so a small memory takes no more than before. If the system refuses, nothing changes.
pub fn prefer_large(start: *mut u8, length: usize) {
    advise(start, length, Pages::Large);
}

/// Asks for small pages in the `length` bytes from `start` on, where nothing is written yet. If the system refuses,
/// nothing changes.
pub fn prefer_small(start: *mut u8, length: usize) {
    advise(start, length, Pages::Small);
}

/// Merges the small pages of the `length` bytes from `start` on, whole large pages, into large ones, except where the memory prefers
/// small pages. A memory that grows in steps below 2 MiB has small pages, until the system merges them minutes later. Copies the
/// bytes: a part of a millisecond for each large page. If the system refuses, nothing changes.
#[cfg(target_os = "linux")]
pub fn merge(start: *mut u8, length: usize) {
    // SAFETY: this advice changes no byte, no protection and no address, only the size of the kernel's pages; so it is
    // harmless for any range.
    let _ = unsafe { libc::madvise(start.cast(), length, libc::MADV_COLLAPSE) };
}

#[cfg(not(target_os = "linux"))]
pub fn merge(_start: *mut u8, _length: usize) {}

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
