//! io_uring: one ring a thread, single issuer with deferred task run, registered files and one registered region.
//!
//! Each feature is tried and given up in steps (an old kernel, RLIMIT_MEMLOCK); `method()` says what is left.
//! See io_uring_setup(2) for the flags, and <https://github.com/axboe/liburing/wiki> for their order of merit.

use crate::buffers::{Lease, Pool};
use crate::io::{Completion, Io, Operation};
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// One operation in flight; its index is the kernel's `user_data`. A datagram send in several trains is several parts.
struct Slot {
    tag: u64,
    operation: Operation,
    lease: Option<Lease>,
    parts_left: usize,
    moved: usize,
    error: Option<i32>,
}

/// An io_uring with its files and buffers. Use it on the thread that made it.
pub struct Ring {
    ring: IoUring,
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    queued: std::collections::VecDeque<(usize, squeue::Entry)>,
    files: Vec<OwnedFd>,
    files_registered: bool,
    buffers_registered: bool,
    deferred: bool,
    finished: Vec<usize>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("method", &self.method()).field("in_flight", &self.in_flight()).finish()
    }
}

impl Ring {
    /// A ring for at most `depth` operations in flight over these files and sockets, with the pool registered if the limits allow.
    pub fn new(depth: usize, files: Vec<OwnedFd>, pool: &Pool) -> io::Result<Self> {
        let depth = depth.max(1);
        let entries = (depth * 2).next_power_of_two().clamp(8, 4096) as u32;
        let (ring, deferred) = match IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .build(entries)
        {
            Ok(ring) => (ring, true),
            // Before Linux 6.1 there is no deferred task run.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (IoUring::new(entries)?, false),
            Err(error) => return Err(error),
        };
        // Waiting with a time limit is of Linux 5.11; without it `reap` would fail, and blocking calls serve better.
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let descriptors: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let files_registered = ring.submitter().register_files(&descriptors).is_ok();
        let region = [libc::iovec { iov_base: pool.region.start().cast(), iov_len: pool.region.bytes() }];
        // SAFETY: the region stays mapped while any lease lives, and the slots below hold a lease for all that is in flight;
        // the kernel pins the pages, so later unmapping cannot hand them to somebody else while it still writes.
        let buffers_registered = unsafe { ring.submitter().register_buffers(&region) }.is_ok();
        let slots = (0..depth)
            .map(|_| Slot {
                tag: 0,
                operation: Operation::Read { file: 0, offset: 0, length: 0 },
                lease: None,
                parts_left: 0,
                moved: 0,
                error: None,
            })
            .collect();
        Ok(Ring {
            ring,
            slots,
            free_slots: (0..depth).rev().collect(),
            queued: std::collections::VecDeque::with_capacity(depth * 4),
            files,
            files_registered,
            buffers_registered,
            deferred,
            finished: Vec::with_capacity(depth),
        })
    }

    fn entry(&self, entry: squeue::Entry, slot: usize) -> squeue::Entry {
        entry.user_data(slot as u64)
    }

    fn read_entry(
        &self,
        slot: usize,
        file: usize,
        offset: u64,
        pointer: *mut u8,
        length: u32,
    ) -> squeue::Entry {
        let built = match (self.files_registered, self.buffers_registered) {
            (true, true) => {
                opcode::ReadFixed::new(types::Fixed(file as u32), pointer, length, 0).offset(offset).build()
            }
            (true, false) => {
                opcode::Read::new(types::Fixed(file as u32), pointer, length).offset(offset).build()
            }
            (false, true) => {
                let descriptor = types::Fd(self.files[file].as_raw_fd());
                opcode::ReadFixed::new(descriptor, pointer, length, 0).offset(offset).build()
            }
            (false, false) => {
                let descriptor = types::Fd(self.files[file].as_raw_fd());
                opcode::Read::new(descriptor, pointer, length).offset(offset).build()
            }
        };
        self.entry(built, slot)
    }

    fn send_entry(
        &self,
        slot: usize,
        socket: usize,
        pointer: *const u8,
        length: u32,
        whole: bool,
    ) -> squeue::Entry {
        // MSG_WAITALL makes io_uring retry a partial send until all is out (since Linux 5.19).
        let flags = if whole { libc::MSG_WAITALL | libc::MSG_NOSIGNAL } else { libc::MSG_NOSIGNAL };
        let built = if self.files_registered {
            opcode::Send::new(types::Fixed(socket as u32), pointer, length).flags(flags).build()
        } else {
            opcode::Send::new(types::Fd(self.files[socket].as_raw_fd()), pointer, length).flags(flags).build()
        };
        self.entry(built, slot)
    }

