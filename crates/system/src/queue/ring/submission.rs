//! Requests become entries of the ring, and go to the kernel in one call.

use super::RingQueue;
use crate::buffers::Lease;
use crate::queue::{Action, Transfer};
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// io_uring_enter(2).
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
pub(super) const ENTER_REGISTERED_RING: u32 = 1 << 4;
/// Asks the notification of a send to say whether it was copied all the same (Linux 6.2).
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;

/// io_uring_getevents_arg of the kernel.
#[repr(C)]
struct WaitArgument {
    signals: u64,
    signals_bytes: u32,
    minimum_wait_micros: u32,
    time: u64,
}

impl RingQueue {
    /// The entry for `length` bytes of the block from `from` on.
    pub(super) fn entry(
        &self,
        lease: &Lease,
        transfer: &Transfer,
        from: usize,
        length: usize,
    ) -> squeue::Entry {
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
                opcode::Send::new(file, pointer, length).flags(self.send_flags).build()
            }
            (Action::Send { .. }, _) => {
                opcode::Send::new(file, pointer, length).flags(libc::MSG_NOSIGNAL).build()
            }
            (Action::Flush { data_only: true }, _) => {
                opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
            }
            (Action::Flush { data_only: false }, _) => opcode::Fsync::new(file).build(),
        };
        entry.flags(flags).user_data(self.requests.tag(lease.number()))
    }

    /// Of a request with this action the kernel keeps the pages until it is over, mapped or not.
    pub(super) fn is_pinned(&self, action: Action) -> bool {
        match action {
            Action::Read | Action::Write => self.buffers_registered,
            // Only where they are registered is there such a send.
            Action::Send { train_bytes, zero_copy } => train_bytes == 0 && zero_copy && self.zero_copy,
            Action::Flush { .. } => true,
        }
    }

    pub(super) fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the entry's memory is of a lease that `submit` puts into `requests`, out of everybody's
        // reach until its completion was collected; its file is one of `self.files`.
        if self.waiting.is_empty() && unsafe { self.ring.submission().push(&entry) }.is_ok() {
            self.queued += 1;
        } else {
            self.waiting.push_back(entry);
        }
    }

    /// A send of datagrams: an entry for each train; how many there are.
    pub(super) fn push_trains(&mut self, lease: &Lease, transfer: &Transfer, train_bytes: usize) -> u32 {
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
    pub(super) fn hand_over(&mut self, wait: Option<Duration>) -> io::Result<bool> {
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
    pub(super) fn hand_over_waiting(&mut self) -> io::Result<()> {
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
        let least = if wait.is_some() { self.gather.min(self.requests.in_flight()).max(1) } else { 0 };
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
}
