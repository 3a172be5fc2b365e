//! Sums of blocks that a client asks for: those that were computed once, on the way of the bytes to a client or because
//! they were asked for, are kept; the others are read from the file, a few at a time and each as long as its client is
//! there. The SHA-256 of a file that a client put with it is kept, too.

use super::Shared;
use super::reply::{Reply, of_error};
use super::tree::OpenedFile;
use crate::blocks::{BlockRequest, BlockSum, FileId};
use crate::body_paths::is_cold;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::readiness::has_hung_up;
use linerate_system::{clock, lock};
use linerate_transport::admission::{Permit, Permits, origin};
use linerate_transport::flow::rate_limit::RateLimit;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Answers for which the server reads at once.
pub(super) const MOST_AT_ONCE: usize = 8;
/// Of them: of one client.
const MOST_OF_CLIENT: usize = 2;
/// A client that was refused comes again within this, or has lost its turn.
const TURN_TIME: Duration = Duration::from_secs(3);
/// Clients whose turns are remembered.
const MOST_TURNS: usize = 64;
/// Bytes of a read.
const READ_BYTES: usize = 1 << 20;
/// A client may leave while a rate is kept to: it is looked at this often.
const CLIENT_LOOK: Duration = Duration::from_millis(50);
/// The most sums that are kept, of all files together.
const MOST_KEPT: usize = 1 << 20;
/// The most files of which the SHA-256 is kept.
const MOST_DIGESTS: usize = 4096;
/// The most files of which sums are kept.
const MOST_FILES: usize = 256;

/// What all answers with sums have in common.
#[derive(Debug)]
pub(super) struct SumReads {
    permits: Arc<Permits>,
    /// Clients that found all permits taken, and when they came last: what is free then is theirs, in this order.
    turns: Mutex<Vec<(IpAddr, Instant)>>,
    /// The rate limit once more: what is read for sums is not sent.
    rate: Option<RateLimit>,
}

impl SumReads {
    pub(super) fn new(bytes_per_second: Option<f64>) -> Self {
        SumReads {
            permits: Permits::with_share(MOST_AT_ONCE, MOST_OF_CLIENT),
            turns: Mutex::default(),
            rate: bytes_per_second.map(|rate| RateLimit::new(rate, clock::now())),
        }
    }

    /// The right of a client to have sums computed now, if there is no other's turn before.
    pub(super) fn permit(&self, client: IpAddr) -> Result<Permit, Reply> {
        let busy = || Reply::busy("The server computes as many sums as it may already.");
        if self.permits.taken_by(client) >= MOST_OF_CLIENT {
            return Err(busy());
        }
        let (mut turns, now, own) = (lock(&self.turns), clock::now(), origin(client));
        turns.retain(|(_, came)| now.duration_since(*came) < TURN_TIME);
        let found = turns.iter().position(|(other, _)| *other == own);
        let free = MOST_AT_ONCE.saturating_sub(self.permits.taken());
        if free > found.unwrap_or(turns.len())
            && let Ok(permit) = self.permits.take(client)
        {
            found.map(|index| turns.remove(index));
            return Ok(permit);
        }
        match found {
            Some(index) => turns[index].1 = now,
            None if turns.len() < MOST_TURNS => turns.push((own, now)),
            None => {}
        }
        Err(busy())
    }
}

/// The sums of these blocks, if all of them are kept.
pub(super) fn kept_sums(opened: &OpenedFile, asked: BlockRequest, shared: &Shared<'_>) -> Option<Vec<u64>> {
    let blocks = asked.first..asked.first + asked.count;
    blocks.map(|block| shared.sums.get(opened.id, asked.block_bytes, block)).collect()
}

