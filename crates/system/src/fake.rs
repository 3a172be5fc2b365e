//! A seeded stand-in for the kernel, with faults: short reads and sends, EIO, late and lost completions, out-of-order completion.
//!
//! A file's content is a function of file and offset, so that a test can prove what arrived.

use crate::buffers::Lease;
use crate::io::{Completion, Io, Operation};
use std::io;
use std::time::Duration;

/// How often what goes wrong, in thousandths of the operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A read gives fewer bytes than asked for.
    pub short_reads: u32,
    /// A read fails with EIO.
    pub read_errors: u32,
    /// A send takes fewer bytes than asked for.
    pub short_sends: u32,
    /// A send fails with ECONNRESET.
    pub send_errors: u32,
    /// A completion never comes.
    pub lost: u32,
    /// A completion comes many turns later than others.
    pub late: u32,
}

/// The fake kernel.
#[derive(Debug)]
pub struct Fake {
    state: u64,
    faults: Faults,
    depth: usize,
    pending: Vec<(u32, Completion)>,
    lost: Vec<Lease>,
    /// Everything that was sent, by socket, in order.
    pub sent: Vec<(usize, Vec<u8>)>,
    /// Reads that completed in full, as (file, offset, length).
    pub reads: Vec<(usize, u64, usize)>,
}

/// The byte at an offset of a fake file.
pub fn content(file: usize, offset: u64) -> u8 {
    (offset.wrapping_mul(31).wrapping_add(offset >> 12).wrapping_add(file as u64 * 7)) as u8
}

impl Fake {
    /// The same seed gives the same faults in the same order.
    pub fn new(seed: u64, depth: usize, faults: Faults) -> Self {
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Fake {
            state,
            faults,
            depth,
            pending: Vec::new(),
            lost: Vec::new(),
            sent: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn random(&mut self) -> u32 {
        // xorshift64*, Vigna 2016: good enough to pick faults.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as u32
    }

    fn strikes(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.random() % 1000 < thousandths
    }

    fn read(&mut self, file: usize, offset: u64, length: usize, lease: &mut Lease) -> io::Result<usize> {
        if self.strikes(self.faults.read_errors) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let got = if self.strikes(self.faults.short_reads) { length / 2 } else { length };
        for (index, byte) in lease.bytes_mut()[..got].iter_mut().enumerate() {
            *byte = content(file, offset + index as u64);
        }
        if got == length {
            self.reads.push((file, offset, length));
        }
        Ok(got)
    }
}

impl Io for Fake {
    fn submit(&mut self, operation: Operation, mut lease: Lease, tag: u64) -> Result<(), Lease> {
        if self.in_flight() >= self.depth {
            return Err(lease);
        }
        let result = match operation {
            Operation::Read { file, offset, length } => self.read(file, offset, length, &mut lease),
            Operation::Send { .. } if self.strikes(self.faults.send_errors) => {
                Err(io::Error::from_raw_os_error(libc::ECONNRESET))
            }
            Operation::Send { socket, from, length, .. } => {
                let taken = if self.strikes(self.faults.short_sends) { length.div_ceil(2) } else { length };
                self.sent.push((socket, lease.bytes()[from..from + taken].to_vec()));
                Ok(taken)
            }
        };
        if self.strikes(self.faults.lost) {
            self.lost.push(lease);
            return Ok(());
        }
        let delay = if self.strikes(self.faults.late) { 20 } else { self.random() % 3 };
        self.pending.push((delay, Completion { tag, operation, lease, result }));
        Ok(())
    }

    fn reap(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.pending.is_empty() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        let before = completions.len();
        while completions.len() == before && !self.pending.is_empty() {
            for index in (0..self.pending.len()).rev() {
                if self.pending[index].0 == 0 {
                    completions.push(self.pending.swap_remove(index).1);
                } else {
                    self.pending[index].0 -= 1;
                }
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.pending.len() + self.lost.len()
    }

    fn method(&self) -> String {
        "fake".into()
    }
}
