//! RAID and file-system arithmetic: from level, disks and requests to chunk, stripe, stride, stripe width,
//! and the command lines.
//!
//! The rules are those of SARA's D1.3 (2010), section 9.2: large requests are spread over all disks (a stripe
//! is not larger than a request), small ones stay on one disk each (a chunk is not smaller than a request); a
//! chunk is a multiple of the disks' physical block and of the file system's block. What a write of part of a
//! stripe costs is Linux md's way of doing it. Nothing here is run.

mod check;
mod chunk;
mod level;
mod lines;
mod traffic;

pub use check::{Checked, RaidRemark, check};
pub use chunk::ChunkChoice;
pub use level::{RaidError, RaidLevel, System};
pub use lines::{RaidCommand, quoted};
use serde::Serialize;
pub use traffic::{Traffic, traffic};

/// Disks of one array; ZFS takes 255 a group, md's metadata not many more.
const MOST_DISKS: u32 = 255;
/// No transfer and no chunk is larger, bytes.
const LARGEST_BYTES: u64 = 1 << 30;
/// md counts in pages, and so large are the blocks of file systems that a page of memory holds, bytes.
const LEAST_CHUNK_BYTES: u64 = 4096;

/// What the array is for.
#[derive(Clone, Debug, PartialEq)]
pub struct RaidSpec {
    /// How data is spread.
    pub level: RaidLevel,
    /// Disks, spares not counted.
    pub disks: u32,
    /// The disks' physical block, bytes: 512 or 4096 to read; of an SSD to write, what it erases at once.
    pub block_bytes: u64,
    /// What the application asks for at once, bytes.
    pub request_bytes: u64,
    /// In which order, and whether it reads or writes.
    pub pattern: Pattern,
    /// Chunk to compute with; none: the recommended one.
    pub chunk_bytes: Option<u64>,
    /// Devices for the command lines; none: placeholders.
    pub devices: Vec<String>,
}

/// What the application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    SequentialRead,
    SequentialWrite,
    RandomRead,
    RandomWrite,
}

impl Pattern {
    /// Requests follow each other on the disks.
    pub(crate) fn is_sequential(self) -> bool {
        matches!(self, Pattern::SequentialRead | Pattern::SequentialWrite)
    }

    /// Data goes to the disks.
    pub fn is_write(self) -> bool {
        matches!(self, Pattern::SequentialWrite | Pattern::RandomWrite)
    }
}

/// The array that fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaidLayout {
    pub level: RaidLevel,
    /// Disks of the array.
    pub disks: u32,
    /// Disks' worth of data.
    pub data_disks: u32,
    /// Disks that may fail, whichever they are.
    pub may_fail: u32,
    pub request_bytes: u64,
    pub pattern: Pattern,
    pub block_bytes: u64,
    pub file_system_block_bytes: u64,
    /// Bytes on one disk before the next begins; none where nothing is striped, or by no fixed rule (RAID-Z).
    pub chunk_bytes: Option<u64>,
    /// Chunk × data disks.
    pub stripe_bytes: Option<u64>,
    /// File-system blocks in a chunk (ext4's `stride`).
    pub stride_blocks: Option<u64>,
    /// File-system blocks in a stripe (ext4's `stripe_width`).
    pub stripe_width_blocks: Option<u64>,
    /// ZFS' record that goes with the requests.
    pub record_bytes: Option<u64>,
    /// Chunks that the rules allow, ascending, and what each costs.
    pub choices: Vec<ChunkChoice>,
    /// Why this chunk (or record).
    pub why: String,
    /// What the requests do to the disks.
    pub traffic: Traffic,
    /// What to be aware of.
    pub notes: Vec<String>,
    /// Command lines that follow.
    pub lines: Vec<RaidCommand>,
}

/// Computes the array.
pub fn raid(ask: &RaidSpec) -> Result<RaidLayout, RaidError> {
    sound(ask)?;
    let data_disks = ask.level.data_disks(ask.disks);
    let (choices, rule) = chunk::choices(ask);
    let picked = chunk::pick(ask, &choices, rule);
    let chunk_bytes = picked.chunk_bytes;
    let stripe_bytes = chunk_bytes.map(|chunk| chunk * u64::from(data_disks));
    let record_bytes = ask.level.zfs_word().map(|_| traffic::record_bytes(ask));
    let (traffic, why) = match (chunk_bytes, record_bytes) {
        (None, Some(record)) if ask.level.system() == System::Zfs => traffic::traffic_of_raidz(ask, record),
        _ => (traffic(ask.level, ask.disks, chunk_bytes, ask.request_bytes, ask.pattern), picked.why),
    };
    let mut layout = RaidLayout {
        level: ask.level,
        disks: ask.disks,
        data_disks,
        may_fail: ask.level.may_fail(ask.disks),
        request_bytes: ask.request_bytes,
        pattern: ask.pattern,
        block_bytes: ask.block_bytes,
        file_system_block_bytes: LEAST_CHUNK_BYTES,
        chunk_bytes,
        stripe_bytes,
        stride_blocks: chunk_bytes.map(|chunk| chunk / LEAST_CHUNK_BYTES),
        stripe_width_blocks: stripe_bytes.map(|stripe| stripe / LEAST_CHUNK_BYTES),
        record_bytes,
        choices,
        why,
        traffic,
        notes: Vec::new(),
        lines: Vec::new(),
    };
    layout.notes = notes(&layout);
    layout.lines = lines::lines(&layout, &ask.devices);
    Ok(layout)
}

