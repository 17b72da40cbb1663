//! Frozen bytes: the unchanging bytes with which other memories begin.
//!
//! If there are few, only the pages that are not zero are kept, and are copied to each memory that begins with them. On
//! Linux, more bytes are kept in a file in memory. A memory that begins with them maps that file privately. A page that is
//! only read exists once for all memories, and a page that is written becomes the writer's own. On other systems, or if the
//! system refuses such a file, the bytes are copied too.

use std::io;
use std::ops::Range;

#[cfg(target_os = "linux")]
use std::{fs::File, os::unix::fs::FileExt};

/// The most bytes in pages that are not zero that are kept without a file, which takes one of the process's descriptors.
#[cfg(target_os = "linux")]
const FEW: usize = 256 << 10;
/// The longest memory that is kept without a file. Each copy of a longer one would test too many pages.
#[cfg(target_os = "linux")]
const SHORT: usize = 4 << 20;

const ZEROS: [u8; 4096] = [0; 4096];

pub struct Frozen {
    length: usize,
    bytes: Bytes,
}

enum Bytes {
    /// Sealed: no process can shorten or change it.
    #[cfg(target_os = "linux")]
    File(File),
    /// Stretches that are not zero, with their starts.
    Stretches(Vec<(usize, Box<[u8]>)>),
}

impl Frozen {
    /// Copies `parts` to their positions among `length` zeros. All must end within them. Copies about 2 GB a second, and
    /// finding the pages that are not zero takes most of that.
    pub fn of(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if Self::is_file(length, parts) {
            if let Ok(file) = linux::file(length, parts) {
                return Ok(Self { length, bytes: Bytes::File(file) });
            }
        }
        Self::copied(length, parts)
    }

