//! Scratch files for a run without a source: written beside the current directory, and gone whatever happens.
//!
//! A scratch file has no name: O_TMPFILE makes it without one (or it is unlinked at once where the file
//! system has no O_TMPFILE), so not even `kill -9` or a power cut leaves it behind. Workers open it through
//! `/proc/self/fd`.

use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::buffers::Pool;
use linerate_system::file::space_at;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a scratch file holds where the disk has room.
pub(crate) const WISHED_BYTES: u64 = 1 << 30;
/// Less than this measures a cache, not a disk.
const LEAST_BYTES: u64 = 64 << 20;
/// A slow disk gets a shorter file rather than a longer wait.
const WRITING_TIME: Duration = Duration::from_secs(8);
/// Bytes a write.
const WRITE_BYTES: usize = 4 << 20;

/// A nameless file with content that does not compress.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    /// Bytes written.
    pub length_bytes: u64,
}

impl Scratch {
    /// Writes one in `directory`, so that at least a tenth of the disk stays free.
    pub(crate) fn write(directory: &Path, stop: &AtomicBool) -> Result<Self, Failure> {
        Scratch::write_up_to(directory, WISHED_BYTES, stop)
    }

    /// As [`Scratch::write`], of so many bytes at most.
    pub(crate) fn write_up_to(directory: &Path, most_bytes: u64, stop: &AtomicBool) -> Result<Self, Failure> {
        let lacks = |why: String| {
            Failure::Lacks(format!(
                "no scratch file in {}: {why}; name a file to read with --source FILE, or another directory \
                 with --scratch DIR",
                directory.display()
            ))
        };
        let (free, total) = space_at(directory).map_err(|error| lacks(error.to_string()))?;
        let size = most_bytes.min(free.saturating_sub(total / 10)) / WRITE_BYTES as u64 * WRITE_BYTES as u64;
        if size < LEAST_BYTES {
            return Err(lacks(format!(
                "the disk is nearly full ({} free of {}; a tenth is left alone, and {} are the least that is \
                 of use)",
                show_size(free),
                show_size(total),
                show_size(LEAST_BYTES)
            )));
        }
        let (file, direct) = nameless(directory).map_err(|error| lacks(error.to_string()))?;
        let length_bytes = fill(&file, size, stop).map_err(|error| lacks(explain(&error)))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        if length_bytes < LEAST_BYTES.min(size) / 4 {
            return Err(lacks(format!(
                "the disk took only {} in {} s",
                show_size(length_bytes),
                WRITING_TIME.as_secs()
            )));
        }
        if !direct {
            let _ = linerate_system::file::drop_pages(&file);
        }
        Ok(Scratch { file, length_bytes })
    }

    /// A path that opens the file as long as this value lives.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk became full while it was written".into(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".into(),
        _ => error.to_string(),
    }
}

/// A file without a name, past the page cache where that works.
fn nameless(directory: &Path) -> io::Result<(File, bool)> {
    const O_DIRECT: i32 = 0o40000;
    const O_TMPFILE: i32 = 0o20200000;
    let open =
        |flags: i32| File::options().read(true).write(true).custom_flags(flags).mode(0o600).open(directory);
    if let Ok(file) = open(O_TMPFILE | O_DIRECT) {
        return Ok((file, true));
    }
    if let Ok(file) = open(O_TMPFILE) {
        return Ok((file, false));
    }
    // The name lives for the blink between these two calls.
    let path = directory.join(format!(".linerate-scratch-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok((file, false))
}

/// Writes up to `size` bytes within the writing time; gives how many.
fn fill(file: &File, size: u64, stop: &AtomicBool) -> io::Result<u64> {
    let mut pool = Pool::new(1, WRITE_BYTES)?;
    let Some(mut block) = pool.take() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for word in block.bytes_mut().chunks_exact_mut(8) {
        // xorshift64: what does not compress is all that is wanted.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
    let patience = Instant::now() + WRITING_TIME;
    let mut written = 0;
    while written < size && Instant::now() < patience && !stop.load(Ordering::Relaxed) {
        // Each block differs, so that a disk that finds equal blocks gains nothing.
        block.bytes_mut()[..8].copy_from_slice(&written.to_ne_bytes());
        file.write_all_at(block.bytes(), written)?;
        written += WRITE_BYTES as u64;
    }
    file.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_has_no_name_and_can_be_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let scratch = match Scratch::write(directory.path(), &AtomicBool::new(false)) {
            Ok(scratch) => scratch,
            Err(failure) => {
                eprintln!("skipped: {failure}");
                return;
            }
        };
        assert_eq!(std::fs::read_dir(directory.path()).expect("a list").count(), 0);
        let again = File::open(scratch.path()).expect("opened through /proc");
        assert_eq!(again.metadata().expect("metadata").len(), scratch.length_bytes);
    }

    #[test]
    fn no_directory_is_one_sentence() {
        let failure =
            Scratch::write(Path::new("/nonexistent/place"), &AtomicBool::new(false)).expect_err("no place");
        assert_eq!(failure.exit_status(), 3);
        assert!(failure.to_string().contains("--source"), "{failure}");
    }
}
