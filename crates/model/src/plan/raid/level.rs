//! The levels: how many disks hold data, how many may fail, and what each is called by md, btrfs and ZFS; and what is
//! wrong with a question about an array, with the remedy.

use super::{LARGEST_BYTES, MOST_DISKS};
use serde::Serialize;
use strum::VariantArray;
use thiserror::Error;

/// All levels.
pub(crate) const LEVELS: &[RaidLevel] = RaidLevel::VARIANTS;

/// How data is spread over disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RaidLevel {
    /// One disk after the other.
    Linear,
    Raid0,
    Raid1,
    Raid5,
    Raid6,
    /// Pairs of mirrors, striped.
    Raid10,
    Raidz1,
    Raidz2,
    Raidz3,
    BtrfsRaid0,
    BtrfsRaid1,
    BtrfsRaid10,
}

/// What makes the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Linux' md, or LVM, below any file system.
    Md,
    /// The file system itself.
    Btrfs,
    /// The file system itself.
    Zfs,
}

impl RaidLevel {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The level that an array's name stands for: md's names, LVM's `striped`, btrfs' profiles.
    pub fn of_array(name: &str) -> Option<RaidLevel> {
        match name {
            "striped" => Some(RaidLevel::Raid0),
            "mirror" | "raid1c3" | "raid1c4" => Some(RaidLevel::Raid1),
            "single" | "dup" | "multipath" => Some(RaidLevel::Linear),
            // Parity on a disk of its own: the same bytes move.
            "raid4" => Some(RaidLevel::Raid5),
            // LVM's names carry the layout: raid5_ls, raid6_zr.
            _ => {
                let plain = name.split('_').next().unwrap_or_default();
                LEVELS.iter().copied().find(|level| level.name() == plain)
            }
        }
    }

    /// What makes it.
    pub fn system(self) -> System {
        match self {
            RaidLevel::Raidz1 | RaidLevel::Raidz2 | RaidLevel::Raidz3 => System::Zfs,
            RaidLevel::BtrfsRaid0 | RaidLevel::BtrfsRaid1 | RaidLevel::BtrfsRaid10 => System::Btrfs,
            _ => System::Md,
        }
    }

    /// Disks' worth of parity.
    pub fn parity(self) -> u32 {
        match self {
            RaidLevel::Raid5 | RaidLevel::Raidz1 => 1,
            RaidLevel::Raid6 | RaidLevel::Raidz2 => 2,
            RaidLevel::Raidz3 => 3,
            _ => 0,
        }
    }

    /// Copies of each byte.
    pub fn copies(self, disks: u32) -> u32 {
        match self {
            RaidLevel::Raid1 => disks,
            // btrfs' raid1 is two copies, however many disks.
            RaidLevel::Raid10 | RaidLevel::BtrfsRaid1 | RaidLevel::BtrfsRaid10 => 2,
            _ => 1,
        }
    }

    /// A request is spread over disks by chunks.
    pub fn is_striped(self) -> bool {
        !matches!(self, RaidLevel::Linear | RaidLevel::Raid1 | RaidLevel::BtrfsRaid1)
    }

    /// Disks' worth of data that a stripe holds; of what is not striped: disks' worth of data.
    pub fn data_disks(self, disks: u32) -> u32 {
        match self {
            RaidLevel::Raid1 => 1,
            RaidLevel::Raid10 | RaidLevel::BtrfsRaid1 | RaidLevel::BtrfsRaid10 => disks / 2,
            _ => disks.saturating_sub(self.parity()),
        }
    }

    /// Disks that may fail, whichever they are.
    pub fn may_fail(self, disks: u32) -> u32 {
        match self {
            RaidLevel::Raid1 => disks.saturating_sub(1),
            RaidLevel::Raid10 | RaidLevel::BtrfsRaid1 | RaidLevel::BtrfsRaid10 => 1,
            _ => self.parity(),
        }
    }

