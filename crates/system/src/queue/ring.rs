//! io_uring with as little between two requests as there can be: one ring a thread, single issuer with
//! deferred task run, a registered descriptor of the ring itself, a registered pool, registered files, and one
//! system call for a batch of requests.
//!
//! Each feature is tried and given up in steps (an old kernel, RLIMIT_MEMLOCK); `method()` says what is left.

mod submission;

use super::requests::{Ended, Requests, What};
use super::{Action, Completion, Queue, Taken, Transfer, ZeroCopySends, check};
use crate::buffers::{Lease, Pool, Region};
use crate::kernel_tls;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use submission::ENTER_REGISTERED_RING;

/// The kernel registers no larger buffer (io_uring/rsrc.c).
const MOST_BUFFER_BYTES: usize = 1 << 30;
/// The kernel makes no larger ring.
const MOST_ENTRIES: usize = 1 << 15;
/// A send of several trains has an entry for each.
const FEWEST_ENTRIES: usize = 16;
/// How long a request is waited for that is cancelled; what a kernel thread works on cannot be.
const CANCEL_NANOS: u32 = 100_000_000;
/// The bit of a notification that says that the kernel copied all the same (Linux 6.2).
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// An io_uring with its files and the pool whose blocks it moves. It stays on the thread that made it: its
/// registered descriptor is a number of that thread's, and on another it would name nothing, or another
/// queue's ring.
pub struct RingQueue {
    ring: IoUring,
    /// Makes it not `Send`.
    stays: PhantomData<*const ()>,
    region: Arc<Region>,
    files: Vec<Arc<File>>,
    requests: Requests,
    blocks_a_buffer: usize,
    /// Entries that the ring had no room for.
    waiting: VecDeque<squeue::Entry>,
    queued: u32,
    gather: usize,
    descriptor: i32,
    descriptor_flag: u32,
    deferred: bool,
    buffers_registered: bool,
    files_registered: bool,
    zero_copy: bool,
    send_flags: i32,
}

impl std::fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingQueue")
            .field("method", &self.method())
            .field("in_flight", &self.requests.in_flight())
            .finish()
    }
}

impl RingQueue {
    /// A ring for as many requests in flight as the pool has blocks, over these files and sockets.
    pub fn new(files: Vec<Arc<File>>, pool: &Pool) -> io::Result<Self> {
        let (blocks, stride) = (pool.blocks(), pool.stride);
        if blocks == 0 || blocks > MOST_ENTRIES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (ring, deferred) = build(blocks.next_power_of_two().max(FEWEST_ENTRIES) as u32)?;
        // Waiting with a time limit is of Linux 5.11; without it a turn could not end, and blocking calls
        // serve better.
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let descriptors: Vec<i32> = files.iter().map(|file| file.as_raw_fd()).collect();
        let files_registered = ring.submitter().register_files(&descriptors).is_ok();
        let blocks_a_buffer = (MOST_BUFFER_BYTES / stride).clamp(1, blocks);
        let buffers: Vec<libc::iovec> = (0..blocks)
            .step_by(blocks_a_buffer)
            .map(|first| libc::iovec {
                // SAFETY: `first` is a block, and the region has `stride` bytes for each.
                iov_base: unsafe { pool.region.start().add(first * stride) }.cast(),
                iov_len: blocks_a_buffer.min(blocks - first) * stride,
            })
            .collect();
        // SAFETY: the region stays mapped for as long as the ring lives, which keeps a reference to it, and
        // while a request is under way (see `drop`); the kernel pins its pages.
        let buffers_registered = unsafe { ring.submitter().register_buffers(&buffers) }.is_ok();
        // Without registered pages each send would pin and charge its own.
        let zero_copy = buffers_registered && can_send_zero_copy(&ring);
        let registered = register_descriptor(ring.as_raw_fd());
        let descriptor = registered.unwrap_or(ring.as_raw_fd());
        let send_flags = send_flags(&files);
        Ok(RingQueue {
            descriptor,
            descriptor_flag: if registered.is_some() { ENTER_REGISTERED_RING } else { 0 },
            ring,
            stays: PhantomData,
            region: Arc::clone(&pool.region),
            files,
            requests: Requests::new(blocks),
            blocks_a_buffer,
            waiting: VecDeque::with_capacity(FEWEST_ENTRIES),
            queued: 0,
            gather: 1,
            deferred,
            buffers_registered,
            files_registered,
            zero_copy,
            send_flags,
        })
    }

    fn collect(&mut self, done: &mut Vec<Completion>) {
        for entry in self.ring.completion() {
            let what = match entry.flags() {
                flags if cqueue::notif(flags) => {
                    What::Notice { copied: entry.result() as u32 & NOTIF_USAGE_ZC_COPIED != 0 }
                }
                // A notification follows, with which the kernel gives the block back.
                flags if cqueue::more(flags) => What::Taken,
                _ => What::Whole,
            };
            done.extend(self.requests.end(Ended { tag: entry.user_data(), result: entry.result(), what }));
        }
    }
}

