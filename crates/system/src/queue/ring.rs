//! io_uring with as little between two requests as there can be: one ring a thread, single issuer with
//! deferred task run, a registered descriptor of the ring itself, a registered pool, registered files, and
//! one system call for a batch of requests.
//!
//! Each feature is tried and given up in steps (an old kernel, RLIMIT_MEMLOCK); `method()` says what is left.

use super::{Action, Completion, Queue, Taken, Transfer, ZeroCopySends, check};
use crate::buffers::{Lease, Pool, Region};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kernel registers no larger buffer (io_uring/rsrc.c).
const MOST_BUFFER_BYTES: usize = 1 << 30;
/// The kernel makes no larger ring.
const MOST_ENTRIES: usize = 1 << 15;
/// A send of several trains has an entry for each.
const FEWEST_ENTRIES: usize = 16;
/// io_uring_enter(2).
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
/// Asks the notification of a send to say whether it was copied all the same (Linux 6.2), and the bit that says so.
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// A request whose block the kernel has; its index is the number of the block, and the kernel's `user_data`.
#[derive(Default)]
struct UnderWay {
    lease: Option<Lease>,
    /// It names a registered buffer: the kernel has its pages, and looks at no address of ours any more.
    pinned: bool,
    /// Entries of the ring that are not over; a send in several trains has several.
    entries_left: u32,
    /// The first error; 0: none.
    errno: i32,
    moved: usize,
}

