//! Sums of blocks that a client asks for: those that are kept, the others read from the file, a few at a time and each as
//! long as its client is there.

use super::Shared;
use super::reply::{Reply, of_error};
use super::tree::OpenedFile;
use crate::blocks::{BlockRequest, BlockSum};
use crate::body_paths::is_cold;
use crate::file_id::FileId;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::readiness::has_hung_up;
use linerate_system::{clock, lock};
use linerate_transport::admission::{Permit, Permits, origin};
use linerate_transport::flow::rate_limit::RateLimit;
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
}
