//! One request at a time, done by the caller's own thread within `turn`: what `pread` and a mapping have in common.

use super::{Done, Queue, Transfer, check};
use crate::buffers::{Lease, Pool};
use std::io;
use std::time::Duration;

/// How a request is done.
pub trait Perform {
    /// The whole request; `lease` is its slot's block.
    fn perform(&self, transfer: &Transfer, lease: &mut Lease) -> io::Result<usize>;

    /// Files that a request may name.
    fn files(&self) -> usize;

    /// What moves the bytes, for the report.
    fn method(&self) -> &'static str;
}

/// One request under way, whatever the slots.
#[derive(Debug)]
pub struct SingleQueue<P> {
    by: P,
    leases: Vec<Lease>,
    asked: Option<(usize, Transfer)>,
}

impl<P: Perform> SingleQueue<P> {
    /// Blocks of `block_bytes`.
    pub(super) fn with(by: P, slots: usize, block_bytes: usize) -> io::Result<Self> {
        let mut pool = Pool::new(slots, block_bytes)?;
        let leases = (0..slots).map_while(|_| pool.take()).collect();
        Ok(SingleQueue { by, leases, asked: None })
    }
}

impl<P: Perform> Queue for SingleQueue<P> {
    fn slots(&self) -> usize {
        self.leases.len()
    }

    fn block(&mut self, slot: usize) -> Option<&mut [u8]> {
        let busy = self.asked.is_some_and(|(asked, _)| asked == slot);
        if busy { None } else { Some(self.leases[slot].bytes_mut()) }
    }

    fn submit(&mut self, slot: usize, transfer: Transfer) {
        check(&transfer, self.by.files(), self.leases[slot].len());
        assert!(self.asked.is_none(), "one request at a time");
        self.asked = Some((slot, transfer));
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Done>) -> io::Result<()> {
        match self.asked.take() {
            Some((slot, transfer)) => {
                let result = self.by.perform(&transfer, &mut self.leases[slot]);
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
        self.by.method().into()
    }
}