/// The kept ones, the others from the file.
pub(super) fn computed_sums(
    opened: &OpenedFile,
    names: &[Vec<u8>],
    asked: BlockRequest,
    (client, shared): (&TcpStream, &Shared<'_>),
) -> Result<Vec<u64>, Reply> {
    let mut direct: Option<File> = None;
    let mut pool = Pool::new(1, READ_BYTES).map_err(|error| of_error(&error))?;
    let mut lease = pool.take().ok_or_else(|| Reply::refused(500, "There is no buffer."))?;
    let mut sums = Vec::new();
    for block in asked.first..asked.first + asked.count {
        if let Some(kept) = shared.sums.get(opened.id, asked.block_bytes, block) {
            sums.push(kept);
            continue;
        }
        let start = block * asked.block_bytes;
        let end = (start + asked.block_bytes).min(opened.id.bytes);
        if direct.is_none() && is_cold(&opened.file, start, end - start) {
            // Another file may have the name by now.
            let is_same = |file: &File| FileId::of(file).is_ok_and(|id| id == opened.id);
            direct = shared.tree.open_file(names, true).ok().filter(is_same);
        }
        let file = direct.as_ref().unwrap_or(&opened.file);
        let sum = sum_of_block(file, start..end, &mut lease, client, shared)?;
        shared.sums.keep(opened.id, asked.block_bytes, block, sum);
        sums.push(sum);
    }
    match opened.is_unchanged() {
        true => Ok(sums),
        false => Err(Reply::refused(412, "The file changed meanwhile.")),
    }
}

fn sum_of_block(
    file: &File,
    bytes: std::ops::Range<u64>,
    lease: &mut Lease,
    client: &TcpStream,
    shared: &Shared<'_>,
) -> Result<u64, Reply> {
    let (mut at, end, mut sum) = (bytes.start, bytes.end, BlockSum::begin());
    while at < end {
        if shared.stop.is_ended() {
            return Err(Reply::refused(503, "The server ends.").closing());
        }
        if has_hung_up(client) {
            return Err(Reply::refused(503, "The client has left.").closing());
        }
        // Whole buffers, as O_DIRECT wants them; at the end of the file there is less.
        let read = file.read_at(lease.bytes_mut(), at).map_err(|error: io::Error| of_error(&error))?;
        let of_block = read.min((end - at) as usize);
        if of_block == 0 {
            return Err(Reply::refused(500, "The file became shorter meanwhile.").closing());
        }
        sum.add(&lease.bytes()[..of_block]);
        at += of_block as u64;
        if let Some(rate) = &shared.sum_reads.rate {
            let rest = |time: Duration| shared.stop.wait(time.min(CLIENT_LOOK)) || has_hung_up(client);
            rate.pay(of_block as u64, rest);
        }
    }
    Ok(sum.end())
}

/// Kept sums, by file and size of its blocks; the files that came first go first.
#[derive(Default)]
pub(super) struct KeptSums(Mutex<KeptFiles>);

#[derive(Default)]
struct KeptFiles {
    files: VecDeque<((FileId, u64), HashMap<u64, u64>)>,
    count: usize,
}

impl KeptSums {
    pub(super) fn get(&self, file: FileId, block_bytes: u64, block: u64) -> Option<u64> {
        let kept = lock(&self.0);
        let (_, sums) = kept.files.iter().find(|(key, _)| *key == (file, block_bytes))?;
        sums.get(&block).copied()
    }

    pub(super) fn keep(&self, file: FileId, block_bytes: u64, block: u64, sum: u64) {
        let mut kept = lock(&self.0);
        let place = |kept: &KeptFiles| kept.files.iter().position(|(key, _)| *key == (file, block_bytes));
        while kept.count >= MOST_KEPT || place(&kept).is_none() && kept.files.len() >= MOST_FILES {
            let Some((_, sums)) = kept.files.pop_front() else { break };
            kept.count -= sums.len();
        }
        let place = place(&kept).unwrap_or_else(|| {
            kept.files.push_back(((file, block_bytes), HashMap::new()));
            kept.files.len() - 1
        });
        if kept.files[place].1.insert(block, sum).is_none() {
            kept.count += 1;
        }
    }
}

/// The SHA-256 of files that clients put with it; those that came first go first.
#[derive(Default)]
pub(super) struct KeptDigests(Mutex<VecDeque<(FileId, [u8; 32])>>);

impl KeptDigests {
    pub(super) fn get(&self, file: FileId) -> Option<[u8; 32]> {
        let kept = lock(&self.0);
        kept.iter().rev().find(|(id, _)| *id == file).map(|(_, sha256)| *sha256)
    }

    pub(super) fn keep(&self, file: FileId, sha256: [u8; 32]) {
        let mut kept = lock(&self.0);
        if kept.len() >= MOST_DIGESTS {
            kept.pop_front();
        }
        kept.push_back((file, sha256));
    }
}

/// Sums of the blocks that pass by whole.
pub(super) struct Summing {
    id: FileId,
    block_bytes: u64,
    at: u64,
    /// Of the block that is at hand, where it was seen from its start.
    sum: Option<BlockSum>,
}

impl Summing {
    pub(super) fn new(id: FileId, block_bytes: u64, at: u64) -> Self {
        Summing { id, block_bytes, at, sum: None }
    }

    pub(super) fn add(&mut self, mut bytes: &[u8], mut keep: impl FnMut(u64, u64, FileId, u64)) {
        while !bytes.is_empty() {
            let within = self.at % self.block_bytes;
            if within == 0 {
                self.sum = Some(BlockSum::begin());
            }
            let (now, rest) = bytes.split_at(((self.block_bytes - within) as usize).min(bytes.len()));
            self.at += now.len() as u64;
            if let Some(sum) = &mut self.sum {
                sum.add(now);
                if self.at.is_multiple_of(self.block_bytes) || self.at == self.id.bytes {
                    keep((self.at - 1) / self.block_bytes, sum.end(), self.id, self.block_bytes);
                    self.sum = None;
                }
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_was_refused_has_the_next_turn() {
        let client = |number: u8| IpAddr::from([192, 0, 2, number]);
        let sums = SumReads::new(None);
        let mut taken: Vec<Permit> =
            (0..MOST_AT_ONCE as u8).filter_map(|number| sums.permit(client(number / 2)).ok()).collect();
        assert_eq!(taken.len(), MOST_AT_ONCE);
        assert_eq!(sums.permit(client(9)).map_err(|reply| reply.status).err(), Some(503));
        taken.pop();
        assert!(sums.permit(client(3)).is_err(), "whoever had it comes at once, and it is not its turn");
        let own = sums.permit(client(9));
        assert!(own.is_ok() && sums.permit(client(8)).is_err());
        assert!(sums.permit(client(0)).is_err(), "one that has its share gets no turn");
        drop((taken, own));
        let turns: Vec<IpAddr> = lock(&sums.turns).iter().map(|(client, _)| *client).collect();
        assert_eq!(turns, [client(3), client(8)]);
    }

    #[test]
    fn sums_are_kept_by_content_and_size_of_the_blocks() {
        let file = tempfile::tempfile().expect("a file");
        let id = |bytes| {
            file.set_len(bytes).expect("a length");
            FileId::of(&file).expect("an id")
        };
        let (one, two) = (id(1), id(2));
        let sums = KeptSums::default();
        sums.keep(one, 4096, 0, 7);
        let found = [(one, 4096), (one, 8192), (two, 4096)].map(|(file, size)| sums.get(file, size, 0));
        assert_eq!(found, [Some(7), None, None]);
        for size in 0..2 * MOST_FILES as u64 {
            sums.keep(two, size, 0, size);
        }
        assert_eq!((sums.get(one, 4096, 0), lock(&sums.0).files.len()), (None, MOST_FILES));
        assert_eq!(lock(&sums.0).count, MOST_FILES);
    }

    #[test]
    fn only_blocks_that_were_seen_whole_are_summed() {
        let content: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1000).expect("a length");
        let id = FileId::of(&file).expect("an id");
        let mut found = Vec::new();
        // From the middle of the first block to the end, in pieces of 7.
        let mut summing = Summing::new(id, 256, 100);
        let pieces = content[100..].chunks(7);
        pieces.for_each(|piece| summing.add(piece, |block, sum, _, _| found.push((block, sum))));
        let sum = |block: usize| {
            let mut sum = BlockSum::begin();
            sum.add(&content[block * 256..1000.min(block * 256 + 256)]);
            (block as u64, sum.end())
        };
        assert_eq!(found, [sum(1), sum(2), sum(3)]);
    }
}
