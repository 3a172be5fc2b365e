//! `linerate plan raid`.

use super::values::{Choices, one_of, size};
use clap::Args;
use linerate_model::plan::raid::{Pattern, RaidLevel};
use std::path::PathBuf;

/// `linerate plan raid`.
#[derive(Debug, Args)]
pub struct RaidArgs {
    /// How data is spread over the disks
    #[arg(long, value_parser = one_of(LEVELS), required_unless_present = "check", conflicts_with = "check")]
    pub level: Option<RaidLevel>,
    /// Number of disks, spares not counted; or the disks themselves, for the command lines
    #[arg(
        long,
        value_name = "DISKS|PATH,…",
        required_unless_present = "check",
        conflicts_with = "check",
        value_delimiter = ','
    )]
    pub disks: Vec<String>,
    /// What the application reads or writes at once [default: 1M; with --check, requests are not judged]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60))]
    pub request: Option<u64>,
    /// In which order, and whether it reads or writes
    #[arg(long, value_parser = one_of(PATTERNS), default_value = "sequential-read")]
    pub pattern: Pattern,
    /// Physical block of the disks; of an SSD for writes, what it erases at once
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub block: u64,
    /// Compute with this chunk [default: the recommended one]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub chunk: Option<u64>,
    /// Check the arrays of this machine instead, or of a recorded tree that holds sys/ and proc/: chunk, alignment, what
    /// the file systems on them know
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub check: Option<Option<PathBuf>>,
    #[arg(from_global)]
    pub json: bool,
}

/// `--level`, and after `|` what it is called elsewhere.
const LEVELS: Choices<RaidLevel> = &[
    ("linear", "One disk after the other", RaidLevel::Linear),
    ("raid0|0", "Striped, nothing spare", RaidLevel::Raid0),
    ("raid1|1", "Mirrored", RaidLevel::Raid1),
    ("raid5|5", "Striped, one disk of parity", RaidLevel::Raid5),
    ("raid6|6", "Striped, two disks of parity", RaidLevel::Raid6),
    ("raid10|10", "Striped over mirrors", RaidLevel::Raid10),
    ("raidz1|raidz", "ZFS, one disk of parity", RaidLevel::Raidz1),
    ("raidz2", "ZFS, two disks of parity", RaidLevel::Raidz2),
    ("raidz3", "ZFS, three disks of parity", RaidLevel::Raidz3),
    ("btrfs-raid0", "btrfs, striped", RaidLevel::BtrfsRaid0),
    ("btrfs-raid1", "btrfs, two copies", RaidLevel::BtrfsRaid1),
    ("btrfs-raid10", "btrfs, striped, two copies", RaidLevel::BtrfsRaid10),
];

/// `--pattern`.
const PATTERNS: Choices<Pattern> = &[
    ("sequential-read", "", Pattern::SequentialRead),
    ("sequential-write", "", Pattern::SequentialWrite),
    ("random-read", "", Pattern::RandomRead),
    ("random-write", "", Pattern::RandomWrite),
];
