//! Which chunks the rules allow, and which of them is recommended.

use super::level::{RaidLevel, System};
use super::traffic::traffic;
use super::{LARGEST_BYTES, LEAST_CHUNK_BYTES, RaidError, RaidSpec, exact_size};
use serde::Serialize;

/// btrfs' stripe length, fixed (`BTRFS_STRIPE_LEN`, fs/btrfs/volumes.h).
pub(crate) const BTRFS_CHUNK_BYTES: u64 = 64 << 10;
/// md's default; a disk gains little from larger requests.
const USUAL_CHUNK_BYTES: u64 = 512 << 10;
/// Below this a neighbour's request of ordinary size is torn apart.
const LEAST_SHARED_CHUNK_BYTES: u64 = 64 << 10;
/// Choices are listed to here for small requests.
const SHOWN_CHUNK_BYTES: u64 = 1 << 20;
/// A chunk is preferred over larger ones only where they cost more than this above the best.
const WORTH: f64 = 1.1;

/// One chunk that the rules allow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChunkChoice {
    pub chunk_bytes: u64,
    pub stripe_bytes: u64,
    /// Data disks that a request touches, on average.
    pub disks_per_request: f64,
    /// Bytes read and written on disks for each byte of a request.
    pub disk_bytes_per_byte: f64,
}

/// Which of the rules gave the choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A stripe is not larger than a request.
    Spread,
    /// A chunk is not smaller than a request.
    OneDisk,
    /// The requests follow each other, but are too small to reach all disks.
    TooSmallToSpread,
    /// There is nothing to choose.
    Fixed,
}

/// The chunk and its reason.
pub(super) struct Picked {
    pub(super) chunk_bytes: Option<u64>,
    pub(super) why: String,
}

/// Chunks that the rules allow, ascending; at most one where the level fixes it.
pub(super) fn choices(ask: &RaidSpec) -> (Vec<ChunkChoice>, Rule) {
    match ask.level.system() {
        _ if !ask.level.is_striped() => return (Vec::new(), Rule::Fixed),
        System::Zfs => return (Vec::new(), Rule::Fixed),
        System::Btrfs => return (vec![choice(ask, BTRFS_CHUNK_BYTES)], Rule::Fixed),
        System::Md => {}
    }
    let least = least_chunk(ask);
    let powers = |from: u64, to: u64| {
        let sizes = (0..64).map(|power| 1_u64 << power).filter(move |size| (from..=to).contains(size));
        sizes.map(|size| choice(ask, size)).collect::<Vec<_>>()
    };
    let data = u64::from(ask.level.data_disks(ask.disks)).max(1);
    let spread = powers(least, ask.request_bytes / data);
    if ask.pattern.is_sequential() && !spread.is_empty() {
        return (spread, Rule::Spread);
    }
    let from = ask.request_bytes.max(least).next_power_of_two();
    let to = SHOWN_CHUNK_BYTES.max(from.saturating_mul(8)).min(LARGEST_BYTES);
    let rule = if ask.pattern.is_sequential() { Rule::TooSmallToSpread } else { Rule::OneDisk };
    (powers(from, to), rule)
}

/// The smallest chunk: whole physical blocks, whole pages of md, which are blocks of the file system.
fn least_chunk(ask: &RaidSpec) -> u64 {
    LEAST_CHUNK_BYTES.max(ask.block_bytes)
}

fn choice(ask: &RaidSpec, chunk_bytes: u64) -> ChunkChoice {
    let seen = traffic(ask.level, ask.disks, Some(chunk_bytes), ask.request_bytes, ask.pattern);
    ChunkChoice {
        chunk_bytes,
        stripe_bytes: chunk_bytes.saturating_mul(u64::from(ask.level.data_disks(ask.disks))),
        disks_per_request: seen.disks_per_request,
        disk_bytes_per_byte: seen.read_per_byte + seen.written_per_byte,
    }
}

/// Whether a chunk that the user wants is possible at all (it may still be a bad one).
pub(super) fn allowed(ask: &RaidSpec, chunk: u64) -> Result<(), RaidError> {
    let level = ask.level;
    match level.system() {
        System::Zfs => {
            let why = "no chunk: ZFS spreads each record by itself";
            return Err(RaidError::NoChunk { level, why });
        }
        System::Btrfs => {
            return Err(RaidError::FixedChunk { level, size: exact_size(BTRFS_CHUNK_BYTES) });
        }
        System::Md if !level.is_striped() => {
            return Err(RaidError::NoChunk { level, why: "no chunk: a request is on one disk" });
        }
        System::Md => {}
    }
    if chunk > LARGEST_BYTES {
        return Err(RaidError::ChunkTooLarge(chunk));
    }
    for (bytes, what) in
        [(ask.block_bytes, "the disks' physical block"), (LEAST_CHUNK_BYTES, "the file system's block")]
    {
        if chunk == 0 || !chunk.is_multiple_of(bytes) {
            let instead = chunk.next_power_of_two().max(least_chunk(ask));
            return Err(RaidError::ChunkOfPartBlocks { chunk, what, bytes, instead });
        }
    }
    if level != RaidLevel::Raid0 && !chunk.is_power_of_two() {
        return Err(RaidError::ChunkNoPowerOfTwo { level, chunk });
    }
    Ok(())
}

