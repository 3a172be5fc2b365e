//! Shared mappings of files that survive what the file does: touching a page that was cut off, or that the
//! device cannot read, raises SIGBUS, which would end the process.
//!
//! As libwayland does with its clients' memory (`wl_shm_buffer_begin_access`): while a copy runs, its thread
//! notes the range that it touches. The handler puts a page of zeros of its own at a faulting address within
//! that range, so that the copy goes on, and leaves word; the copy then fails with EIO, and the file's pages
//! are put back: the next one asks the device again. A SIGBUS from anywhere else goes to the handler that was there
//! before.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A file of this many bytes that lies in memory and has no name: another process gets it by its descriptor.
/// Nobody can make it shorter or longer.
pub fn memory_file(bytes: u64) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = File::from(memfd_create(c"linerate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// A file, mapped as long as it was then.
#[derive(Debug)]
pub struct Mapping {
    file: File,
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
    /// Pages of zeros lie in it that are not the file's: nothing can be had from it any more.
    broken: Cell<bool>,
}

// SAFETY: the mapping is memory of the process; its addresses mean the same on every thread, and all access
// is by copies.
unsafe impl Send for Mapping {}

/// What the running copy of this thread touches, and whether a page of it was missing.
#[derive(Clone, Copy)]
struct Touching {
    from: usize,
    to: usize,
    missing: bool,
}

const NOTHING: Touching = Touching { from: 0, to: 0, missing: false };

thread_local! {
    /// Constant at first and without a destructor: the handler may look at it at any time.
    static TOUCHING: Cell<Touching> = const { Cell::new(NOTHING) };
}

/// The bytes of a page, and what handled SIGBUS before; set before the handler is.
static BEFORE: OnceLock<(usize, libc::sigaction)> = OnceLock::new();

impl Mapping {
    /// Maps a whole file or block device; `writable` needs it open for reading and writing. It is not made
    /// longer by writing.
    pub fn new(file: &File, writable: bool) -> io::Result<Self> {
        use rustix::mm::{MapFlags, mmap};
        catch_sigbus()?;
        let bytes = usize::try_from(crate::file::size_of(file)?).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if bytes == 0 {
            let why = "it is empty, and a mapping does not make it longer";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let file = file.try_clone()?;
        let protection = protection(writable);
        // SAFETY: a new mapping at an address of the kernel's choice; only the copies below touch it.
        let address =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file.as_fd(), 0) }?;
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { file, start, bytes, writable, broken: Cell::new(false) })
    }

    /// Copies from the file into `to`; the bytes copied, fewer at the end of the mapping. EIO where a page
    /// could not be had.
    pub(crate) fn copy_out(&self, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let (address, length) = self.range(offset, to.len());
        // SAFETY: the range is within the mapping, which lives as long as `self`; `to` is ours alone and
        // elsewhere. Another process may change the file meanwhile: the copy is of bytes, any of which will
        // do.
        self.watched(address, length, || unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), length);
        })
    }

    /// Copies into the file; the bytes copied, fewer at the end of the mapping. EIO where a page could not be
    /// had (or the disk is full).
    pub fn copy_in(&self, offset: u64, from: &[u8]) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (address, length) = self.range(offset, from.len());
        // SAFETY: as in `copy_out`, and the mapping is writable.
        self.watched(address, length, || unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut u8, length);
        })
    }

    fn range(&self, offset: u64, length: usize) -> (usize, usize) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes);
        (self.start.as_ptr() as usize + offset, length.min(self.bytes - offset))
    }

    fn watched(&self, address: usize, length: usize, copy: impl FnOnce()) -> io::Result<usize> {
        let fails = || io::Error::from_raw_os_error(libc::EIO);
        if self.broken.get() {
            return Err(fails());
        }
        if missed(address, length, copy) {
            self.broken.set(self.put_back(address, length).is_err());
            return Err(fails());
        }
        Ok(length)
    }

    /// Maps the file's pages of this range again, over those that the handler put there.
    fn put_back(&self, address: usize, length: usize) -> io::Result<()> {
        use rustix::mm::{MapFlags, mmap};
        let from = address & !(page_bytes() - 1);
        let offset = (from - self.start.as_ptr() as usize) as u64;
        let (bytes, flags) = (address + length - from, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range lies in the mapping, which is ours, and no copy runs: it is of this thread
        // (`Mapping` is not `Sync`).
        unsafe { mmap(from as *mut _, bytes, protection(self.writable), flags, &self.file, offset) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no copy runs: each borrows `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn protection(writable: bool) -> rustix::mm::ProtFlags {
    use rustix::mm::ProtFlags;
    if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ }
}

/// Runs the copy of this range with the handler on guard; true where a page of it was missing.
fn missed(address: usize, length: usize, copy: impl FnOnce()) -> bool {
    let from = address & !(page_bytes() - 1);
    TOUCHING.set(Touching { from, to: address + length, missing: false });
    // The compiler may not move the copy out from between the two.
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    copy();
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    TOUCHING.replace(NOTHING).missing
}

fn page_bytes() -> usize {
    BEFORE.get().map_or(4096, |(page, _)| *page)
}

/// Installs the handler, once a process.
fn catch_sigbus() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: a zeroed sigaction is one with the default action.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if BEFORE.set((rustix::param::page_size(), before)).is_err() {
        // Another thread is about to do the rest; a fault before it has would end the process as it would
        // have without us.
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler below is safe to run at any time: it reads constants of the thread, and makes
    // system calls.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn on_sigbus(_signal: i32, information: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid pointer (SA_SIGINFO), and SIGBUS has an address.
    let address = unsafe { (*information).si_addr() } as usize;
    let Some((page, before)) = BEFORE.get() else { return };
    let touching = TOUCHING.get();
    if (touching.from..touching.to).contains(&address) {
        let start = address & !(page - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the page lies within the range that this thread's copy touches, which is within a mapping
        // of our own.
        let put = unsafe { libc::mmap(start as *mut libc::c_void, *page, protection, flags, -1, 0) };
        if put != libc::MAP_FAILED {
            TOUCHING.set(Touching { missing: true, ..touching });
            return;
        }
    }
    // Not ours: the access is tried again when this returns, and meets the handler of before.
    // SAFETY: `before` was filled in by the kernel.
    unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_is_an_error_not_the_end() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(1 << 20).expect("a size");
        let mapping = Mapping::new(&file, true).expect("a mapping");
        assert_eq!(mapping.copy_in(4096, &[7; 8192]).expect("room"), 8192);
        file.set_len(8192).expect("cut");
        let mut got = [0; 8192];
        assert_eq!(mapping.copy_out(4096, &mut got[..4096]).expect("still there"), 4096);
        assert!(got[..4096].iter().all(|byte| *byte == 7));
        let error = mapping.copy_out(4096, &mut got).expect_err("its second page is gone");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        let error = mapping.copy_in(500_000, &[1; 100]).expect_err("gone");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert_eq!(mapping.copy_out(4096, &mut got[..4096]).expect("still there"), 4096);
    }

    #[test]
    fn what_could_not_be_read_once_is_asked_for_again() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[7; 16_384], 0).expect("room");
        let mapping = Mapping::new(&file, true).expect("a mapping");
        file.set_len(4096).expect("cut");
        let mut got = [1; 12_288];
        for _ in 0..3 {
            let error = mapping.copy_out(4000, &mut got).expect_err("zeros are no good data");
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
            let error = mapping.copy_in(9000, &[1; 100]).expect_err("written to nowhere");
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
        file.write_all_at(&[9; 12_288], 4096).expect("whole again");
        assert_eq!(mapping.copy_out(4096, &mut got).expect("there"), 12_288);
        assert!(got.iter().all(|byte| *byte == 9));
        assert_eq!(mapping.copy_in(9000, &[5; 100]).expect("there"), 100);
        file.read_exact_at(&mut got[..100], 9000).expect("there");
        assert!(got[..100].iter().all(|byte| *byte == 5), "it is the file's page again");
    }

    #[test]
    fn a_file_in_memory_keeps_its_length_and_shows_what_was_copied() {
        use std::os::unix::fs::FileExt;
        let file = memory_file(10_000).expect("a file");
        let mapping = Mapping::new(&file, true).expect("a mapping");
        assert_eq!(mapping.copy_in(5_000, &[9; 6_000]).expect("room"), 5_000);
        let mut got = [0; 2];
        file.read_exact_at(&mut got, 4_999).expect("there");
        assert_eq!(got, [0, 9]);
        assert!(file.set_len(4_096).is_err() && file.set_len(20_000).is_err());
    }

    #[test]
    fn the_end_of_the_mapping_is_kept() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(10_000).expect("a size");
        let mapping = Mapping::new(&file, false).expect("a mapping");
        assert_eq!(mapping.copy_out(9_000, &mut [0; 4096]).expect("some"), 1_000);
        assert_eq!(mapping.copy_out(1 << 40, &mut [0; 4096]).expect("none"), 0);
        assert!(mapping.copy_in(0, &[1]).is_err(), "it is only to be read");
        assert!(Mapping::new(&tempfile::tempfile().expect("a file"), false).is_err(), "empty");
    }
}
