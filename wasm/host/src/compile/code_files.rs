//! Files of compiled code, which a VM loads in place of compiling the module again.
//!
//! A folder has one file for each module and build of the host. The file is wasmtime's artifact, the globals that a snapshot
//! of the module contains, and a trailer: the SHA-256 of the module before the host rewrote it, the build, the length of the
//! globals, a CRC-32 of everything before it, and a magic number. The build (`build.rs`) is a hash of the sources and of the
//! lock file, so it stands for the rewriting, for the settings of the engine and for the version of wasmtime. wasmtime itself
//! compares the platform and the features of the CPU: code for a CPU with fewer features loads, code for more does not.
//!
//! A file that is absent, damaged or of something else is not loaded, and the next `store` replaces it. The CRC detects
//! damage, not malice: a user with write access to the folder can run code in the VM.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use wasmtime::{Engine, Module};

/// The names of the globals that a snapshot contains, or the reason why the module cannot have snapshots.
pub type SavedGlobals = Result<Vec<String>, String>;

/// The hash of the host's sources and of the versions of its dependencies.
const BUILD: &str = env!("BE_TREE_HOST_BUILD");
const MAGIC: &[u8; 8] = b"BeTrCode";
const DIGEST_BYTES: usize = 32;
/// The CRC-32 and the magic number, which the CRC-32 does not cover.
const SEAL_BYTES: usize = size_of::<u32>() + MAGIC.len();
const TRAILER_BYTES: usize = DIGEST_BYTES + BUILD.len() + size_of::<u32>() + SEAL_BYTES;
/// The bytes of a file that are read at a time.
const READ_BYTES: usize = 64 << 10;
const EXTENSION: &str = "code";
/// The extension of a file that is still being written.
const PART_EXTENSION: &str = "part";
/// The bytes of all files in a cache. Beyond them `store` deletes the files that were not used for the longest time.
const MAX_CACHE_BYTES: u64 = 1 << 30;
/// The permission bits by which others could write to a folder.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Returns the module with this SHA-256 if the folder has its code for this host and this CPU. The module keeps the file open.
pub fn load(folder: &Path, engine: &Engine, digest: &[u8]) -> Option<(Module, SavedGlobals)> {
    let file = File::open(folder.join(name(digest))).ok()?;
    let globals = read(&file, digest).ok().flatten()?;
    // SAFETY: a host of this build made the artifact in the file, since the trailer has the build, and a CRC-32 that `read` has
    // just compared over the same open file. `store` never changes a file, but replaces its name, so the mapped bytes
    // stay. The folder is trusted as code: it lies in the library's build beside the library itself, which the system maps in
    // the same way, or nobody else can write to it (`make_private`).
    let module = unsafe { Module::deserialize_open_file(engine, file) }.ok()?;
    Some((module, globals))
}

/// Marks the code of a module as used, so that `store` deletes other code first.
pub fn touch(folder: &Path, digest: &[u8]) {
    // A folder may be read-only. `store` then writes and deletes nothing.
    let _ = File::open(folder.join(name(digest))).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Writes the code of a module to the folder, under another name first, so that other processes see all of it or nothing.
///
/// # Errors
///
/// The error of the system that refused to write.
pub fn store(folder: &Path, digest: &[u8], module: &Module, globals: &SavedGlobals) -> io::Result<()> {
    let artifact = module.serialize().map_err(io::Error::other)?;
    let path = folder.join(name(digest));
    let part = folder.join(part_name(digest));
    let written = write(&part, &sealed(artifact, digest, globals)).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // The part may not even exist.
        let _ = fs::remove_file(&part);
        return written;
    }
    shrink(folder, MAX_CACHE_BYTES)
}

/// Makes the folder, with the mode 700, if there is none.
///
/// # Errors
///
/// The reason why code in this folder cannot be trusted, or why the folder cannot be made.
pub fn make_private(folder: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let metadata = made.and_then(|()| fs::metadata(folder)).map_err(|error| error.to_string())?;
    let user = rustix::process::geteuid().as_raw();
    let mend = "name a folder that does not exist yet, in this one for example";
    if metadata.uid() != user && metadata.uid() != 0 {
        return Err(format!("another user, {}, owns the folder, and this VM runs as {user}; {mend}", metadata.uid()));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(format!("other users may write to the folder (mode {mode:o}); {mend}, or chmod go-w"));
    }
    Ok(())
}

