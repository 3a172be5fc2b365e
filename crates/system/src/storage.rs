//! Files and block devices as a benchmark opens them: past the page cache, held alone, without a name;
//! discards and dropped caches.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// How to open something that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// For writing, too.
    pub write: bool,
    /// Past the page cache.
    pub direct: bool,
    /// A write is over when its data is on the device (O_DSYNC).
    pub synced: bool,
    /// A block device for us alone: refused (EBUSY) while it is mounted, holds swap, or is part of an array.
    pub alone: bool,
}

/// Opens what is there.
pub fn open(path: &Path, how: Opening) -> io::Result<File> {
    let direct = if how.direct { libc::O_DIRECT } else { 0 };
    let synced = if how.synced { libc::O_DSYNC } else { 0 };
    let alone = if how.alone { libc::O_EXCL } else { 0 };
    File::options().read(true).write(how.write).custom_flags(direct | synced | alone).open(path)
}

/// Makes a file that must not be there yet, readable by its owner only.
pub fn create(path: &Path, direct: bool) -> io::Result<File> {
    let direct = if direct { libc::O_DIRECT } else { 0 };
    File::options().read(true).write(true).create_new(true).mode(0o600).custom_flags(direct).open(path)
}

/// Makes a file without a name in a directory; not every file system can.
pub fn create_nameless(directory: &Path, direct: bool) -> io::Result<File> {
    let direct = if direct { libc::O_DIRECT } else { 0 };
    File::options().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | direct).open(directory)
}

/// Makes a file without a name, past the page cache where that works (true). Where the file system knows no such
/// file, one with a name that lives for the blink between two calls.
pub fn nameless(directory: &Path) -> io::Result<(File, bool)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for direct in [true, false] {
        if let Ok(file) = create_nameless(directory, direct) {
            return Ok((file, direct));
        }
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".linerate-scratch-{}-{number}", std::process::id()));
    let file = create(&path, false)?;
    std::fs::remove_file(&path)?;
    Ok((file, false))
}

/// Opens a file again, with a position and flags of its own; also one without a name.
pub fn reopen(file: &File, how: Opening) -> io::Result<File> {
    open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), how)
}

/// Tells a block device that all it holds may go (TRIM, deallocate). Everything on it is lost.
pub fn discard(device: &File, bytes: u64) -> io::Result<()> {
    /// `_IO(0x12, 119)`, linux/fs.h; the same on every architecture.
    const BLKDISCARD: u64 = 0x1277;
    if !device.metadata()?.file_type().is_block_device() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let range: [u64; 2] = [0, bytes];
    // SAFETY: BLKDISCARD reads two u64 (start and length) from the pointer, which outlives the call, and
    // writes nothing there.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes back what is dirty and empties the page cache of the whole machine (proc(5), drop_caches). For root
/// only; nothing is lost, but whatever else runs here reads from its disks again.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1")
}

/// Gives this process as many open files as its hard limit allows; how many that is, none: any number.
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where this is refused the limit stays as it was, and what runs into it says so.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_there_is_not_made_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        create(&path, false).expect("made").write_all_at(b"abc", 0).expect("written");
        let again = create(&path, false).map(drop).map_err(|error| error.kind());
        assert_eq!(again, Err(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read(&path).expect("read"), b"abc");
    }

    #[test]
    fn a_nameless_file_is_opened_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let Ok(file) = create_nameless(directory.path(), false) else {
            eprintln!("skipped: the file system of temporary files has no O_TMPFILE");
            return;
        };
        file.write_all_at(b"abc", 0).expect("written");
        let again = reopen(&file, Opening { write: true, ..Opening::default() }).expect("opened");
        let mut read = [0; 3];
        again.read_exact_at(&mut read, 0).expect("read");
        assert_eq!(&read, b"abc");
        assert_eq!(std::fs::read_dir(directory.path()).expect("a list").count(), 0);
    }

    #[test]
    fn only_a_block_device_is_discarded() {
        let file = tempfile::tempfile().expect("a temporary file");
        assert_eq!(discard(&file, 4096).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidInput));
    }
}
