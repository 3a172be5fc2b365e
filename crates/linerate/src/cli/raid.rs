//! `linerate plan raid`: chunk, stripe and command lines of an array, or a check of the arrays that are
//! there.

use super::arguments::sysroot_of;
use super::arguments::values::{Choices, one_of, size};
use super::commands::{colour, print, print_json, text_width};
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_machine::probe::probe;
use linerate_model::plan::raid::{Pattern, RaidLevel, RaidSpec, check, raid as layout_of};
use linerate_report as report;
use std::path::PathBuf;

/// `linerate plan raid`.
#[derive(Debug, Args)]
pub struct RaidArgs {
    /// How data is spread over the disks
    #[arg(long, value_parser = one_of(LEVELS), required_unless_present = "check", conflicts_with = "check")]
    pub level: Option<RaidLevel>,
    /// Number of disks, spares not counted [default: the number of --device]
    #[arg(long, value_name = "DISKS", required_unless_present_any = ["check", "device"], conflicts_with = "check")]
    pub disks: Option<u32>,
    /// What the application reads or writes at once [default: 1M; with --check, requests are not judged]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60))]
    pub request: Option<u64>,
    /// In which order, and whether it reads or writes
    #[arg(long, value_parser = one_of(PATTERNS), default_value = "sequential-read")]
    pub pattern: Pattern,
    /// Physical block of the disks; of an SSD for writes, what it erases at once
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub block: u64,
    /// Block of the file system
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub file_system_block: u64,
    /// Compute with this chunk [default: the recommended one]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub chunk: Option<u64>,
    /// A disk for the command lines; repeat for each [default: DISK1, DISK2 …]
    #[arg(long, value_name = "PATH", conflicts_with = "check")]
    pub device: Vec<String>,
    /// Check the arrays of this machine instead: chunk, alignment, what the file systems on them know
    #[arg(long)]
    pub check: bool,
    /// With --check: a recorded tree that holds sys/ and proc/ instead of this machine
    #[arg(long, value_name = "DIR", requires = "check")]
    pub root: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
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

/// What an application asks for at once where the user does not say, bytes: what linerate itself reads.
const DEFAULT_REQUEST_BYTES: u64 = linerate_model::plan::DEFAULT_BLOCK_BYTES;

/// Does `linerate plan raid`.
pub(super) fn raid(words: &RaidArgs) -> Result<u8, Failure> {
    if words.check {
        return check_arrays(words);
    }
    let Some(level) = words.level else {
        return Err(Failure::Usage(
            "--level is missing: say how data is spread, such as --level raid6".into(),
        ));
    };
    let layout = layout_of(&RaidSpec {
        level,
        disks: words.disks.unwrap_or(u32::try_from(words.device.len()).unwrap_or(u32::MAX)),
        block_bytes: words.block,
        file_system_block_bytes: words.file_system_block,
        request_bytes: words.request.unwrap_or(DEFAULT_REQUEST_BYTES.max(words.block)),
        pattern: words.pattern,
        chunk_bytes: words.chunk,
        devices: words.device.clone(),
    })
    .map_err(Failure::usage)?;
    if words.json {
        print_json(&layout)?;
        return Ok(0);
    }
    print(&report::raid(&layout, text_width(), colour()))?;
    Ok(0)
}

fn check_arrays(words: &RaidArgs) -> Result<u8, Failure> {
    let machine = probe(&sysroot_of(words.root.as_deref())?);
    let requests = words.request.map(|bytes| (bytes, words.pattern));
    let arrays = check(&machine, requests);
    if arrays.is_empty() {
        let place = words.root.as_ref().map_or("this machine".to_string(), |root| root.display().to_string());
        return Err(Failure::Lacks(format!(
            "{place} shows no array (md, striped LVM, btrfs or ZFS over several disks); what a hardware \
             controller makes \
             looks like one disk: compute it with --level and --disks"
        )));
    }
    if words.json {
        print_json(&arrays)?;
        return Ok(0);
    }
    print(&report::raid_check(&arrays, text_width(), colour()))?;
    Ok(0)
}