impl Queue for RingQueue {
    fn submit(&mut self, lease: Lease, transfer: Transfer) {
        check(&transfer, self.files.len(), lease.len());
        assert!(lease.is_of(&self.region), "a block of another pool");
        let entries = match transfer.action {
            Action::Send { train_bytes, .. } if train_bytes > 0 => {
                self.push_trains(&lease, &transfer, train_bytes)
            }
            _ => {
                let entry = self.entry(&lease, &transfer, transfer.from, transfer.length);
                self.push(entry);
                1
            }
        };
        self.requests.begin(lease, self.is_pinned(transfer.action), entries);
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        self.hand_over_waiting()?;
        self.hand_over(wait)?;
        self.collect(done);
        Ok(())
    }

    fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    fn taken(&mut self, taken: &mut Vec<Taken>) {
        self.requests.taken(taken);
    }

    fn zero_copy_sends(&self) -> ZeroCopySends {
        self.requests.zero_copy_sends()
    }

    fn cancel(&mut self, number: usize) -> bool {
        let request = types::CancelBuilder::user_data(self.requests.tag_now(number));
        let time = types::Timespec::new().nsec(CANCEL_NANOS);
        match self.ring.submitter().register_sync_cancel(Some(time), request) {
            Ok(()) => true,
            // It is over, or about to be. Before Linux 6.0 there is no such call.
            Err(error) => {
                matches!(
                    error.raw_os_error(),
                    Some(libc::ENOENT | libc::EALREADY | libc::ETIME | libc::EINTR)
                )
            }
        }
    }

    fn gather(&mut self, completions: usize) {
        self.gather = completions.max(1);
    }

    fn in_flight(&self) -> usize {
        self.requests.in_flight()
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
    /// Waits a moment for what is in flight. What does not come back (a disk that hangs, a far path that has yet to
    /// acknowledge) has pages that the kernel keeps; where it only knows their address, they stay mapped for ever
    /// rather than be reused.
    fn drop(&mut self) {
        let mut done = Vec::new();
        // What the kernel has not been handed never starts.
        let never = std::mem::take(&mut self.queued) as usize + std::mem::take(&mut self.waiting).len();
        if self.requests.entries_left() > never {
            // A time limit: what a kernel thread works on cannot be cancelled, and without one this call
            // would wait for it for ever.
            let time = types::Timespec::new().nsec(CANCEL_NANOS);
            let _ = self.ring.submitter().register_sync_cancel(Some(time), types::CancelBuilder::any());
        }
        let patience = Instant::now() + Duration::from_millis(200);
        while self.requests.entries_left() > never && Instant::now() < patience {
            if self.turn(Some(Duration::from_millis(20)), &mut done).is_err() {
                break;
            }
            done.clear();
        }
        if self.descriptor_flag != 0 {
            unregister_descriptor(self.ring.as_raw_fd(), self.descriptor);
        }
        if self.requests.entries_left() > never {
            self.requests.take_unpinned().for_each(std::mem::forget);
            return;
        }
        // Closing a ring gives its locked memory and its files back at some later time; the next ring wants
        // the memory within the same RLIMIT_MEMLOCK now, and a file system that was read wants to be
        // unmounted.
        if self.buffers_registered {
            let _ = self.ring.submitter().unregister_buffers();
        }
        if self.files_registered {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

/// io_uring_register(2).
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// io_uring_rsrc_update of the kernel.
#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
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

/// Whether the kernel has SEND_ZC (Linux 6.0). One that does not report what came of a send (before 6.2) refuses it when
/// it is sent, and the caller copies then.
fn can_send_zero_copy(ring: &IoUring) -> bool {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(opcode::SendZc::CODE)
}

/// MSG_WAITALL makes io_uring retry a partial send until all is out (since Linux 5.19). A socket whose records the kernel
/// encrypts refuses it (`tls_sw_sendmsg`), and takes what it can.
fn send_flags(files: &[Arc<File>]) -> i32 {
    match files.iter().any(kernel_tls::has_begun) {
        true => libc::MSG_NOSIGNAL,
        false => libc::MSG_WAITALL | libc::MSG_NOSIGNAL,
    }
}

/// The ring's number among this thread's registered rings: it spares a look-up of the descriptor at each call
/// (Linux 5.18).
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

/// The registration would keep the ring until its thread ends.
fn unregister_descriptor(ring: i32, number: i32) {
    let mut update = ResourceUpdate { offset: number as u32, reserved: 0, data: 0 };
    change_descriptor(ring, UNREGISTER_RING_FDS, &mut update);
}

#[cfg(test)]
mod tests;
