//! Files and block devices: opening them for direct I/O, their size, what of them the page cache holds.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The flag of a file that is open past the page cache, as `/proc/PID/fdinfo` shows it.
pub const DIRECT_FLAG: u32 = libc::O_DIRECT as u32;

/// Opens for reading; with `direct` the page cache is passed by. Never waits in a race with a FIFO for its
/// writer.
pub fn open_to_read(path: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { libc::O_DIRECT | libc::O_NONBLOCK } else { libc::O_NONBLOCK };
    blocking(File::options().read(true).custom_flags(flags).open(path)?)
}

/// Takes O_NONBLOCK, which was for the open alone, from a file. io_uring takes it as a promise that the file never
/// blocks, and then reads within the submitting call where the file system cannot do otherwise (FUSE, NFS): one read at
/// a time (`io_file_get_flags`, io_uring/rw.c).
pub(crate) fn blocking(file: File) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&file)? - rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&file, flags)?;
    Ok(file)
}

/// Size in bytes of a regular file or block device.
pub fn size_of(file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        // BLKGETSIZE64 by another way: the end of a block device is its size (lseek(2)).
        let mut handle = file;
        let size = handle.seek(SeekFrom::End(0))?;
        handle.seek(SeekFrom::Start(0))?;
        return Ok(size);
    }
    Ok(metadata.len())
}

/// Gives a regular file that is shorter this length, with room on its disk; never makes it shorter, anyone
/// who else does the same.
pub fn grow_to(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() >= bytes {
        return Ok(());
    }
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Takes room on its disk for a file that will have this many bytes, and leaves its length as it is: so the length says
/// how far it was written.
pub fn reserve_to(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let length = file.metadata()?.len();
    if length >= bytes {
        return Ok(());
    }
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, length, bytes - length)?)
}

/// Whether the file's system keeps it in memory, tmpfs or ramfs: then there is no device to wait for (but
/// swap).
pub fn lies_in_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|system| [TMPFS, RAMFS].contains(&(system.f_type as u64)))
}

/// Has io_uring read a file in memory within the submitting call.
///
/// tmpfs has no flag for reads that do not wait, so io_uring hands each to another thread, though none waits
/// for a device. O_NONBLOCK is taken for that flag (`io_file_get_flags`, io_uring/rw.c). Buffered writes stay
/// with the thread.
pub fn read_at_once_if_in_memory(file: &File) {
    if lies_in_memory(file) {
        let flags = rustix::fs::fcntl_getfl(file).map(|flags| flags | rustix::fs::OFlags::NONBLOCK);
        // Where it cannot be set, the other thread does them.
        let _ = flags.and_then(|flags| rustix::fs::fcntl_setfl(file, flags));
    }
}

/// The folder that a name is in; a bare one is in the current folder.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Bytes free to us, and bytes in all, of the file system that holds `path`.
pub fn space_at(path: &Path) -> io::Result<(u64, u64)> {
    let space = rustix::fs::statvfs(path)?;
    Ok((space.f_bavail.saturating_mul(space.f_frsize), space.f_blocks.saturating_mul(space.f_frsize)))
}

/// Bytes in a block of the file system that holds `path`, as it counts its own space.
pub fn block_bytes_at(path: &Path) -> io::Result<u64> {
    Ok(rustix::fs::statvfs(path)?.f_frsize)
}