/// An io_uring with its files and the pool whose blocks it moves. It stays on the thread that made it: its
/// registered descriptor is a number of that thread's, and on another it would name nothing, or another
/// queue's ring.
pub struct RingQueue {
    ring: IoUring,
    /// Makes it not `Send`.
    stays: PhantomData<*const ()>,
    region: Arc<Region>,
    files: Vec<Arc<File>>,
    under_way: Vec<UnderWay>,
    blocks_a_buffer: usize,
    /// Entries that the ring had no room for.
    waiting: VecDeque<squeue::Entry>,
    queued: u32,
    in_flight: usize,
    gather: usize,
    descriptor: i32,
    descriptor_flag: u32,
    deferred: bool,
    buffers_registered: bool,
    files_registered: bool,
    zero_copy: bool,
    taken: Vec<Taken>,
    zero_copy_sends: ZeroCopySends,
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
        Ok(RingQueue {
            descriptor,
            descriptor_flag: if registered.is_some() { ENTER_REGISTERED_RING } else { 0 },
            ring,
            stays: PhantomData,
            region: Arc::clone(&pool.region),
            files,
            under_way: (0..blocks).map(|_| UnderWay::default()).collect(),
            blocks_a_buffer,
            waiting: VecDeque::with_capacity(FEWEST_ENTRIES),
            queued: 0,
            in_flight: 0,
            gather: 1,
            deferred,
            buffers_registered,
            files_registered,
            zero_copy,
            taken: Vec::with_capacity(blocks),
            zero_copy_sends: ZeroCopySends::default(),
        })
    }

    /// The entry for `length` bytes of the block from `from` on.
    fn entry(&self, lease: &Lease, transfer: &Transfer, from: usize, length: usize) -> squeue::Entry {
        let (offset, length) = (transfer.offset, length as u32);
        let (file, flags) = if self.files_registered {
            (types::Fd(transfer.file as i32), squeue::Flags::FIXED_FILE)
        } else {
            (types::Fd(self.files[transfer.file].as_raw_fd()), squeue::Flags::empty())
        };
        // SAFETY: `from` and what follows are within the block: `check` saw to it.
        let pointer = unsafe { lease.pointer().add(from) };
        let buffer = (lease.number() / self.blocks_a_buffer) as u16;
        let entry = match (transfer.action, self.buffers_registered) {
            (Action::Read, true) => {
                opcode::ReadFixed::new(file, pointer, length, buffer).offset(offset).build()
            }
            (Action::Read, false) => opcode::Read::new(file, pointer, length).offset(offset).build(),
            (Action::Write, true) => {
                opcode::WriteFixed::new(file, pointer, length, buffer).offset(offset).build()
            }
            (Action::Write, false) => opcode::Write::new(file, pointer, length).offset(offset).build(),
            (Action::Send { train_bytes: 0, zero_copy: true }, _) if self.zero_copy => {
                opcode::SendZc::new(file, pointer, length)
                    .buf_index(Some(buffer))
                    .zc_flags(SEND_ZC_REPORT_USAGE)
                    .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
                    .build()
            }
            (Action::Send { train_bytes: 0, .. }, _) => {
                // MSG_WAITALL makes io_uring retry a partial send until all is out (since Linux 5.19).
                opcode::Send::new(file, pointer, length).flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL).build()
            }
            (Action::Send { .. }, _) => {
                opcode::Send::new(file, pointer, length).flags(libc::MSG_NOSIGNAL).build()
            }
            (Action::Flush, _) => opcode::Fsync::new(file).build(),
        };
        entry.flags(flags).user_data(lease.number() as u64)
    }

    /// Of a request with this action the kernel keeps the pages until it is over, mapped or not.
    fn is_pinned(&self, action: Action) -> bool {
        match action {
            Action::Read | Action::Write => self.buffers_registered,
            // Only where they are registered is there such a send.
            Action::Send { train_bytes, zero_copy } => train_bytes == 0 && zero_copy && self.zero_copy,
            Action::Flush => true,
        }
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the entry's memory is of a lease that `submit` puts into `under_way`, out of everybody's
        // reach until its completion was collected; its file is one of `self.files`.
        if self.waiting.is_empty() && unsafe { self.ring.submission().push(&entry) }.is_ok() {
            self.queued += 1;
        } else {
            self.waiting.push_back(entry);
        }
    }

    /// A send of datagrams: an entry for each train; how many there are.
    fn push_trains(&mut self, lease: &Lease, transfer: &Transfer, train_bytes: usize) -> u32 {
        let (mut from, end) = (transfer.from, transfer.from + transfer.length);
        let mut trains = 0;
        while from < end || trains == 0 {
            let length = train_bytes.min(end - from);
            let entry = self.entry(lease, transfer, from, length);
            self.push(entry);
            from += length;
            trains += 1;
        }
        trains
    }

    /// Hands what is queued to the kernel; false where it took nothing for now.
    fn hand_over(&mut self, wait: Option<Duration>) -> io::Result<bool> {
        match self.enter(wait) {
            Ok(taken) => {
                self.queued -= taken.min(self.queued);
                Ok(taken > 0)
            }
            Err(error) => match error.raw_os_error() {
                // The time was up, a signal came, or completions wait to be collected, which follows.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(false),
                // It comes at once (io_uring_enter(2)): to ask again without a pause would take the core for
                // nothing.
                Some(libc::EAGAIN) => {
                    std::thread::sleep(Duration::from_millis(1));
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    /// More trains than the ring has entries: those that wait go in as the kernel takes the others.
    fn hand_over_waiting(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() && self.hand_over(None)? {
            for entry in std::mem::take(&mut self.waiting) {
                self.push(entry);
            }
        }
        Ok(())
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
        // With nothing under way it waits for the time alone.
        let least = if wait.is_some() { self.gather.min(self.in_flight).max(1) } else { 0 };
        let flags = ENTER_GETEVENTS | ENTER_EXT_ARG | self.descriptor_flag;
        // SAFETY: the argument and the time behind it outlive the call, and what the queue's entries point to
        // outlives their requests.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.descriptor,
                self.queued,
                least as u32,
                flags,
                std::ptr::from_ref(&argument),
                size_of::<WaitArgument>(),
            )
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as u32) }
    }

    /// Entries that were made and did not come back.
    fn entries_left(&self) -> usize {
        let under_way = self.under_way.iter().filter(|request| request.lease.is_some());
        under_way.map(|request| request.entries_left as usize).sum()
    }

    fn collect(&mut self, done: &mut Vec<Completion>) {
        for entry in self.ring.completion() {
            let Some(request) = self.under_way.get_mut(entry.user_data() as usize) else { continue };
            if cqueue::notif(entry.flags()) {
                // Its result is no length.
                self.zero_copy_sends.sends += 1;
                let copied = entry.result() as u32 & NOTIF_USAGE_ZC_COPIED != 0;
                self.zero_copy_sends.copied += u64::from(copied);
            } else {
                match entry.result() {
                    code if code < 0 && request.errno == 0 => request.errno = -code,
                    code => request.moved += code.max(0) as usize,
                }
                // A notification follows, with which the kernel gives the block back.
                if cqueue::more(entry.flags()) {
                    if request.errno == 0 {
                        let number = entry.user_data() as usize;
                        self.taken.push(Taken { number, bytes: request.moved });
                    }
                    continue;
                }
            }
            request.entries_left = request.entries_left.saturating_sub(1);
            if request.entries_left > 0 {
                continue;
            }
            let Some(lease) = request.lease.take() else { continue };
            self.in_flight -= 1;
            // A train that fails after others went out has still moved those.
            let failed = request.errno != 0 && request.moved == 0;
            let result =
                if failed { Err(io::Error::from_raw_os_error(request.errno)) } else { Ok(request.moved) };
            done.push(Completion { lease, result });
        }
    }
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
        let (number, pinned) = (lease.number(), self.is_pinned(transfer.action));
        self.under_way[number] =
            UnderWay { lease: Some(lease), pinned, entries_left: entries, errno: 0, moved: 0 };
        self.in_flight += 1;
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
        taken.append(&mut self.taken);
    }

    fn zero_copy_sends(&self) -> ZeroCopySends {
        self.zero_copy_sends
    }

    fn gather(&mut self, completions: usize) {
        self.gather = completions.max(1);
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
    /// Waits a moment for what is in flight. What does not come back (a disk that hangs, a far path that has yet to
    /// acknowledge) has pages that the kernel keeps; where it only knows their address, they stay mapped for ever
    /// rather than be reused.
    fn drop(&mut self) {
        let mut done = Vec::new();
        // What the kernel has not been handed never starts.
        let never = std::mem::take(&mut self.queued) as usize + std::mem::take(&mut self.waiting).len();
        if self.entries_left() > never {
            // A time limit: what a kernel thread works on cannot be cancelled, and without one this call
            // would wait for it for ever.
            let time = types::Timespec::new().nsec(100_000_000);
            let _ = self.ring.submitter().register_sync_cancel(Some(time), types::CancelBuilder::any());
        }
        let patience = Instant::now() + Duration::from_millis(200);
        while self.entries_left() > never && Instant::now() < patience {
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
        if self.entries_left() > never {
            let left = self.under_way.iter_mut().filter(|request| !request.pinned);
            left.filter_map(|request| request.lease.take()).for_each(std::mem::forget);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a type is `Send`: where it is, its own constant hides that of the trait.
    struct Is<T>(PhantomData<T>);

    trait Otherwise {
        const SEND: bool = false;
    }

    impl<T> Otherwise for Is<T> {}

    impl<T: Send> Is<T> {
        const SEND: bool = true;
    }

    #[test]
    fn a_ring_stays_on_its_thread() {
        const { assert!(Is::<Vec<u8>>::SEND, "what may go is told from what may not") };
        const { assert!(!Is::<RingQueue>::SEND) };
    }

    #[test]
    fn requests_left_under_way_end_with_the_queue() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let file: Arc<File> = Arc::new(std::os::fd::OwnedFd::from(reader).into());
        let mut pool = Pool::new(2, 4096).expect("a pool");
        let Ok(mut queue) = RingQueue::new(vec![file], &pool) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        // Nobody writes to the pipe: this read would wait for ever.
        let read = Transfer { action: Action::Read, file: 0, offset: u64::MAX, from: 0, length: 1 };
        queue.submit(pool.take().expect("a block"), read);
        queue.turn(Some(Duration::from_millis(20)), &mut Vec::new()).expect("a turn");
        assert_eq!(queue.in_flight(), 1);
        let before = Instant::now();
        drop(queue);
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    }

    /// Both ends of a connection over loopback.
    fn connected() -> (Arc<File>, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near =
            std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        (Arc::new(File::from(std::os::fd::OwnedFd::from(near))), far)
    }

    /// The other end acknowledges nothing, so the kernel gives the block back to nobody.
    #[test]
    fn a_block_that_is_lent_for_long_does_not_stay_mapped() {
        let (socket, _far) = connected();
        let mut pool = Pool::new(1, 16 << 20).expect("a pool");
        let Ok(mut queue) = RingQueue::new(vec![socket], &pool) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        if !queue.zero_copy() {
            eprintln!("skipped: this kernel sends nothing without a copy, or locks too little memory");
            return;
        }
        for (zero_copy, stays) in [(true, false), (false, true)] {
            assert_eq!(queue.is_pinned(Action::Send { train_bytes: 0, zero_copy }), !stays);
        }
        let action = Action::Send { train_bytes: 0, zero_copy: true };
        let lease = pool.take().expect("a block");
        queue.submit(lease, Transfer { action, file: 0, offset: 0, from: 0, length: 16 << 20 });
        queue.turn(Some(Duration::from_millis(20)), &mut Vec::new()).expect("a turn");
        assert_eq!(queue.in_flight(), 1);
        let region = Arc::downgrade(&pool.region);
        drop((queue, pool));
        assert!(region.upgrade().is_none(), "its memory stays mapped");
    }

    #[test]
    fn what_was_never_handed_over_comes_back_at_once() {
        let file: Arc<File> = Arc::new(tempfile::tempfile().expect("a file"));
        let mut pool = Pool::new(1, 1 << 16).expect("a pool");
        let Ok(mut queue) = RingQueue::new(vec![file], &pool) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        // More trains than the ring has entries, none of which is sent.
        let send = Action::Send { train_bytes: 100, zero_copy: false };
        let lease = pool.take().expect("a block");
        queue.submit(lease, Transfer { action: send, file: 0, offset: 0, from: 0, length: 1 << 16 });
        assert!(!queue.waiting.is_empty());
        let region = Arc::downgrade(&pool.region);
        let before = Instant::now();
        drop((queue, pool));
        assert!(before.elapsed() < Duration::from_millis(150), "{:?}", before.elapsed());
        assert!(region.upgrade().is_none(), "its memory is free");
    }

    /// The kernel tells that it took the bytes before it gives the block back; on loopback it copies them all the same,
    /// and says so.
    #[test]
    fn a_send_without_a_copy_is_reported_twice() {
        use std::io::Read;
        let (socket, mut far) = connected();
        let mut pool = Pool::new(2, 1 << 16).expect("a pool");
        let Ok(mut queue) = RingQueue::new(vec![socket], &pool) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        if !queue.zero_copy() {
            eprintln!("skipped: this kernel sends nothing without a copy, or locks too little memory");
            return;
        }
        let mut lease = pool.take().expect("a block");
        lease.bytes_mut().fill(7);
        let action = Action::Send { train_bytes: 0, zero_copy: true };
        queue.submit(lease, Transfer { action, file: 0, offset: 0, from: 1, length: 60_000 });
        let (mut taken, mut done) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            if !done.is_empty() {
                break;
            }
            queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
            queue.taken(&mut taken);
            assert!(done.is_empty() || !taken.is_empty(), "the block is back before the send was told of");
        }
        assert!(matches!(taken[..], [Taken { bytes: 60_000, .. }]), "{taken:?}");
        assert!(matches!(done[..], [Completion { result: Ok(60_000), .. }]), "{done:?}");
        assert_eq!((queue.in_flight(), queue.zero_copy_sends().sends), (0, 1));
        let mut bytes = vec![0; 60_000];
        far.read_exact(&mut bytes).expect("bytes");
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}
