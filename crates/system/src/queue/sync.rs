//! `pread` and `pwrite`, one request at a time (fio's psync).

use super::single::{Perform, SingleQueue};
use super::{Action, Transfer};
use crate::buffers::Lease;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// One request under way, whatever the slots; it is done within `turn`.
pub type SyncQueue = SingleQueue<Calls>;

/// The files of the calls.
#[derive(Debug)]
pub struct Calls(Vec<Arc<File>>);

impl SyncQueue {
    /// Blocks of `block_bytes` and these files.
    pub fn new(slots: usize, block_bytes: usize, files: Vec<Arc<File>>) -> io::Result<Self> {
        SingleQueue::with(Calls(files), slots, block_bytes)
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

impl Perform for Calls {
    fn perform(&self, transfer: &Transfer, lease: &mut Lease) -> io::Result<usize> {
        perform(transfer, lease, &self.0)
    }

    fn files(&self) -> usize {
        self.0.len()
    }

    fn method(&self) -> &'static str {
        "pread and pwrite"
    }
}
