//! io_uring with as little between two requests as there can be: one ring a thread, single issuer with deferred task run, a registered
//! descriptor of the ring itself, one registered arena, registered files, and one system call for a batch of requests.
//!
//! Each feature is tried and given up in steps (an old kernel, RLIMIT_MEMLOCK); `method()` says what is left.

use super::{Action, Done, Queue, Transfer, check};
use crate::buffers::Region;
use crate::file::lies_in_memory;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kernel registers no larger buffer (io_uring/rsrc.c).
const MOST_BUFFER_BYTES: usize = 1 << 30;
/// The kernel makes no larger ring.
const MOST_SLOTS: usize = 1 << 15;
/// io_uring_enter(2).
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// An io_uring with its files and its arena. Use it on the thread that made it: the ring's registered descriptor is that thread's.
pub struct RingQueue {
    ring: IoUring,
    /// Kept for ever if a request does not come back: the kernel may still write there.
    arena: ManuallyDrop<Region>,
    files: Vec<Arc<File>>,
    busy: Vec<bool>,
    block_bytes: usize,
    stride: usize,
    blocks_a_buffer: usize,
    queued: u32,
    in_flight: usize,
    descriptor: i32,
    descriptor_flag: u32,
    deferred: bool,
    buffers_registered: bool,
    files_registered: bool,
}

impl std::fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingQueue")
            .field("method", &self.method())
            .field("in_flight", &self.in_flight)
            .finish()
    }
}

/// io_uring_getevents_arg of the kernel.
#[repr(C)]
struct WaitArgument {
    signals: u64,
    signals_bytes: u32,
    minimum_wait_micros: u32,
    time: u64,
}

/// io_uring_rsrc_update of the kernel.
#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

impl RingQueue {
    /// A ring for `slots` requests in flight, each with a block of `block_bytes`, over these files.
    pub fn new(slots: usize, block_bytes: usize, files: Vec<Arc<File>>) -> io::Result<Self> {
        if slots == 0 || slots > MOST_SLOTS || block_bytes > i32::MAX as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let stride = block_bytes.max(1).next_multiple_of(4096);
        let arena = Region::map(stride.checked_mul(slots).ok_or(io::ErrorKind::OutOfMemory)?)?;
        let (ring, deferred) = build(slots.next_power_of_two() as u32)?;
        // Waiting with a time limit is of Linux 5.11; without it a turn could not end, and blocking calls serve better.
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        files.iter().filter(|file| lies_in_memory(file)).for_each(|file| promise_not_to_wait(file));
        let descriptors: Vec<i32> = files.iter().map(|file| file.as_raw_fd()).collect();
        let files_registered = ring.submitter().register_files(&descriptors).is_ok();
        let blocks_a_buffer = (MOST_BUFFER_BYTES / stride).clamp(1, slots);
        let buffers: Vec<libc::iovec> = (0..slots)
            .step_by(blocks_a_buffer)
            .map(|first| libc::iovec {
                // SAFETY: `first` is a slot, and the region has `stride` bytes for each.
                iov_base: unsafe { arena.start().add(first * stride) }.cast(),
                iov_len: blocks_a_buffer.min(slots - first) * stride,
            })
            .collect();
        // SAFETY: the arena stays mapped for as long as the ring may use it (see `drop`), and the kernel pins its pages.
        let buffers_registered = unsafe { ring.submitter().register_buffers(&buffers) }.is_ok();
        let registered = register_descriptor(ring.as_raw_fd());
        let descriptor = registered.unwrap_or(ring.as_raw_fd());
        Ok(RingQueue {
            descriptor,
            descriptor_flag: if registered.is_some() { ENTER_REGISTERED_RING } else { 0 },
            ring,
            arena: ManuallyDrop::new(arena),
            files,
            busy: vec![false; slots],
            block_bytes,
            stride,
            blocks_a_buffer,
            queued: 0,
            in_flight: 0,
            deferred,
            buffers_registered,
            files_registered,
        })
    }