    /// Moves queued entries into the submission queue as far as it has room.
    fn fill_submission_queue(&mut self) {
        let mut queue = self.ring.submission();
        while let Some((slot, entry)) = self.queued.pop_front() {
            // SAFETY: the entry's buffer belongs to a lease that its slot holds until the completion is reaped, and its file is
            // one of `self.files`, which live as long as the ring.
            if unsafe { queue.push(&entry) }.is_err() {
                self.queued.push_front((slot, entry));
                break;
            }
        }
        queue.sync();
    }

    fn collect(&mut self) {
        for entry in self.ring.completion() {
            let index = entry.user_data() as usize;
            let Some(slot) = self.slots.get_mut(index) else { continue };
            match entry.result() {
                code if code < 0 => slot.error = slot.error.or(Some(-code)),
                moved => slot.moved += moved as usize,
            }
            slot.parts_left -= 1;
            if slot.parts_left == 0 {
                self.finished.push(index);
            }
        }
    }

    fn hand_out(&mut self, completions: &mut Vec<Completion>) {
        for index in self.finished.drain(..) {
            let slot = &mut self.slots[index];
            let Some(lease) = slot.lease.take() else { continue };
            let result = match slot.error.take() {
                // A datagram train that fails after others went out has still moved those.
                Some(_) if slot.moved > 0 && matches!(slot.operation, Operation::Send { .. }) => {
                    Ok(slot.moved)
                }
                Some(code) => Err(io::Error::from_raw_os_error(code)),
                None => Ok(slot.moved),
            };
            completions.push(Completion { tag: slot.tag, operation: slot.operation, lease, result });
            self.free_slots.push(index);
        }
    }
}

impl Io for Ring {
    fn submit(&mut self, operation: Operation, lease: Lease, tag: u64) -> Result<(), Lease> {
        let Some(index) = self.free_slots.last().copied() else { return Err(lease) };
        let mut parts = 0;
        match operation {
            Operation::Read { file, offset, length } => {
                assert!(length <= lease.len() && file < self.files.len(), "a read outside its lease");
                let entry = self.read_entry(index, file, offset, lease.pointer(), length as u32);
                self.queued.push_back((index, entry));
                parts = 1;
            }
            Operation::Send { socket, from, length, train_bytes } => {
                // Checked: a sum that wraps round would pass for small, and the pointer below would lead anywhere.
                let end = from.checked_add(length);
                assert!(
                    end.is_some_and(|end| end <= lease.len()) && socket < self.files.len(),
                    "a send outside its lease"
                );
                let step = if train_bytes == 0 { length.max(1) } else { train_bytes };
                let mut sent = 0;
                while sent < length || parts == 0 {
                    let part = step.min(length - sent);
                    // SAFETY: `from + sent` is within the lease, as asserted above.
                    let pointer = unsafe { lease.pointer().add(from + sent) };
                    let entry = self.send_entry(index, socket, pointer, part as u32, train_bytes == 0);
                    self.queued.push_back((index, entry));
                    sent += part;
                    parts += 1;
                }
            }
        }
        self.free_slots.pop();
        self.slots[index] =
            Slot { tag, operation, lease: Some(lease), parts_left: parts, moved: 0, error: None };
        Ok(())
    }

