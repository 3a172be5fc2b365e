//! The requests that the kernel has, and which of them a completion belongs to.
//!
//! Blocks are used over and over, so the number of a block does not name a request: a notification that comes a
//! second time, or after its request was given up, would free the block while the next request has it. Each
//! request has a generation of its own in what the kernel gives back with a completion; what belongs to no
//! request that is under way is dropped and counted.

use super::{Completion, Taken, ZeroCopySends};
use crate::buffers::Lease;
use std::io;

/// Of a tag; the rest is the generation.
const NUMBER_BITS: u32 = 32;

/// What the kernel says of one entry of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// As [`Requests::tag`] gave it.
    pub(super) tag: u64,
    /// Bytes moved; a negative one is an errno.
    pub(super) result: i32,
    pub(super) what: What,
}

/// Which of the completions of an entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The only one.
    Whole,
    /// A send without a copy was taken; its notification follows, and the block is still the kernel's.
    Taken,
    /// The notification: the block is no longer the kernel's. `copied`: it was copied all the same.
    Notice { copied: bool },
}

/// One block's request, the last one where none is under way.
#[derive(Debug, Default)]
struct Request {
    generation: u32,
    lease: Option<Lease>,
    /// It names a registered buffer: the kernel has its pages, and looks at no address of ours any more.
    pinned: bool,
    /// Entries that are not over; a send in several trains has several.
    entries_left: u32,
    /// Of a send without a copy, which has one entry.
    is_taken: bool,
    is_noticed: bool,
    /// The first error; 0: none.
    errno: i32,
    moved: usize,
}

/// By the numbers of their blocks.
#[derive(Debug)]
pub(super) struct Requests {
    each: Vec<Request>,
    in_flight: usize,
    taken: Vec<Taken>,
    zero_copy_sends: ZeroCopySends,
}

impl Requests {
    /// None under way, of a pool of this many blocks.
    pub(super) fn new(blocks: usize) -> Self {
        Requests {
            each: (0..blocks).map(|_| Request::default()).collect(),
            in_flight: 0,
            taken: Vec::with_capacity(blocks),
            zero_copy_sends: ZeroCopySends::default(),
        }
    }

    /// What the entries of the next request on this block carry. No completion of an earlier one has it, for the four
    /// thousand million requests before.
    pub(super) fn tag(&self, number: usize) -> u64 {
        tag(number, self.each[number].generation.wrapping_add(1))
    }

    /// What those of its present, or last, request carry.
    pub(super) fn tag_now(&self, number: usize) -> u64 {
        tag(number, self.each[number].generation)
    }

    /// The request begins: its block is the kernel's.
    pub(super) fn begin(&mut self, lease: Lease, pinned: bool, entries: u32) {
        let request = &mut self.each[lease.number()];
        let generation = request.generation.wrapping_add(1);
        *request =
            Request { generation, lease: Some(lease), pinned, entries_left: entries, ..Request::default() };
        self.in_flight += 1;
    }

    /// An entry ended; the request, where it was the last of it.
    pub(super) fn end(&mut self, ended: Ended) -> Option<Completion> {
        let Some(request) = self.each.get_mut((ended.tag & u64::from(u32::MAX)) as usize) else {
            self.zero_copy_sends.unexpected += 1;
            return None;
        };
        let is_its = ended.tag >> NUMBER_BITS == u64::from(request.generation) && request.lease.is_some();
        let comes_again = match ended.what {
            What::Whole | What::Taken => request.is_taken,
            What::Notice { .. } => request.is_noticed,
        };
        if !is_its || comes_again {
            self.zero_copy_sends.unexpected += 1;
            return None;
        }
        if let What::Notice { copied } = ended.what {
            // Its result is not a length.
            self.zero_copy_sends.sends += 1;
            self.zero_copy_sends.copied += u64::from(copied);
            request.is_noticed = true;
        } else {
            match ended.result {
                code if code < 0 && request.errno == 0 => request.errno = -code,
                code => request.moved += code.max(0) as usize,
            }
        }
        if ended.what == What::Taken {
            request.is_taken = true;
            if request.errno == 0 {
                let number = (ended.tag & u64::from(u32::MAX)) as usize;
                self.taken.push(Taken { number, bytes: request.moved });
            }
        }
        // Both are awaited, in whichever order they come.
        if ended.what != What::Whole && !(request.is_taken && request.is_noticed) {
            return None;
        }
        request.entries_left = request.entries_left.saturating_sub(1);
        if request.entries_left > 0 {
            return None;
        }
        let lease = request.lease.take()?;
        self.in_flight -= 1;
        // A train that fails after others went out has still moved those.
        let failed = request.errno != 0 && request.moved == 0;
        let result =
            if failed { Err(io::Error::from_raw_os_error(request.errno)) } else { Ok(request.moved) };
        Some(Completion { lease, result })
    }

    /// Requests whose blocks are the kernel's.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Entries that did not come back.
    pub(super) fn entries_left(&self) -> usize {
        let under_way = self.each.iter().filter(|request| request.lease.is_some());
        under_way.map(|request| request.entries_left as usize).sum()
    }

    /// Sends without a copy that were taken since the last call.
    pub(super) fn taken(&mut self, taken: &mut Vec<Taken>) {
        taken.append(&mut self.taken);
    }

    pub(super) fn zero_copy_sends(&self) -> ZeroCopySends {
        self.zero_copy_sends
    }

    /// The blocks of requests that do not come back and of which the kernel only knows the address.
    pub(super) fn take_unpinned(&mut self) -> impl Iterator<Item = Lease> {
        let left = self.each.iter_mut().filter(|request| !request.pinned);
        left.filter_map(|request| request.lease.take())
    }
}

fn tag(number: usize, generation: u32) -> u64 {
    u64::from(generation) << NUMBER_BITS | number as u64
}

#[cfg(test)]
mod tests;
