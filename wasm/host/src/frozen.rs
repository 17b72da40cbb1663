//! The bytes of a memory that no longer change, for other memories to begin with.
//!
//! On Linux they lie in a file in memory. Who begins with them maps that file over its own memory, privately: what is
//! only read is there once for all, and what is written becomes a page of the writer's own. Elsewhere, or where the
//! system has no such file to give, they are copied.

use std::io;

#[cfg(target_os = "linux")]
use std::{fs::File, os::unix::fs::FileExt};

pub struct Frozen {
    length: usize,
    bytes: Bytes,
}

enum Bytes {
    /// Sealed: nobody shortens or changes it.
    #[cfg(target_os = "linux")]
    File(File),
    Copied(Vec<u8>),
}

impl Frozen {
    /// Copies `bytes`: about 2 GB a second, most of it for finding the pages.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        Self::of(bytes.len(), &[(0, bytes)])
    }

    /// Copies `parts` to where they begin among `length` zeros, within which they end.
    pub fn of(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(file) = linux::file(length, parts) {
            return Ok(Self { length, bytes: Bytes::File(file) });
        }
        Self::copied(length, parts)
    }

    fn copied(length: usize, parts: &[(usize, &[u8])]) -> io::Result<Self> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        copy.resize(length, 0);
        for (at, bytes) in parts {
            copy[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(Self { length, bytes: Bytes::Copied(copy) })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Copies the bytes from `offset` on. They end at the length at the latest.
    pub fn read(&self, offset: usize, target: &mut [u8]) -> io::Result<()> {
        match &self.bytes {
            #[cfg(target_os = "linux")]
            Bytes::File(file) => file.read_exact_at(target, offset as u64),
            Bytes::Copied(bytes) => {
                let source = bytes.get(offset..).and_then(|rest| rest.get(..target.len()));
                target.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Replaces the memory from `start` on, as many bytes as there are here, by a private mapping of these bytes. Answers
    /// `false`, and leaves the memory alone, where that cannot be done; then `read` can.
    ///
    /// # Safety
    ///
    /// From `start` on there are at least `length` bytes of private, readable and writable memory. The caller owns them,
    /// nothing refers to them meanwhile, and whatever frees them later frees mappings of any kind. After an error, what
    /// the memory is mapped to is not known: it must not be used again, and not be unmapped either.
    pub unsafe fn map_over(&self, start: *mut u8) -> io::Result<bool> {
        match &self.bytes {
            // SAFETY: the caller's promise is the one that is asked for here.
            #[cfg(target_os = "linux")]
            Bytes::File(file) => unsafe { linux::map_over(file, self.length, start) },
            Bytes::Copied(_) => {
                let _ = start;
                Ok(false)
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
    use rustix::mm::{mmap, MapFlags, ProtFlags};
    use rustix::param::page_size;

    const ZEROS: [u8; 4096] = [0; 4096];

    /// A file in memory that holds `parts` among zeros, and whose pages of zeros take nothing.
    pub fn file(length: usize, parts: &[(usize, &[u8])]) -> io::Result<File> {
        let file = File::from(memfd_create("be_tree", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(length as u64)?;
        for (at, bytes) in parts {
            write_part(&file, *at, bytes)?;
        }
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(file)
    }

    fn write_part(file: &File, at: usize, bytes: &[u8]) -> io::Result<()> {
        let mut run = 0..0;
        for page in bytes.chunks(ZEROS.len()) {
            let end = run.end + page.len();
            if *page == ZEROS[..page.len()] {
                write(file, at, bytes, run)?;
                run = end..end;
            } else {
                run.end = end;
            }
        }
        write(file, at, bytes, run)
    }

    fn write(file: &File, at: usize, bytes: &[u8], run: std::ops::Range<usize>) -> io::Result<()> {
        file.write_all_at(&bytes[run.clone()], (at + run.start) as u64)
    }

    /// # Safety
    ///
    /// What `Frozen::map_over` asks for.
    pub unsafe fn map_over(file: &File, length: usize, start: *mut u8) -> io::Result<bool> {
        let page = page_size();
        if !start.addr().is_multiple_of(page) || !length.is_multiple_of(page) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: the caller owns the range, whole pages of it, and nobody looks at it meanwhile. The mapping is private,
        // so no write reaches the file or another mapping; the file is sealed, so it neither changes under the mapping
        // nor loses pages that are mapped. The kernel replaces the range at once.
        unsafe { mmap(start.cast(), length, protection, flags, file, 0) }?;
        Ok(true)
    }
}