    fn reap(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        let deadline = std::time::Instant::now() + timeout;
        let before = completions.len();
        loop {
            self.fill_submission_queue();
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let time = types::Timespec::new().sec(left.as_secs()).nsec(left.subsec_nanos());
            let arguments = types::SubmitArgs::new().timespec(&time);
            let mut short_of_memory = false;
            match self.ring.submitter().submit_with_args(1, &arguments) {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    // EBUSY: completions wait to be collected, which follows.
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY) => {}
                    Some(libc::EAGAIN) => short_of_memory = true,
                    _ => return Err(error),
                },
            }
            self.collect();
            self.hand_out(completions);
            if completions.len() > before || std::time::Instant::now() >= deadline {
                return Ok(());
            }
            if short_of_memory {
                // EAGAIN comes at once (io_uring_enter(2)): to ask again without a pause would take the core for nothing.
                std::thread::sleep(Duration::from_millis(1).min(timeout));
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    fn method(&self) -> String {
        let mut parts = vec!["io_uring"];
        if self.deferred {
            parts.push("deferred task run");
        }
        parts.push(if self.buffers_registered { "registered buffers" } else { "unregistered buffers" });
        if !self.files_registered {
            parts.push("unregistered files");
        }
        parts.join(", ")
    }
}

impl Drop for Ring {
    /// Waits for what is in flight; what does not come back in time keeps its memory mapped for ever rather than be reused.
    fn drop(&mut self) {
        let mut completions = Vec::new();
        while let Some((index, _)) = self.queued.pop_front() {
            self.slots[index].parts_left -= 1;
            if self.slots[index].parts_left == 0 {
                self.finished.push(index);
            }
        }
        self.hand_out(&mut completions);
        // A time limit: what a kernel thread works on cannot be cancelled, and without one this call would wait for it for ever.
        let time = types::Timespec::new().nsec(200_000_000);
        let _ = self.ring.submitter().register_sync_cancel(Some(time), types::CancelBuilder::any());
        // Short: a user who pressed Ctrl-C waits for this, and what is late is only forgotten, not lost.
        let patience = std::time::Instant::now() + Duration::from_millis(300);
        while self.in_flight() > 0 && std::time::Instant::now() < patience {
            if self.reap(Duration::from_millis(50), &mut completions).is_err() {
                break;
            }
            completions.clear();
        }
        if self.in_flight() == 0 {
            // Closing a ring gives its locked memory and its files back at some later time; the next ring wants the memory within
            // the same RLIMIT_MEMLOCK now, and a file system that was read wants to be unmounted.
            if self.buffers_registered {
                let _ = self.ring.submitter().unregister_buffers();
            }
            if self.files_registered {
                let _ = self.ring.submitter().unregister_files();
            }
        }
        for slot in &mut self.slots {
            if let Some(lease) = slot.lease.take() {
                std::mem::forget(lease);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn reads_a_file_and_sends_it() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let content: Vec<u8> = (0..1u32 << 18).map(|i| (i % 251) as u8).collect();
        file.write_all(&content).expect("written");
        let (local, mut remote) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut pool = Pool::new(4, 1 << 16).expect("a pool");
        let Ok(mut ring) = Ring::new(8, vec![file.into(), local.into()], &pool) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        for block in 0..4u64 {
            let lease = pool.take().expect("a block");
            let read = Operation::Read { file: 0, offset: block << 16, length: 1 << 16 };
            ring.submit(read, lease, block).expect("room in the ring");
        }
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 1 << 18];
            remote.read_exact(&mut received).map(|()| received)
        });
        let mut blocks = Vec::new();
        while ring.in_flight() > 0 {
            ring.reap(Duration::from_secs(5), &mut blocks).expect("completions");
        }
        blocks.sort_by_key(|completion| completion.tag);
        for completion in blocks {
            assert_eq!(completion.result.expect("a good read"), 1 << 16);
            let send = Operation::Send { socket: 1, from: 0, length: 1 << 16, train_bytes: 0 };
            ring.submit(send, completion.lease, completion.tag).expect("room in the ring");
            let mut sent = Vec::new();
            while sent.is_empty() {
                ring.reap(Duration::from_secs(5), &mut sent).expect("completions");
            }
            assert_eq!(sent[0].result.as_ref().expect("a good send"), &(1 << 16));
        }
        assert_eq!(reader.join().expect("the reader").expect("received"), content);
    }

    #[test]
    #[should_panic(expected = "a send outside its lease")]
    fn a_send_whose_end_wraps_round_is_refused() {
        let mut pool = Pool::new(1, 4096).expect("a pool");
        let lease = pool.take().expect("a block");
        let Ok(mut ring) = Ring::new(1, vec![tempfile::tempfile().expect("a file").into()], &pool) else {
            panic!("a send outside its lease: not tried, no io_uring here");
        };
        let send = Operation::Send { socket: 0, from: usize::MAX, length: 2, train_bytes: 0 };
        let _ = ring.submit(send, lease, 0);
    }

    #[test]
    fn an_idle_reap_ends_in_time() {
        let pool = Pool::new(1, 4096).expect("a pool");
        let Ok(mut ring) = Ring::new(1, Vec::new(), &pool) else { return };
        let start = std::time::Instant::now();
        ring.reap(Duration::from_millis(20), &mut Vec::new()).expect("nothing");
        assert!(start.elapsed() >= Duration::from_millis(15));
    }
}