    fn pointer(&self, slot: usize) -> *mut u8 {
        // SAFETY: each slot has `stride` bytes in the arena, and every caller's index was used on `busy` first.
        unsafe { self.arena.start().add(slot * self.stride) }
    }

    fn entry(&self, slot: usize, transfer: &Transfer) -> squeue::Entry {
        let (offset, length) = (transfer.offset, transfer.length as u32);
        let (file, flags) = if self.files_registered {
            (types::Fd(transfer.file as i32), squeue::Flags::FIXED_FILE)
        } else {
            (types::Fd(self.files[transfer.file].as_raw_fd()), squeue::Flags::empty())
        };
        // SAFETY: `from` is within the slot's block: `check` saw to it.
        let pointer = unsafe { self.pointer(slot).add(transfer.from) };
        let buffer = (slot / self.blocks_a_buffer) as u16;
        let entry = match (transfer.action, self.buffers_registered) {
            (Action::Read, true) => {
                opcode::ReadFixed::new(file, pointer, length, buffer).offset(offset).build()
            }
            (Action::Read, false) => opcode::Read::new(file, pointer, length).offset(offset).build(),
            (Action::Write, true) => {
                opcode::WriteFixed::new(file, pointer, length, buffer).offset(offset).build()
            }
            (Action::Write, false) => opcode::Write::new(file, pointer, length).offset(offset).build(),
            (Action::Flush, _) => opcode::Fsync::new(file).build(),
        };
        entry.flags(flags).user_data(slot as u64)
    }

    fn enter(&self, wait: Option<Duration>) -> io::Result<u32> {
        let wait_for = wait.unwrap_or_default();
        let time = types::Timespec::new().sec(wait_for.as_secs()).nsec(wait_for.subsec_nanos());
        let argument = WaitArgument {
            signals: 0,
            signals_bytes: 8,
            minimum_wait_micros: 0,
            time: std::ptr::from_ref(&time) as u64,
        };
        let flags = ENTER_GETEVENTS | ENTER_EXT_ARG | self.descriptor_flag;
        // SAFETY: the argument and the time behind it outlive the call, and what the queue's entries point to outlives their requests.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.descriptor,
                self.queued,
                u32::from(wait.is_some()),
                flags,
                std::ptr::from_ref(&argument),
                size_of::<WaitArgument>(),
            )
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as u32) }
    }

    fn collect(&mut self, done: &mut Vec<Done>) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            let Some(busy) = self.busy.get_mut(slot) else { continue };
            *busy = false;
            self.in_flight -= 1;
            let code = entry.result();
            let result = if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(code as usize) };
            done.push(Done { slot, result });
        }
    }
}

/// tmpfs has no flag for reads that do not wait, so io_uring hands each to another thread, though none waits for a device. O_NONBLOCK is
/// taken for that flag (`io_file_get_flags`, io_uring/rw.c): then the submitting call does the read. Buffered writes stay with the thread.
fn promise_not_to_wait(file: &File) {
    let flags = rustix::fs::fcntl_getfl(file).map(|flags| flags | rustix::fs::OFlags::NONBLOCK);
    // Where it cannot be set, the other thread does them.
    let _ = flags.and_then(|flags| rustix::fs::fcntl_setfl(file, flags));
}

/// The best ring that this kernel makes, and whether its completions wait until they are asked for.
fn build(entries: u32) -> io::Result<(IoUring, bool)> {
    let best = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_submit_all()
        .build(entries);
    match best {
        Ok(ring) => Ok((ring, true)),
        // Before Linux 6.1 there is no deferred task run.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((IoUring::new(entries)?, false)),
        Err(error) => Err(error),
    }
}

