//! One request at a time, done by the caller's own thread within `turn`: what `pread` and a mapping have in
//! common.

use super::{Completion, Queue, Transfer, check};
use crate::buffers::Lease;
use std::io;
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
