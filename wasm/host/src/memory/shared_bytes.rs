//! Shared bytes: immutable bytes that are the initial content of many memories.
//!
//! On Linux, many bytes are kept in a file in memory (memfd), which memories map copy-on-write: a page that is only
//! read exists once for all memories. Few bytes are copied to each memory instead, and only their pages that are not
//! zero are kept. The bytes are also copied on other systems, and if the system refuses a file.

use std::io;
use std::ops::Range;

#[cfg(target_os = "linux")]
use std::{fs::File, os::unix::fs::FileExt};

/// The most bytes in nonzero pages that are kept without a file. A file takes one of the process's descriptors.
#[cfg(target_os = "linux")]
const MAX_BYTES_WITHOUT_FILE: usize = 256 << 10;
/// The longest content that is kept without a file. Each copy of a longer one would test too many pages for zeros.
#[cfg(target_os = "linux")]
const MAX_LENGTH_WITHOUT_FILE: usize = 4 << 20;

const ZEROS: [u8; 4096] = [0; 4096];

pub struct SharedBytes {
    length: usize,
    bytes: Bytes,
}

enum Bytes {
    /// A sealed file: no process can change or shorten it.
    #[cfg(target_os = "linux")]
    File(File),
    /// Runs of nonzero pages, with their offsets.
    Runs(Vec<(usize, Box<[u8]>)>),
}

impl SharedBytes {
    /// Copies `parts` to their offsets among `length` zeros, within which all must end. Copies about 2 GB a second;
    /// most of the time is the test for pages of zeros.
    pub fn new(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if Self::is_file(length, parts) {
            if let Ok(file) = linux::file(length, parts) {
                return Ok(Self { length, bytes: Bytes::File(file) });
            }
        }
        Self::from_copies(length, parts)
    }

    /// Returns whether `new` would make a file, which takes a descriptor.
    pub fn is_file(length: usize, parts: &[(usize, &[u8])]) -> bool {
        #[cfg(target_os = "linux")]
        return length > MAX_LENGTH_WITHOUT_FILE
            || runs_of_parts(parts).map(|(_, bytes)| bytes.len()).sum::<usize>() > MAX_BYTES_WITHOUT_FILE;
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    fn from_copies(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        let copies = runs_of_parts(parts).map(|(at, bytes)| {
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            copy.extend_from_slice(bytes);
            Ok((at, copy.into_boxed_slice()))
        });
        Ok(Self { length, bytes: Bytes::Runs(copies.collect::<io::Result<_>>()?) })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Copies the bytes from `offset` on into `target`, which must end within the length.
    pub fn read(&self, offset: usize, target: &mut [u8]) -> io::Result<()> {
        match &self.bytes {
            #[cfg(target_os = "linux")]
            Bytes::File(file) => file.read_exact_at(target, offset as u64),
            Bytes::Runs(runs) => {
                let end = offset.checked_add(target.len()).filter(|end| *end <= self.length);
                let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
                clear(target);
                for (at, bytes) in runs {
                    let (first, last) = (offset.max(*at), end.min(at + bytes.len()));
                    if first < last {
                        target[first - offset..last - offset].copy_from_slice(&bytes[first - at..last - at]);
                    }
                }
                Ok(())
            }
        }
    }

    /// Maps the bytes copy-on-write over the memory from `start` on. Returns `false` and changes nothing if they are
    /// not in a file; `read` always works.
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
            Bytes::Runs(_) => {
                let _ = start;
                Ok(false)
            }
        }
    }
}

/// Long shared bytes in the making, copied chunk by chunk.
pub struct SharedBytesBuilder {
    length: usize,
    /// The number of bytes copied so far.
    copied: usize,
    #[cfg(target_os = "linux")]
    file: File,
}

impl SharedBytesBuilder {
    /// Prepares `length` bytes. Returns `None` for bytes that are not kept in a file; `SharedBytes::new` copies those
    /// at once.
    pub fn new(length: usize) -> Option<Self> {
        #[cfg(target_os = "linux")]
        return (length > MAX_LENGTH_WITHOUT_FILE).then(|| linux::zeros(length).ok()).flatten().map(|file| Self {
            length,
            copied: 0,
            file,
        });
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Copies the next chunk of at most `max` bytes. `bytes` is the whole content, the same in each call. Returns
    /// whether this was the last chunk.
    pub fn add(&mut self, bytes: &[u8], max: usize) -> io::Result<bool> {
        let end = self.length.min(self.copied.saturating_add(max));
        let part = bytes.get(self.copied..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        #[cfg(target_os = "linux")]
        linux::write(&self.file, &[(self.copied, part)])?;
        #[cfg(not(target_os = "linux"))]
        let _ = part;
        self.copied = end;
        Ok(end == self.length)
    }

    /// Returns the shared bytes, after `add` returned `true`.
    pub fn finish(self) -> io::Result<SharedBytes> {
        #[cfg(target_os = "linux")]
        return linux::seal(&self.file).map(|()| SharedBytes { length: self.length, bytes: Bytes::File(self.file) });
        #[cfg(not(target_os = "linux"))]
        return Err(io::ErrorKind::Unsupported.into());
    }
}

/// Clears nonzero pages only: a write of zeros would allocate a page that so far is the system's shared page of zeros.
fn clear(bytes: &mut [u8]) {
    for page in bytes.chunks_mut(ZEROS.len()) {
        if *page != ZEROS[..page.len()] {
            page.fill(0);
        }
    }
}

/// Returns the runs of nonzero pages of the parts. Pages are counted from the start of each part.
fn runs_of_parts<'a>(parts: &'a [(usize, &'a [u8])]) -> impl Iterator<Item = (usize, &'a [u8])> {
    parts.iter().flat_map(|(at, bytes)| runs(bytes).map(move |run| (at + run.start, &bytes[run])))
}

/// Returns the maximal runs of nonzero pages.
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

    use super::runs_of_parts;

    /// Returns a sealed file of `parts` among zeros. Pages of zeros are holes and take no memory.
    pub fn file(length: usize, parts: &[(usize, &[u8])]) -> io::Result<File> {
        let file = zeros(length)?;
        write(&file, parts)?;
        seal(&file)?;
        Ok(file)
    }

    /// Returns an unsealed file of zeros, all holes.
    pub fn zeros(length: usize) -> io::Result<File> {
        let file = File::from(memfd_create("be_tree", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(length as u64)?;
        Ok(file)
    }

    /// Writes the nonzero pages of `parts`.
    pub fn write(file: &File, parts: &[(usize, &[u8])]) -> io::Result<()> {
        runs_of_parts(parts).try_for_each(|(at, bytes)| file.write_all_at(bytes, at as u64))
    }

    pub fn seal(file: &File) -> io::Result<()> {
        fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(())
    }

    /// # Safety
    ///
    /// The requirements of `SharedBytes::map_over`.
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