/// A size in the largest unit that it is a whole number of: a stripe of 1792 KiB is not 1.8 MiB.
pub fn exact_size(bytes: u64) -> String {
    match bytes {
        whole if whole > 0 && whole.is_multiple_of(1 << 30) => format!("{} GiB", whole >> 30),
        whole if whole > 0 && whole.is_multiple_of(1 << 20) => format!("{} MiB", whole >> 20),
        whole if whole > 0 && whole.is_multiple_of(1 << 10) => format!("{} KiB", whole >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// Whether the question can be answered.
fn sound(ask: &RaidSpec) -> Result<(), RaidError> {
    ask.level.fits(ask.disks)?;
    if ask.disks > MOST_DISKS {
        return Err(RaidError::TooManyDisks(ask.disks));
    }
    let (request, block) = (ask.request_bytes, ask.block_bytes);
    if !block.is_power_of_two() || !(512..=1 << 24).contains(&block) {
        return Err(RaidError::NoPowerOfTwo(block));
    }
    if request < block {
        return Err(RaidError::RequestBelowBlock { request, block });
    }
    if request > LARGEST_BYTES || !request.is_multiple_of(block) {
        return Err(RaidError::RequestOfPartBlocks { request, block });
    }
    ask.chunk_bytes.map_or(Ok(()), |chunk| chunk::allowed(ask, chunk))?;
    match ask.devices.iter().enumerate().find(|(at, device)| ask.devices[..*at].contains(device)) {
        Some((_, twice)) => Err(RaidError::DeviceTwice(twice.clone())),
        None => Ok(()),
    }
}

/// What follows for the user beside the figures.
fn notes(layout: &RaidLayout) -> Vec<String> {
    let mut notes = Vec::new();
    let parity = layout.level.parity() > 0 && layout.level.system() == System::Md;
    if parity && layout.pattern.is_write() && layout.traffic.whole_stripes < 1.0 {
        let stripe = layout.stripe_bytes.map_or_else(String::new, exact_size);
        notes.push(format!(
            "writes of part of a stripe read before they write: whole stripes of {stripe} avoid that, which \
             a power of two of data \
             disks makes possible, or raid10 does without"
        ));
    }
    if parity && layout.pattern.is_write() {
        // drivers/md/raid5.c: stripe_cache_size counts entries of a page on each disk, 256 by default, at
        // most 32768.
        let pages =
            layout.chunk_bytes.map_or(256, |chunk| (chunk / LEAST_CHUNK_BYTES * 4).clamp(256, 32_768));
        notes.push(format!(
            "md gathers whole stripes only in a cache that holds some: echo {pages} > \
             /sys/block/md127/md/stripe_cache_size \
             (pages of 4 KiB on each disk; the array's own name instead of md127)"
        ));
    }
    if layout.level == RaidLevel::Raid10 && layout.pattern == Pattern::SequentialRead {
        notes.push(
            "--layout=f2 instead of n2 lets a single reader use all disks, and makes writes seek".into(),
        );
    }
    if layout.level == RaidLevel::Linear {
        notes.push(
            "the disks are filled one after the other: one file is read from one disk; raid0 spreads it"
                .into(),
        );
        notes.push("md has no linear level in some kernels from 6.8 on; LVM has one in all".into());
    }
    let largest =
        layout.level.system() == System::Zfs && layout.record_bytes == Some(traffic::MOST_RECORD_BYTES);
    if largest && layout.request_bytes > traffic::MOST_RECORD_BYTES {
        notes.push("ZFS: records to 16M are taken from OpenZFS 2.2 on (zfs_max_recordsize before)".into());
    }
    if layout.choices.len() > 1 {
        notes.push("try two or three of the chunks and keep what measures best".into());
    }
    notes
}

#[cfg(test)]
mod tests;