/// Whether this process may make files in a directory: an error says why not (permission, a file system that
/// is mounted read-only).
pub fn check_writable(directory: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Whether a file of this owner is this process's user's, or root's: nobody else can have laid it there for
/// us to find.
pub fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Asks the kernel to drop this file's clean pages; only pages of this very file.
pub fn drop_pages(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// mincore(2) answers truly only to the owner of the file and to those who may write it; for all others every page is
/// there (since Linux 5.2).
fn sees_cached_pages(file: &File) -> io::Result<bool> {
    let user = rustix::process::geteuid();
    if user.is_root() || file.metadata()?.uid() == user.as_raw() {
        return Ok(true);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (access, flags) = (rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS);
    Ok(rustix::fs::accessat(rustix::fs::CWD, path, access, flags).is_ok())
}

/// Share of the file's first `bytes` that is in the page cache, 0 to 1. Permission denied where the kernel would
/// not tell.
pub fn cached_share(file: &File, bytes: u64) -> io::Result<f64> {
    cached_share_of(file, 0, bytes)
}

/// The same of `bytes` from `offset` on.
pub fn cached_share_of(file: &File, offset: u64, bytes: u64) -> io::Result<f64> {
    // The first GiB is enough, and bounds the page vector.
    let bytes = usize::try_from(bytes.min(1 << 30)).map_err(|_| io::ErrorKind::InvalidInput)?;
    if bytes == 0 {
        return Ok(0.0);
    }
    if !sees_cached_pages(file)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let page = rustix::param::page_size();
    let offset = offset / page as u64 * page as u64;
    let cached = match counted_pages(file, offset, bytes) {
        Some(cached) => cached,
        None => resident_pages(file, offset, bytes)?,
    };
    Ok((cached as f64 / bytes.div_ceil(page) as f64).min(1.0))
}

/// Pages of a part of the file that the page cache has, by cachestat(2), which counts rather than lists them; none
/// before Linux 6.5, or where a filter forbids it.
fn counted_pages(file: &File, offset: u64, bytes: usize) -> Option<u64> {
    /// The same number on every architecture.
    const CACHESTAT: libc::c_long = 451;
    let range = [offset, bytes as u64];
    // Cached, dirty, in writeback, evicted, evicted lately.
    let mut found = [0u64; 5];
    // SAFETY: the kernel reads two numbers and writes five, to arrays of that length which outlive the call.
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0) };
    (answer == 0).then_some(found[0])
}

/// The same by mincore(2), over a mapping that is never touched.
fn resident_pages(file: &File, offset: u64, bytes: usize) -> io::Result<u64> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let page = rustix::param::page_size();
    let mut resident = vec![0u8; bytes.div_ceil(page)];
    // SAFETY: a new read-only mapping at an address of the kernel's choice; it is never dereferenced, so
    // truncation cannot fault.
    let address = unsafe {
        mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), offset)
    }?;
    // SAFETY: the mapping is `bytes` long and the vector has one byte for each of its pages.
    let answer = unsafe { libc::mincore(address, bytes, resident.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping made above, not used afterwards.
    let _ = unsafe { munmap(address, bytes) };
    if answer != 0 {
        return Err(error);
    }
    Ok(resident.iter().filter(|page| **page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_files_in_memory_are_read_at_once() {
        for directory in ["/dev/shm", "/tmp", "/var/tmp"] {
            let Ok(file) = tempfile::tempfile_in(directory) else {
                eprintln!("skipped: no file in {directory}");
                continue;
            };
            read_at_once_if_in_memory(&file);
            let flags = rustix::fs::fcntl_getfl(&file).expect("its flags");
            let at_once = flags.contains(rustix::fs::OFlags::NONBLOCK);
            assert_eq!(lies_in_memory(&file), at_once, "{directory}");
        }
    }

    #[test]
    fn files_of_root_and_of_this_user_are_our_own() {
        let me = rustix::process::geteuid().as_raw();
        assert!(is_ours(0) && is_ours(me));
        assert!(!is_ours(me + 1) && !is_ours(u32::MAX));
    }

    #[test]
    fn a_file_just_written_is_cached() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&[1; 1 << 16]).expect("written");
        assert_eq!(size_of(&file).expect("a size"), 1 << 16);
        assert!(cached_share(&file, 1 << 16).expect("mincore") > 0.9);
        assert!(cached_share_of(&file, 5000, 40_000).expect("mincore") > 0.9);
    }

    #[test]
    fn what_was_opened_may_block() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for direct in [false, true] {
            // Not every file system takes O_DIRECT.
            let Ok(opened) = open_to_read(file.path(), direct) else { continue };
            let flags = rustix::fs::fcntl_getfl(&opened).expect("its flags");
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
            assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), direct, "{flags:?}");
        }
    }

    #[test]
    fn who_may_only_read_a_file_is_not_reported_that_all_of_it_is_cached() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can try it as somebody else");
            return;
        }
        let mut named = tempfile::NamedTempFile::new().expect("a temporary file");
        named.write_all(&[1; 1 << 16]).expect("written");
        let file = named.reopen().expect("opened");
        // Linux keeps the user of each thread apart: only this thread becomes somebody else, and it ends.
        let answer = std::thread::spawn(move || {
            let nobody = rustix::fs::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).map(|()| cached_share(&file, 1 << 16))
        });
        match answer.join().expect("the other user") {
            Ok(answer) => {
                assert_eq!(answer.map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
            }
            Err(error) => eprintln!("skipped: cannot become another user: {error}"),
        }
    }

    #[test]
    fn a_file_system_has_space() {
        let (free, all) = space_at(Path::new("/")).expect("statvfs");
        assert!(free <= all && all > 0);
    }

    #[test]
    fn both_ways_of_looking_see_the_same_pages() {
        let page = rustix::param::page_size();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; 64 * page]).expect("written");
        // Of what lies behind its end there is nothing.
        file.set_len(256 * page as u64).expect("longer");
        for (offset, bytes, held) in [(0, 64 * page, 64), (0, 256 * page, 64), (32 * page, 64 * page, 32)] {
            let resident = resident_pages(&file, offset as u64, bytes).expect("mincore");
            assert_eq!(resident, held, "{offset} {bytes}");
            match counted_pages(&file, offset as u64, bytes) {
                Some(counted) => assert_eq!(counted, held, "{offset} {bytes}"),
                None => eprintln!("skipped: no cachestat here"),
            }
            let share = cached_share_of(&file, offset as u64, bytes as u64).expect("a share");
            assert!((share - held as f64 / (bytes / page) as f64).abs() < 1e-9, "{share}");
        }
    }
}
