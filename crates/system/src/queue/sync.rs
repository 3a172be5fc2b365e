//! `pread` and `pwrite`, one request at a time (fio's psync).

use super::{Action, Done, Queue, Transfer, check};
use crate::buffers::{Lease, Pool};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// One request under way, whatever the slots; it is done within `turn`.
#[derive(Debug)]
pub struct SyncQueue {
    files: Vec<Arc<File>>,
    leases: Vec<Lease>,
    asked: Option<(usize, Transfer)>,
}

impl SyncQueue {
    /// Blocks of `block_bytes` and these files.
    pub fn new(slots: usize, block_bytes: usize, files: Vec<Arc<File>>) -> io::Result<Self> {
        let mut pool = Pool::new(slots, block_bytes)?;
        let leases = (0..slots).map_while(|_| pool.take()).collect();
        Ok(SyncQueue { files, leases, asked: None })
    }
}

/// The request, on the calling thread.
pub(super) fn perform(transfer: &Transfer, lease: &mut Lease, files: &[Arc<File>]) -> io::Result<usize> {
    let Transfer { action, file, offset, from, length } = *transfer;
    let file = files[file].as_fd();
    let moved = rustix::io::retry_on_intr(|| match action {
        Action::Read => rustix::io::pread(file, &mut lease.bytes_mut()[from..from + length], offset),
        Action::Write => rustix::io::pwrite(file, &lease.bytes()[from..from + length], offset),
        Action::Flush => rustix::fs::fsync(file).map(|()| 0),
    })?;
    Ok(moved)
}

impl Queue for SyncQueue {
    fn slots(&self) -> usize {
        self.leases.len()
    }

    fn block(&mut self, slot: usize) -> Option<&mut [u8]> {
        let busy = self.asked.is_some_and(|(asked, _)| asked == slot);
        if busy { None } else { Some(self.leases[slot].bytes_mut()) }
    }

    fn submit(&mut self, slot: usize, transfer: Transfer) {
        check(&transfer, self.files.len(), self.leases[slot].len());
        assert!(self.asked.is_none(), "one request at a time");
        self.asked = Some((slot, transfer));
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Done>) -> io::Result<()> {
        match self.asked.take() {
            Some((slot, transfer)) => {
                let result = perform(&transfer, &mut self.leases[slot], &self.files);
                done.push(Done { slot, result });
            }
            None => std::thread::sleep(wait.unwrap_or_default()),
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.asked.is_some())
    }

    fn method(&self) -> String {
        "pread and pwrite".into()
    }
}
