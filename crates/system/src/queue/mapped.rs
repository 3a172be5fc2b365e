//! Loads and stores in a mapping of the file, one request at a time.

use super::{Action, Done, Queue, Transfer, check};
use crate::buffers::{Lease, Pool};
use crate::mapping::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// One request under way, whatever the slots; it is done within `turn`.
#[derive(Debug)]
pub struct MappedQueue {
    files: Vec<Arc<File>>,
    mappings: Vec<Mapping>,
    leases: Vec<Lease>,
    asked: Option<(usize, Transfer)>,
}

impl MappedQueue {
    /// Mappings of these files as long as they are now; `writable` needs files that are open for reading and writing.
    pub fn new(slots: usize, block_bytes: usize, files: Vec<Arc<File>>, writable: bool) -> io::Result<Self> {
        let mappings = files.iter().map(|file| Mapping::new(file, writable)).collect::<io::Result<_>>()?;
        let mut pool = Pool::new(slots, block_bytes)?;
        let leases = (0..slots).map_while(|_| pool.take()).collect();
        Ok(MappedQueue { files, mappings, leases, asked: None })
    }

    fn perform(&mut self, slot: usize, transfer: &Transfer) -> io::Result<usize> {
        let Transfer { action, file, offset, from, length } = *transfer;
        match action {
            Action::Read => {
                self.mappings[file].copy_out(offset, &mut self.leases[slot].bytes_mut()[from..from + length])
            }
            Action::Write => {
                self.mappings[file].copy_in(offset, &self.leases[slot].bytes()[from..from + length])
            }
            // On Linux fsync writes what was stored through a mapping, too.
            Action::Flush => Ok(rustix::fs::fsync(&*self.files[file]).map(|()| 0)?),
        }
    }
}

impl Queue for MappedQueue {
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
                let result = self.perform(slot, &transfer);
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
        "loads and stores in a mapping".into()
    }
}