/// The chunk to take.
pub(super) fn pick(ask: &RaidSpec, choices: &[ChunkChoice], rule: Rule) -> Picked {
    if let Some(chunk) = ask.chunk_bytes {
        return Picked { chunk_bytes: Some(chunk), why: judged(ask, chunk, choices, rule) };
    }
    if rule == Rule::Fixed {
        let chunk_bytes = choices.first().map(|choice| choice.chunk_bytes);
        let why = match chunk_bytes {
            Some(_) => "btrfs cuts at 64 KiB, whatever the requests are",
            None => "a request is on one disk: nothing is cut",
        };
        return Picked { chunk_bytes, why: why.into() };
    }
    let best = choices.iter().map(|choice| choice.disk_bytes_per_byte).fold(f64::INFINITY, f64::min);
    let cheap = choices.iter().filter(|choice| choice.disk_bytes_per_byte <= best * WORTH);
    let sizes: Vec<u64> = cheap.map(|choice| choice.chunk_bytes).collect();
    let largest_to = |limit: u64| sizes.iter().copied().filter(|size| *size <= limit).max();
    let smallest_from = |limit: u64| sizes.iter().copied().filter(|size| *size >= limit).min();
    let chunk = match rule {
        Rule::Spread => largest_to(USUAL_CHUNK_BYTES),
        _ => smallest_from(unlikely_to_cross(ask)),
    };
    let chunk = chunk.or(sizes.first().copied());
    Picked {
        chunk_bytes: chunk,
        why: chunk.map_or_else(String::new, |chunk| reason(ask, chunk, choices, rule)),
    }
}

/// A chunk of which at most one unaligned request in eight reaches over the end.
fn unlikely_to_cross(ask: &RaidSpec) -> u64 {
    let crossing = ask.request_bytes.saturating_sub(ask.block_bytes).saturating_mul(8).next_power_of_two();
    crossing.clamp(LEAST_SHARED_CHUNK_BYTES, USUAL_CHUNK_BYTES).max(ask.request_bytes)
}

fn reason(ask: &RaidSpec, chunk: u64, choices: &[ChunkChoice], rule: Rule) -> String {
    let (data, request) = (ask.level.data_disks(ask.disks), exact_size(ask.request_bytes));
    match rule {
        Rule::Spread => {
            let larger = choices
                .iter()
                .any(|choice| choice.chunk_bytes > chunk && choice.chunk_bytes <= USUAL_CHUNK_BYTES);
            let limit = if larger {
                "larger ones leave more of each write in part of a stripe"
            } else if choices.last().is_some_and(|last| last.chunk_bytes > chunk) {
                "a disk gains little from larger ones"
            } else {
                "the largest of which a stripe is no larger than a request"
            };
            format!(
                "each request of {request} is spread over all {data} data disks, in the largest pieces: \
                 {limit}"
            )
        }
        Rule::TooSmallToSpread => format!(
            "requests of {request} cannot reach {data} data disks: each stays on one disk, and many must be \
             in flight, or be larger"
        ),
        _ => format!(
            "each request of {request} stays on one disk, and the disks work on different ones; \
             of requests that are not aligned, few cross into a second chunk"
        ),
    }
}

/// What is to be said of a chunk that the user gave.
fn judged(ask: &RaidSpec, chunk: u64, choices: &[ChunkChoice], rule: Rule) -> String {
    let inside = match (choices.first(), choices.last()) {
        (Some(first), Some(last)) => (first.chunk_bytes..=last.chunk_bytes).contains(&chunk),
        _ => true,
    };
    match rule {
        _ if inside => "given; the rules allow it".into(),
        Rule::Spread => format!(
            "given; a stripe is larger than a request of {}: a request does not reach all disks",
            exact_size(ask.request_bytes)
        ),
        _ if chunk < ask.request_bytes => format!(
            "given; smaller than a request of {}: each request busies several disks",
            exact_size(ask.request_bytes)
        ),
        _ => "given; larger than it need be".into(),
    }
}