    /// Whether this many disks make such an array.
    pub fn fits(self, disks: u32) -> Result<(), RaidError> {
        let (least, instead) = match self {
            RaidLevel::Linear | RaidLevel::Raid0 | RaidLevel::BtrfsRaid0 => (2, "one disk needs no array"),
            RaidLevel::Raid1 | RaidLevel::BtrfsRaid1 => (2, "one disk has no mirror"),
            RaidLevel::Raid5 => (3, "two disks are a mirror: raid1"),
            RaidLevel::Raid6 => (4, "three disks are raid5, or a mirror of three: raid1"),
            RaidLevel::Raid10 | RaidLevel::BtrfsRaid10 => (4, "fewer are a mirror: raid1"),
            RaidLevel::Raidz1 => (2, "one disk has no parity"),
            RaidLevel::Raidz2 => (3, "fewer are a mirror or raidz1"),
            RaidLevel::Raidz3 => (4, "fewer are a mirror, raidz1 or raidz2"),
        };
        if disks < least {
            return Err(RaidError::TooFewDisks { level: self, least, disks, instead });
        }
        if self == RaidLevel::Raid10 && !disks.is_multiple_of(2) {
            return Err(RaidError::NoWholePairs { level: self, disks });
        }
        Ok(())
    }

    /// Name of the group for `zpool create`, where ZFS has the like of it; nothing before the disks of a
    /// plain stripe.
    pub fn zfs_word(self) -> Option<&'static str> {
        match self {
            RaidLevel::Raid0 => Some(""),
            RaidLevel::Raid1 | RaidLevel::Raid10 => Some("mirror"),
            RaidLevel::Raid5 | RaidLevel::Raidz1 => Some("raidz1"),
            RaidLevel::Raid6 | RaidLevel::Raidz2 => Some("raidz2"),
            RaidLevel::Raidz3 => Some("raidz3"),
            _ => None,
        }
    }

    /// Profile of the data for `mkfs.btrfs`, where btrfs has the like of it and means it for use (its parity
    /// RAID it does not).
    pub(crate) fn btrfs_word(self) -> Option<&'static str> {
        match self {
            RaidLevel::Linear => Some("single"),
            RaidLevel::Raid0 | RaidLevel::BtrfsRaid0 => Some("raid0"),
            RaidLevel::Raid1 | RaidLevel::BtrfsRaid1 => Some("raid1"),
            RaidLevel::Raid10 | RaidLevel::BtrfsRaid10 => Some("raid10"),
            _ => None,
        }
    }
}

/// A sentence for who asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RaidError {
    #[error("{} needs at least {least} disks, not {disks}: {instead}", level.name())]
    TooFewDisks { level: RaidLevel, least: u32, disks: u32, instead: &'static str },
    #[error(
        "{} of {disks} disks has no whole pairs: take {} and keep one as a spare, or one more",
        level.name(),
        disks - 1
    )]
    NoWholePairs { level: RaidLevel, disks: u32 },
    #[error("{0} disks: more than the {MOST_DISKS} of one array; make several")]
    TooManyDisks(u32),
    #[error("a physical block of {0} bytes: give a power of two from 512 to 16777216, such as 4k")]
    NoPowerOfTwo(u64),
    #[error(
        "a request of {request} bytes is smaller than the disks' physical block of {block}: a disk moves \
         whole blocks, {} bytes for each of the request (an SSD that erases that much at once, when it is written); \
         give a --request of at least {block}, or the disks' true --block",
        block / (*request).max(1)
    )]
    RequestBelowBlock { request: u64, block: u64 },
    #[error(
        "a request of {request} bytes is not a whole number of blocks of {block}, up to 1 GiB: give --request \
         {}, or a size like 1M, which is 1048576",
        (request / block * block).clamp(*block, LARGEST_BYTES)
    )]
    RequestOfPartBlocks { request: u64, block: u64 },
    #[error("--disks: {0} is named twice: a disk is in an array once")]
    DeviceTwice(String),
    /// The level has no chunk, or one that cannot be chosen.
    #[error("{} has {why}; leave --chunk out", level.name())]
    NoChunk { level: RaidLevel, why: &'static str },
    #[error("{} has a fixed chunk of {size}: leave --chunk out", level.name())]
    FixedChunk { level: RaidLevel, size: String },
    #[error("a chunk of {0} bytes is larger than 1 GiB: a request would never leave a disk")]
    ChunkTooLarge(u64),
    #[error(
        "a chunk of {chunk} bytes is not a multiple of {what}, {bytes} bytes: blocks would lie across two \
         disks; give --chunk {instead} or a power of two above"
    )]
    ChunkOfPartBlocks { chunk: u64, what: &'static str, bytes: u64, instead: u64 },
    #[error(
        "a chunk of {chunk} bytes: md makes {} of powers of two only; give --chunk {}",
        level.name(),
        1_u64 << chunk.ilog2()
    )]
    ChunkNoPowerOfTwo { level: RaidLevel, chunk: u64 },
}
