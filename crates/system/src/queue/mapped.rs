//! Loads and stores in a mapping of the file, one request at a time.

use super::single::{Perform, SingleQueue};
use super::{Action, Transfer};
use crate::buffers::Lease;
use crate::mapping::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;

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