fn name(digest: &[u8]) -> OsString {
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-{BUILD}.{EXTENSION}").into()
}

/// Returns a name that no other thread or process uses.
fn part_name(digest: &[u8]) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = name(digest);
    name.push(format!(".{}-{}.{PART_EXTENSION}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    name
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A process that was killed may have left a part, and had the same number.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Deletes the files that were not used for the longest time, until the others have at most `limit` bytes.
pub fn shrink(folder: &Path, limit: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION || extension == PART_EXTENSION);
        // Another process may have deleted it since.
        if let Some(metadata) = fs::metadata(&path).ok().filter(|_| is_ours) {
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if total <= limit {
            break;
        }
        // Likewise.
        let _ = fs::remove_file(path);
        total -= length;
    }
    Ok(())
}

/// Returns the content of a file.
fn sealed(mut artifact: Vec<u8>, digest: &[u8], globals: &SavedGlobals) -> Vec<u8> {
    let start = artifact.len();
    encode(globals, &mut artifact);
    let globals = (artifact.len() - start) as u32;
    artifact.extend_from_slice(digest);
    artifact.extend_from_slice(BUILD.as_bytes());
    artifact.extend_from_slice(&globals.to_le_bytes());
    let crc = crc32fast::hash(&artifact);
    artifact.extend_from_slice(&crc.to_le_bytes());
    artifact.extend_from_slice(MAGIC);
    artifact
}

/// Returns the globals in a file that is complete, and of this module and this build.
fn read(file: &File, digest: &[u8]) -> io::Result<Option<SavedGlobals>> {
    let length = file.metadata()?.len();
    let Some(end) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, end)?;
    let Some((globals, crc)) = open(&trailer, digest) else { return Ok(None) };
    let Some(start) = end.checked_sub(globals.into()) else { return Ok(None) };
    if checksum(file, length - SEAL_BYTES as u64)? != crc {
        return Ok(None);
    }
    let mut globals = vec![0; globals as usize];
    file.read_exact_at(&mut globals, start)?;
    Ok(decode(&globals))
}

/// Returns the length of the globals and the CRC-32 in the trailer of a file of this module and this build.
fn open(trailer: &[u8], digest: &[u8]) -> Option<(u32, u32)> {
    let (rest, crc) = trailer.strip_suffix(MAGIC)?.split_last_chunk()?;
    let (rest, globals) = rest.split_last_chunk()?;
    let is_expected = rest.strip_suffix(BUILD.as_bytes())? == digest;
    is_expected.then_some((u32::from_le_bytes(*globals), u32::from_le_bytes(*crc)))
}

/// Returns the CRC-32 of the first bytes of a file. Its memory is that of one part.
fn checksum(mut file: &File, length: u64) -> io::Result<u32> {
    let mut part = vec![0; READ_BYTES];
    let mut left = length;
    let mut hasher = crc32fast::Hasher::new();
    while left > 0 {
        let wanted = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut part[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&part[..read]);
        left -= read as u64;
    }
    Ok(hasher.finalize())
}

const NAMES: u8 = 0;
const REASON: u8 = 1;

fn encode(globals: &SavedGlobals, bytes: &mut Vec<u8>) {
    match globals {
        Ok(names) => {
            bytes.push(NAMES);
            for name in names {
                bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
                bytes.extend_from_slice(name.as_bytes());
            }
        }
        Err(reason) => {
            bytes.push(REASON);
            bytes.extend_from_slice(reason.as_bytes());
        }
    }
}

fn decode(bytes: &[u8]) -> Option<SavedGlobals> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.into()).ok();
    let (&tag, mut rest) = bytes.split_first()?;
    if tag == REASON {
        return text(rest).map(Err);
    }
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (name, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        names.push(text(name)?);
        rest = after;
    }
    Some(Ok(names))
}
