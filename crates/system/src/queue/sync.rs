//! `pread`, `pwrite` and `send`, one request at a time (fio's psync).

use super::single::{Perform, SingleQueue};
use super::{Action, Transfer};
use crate::buffers::Lease;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// One request under way; it is done within `turn`.
pub type SyncQueue = SingleQueue<Calls>;

/// The files of the calls.
#[derive(Debug)]
pub struct Calls(Vec<Arc<File>>);

impl SyncQueue {
    /// Calls on these files.
    pub fn new(files: Vec<Arc<File>>) -> Self {
        SingleQueue::with(Calls(files))
    }
}

/// The request, on the calling thread.
pub(super) fn perform(transfer: &Transfer, lease: &mut Lease, files: &[Arc<File>]) -> io::Result<usize> {
    let Transfer { action, file, offset, from, length } = *transfer;
    let file = files[file].as_fd();
    let moved = rustix::io::retry_on_intr(|| match action {
        Action::Read => rustix::io::pread(file, &mut lease.bytes_mut()[from..from + length], offset),
        Action::Write => rustix::io::pwrite(file, &lease.bytes()[from..from + length], offset),
        Action::Send { train_bytes, .. } => send(file, &lease.bytes()[from..from + length], train_bytes),
        Action::Flush { data_only: true } => rustix::fs::fdatasync(file).map(|()| 0),
        Action::Flush { data_only: false } => rustix::fs::fsync(file).map(|()| 0),
    })?;
    Ok(moved)
}

/// Train by train; one that fails after others went out has still moved those.
fn send(socket: BorrowedFd<'_>, bytes: &[u8], train_bytes: usize) -> rustix::io::Result<usize> {
    let step = if train_bytes == 0 { bytes.len().max(1) } else { train_bytes };
    let mut sent = 0;
    for train in bytes.chunks(step) {
        match rustix::net::send(socket, train, rustix::net::SendFlags::NOSIGNAL) {
            Ok(moved) => sent += moved,
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
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
