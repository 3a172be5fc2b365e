//! One request at a time, done by the caller's own thread within `turn`: by `pread`, `pwrite` and `send`
//! (fio's psync), or by loads and stores in a mapping of the file.

use super::{Action, Completion, Queue, Transfer, check};
use crate::buffers::Lease;
use crate::mapping::Mapping;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How a request is done.
pub trait Perform {
    /// The whole request; `lease` is its block.
    fn perform(&self, transfer: &Transfer, lease: &mut Lease) -> io::Result<usize>;

    /// Files that a request may name.
    fn files(&self) -> usize;

    /// What moves the bytes, for the report.
    fn method(&self) -> &'static str;
}

/// One request under way.
#[derive(Debug)]
pub struct SingleQueue<P> {
    by: P,
    asked: Option<(Lease, Transfer)>,
}

impl<P: Perform> SingleQueue<P> {
    pub(super) fn with(by: P) -> Self {
        SingleQueue { by, asked: None }
    }
}

impl<P: Perform> Queue for SingleQueue<P> {
    fn submit(&mut self, lease: Lease, transfer: Transfer) {
        check(&transfer, self.by.files(), lease.len());
        assert!(self.asked.is_none(), "one request at a time");
        self.asked = Some((lease, transfer));
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        match self.asked.take() {
            Some((mut lease, transfer)) => {
                let result = self.by.perform(&transfer, &mut lease);
                done.push(Completion { lease, result });
            }
            None => std::thread::sleep(wait.unwrap_or_default()),
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.asked.is_some())
    }

    fn method(&self) -> String {
        self.by.method().into()
    }
}

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

/// One request under way; it is done within `turn`.
pub type MappedQueue = SingleQueue<Mappings>;

/// Each file with its mapping.
#[derive(Debug)]
pub struct Mappings(Vec<(Arc<File>, Mapping)>);

impl MappedQueue {
    /// Mappings of these files as long as they are now; `writable` needs files that are open for reading and
    /// writing.
    pub fn new(files: Vec<Arc<File>>, writable: bool) -> io::Result<Self> {
        let mapped = files.into_iter().map(|file| {
            let mapping = Mapping::new(&file, writable)?;
            Ok((file, mapping))
        });
        Ok(SingleQueue::with(Mappings(mapped.collect::<io::Result<_>>()?)))
    }
}

impl Perform for Mappings {
    fn perform(&self, transfer: &Transfer, lease: &mut Lease) -> io::Result<usize> {
        let Transfer { action, file, offset, from, length } = *transfer;
        let (file, mapping) = &self.0[file];
        match action {
            Action::Read => mapping.copy_out(offset, &mut lease.bytes_mut()[from..from + length]),
            Action::Write => mapping.copy_in(offset, &lease.bytes()[from..from + length]),
            Action::Send { .. } => Err(io::ErrorKind::Unsupported.into()),
            // On Linux fsync writes what was stored through a mapping, too.
            Action::Flush { data_only: true } => Ok(rustix::fs::fdatasync(file).map(|()| 0)?),
            Action::Flush { data_only: false } => Ok(rustix::fs::fsync(file).map(|()| 0)?),
        }
    }

    fn files(&self) -> usize {
        self.0.len()
    }

    fn method(&self) -> &'static str {
        "loads and stores in a mapping"
    }
}
