//! The command lines that make the array and its file system. They are printed, never run.
//!
//! mdadm(8), lvcreate(8), mkfs.xfs(8), mke2fs(8), mkfs.btrfs(8), zpool-create(8). Without named devices the
//! disks are DISK1, DISK2 …, so that a line that is pasted without thought fails.

use super::level::{RaidLevel, System};
use super::{RaidLayout, traffic};
use serde::Serialize;

/// The array that md makes.
const ARRAY: &str = "/dev/md/data";
/// Name of the volume group and of the pool.
const GROUP: &str = "data";

/// One command line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaidCommand {
    /// What it belongs to: lines of one way stand together.
    pub way: &'static str,
    /// The words, not quoted.
    pub words: Vec<String>,
}

impl RaidCommand {
    /// As it is typed into a shell.
    pub fn shell(&self) -> String {
        self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it for itself.
pub fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+:=,%@".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// All ways to make the layout, the one that was asked for first.
pub(super) fn lines(layout: &RaidLayout, named: &[String]) -> Vec<RaidCommand> {
    let devices: Vec<String> = match named {
        [] => (1..=layout.disks).map(|disk| format!("DISK{disk}")).collect(),
        _ => named.to_vec(),
    };
    let (own_btrfs, own_zfs) = (btrfs(layout, &devices), zfs(layout, &devices));
    match layout.level.system() {
        System::Btrfs => own_btrfs,
        System::Zfs => own_zfs,
        System::Md => {
            let mut lines = md(layout, &devices);
            lines.extend(lvm(layout, &devices));
            lines.extend(own_btrfs);
            lines.extend(own_zfs);
            lines
        }
    }
}

fn line(way: &'static str, words: &[&str], devices: &[String]) -> RaidCommand {
    RaidCommand {
        way,
        words: words.iter().map(|word| (*word).to_string()).chain(devices.iter().cloned()).collect(),
    }
}

/// Whole KiB as mdadm and mkfs.xfs write them: `512k`.
fn kib(bytes: u64) -> String {
    format!("{}k", bytes / 1024)
}

fn md(layout: &RaidLayout, devices: &[String]) -> Vec<RaidCommand> {
    let level = format!("--level={}", layout.level.name());
    let count = format!("--raid-devices={}", layout.disks);
    let chunk = layout.chunk_bytes.map(|chunk| format!("--chunk={}", kib(chunk).to_uppercase()));
    let mut words = vec!["mdadm", "--create", ARRAY, level.as_str(), count.as_str()];
    words.extend(chunk.as_deref());
    if layout.level == RaidLevel::Raid10 {
        words.push("--layout=n2");
    }
    if layout.may_fail > 0 {
        // Without it, each crash is followed by a comparison of all disks.
        words.push("--bitmap=internal");
    }
    let mut lines = vec![line("md, and one of the three file systems", &words, devices)];
    let on_array = [ARRAY.to_string()];
    lines.extend(file_systems(layout).iter().map(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        line("md, and one of the three file systems", &words, &on_array)
    }));
    lines
}

/// XFS, ext4 and btrfs on something that is striped below them.
fn file_systems(layout: &RaidLayout) -> [Vec<String>; 3] {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
    let block = layout.file_system_block_bytes;
    let mut xfs = words(&["mkfs.xfs", "-b", &format!("size={block}")]);
    let mut ext4 = words(&["mkfs.ext4", "-b", &block.to_string()]);
    let btrfs = words(&["mkfs.btrfs", "--data", "single", "--metadata", "dup"]);
    if let (Some(chunk), Some(stride), Some(width)) =
        (layout.chunk_bytes, layout.stride_blocks, layout.stripe_width_blocks)
    {
        xfs.extend(words(&["-d", &format!("su={},sw={}", kib(chunk), layout.data_disks)]));
        ext4.extend(words(&["-E", &format!("stride={stride},stripe_width={width}")]));
    }
    [xfs, ext4, btrfs]
}

/// SARA's D1.3, table 7: XFS was faster on LVM than on md.
fn lvm(layout: &RaidLayout, devices: &[String]) -> Vec<RaidCommand> {
    const WAY: &str = "LVM instead of md, then mkfs as above on /dev/data/array";
    let Some(chunk) =
        layout.chunk_bytes.filter(|chunk| layout.level == RaidLevel::Raid0 && chunk.is_power_of_two())
    else {
        return Vec::new();
    };
    let (stripes, size) = (layout.disks.to_string(), kib(chunk));
    let create = [
        "lvcreate",
        "--name",
        "array",
        "--type",
        "striped",
        "--stripes",
        &stripes,
        "--stripesize",
        &size,
        "--extents",
        "100%FREE",
        GROUP,
    ];
    vec![line(WAY, &["vgcreate", GROUP], devices), line(WAY, &create, &[])]
}

fn btrfs(layout: &RaidLayout, devices: &[String]) -> Vec<RaidCommand> {
    let Some(data) = layout.level.btrfs_word() else { return Vec::new() };
    let metadata = match layout.level {
        RaidLevel::Raid10 | RaidLevel::BtrfsRaid10 => "raid10",
        _ => "raid1",
    };
    vec![line("btrfs by itself", &["mkfs.btrfs", "--data", data, "--metadata", metadata], devices)]
}

fn zfs(layout: &RaidLayout, devices: &[String]) -> Vec<RaidCommand> {
    let (Some(word), Some(record)) = (layout.level.zfs_word(), layout.record_bytes) else {
        return Vec::new();
    };
    let ashift = format!("ashift={}", traffic::ashift(layout.block_bytes));
    let whole = record.is_multiple_of(1 << 20);
    let record = if whole { format!("{}M", record >> 20) } else { kib(record).to_uppercase() };
    let record = format!("recordsize={record}");
    let mut pool = line("ZFS by itself", &["zpool", "create", "-o", &ashift, "-O", &record, GROUP], &[]);
    let group = if layout.level == RaidLevel::Raid10 { 2 } else { devices.len().max(1) };
    for disks in devices.chunks(group) {
        pool.words.extend(Some(word).filter(|word| !word.is_empty()).map(String::from));
        pool.words.extend(disks.iter().cloned());
    }
    vec![pool]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        assert_eq!(quoted("/dev/disk/by-id/nvme-eui.0025:1"), "/dev/disk/by-id/nvme-eui.0025:1");
        assert_eq!(quoted("/dev/my disk"), "'/dev/my disk'");
        assert_eq!(quoted("a'b;$(reboot)"), "'a'\\''b;$(reboot)'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("~root"), "'~root'");
    }
}
