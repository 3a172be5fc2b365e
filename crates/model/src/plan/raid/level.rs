//! The levels: how many disks hold data, how many may fail, and what each is called by md, btrfs and ZFS.

use serde::Serialize;

/// How data is spread over disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
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

/// All levels.
pub(crate) const LEVELS: [Level; 12] = [
    Level::Linear,
    Level::Raid0,
    Level::Raid1,
    Level::Raid5,
    Level::Raid6,
    Level::Raid10,
    Level::Raidz1,
    Level::Raidz2,
    Level::Raidz3,
    Level::BtrfsRaid0,
    Level::BtrfsRaid1,
    Level::BtrfsRaid10,
];

impl Level {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Linear => "linear",
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::Raid10 => "raid10",
            Level::Raidz1 => "raidz1",
            Level::Raidz2 => "raidz2",
            Level::Raidz3 => "raidz3",
            Level::BtrfsRaid0 => "btrfs-raid0",
            Level::BtrfsRaid1 => "btrfs-raid1",
            Level::BtrfsRaid10 => "btrfs-raid10",
        }
    }

    /// The level that an array's name stands for: md's names, LVM's `striped`, btrfs' profiles.
    pub fn of_array(name: &str) -> Option<Level> {
        match name {
            "striped" => Some(Level::Raid0),
            "mirror" | "raid1c3" | "raid1c4" => Some(Level::Raid1),
            "single" | "dup" | "multipath" => Some(Level::Linear),
            // Parity on a disk of its own: the same bytes move.
            "raid4" => Some(Level::Raid5),
            // LVM's names carry the layout: raid5_ls, raid6_zr.
            _ => {
                let plain = name.split('_').next().unwrap_or_default();
                LEVELS.into_iter().find(|level| level.name() == plain)
            }
        }
    }

    /// What makes it.
    pub fn system(self) -> System {
        match self {
            Level::Raidz1 | Level::Raidz2 | Level::Raidz3 => System::Zfs,
            Level::BtrfsRaid0 | Level::BtrfsRaid1 | Level::BtrfsRaid10 => System::Btrfs,
            _ => System::Md,
        }
    }

    /// Disks' worth of parity.
    pub fn parity(self) -> u32 {
        match self {
            Level::Raid5 | Level::Raidz1 => 1,
            Level::Raid6 | Level::Raidz2 => 2,
            Level::Raidz3 => 3,
            _ => 0,
        }
    }

    /// Copies of each byte.
    pub fn copies(self, disks: u32) -> u32 {
        match self {
            Level::Raid1 => disks,
            // btrfs' raid1 is two copies, however many disks.
            Level::Raid10 | Level::BtrfsRaid1 | Level::BtrfsRaid10 => 2,
            _ => 1,
        }
    }

    /// A request is spread over disks by chunks.
    pub fn is_striped(self) -> bool {
        !matches!(self, Level::Linear | Level::Raid1 | Level::BtrfsRaid1)
    }

    /// Disks' worth of data that a stripe holds; of what is not striped: disks' worth of data.
    pub fn data_disks(self, disks: u32) -> u32 {
        match self {
            Level::Raid1 => 1,
            Level::Raid10 | Level::BtrfsRaid1 | Level::BtrfsRaid10 => disks / 2,
            _ => disks.saturating_sub(self.parity()),
        }
    }

    /// Disks that may fail, whichever they are.
    pub fn may_fail(self, disks: u32) -> u32 {
        match self {
            Level::Raid1 => disks.saturating_sub(1),
            Level::Raid10 | Level::BtrfsRaid1 | Level::BtrfsRaid10 => 1,
            _ => self.parity(),
        }
    }

    /// Whether so many disks make such an array; the error says how many do.
    pub fn fits(self, disks: u32) -> Result<(), String> {
        let (least, instead) = match self {
            Level::Linear | Level::Raid0 | Level::BtrfsRaid0 => (2, "one disk needs no array"),
            Level::Raid1 | Level::BtrfsRaid1 => (2, "one disk has no mirror"),
            Level::Raid5 => (3, "two disks are a mirror: raid1"),
            Level::Raid6 => (4, "three disks are raid5, or a mirror of three: raid1"),
            Level::Raid10 | Level::BtrfsRaid10 => (4, "fewer are a mirror: raid1"),
            Level::Raidz1 => (2, "one disk has no parity"),
            Level::Raidz2 => (3, "fewer are a mirror or raidz1"),
            Level::Raidz3 => (4, "fewer are a mirror, raidz1 or raidz2"),
        };
        let name = self.name();
        if disks < least {
            return Err(format!("{name} needs at least {least} disks, not {disks}: {instead}"));
        }
        if self == Level::Raid10 && !disks.is_multiple_of(2) {
            return Err(format!(
                "{name} of {disks} disks has no whole pairs: take {} and keep one as a spare, or one more",
                disks - 1
            ));
        }
        Ok(())
    }

    /// Name of the group for `zpool create`, where ZFS has the like of it; nothing before the disks of a
    /// plain stripe.
    pub fn zfs_word(self) -> Option<&'static str> {
        match self {
            Level::Raid0 => Some(""),
            Level::Raid1 | Level::Raid10 => Some("mirror"),
            Level::Raid5 | Level::Raidz1 => Some("raidz1"),
            Level::Raid6 | Level::Raidz2 => Some("raidz2"),
            Level::Raidz3 => Some("raidz3"),
            _ => None,
        }
    }

    /// Profile of the data for `mkfs.btrfs`, where btrfs has the like of it and means it for use (its parity
    /// RAID it does not).
    pub(crate) fn btrfs_word(self) -> Option<&'static str> {
        match self {
            Level::Linear => Some("single"),
            Level::Raid0 | Level::BtrfsRaid0 => Some("raid0"),
            Level::Raid1 | Level::BtrfsRaid1 => Some("raid1"),
            Level::Raid10 | Level::BtrfsRaid10 => Some("raid10"),
            _ => None,
        }
    }
}