/// The ring's number among this thread's registered rings: it spares a look-up of the descriptor at each call (Linux 5.18).
fn register_descriptor(ring: i32) -> Option<i32> {
    let mut update = ResourceUpdate { offset: u32::MAX, reserved: 0, data: ring as u64 };
    change_descriptor(ring, REGISTER_RING_FDS, &mut update).then_some(update.offset as i32)
}

fn change_descriptor(ring: i32, what: u32, update: &mut ResourceUpdate) -> bool {
    // SAFETY: one update, as the count says; the kernel writes the number into it.
    let answer =
        unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, std::ptr::from_mut(update), 1) };
    answer == 1
}

impl Queue for RingQueue {
    fn slots(&self) -> usize {
        self.busy.len()
    }

    fn block(&mut self, slot: usize) -> Option<&mut [u8]> {
        if self.busy[slot] {
            return None;
        }
        // SAFETY: the block is within the arena, no request uses it, and `&mut self` is exclusive.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer(slot), self.block_bytes) })
    }

    fn submit(&mut self, slot: usize, transfer: Transfer) {
        check(&transfer, self.files.len(), self.block_bytes);
        assert!(!self.busy[slot], "the slot is taken");
        let entry = self.entry(slot, &transfer);
        // SAFETY: the entry's memory is the slot's block, which is in nobody else's hands until its completion was collected; its
        // file is one of `self.files`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring has an entry for each slot");
        self.busy[slot] = true;
        self.queued += 1;
        self.in_flight += 1;
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Done>) -> io::Result<()> {
        match self.enter(wait) {
            Ok(taken) => self.queued -= taken.min(self.queued),
            Err(error) => match error.raw_os_error() {
                // The time was up, a signal came, or completions wait to be collected, which follows.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => {}
                // It comes at once (io_uring_enter(2)): to ask again without a pause would take the core for nothing.
                Some(libc::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
                _ => return Err(error),
            },
        }
        self.collect(done);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn method(&self) -> String {
        let mut parts = vec!["io_uring"];
        if self.deferred {
            parts.push("deferred task run");
        }
        if self.descriptor_flag != 0 {
            parts.push("registered ring");
        }
        parts.push(if self.buffers_registered { "registered buffers" } else { "unregistered buffers" });
        parts.push(if self.files_registered { "registered files" } else { "unregistered files" });
        parts.join(", ")
    }
}

impl Drop for RingQueue {
    /// Waits a moment for what is in flight; what does not come back keeps its memory mapped for ever rather than be reused.
    fn drop(&mut self) {
        let mut done = Vec::new();
        // What the kernel has not been handed never starts.
        self.in_flight -= std::mem::take(&mut self.queued) as usize;
        if self.in_flight > 0 {
            // A time limit: what a kernel thread works on cannot be cancelled, and without one this call would wait for it for ever.
            let time = types::Timespec::new().nsec(100_000_000);
            let _ = self.ring.submitter().register_sync_cancel(Some(time), types::CancelBuilder::any());
        }
        let patience = Instant::now() + Duration::from_millis(200);
        while self.in_flight > 0 && Instant::now() < patience {
            if self.turn(Some(Duration::from_millis(20)), &mut done).is_err() {
                break;
            }
            done.clear();
        }
        if self.descriptor_flag != 0 {
            // The registration would keep the ring until its thread ends.
            let mut update = ResourceUpdate { offset: self.descriptor as u32, reserved: 0, data: 0 };
            change_descriptor(self.ring.as_raw_fd(), UNREGISTER_RING_FDS, &mut update);
        }
        if self.in_flight == 0 {
            // Closing a ring gives its locked memory and its files back at some later time; the next ring wants the memory within
            // the same RLIMIT_MEMLOCK now, and a file system that was read wants to be unmounted.
            if self.buffers_registered {
                let _ = self.ring.submitter().unregister_buffers();
            }
            if self.files_registered {
                let _ = self.ring.submitter().unregister_files();
            }
            // SAFETY: no request is under way, so the kernel writes there no more; nothing uses the arena after this.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
    }
}