    /// Returns whether `of` would make a file, which takes a descriptor.
    pub fn is_file(length: usize, parts: &[(usize, &[u8])]) -> bool {
        #[cfg(target_os = "linux")]
        return length > SHORT || stretches(parts).map(|(_, bytes)| bytes.len()).sum::<usize>() > FEW;
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    fn copied(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        let copies = stretches(parts).map(|(at, bytes)| {
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            copy.extend_from_slice(bytes);
            Ok((at, copy.into_boxed_slice()))
        });
        Ok(Self { length, bytes: Bytes::Stretches(copies.collect::<io::Result<_>>()?) })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Copies the bytes from `offset` on into `target`, which must not extend beyond the length.
    pub fn read(&self, offset: usize, target: &mut [u8]) -> io::Result<()> {
        match &self.bytes {
            #[cfg(target_os = "linux")]
            Bytes::File(file) => file.read_exact_at(target, offset as u64),
            Bytes::Stretches(stretches) => {
                let end = offset.checked_add(target.len()).filter(|end| *end <= self.length);
                let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
                clear(target);
                for (at, bytes) in stretches {
                    let (first, last) = (offset.max(*at), end.min(at + bytes.len()));
                    if first < last {
                        target[first - offset..last - offset].copy_from_slice(&bytes[first - at..last - at]);
                    }
                }
                Ok(())
            }
        }
    }

    /// Replaces the memory from `start` on, as long as these bytes, by a private mapping of them. Returns `false` if that is
    /// not possible, and the memory is unchanged then. `read` always works.
    ///
    /// # Safety
    ///
    /// From `start` on there are at least `length` bytes of private, readable and writable memory. The caller owns them,
    /// nothing refers to them meanwhile, and the code that frees them later frees mappings of any kind. After an error the
    /// mapping of the memory is unknown: it must neither be used again nor be unmapped.
    pub unsafe fn map_over(&self, start: *mut u8) -> io::Result<bool> {
        match &self.bytes {
            // SAFETY: the caller's promise is the one that is required here.
            #[cfg(target_os = "linux")]
            Bytes::File(file) => unsafe { linux::map_over(file, self.length, start) },
            Bytes::Stretches(_) => {
                let _ = start;
                Ok(false)
            }
        }
    }
}

/// Long bytes that are being frozen, part by part.
pub struct Freezing {
    length: usize,
    /// The number of bytes so far.
    frozen: usize,
    #[cfg(target_os = "linux")]
    file: File,
}

impl Freezing {
    /// Begins with `length` bytes. Returns `None` if they are not kept in a file, and `Frozen::of` copies them at once.
    pub fn of(length: usize) -> Option<Self> {
        #[cfg(target_os = "linux")]
        return (length > SHORT).then(|| linux::zeros(length).ok()).flatten().map(|file| Self {
            length,
            frozen: 0,
            file,
        });
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Copies at most `most` more of `bytes`, which are all of them and the same in each call. Returns whether these were the
    /// last.
    pub fn add(&mut self, bytes: &[u8], most: usize) -> io::Result<bool> {
        let end = self.length.min(self.frozen.saturating_add(most));
        let part = bytes.get(self.frozen..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        #[cfg(target_os = "linux")]
        linux::write(&self.file, &[(self.frozen, part)])?;
        #[cfg(not(target_os = "linux"))]
        let _ = part;
        self.frozen = end;
        Ok(end == self.length)
    }

    /// Returns the frozen bytes, after `add` returned `true`.
    pub fn finish(self) -> io::Result<Frozen> {
        #[cfg(target_os = "linux")]
        return linux::seal(&self.file).map(|()| Frozen { length: self.length, bytes: Bytes::File(self.file) });
        #[cfg(not(target_os = "linux"))]
        return Err(io::ErrorKind::Unsupported.into());
    }
}

/// Writes zeros over other bytes only, so that a page of the system that has only zeros stays shared.
fn clear(bytes: &mut [u8]) {
    for page in bytes.chunks_mut(ZEROS.len()) {
        if *page != ZEROS[..page.len()] {
            page.fill(0);
        }
    }
}

/// Returns the parts without their pages of zeros. Pages are counted from the start of each part.
fn stretches<'a>(parts: &'a [(usize, &'a [u8])]) -> impl Iterator<Item = (usize, &'a [u8])> {
    parts.iter().flat_map(|(at, bytes)| runs(bytes).map(move |run| (at + run.start, &bytes[run])))
}

/// Returns the longest runs of pages that are not zeros.
fn runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let is_zero = |start: usize| {
            let page = &bytes[start..bytes.len().min(start + ZEROS.len())];
            *page == ZEROS[..page.len()]
        };
        let mut pages = (from..bytes.len()).step_by(ZEROS.len());
        let start = pages.find(|page| !is_zero(*page))?;
        from = pages.find(|page| is_zero(*page)).unwrap_or(bytes.len());
        Some(start..from)
    })
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
    use rustix::mm::{mmap, MapFlags, ProtFlags};
    use rustix::param::page_size;

    use super::stretches;

    /// Returns a file in memory of `parts` among zeros. Its pages of zeros take no memory.
    pub fn file(length: usize, parts: &[(usize, &[u8])]) -> io::Result<File> {
        let file = zeros(length)?;
        write(&file, parts)?;
        seal(&file)?;
        Ok(file)
    }

    /// Returns a file in memory of zeros.
    pub fn zeros(length: usize) -> io::Result<File> {
        let file = File::from(memfd_create("be_tree", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(length as u64)?;
        Ok(file)
    }

    /// Writes the pages of `parts` that are not zeros.
    pub fn write(file: &File, parts: &[(usize, &[u8])]) -> io::Result<()> {
        stretches(parts).try_for_each(|(at, bytes)| file.write_all_at(bytes, at as u64))
    }

    pub fn seal(file: &File) -> io::Result<()> {
        fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(())
    }

    /// # Safety
    ///
    /// The requirements of `Frozen::map_over`.
    pub unsafe fn map_over(file: &File, length: usize, start: *mut u8) -> io::Result<bool> {
        let page = page_size();
        if !start.addr().is_multiple_of(page) || !length.is_multiple_of(page) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: the caller owns the range, whole pages of it, and nothing reads it meanwhile. The mapping is private, so
        // no write reaches the file or another mapping; the file is sealed, so it neither changes under the mapping nor
        // loses pages that are mapped. The kernel replaces the range at once.
        unsafe { mmap(start.cast(), length, protection, flags, file, 0) }?;
        Ok(true)
    }
}
