//! A seeded stand-in for the kernel with a clock of its own: short transfers, EIO, a full disk, a connection
//! that is reset, late and lost completions, a stall.
//!
//! Its files are in memory, so that a test can look at what was written and damage what is read; its clock
//! moves only within `turn`, so that ten seconds of a test take none.

use super::requests::{Ended, Requests, What};
use super::{Action, Completion, Queue, Taken, Transfer, ZeroCopySends, check};
use crate::buffers::Lease;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What goes wrong; how often in thousandths of the requests.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Fewer bytes are read or written than asked for.
    pub short: u32,
    /// A send takes fewer bytes than asked for.
    pub short_sends: u32,
    /// A read fails with EIO.
    pub read_errors: u32,
    /// A write fails with ENOSPC.
    pub full: u32,
    /// A flush fails with EIO.
    pub flush_errors: u32,
    /// A flush takes this much longer.
    pub slow_flush: Duration,
    /// A send fails with ECONNRESET.
    pub send_errors: u32,
    /// A completion never comes.
    pub lost: u32,
    /// A completion takes a hundred times as long.
    pub late: u32,
    /// A block that was sent without a copy comes back a hundred times as late, and not at all.
    pub late_notices: u32,
    pub lost_notices: u32,
    /// Its notification comes a second time, at some later moment.
    pub doubled_notices: u32,
    /// Sends without a copy are refused: the memory that may be pinned is used up.
    pub zero_copy_refused: bool,
    /// The device has room for this many: while it is full, handing over the next blocks the caller. 0: for all.
    pub room: usize,
    /// Between these moments of the queue's time nothing completes.
    pub stall: Option<Range<Duration>>,
}

/// How long a request takes: this, and up to as much again.
const SERVICE: Duration = Duration::from_micros(100);
/// No pool of a test has more.
const MOST_BLOCKS: usize = 1024;

/// The fake kernel with its device.
#[derive(Debug)]
pub struct FakeQueue {
    /// The content of the files, all there is of them; a write past the end is ENOSPC, a read ends there.
    pub files: Vec<Vec<u8>>,
    /// Everything that was sent, by socket, in order. A socket is a file of no bytes.
    pub sent: Vec<(usize, Vec<u8>)>,
    /// The account that the real ring keeps, too.
    requests: Requests,
    /// What is yet to be said of requests, and when; none for what is lost.
    pending: Vec<(Option<Duration>, Ended)>,
    /// By number: the send without a copy whose notification the block waits for.
    lent: Vec<Option<u64>>,
    /// Requests on a block that still waited.
    pub used_too_early: usize,
    faults: Faults,
    state: u64,
    begin: Instant,
    clock: Duration,
    /// The clock is the real one.
    waits: bool,
    /// When each request that moved bytes was submitted, and how many it asked for.
    pub submitted: Vec<(Duration, usize)>,
}

impl FakeQueue {
    /// The same seed gives the same faults in the same order.
    pub fn new(seed: u64, files: Vec<Vec<u8>>, faults: Faults) -> Self {
        FakeQueue {
            files,
            sent: Vec::new(),
            requests: Requests::new(MOST_BLOCKS),
            pending: Vec::new(),
            lent: vec![None; MOST_BLOCKS],
            used_too_early: 0,
            faults,
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            begin: Instant::now(),
            clock: Duration::ZERO,
            waits: false,
            submitted: Vec::new(),
        }
    }

    /// Its clock is the real one, for a caller that has no other: a turn waits, and each request takes its
    /// time.
    pub fn in_real_time(self) -> Self {
        FakeQueue { waits: true, ..self }
    }

    /// The zero of its clock.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// Time passes without anything happening, as for a process that was stopped.
    pub fn freeze(&mut self, time: Duration) {
        self.clock += time;
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

    fn perform(&mut self, transfer: &Transfer, lease: &mut Lease) -> io::Result<usize> {
        let (errno, odds, short) = match transfer.action {
            Action::Read => (libc::EIO, self.faults.read_errors, self.faults.short),
            Action::Write => (libc::ENOSPC, self.faults.full, self.faults.short),
            Action::Send { .. } => (libc::ECONNRESET, self.faults.send_errors, self.faults.short_sends),
            Action::Flush { .. } if self.strikes(self.faults.flush_errors) => {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Action::Flush { .. } => return Ok(0),
        };
        let zero_copy = matches!(transfer.action, Action::Send { zero_copy: true, .. });
        if zero_copy && self.faults.zero_copy_refused {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        if self.strikes(odds) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let asked = if self.strikes(short) { transfer.length.div_ceil(2) } else { transfer.length };
        if let Action::Send { .. } = transfer.action {
            let bytes = &lease.bytes()[transfer.from..transfer.from + asked];
            self.sent.push((transfer.file, bytes.to_vec()));
            return Ok(asked);
        }
        let size = self.files[transfer.file].len();
        let start = usize::try_from(transfer.offset).unwrap_or(usize::MAX).min(size);
        let length = asked.min(size - start);
        let range = &mut self.files[transfer.file][start..start + length];
        let block = &mut lease.bytes_mut()[transfer.from..transfer.from + length];
        match transfer.action {
            Action::Read => block.copy_from_slice(range),
            Action::Write if length == 0 => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => range.copy_from_slice(block),
        }
        Ok(length)
    }

    fn wait_for_room(&mut self) {
        if self.faults.room == 0 {
            return;
        }
        let at_work = |end: &Duration| *end > self.clock;
        let mut ends: Vec<Duration> =
            self.pending.iter().filter_map(|(end, _)| *end).filter(at_work).collect();
        if let Some(surplus) = ends.len().checked_sub(self.faults.room) {
            ends.sort_unstable();
            self.pass(ends[surplus]);
        }
    }

    /// The block is the kernel's; what its request is called.
    fn hold(&mut self, lease: Lease) -> u64 {
        let number = lease.number();
        self.used_too_early += usize::from(self.lent[number].is_some());
        let tag = self.requests.tag(number);
        self.requests.begin(lease, true, 1);
        tag
    }

    /// A send without a copy is taken, and its block comes back once or twice, or never.
    fn lend(&mut self, tag: u64, result: i32, end: Option<Duration>, takes: Duration) {
        self.pending.push((end, Ended { tag, result, what: What::Taken }));
        let late = if self.strikes(self.faults.late_notices) { takes * 100 } else { takes };
        let notice = end.map(|end| end + late).filter(|_| !self.strikes(self.faults.lost_notices));
        let notification = Ended { tag, result: 0, what: What::Notice { copied: false } };
        self.pending.push((notice, notification));
        self.lent[(tag & u64::from(u32::MAX)) as usize] = Some(tag);
        if self.strikes(self.faults.doubled_notices) {
            let again = notice.map(|notice| notice + SERVICE * (self.random() % 100));
            self.pending.push((again, notification));
        }
    }

    /// Time passes up to here.
    fn pass(&mut self, until: Duration) {
        if self.waits {
            std::thread::sleep(until.saturating_sub(self.begin.elapsed()));
            self.clock = self.begin.elapsed();
        } else {
            self.clock = until;
        }
    }
}

impl Queue for FakeQueue {
    fn submit(&mut self, mut lease: Lease, transfer: Transfer) {
        check(&transfer, self.files.len(), lease.len());
        self.pass(self.clock);
        let flushes = matches!(transfer.action, Action::Flush { .. });
        if !flushes {
            self.submitted.push((self.clock, transfer.length));
        }
        self.wait_for_room();
        let result = self.perform(&transfer, &mut lease);
        let slow = if flushes { self.faults.slow_flush } else { Duration::ZERO };
        let takes = SERVICE + SERVICE * (self.random() % 100) / 100 + slow;
        let mut end = self.clock + if self.strikes(self.faults.late) { takes * 100 } else { takes };
        if let Some(stall) = &self.faults.stall
            && stall.contains(&end)
        {
            end = stall.end + takes;
        }
        let end = if self.strikes(self.faults.lost) { None } else { Some(end) };
        let tag = self.hold(lease);
        let code = match &result {
            Ok(moved) => *moved as i32,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        match (transfer.action, result) {
            (Action::Send { zero_copy: true, .. }, Ok(_)) => self.lend(tag, code, end, takes),
            _ => self.pending.push((end, Ended { tag, result: code, what: What::Whole })),
        }
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        self.pass(self.clock);
        let first = self.pending.iter().filter_map(|(end, _)| *end).min();
        // A call takes some time, too.
        let until = self.clock + wait.unwrap_or_default() + Duration::from_nanos(200);
        if wait.is_some() {
            self.pass(first.map_or(until, |first| first.clamp(self.clock, until)));
        }
        let now = self.clock;
        for (_, ended) in self.pending.extract_if(.., |(end, _)| end.is_some_and(|end| end <= now)) {
            if matches!(ended.what, What::Notice { .. }) {
                self.lent.iter_mut().for_each(|lent| *lent = lent.filter(|tag| *tag != ended.tag));
            }
            done.extend(self.requests.end(ended));
        }
        Ok(())
    }

    fn zero_copy(&self) -> bool {
        true
    }

    fn taken(&mut self, taken: &mut Vec<Taken>) {
        self.requests.taken(taken);
    }

    fn zero_copy_sends(&self) -> ZeroCopySends {
        self.requests.zero_copy_sends()
    }

    fn in_flight(&self) -> usize {
        self.requests.in_flight()
    }

    fn now(&self) -> Instant {
        self.begin + self.clock
    }

    fn method(&self) -> String {
        "fake".into()
    }
}
