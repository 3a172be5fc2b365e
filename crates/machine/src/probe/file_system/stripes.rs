//! How file systems spread their data over several devices: btrfs, ZFS, and the stripe that XFS and ext4
//! believe to lie on.
//!
//! btrfs over several devices: `/sys/fs/btrfs/UUID` (Documentation/ABI/testing/sysfs-fs-btrfs,
//! fs/btrfs/sysfs.c).
//!
//! ZFS pools: `/proc/spl/kstat/zfs`. The devices of a pool are in no file of the kernel.
//!
//! The stripe that a file system believes to lie on, from its mount options: XFS `sunit` and `swidth`, ext4
//! `stripe`.

use crate::probe::machine::Array;
use crate::probe::storage::md::{copies, data_disks, with_stripe};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::counted;

/// Bytes on one device before the next begins: fixed in the kernel (fs/btrfs/fs.h, `BTRFS_STRIPE_LEN`).
const CHUNK_BYTES: u64 = 64 << 10;

/// One mounted btrfs.
pub(super) struct Pool {
    /// Block devices by kernel name.
    pub(super) devices: Vec<String>,
    /// How it spreads its data.
    pub(super) array: Array,
    /// Algorithm and driver of its checksums, as `crc32c (crc32c-intel)`.
    pub(super) checksum: Option<String>,
}

/// All that are mounted.
pub(super) fn btrfs(sysroot: &Sysroot) -> Vec<Pool> {
    let mut pools = Vec::new();
    for uuid in sysroot.list("/sys/fs/btrfs") {
        let place = format!("/sys/fs/btrfs/{uuid}");
        // `features` is beside the file systems and has none.
        let devices = sysroot.list(format!("{place}/devices"));
        if !devices.is_empty() {
            let array = array(sysroot, &place, devices.len());
            let checksum = sysroot.text(format!("{place}/checksum"));
            let checksum = checksum.ok().map(|text| text.trim().to_string());
            pools.push(Pool { array, checksum, devices });
        }
    }
    pools
}

fn array(sysroot: &Sysroot, place: &str, devices: usize) -> Array {
    // Devices that are missing have no entry among `devices`, but one here (since 5.6).
    let known = sysroot.list(format!("{place}/devinfo"));
    let missing = known
        .iter()
        .filter(|id| sysroot.parse::<u32>(format!("{place}/devinfo/{id}/missing")).known() == Some(&1));
    let degraded = match known.is_empty() {
        true => Fact::unknown("this kernel does not report which devices of a btrfs are missing"),
        false => Fact::Known(u32::try_from(missing.count()).unwrap_or(u32::MAX)),
    };
    let disks = u32::try_from(devices.max(known.len())).unwrap_or(u32::MAX);
    let Some(level) = profile(sysroot, place) else {
        let why = "the kernel shows no data profile of this btrfs";
        let (chunk_bytes, data_disks, copies) = (Fact::unknown(why), Fact::unknown(why), Fact::unknown(why));
        let array = Array { level: "btrfs".into(), chunk_bytes, data_disks, copies, ..Default::default() };
        return with_stripe(Array { disks: Fact::Known(disks), degraded, ..array });
    };
    let striped = matches!(level.as_str(), "raid0" | "raid10" | "raid5" | "raid6");
    // raid10 takes pairs: of an odd number one device is left out of each stripe in turn (fs/btrfs/volumes.c,
    // `devs_increment`).
    let even = if level == "raid10" { disks & !1 } else { disks };
    let of = |count| Fact::from_option(count, format!("{level} of {}", counted(disks, "device")));
    with_stripe(Array {
        chunk_bytes: match striped {
            true => Fact::Known(CHUNK_BYTES),
            false => Fact::unknown(format!("{level} has no stripes: 1 GiB or more lies on one device")),
        },
        disks: Fact::Known(disks),
        data_disks: of(data_disks(&level, even, 2)),
        // A btrfs raid1 has two copies, on however many devices.
        copies: of(if level == "raid1" { Some(2) } else { copies(&level, disks, 2) }),
        degraded,
        layout: Fact::unknown("btrfs has one layout for each profile"),
        state: Fact::unknown("btrfs reports no state beside its missing devices"),
        sync_action: Fact::unknown(
            "sysfs does not show a balance or scrub (`btrfs scrub status` does, as root)",
        ),
        level,
        ..Default::default()
    })
}

/// The data profile: a directory below `allocation/data` (`mixed`, where data and metadata lie together).
/// While it is converted, or where single chunks are left over, there are several: the largest counts.
fn profile(sysroot: &Sysroot, place: &str) -> Option<String> {
    ["data", "mixed"].into_iter().find_map(|kind| {
        let directory = format!("{place}/allocation/{kind}");
        let names = sysroot.list(&directory);
        let sized = names.into_iter().filter(|name| is_profile(name)).map(|name| {
            let bytes = sysroot.parse::<u64>(format!("{directory}/{name}/total_bytes"));
            (bytes.known().copied().unwrap_or(0), name)
        });
        sized.max().map(|(_, name)| name)
    })
}

fn is_profile(name: &str) -> bool {
    matches!(
        name,
        "single" | "dup" | "raid0" | "raid1" | "raid1c3" | "raid1c4" | "raid10" | "raid5" | "raid6"
    )
}

/// The pool of a dataset (`tank/data` → `tank`) as an array: its state, and why nothing else is reported.
pub(super) fn zfs(sysroot: &Sysroot, dataset: &str) -> Array {
    let pool = dataset.split(['/', '@']).next().unwrap_or_default();
    let why = format!("the kernel shows no devices of a ZFS pool: `zpool status -P {pool}` does");
    let state = match pool {
        // A name that is a path would lead elsewhere.
        "" | "." | ".." => Fact::unknown("the mount table names no pool"),
        pool => sysroot.fact(format!("/proc/spl/kstat/zfs/{pool}/state")),
    };
    Array {
        level: "zpool".into(),
        chunk_bytes: Fact::unknown(&why),
        disks: Fact::unknown(&why),
        data_disks: Fact::unknown(&why),
        degraded: match state.known().map(String::as_str) {
            Some("ONLINE") => Fact::Known(0),
            _ => Fact::unknown(&why),
        },
        stripe_bytes: Fact::unknown(&why),
        copies: Fact::unknown(&why),
        layout: Fact::unknown(&why),
        sync_action: Fact::unknown(&why),
        state,
    }
}

/// XFS counts in these (xfs(5)).
const SECTOR_BYTES: u64 = 512;

/// The stripe from the options of a mount; `None` where the file system was made without one. `block_bytes`
/// is the file system's block, which ext4 counts in.
pub(super) fn stripe_options(
    kind: &str,
    options: &str,
    block_bytes: impl FnOnce() -> Fact<u64>,
) -> Option<Array> {
    let number = |word: &str| {
        let value = options.split(',').find_map(|option| option.strip_prefix(word)?.strip_prefix('='))?;
        value.parse::<u64>().ok().filter(|number| *number > 0)
    };
    match kind {
        "xfs" => Some(xfs(number("sunit")?, number("swidth"))),
        "ext4" | "ext3" => Some(ext4(number("stripe")?, block_bytes())),
        _ => None,
    }
}

fn xfs(unit: u64, width: Option<u64>) -> Array {
    let data = width.filter(|width| width % unit == 0).and_then(|width| u32::try_from(width / unit).ok());
    let too_large = "the mount options name a stripe that is too large to be true";
    with_stripe(Array {
        chunk_bytes: Fact::from_option(unit.checked_mul(SECTOR_BYTES), too_large),
        data_disks: Fact::from_option(data, "the mount options name no whole number of stripe units"),
        ..stripe_alone("XFS")
    })
}

fn ext4(blocks: u64, block_bytes: Fact<u64>) -> Array {
    let stripe_alone = stripe_alone("ext4");
    let one = "ext4's mount options name the whole stripe only";
    Array {
        chunk_bytes: Fact::unknown(one),
        data_disks: Fact::unknown(one),
        stripe_bytes: match block_bytes {
            Fact::Known(bytes) => {
                Fact::from_option(bytes.checked_mul(blocks), "the stripe is too large to be true")
            }
            Fact::Unknown { why } => Fact::unknown(format!("{blocks} blocks of unknown size ({why})")),
        },
        ..stripe_alone
    }
}

/// What a file system does not know of the array below it.
fn stripe_alone(name: &str) -> Array {
    let why = format!("{name} knows of the array below only its stripe");
    Array {
        level: "stripe".into(),
        disks: Fact::unknown(&why),
        degraded: Fact::unknown(&why),
        copies: Fact::unknown(&why),
        layout: Fact::unknown(&why),
        state: Fact::unknown(&why),
        sync_action: Fact::unknown(&why),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    fn pool(profiles: &[(&str, &str)], devices: usize) -> Pool {
        let mut tree = Tree::new(&[
            ("sys/fs/btrfs/features/raid56", "0"),
            ("sys/fs/btrfs/u/allocation/data/flags", "1"),
        ]);
        for (profile, bytes) in profiles {
            tree.put(&format!("sys/fs/btrfs/u/allocation/data/{profile}/total_bytes"), bytes);
        }
        for device in 0..devices {
            tree.put(&format!("sys/fs/btrfs/u/devices/loop{device}/size"), "1");
        }
        let mut pools = btrfs(&tree.sysroot());
        assert_eq!(pools.len(), 1);
        pools.remove(0)
    }

    #[test]
    fn stripes_of_each_profile() {
        for (profile, devices, data, copies, striped) in [
            ("raid0", 4, 4, 1, true),
            ("raid10", 7, 3, 2, true),
            ("raid5", 3, 2, 1, true),
            ("raid6", 6, 4, 1, true),
            ("raid1", 3, 1, 2, false),
            ("raid1c4", 5, 1, 4, false),
            ("single", 2, 1, 1, false),
            ("dup", 1, 1, 2, false),
        ] {
            let array = pool(&[(profile, "1073741824")], devices).array;
            assert_eq!((array.level.as_str(), array.disks.known()), (profile, Some(&(devices as u32))));
            assert_eq!(
                (array.data_disks.known(), array.copies.known()),
                (Some(&data), Some(&copies)),
                "{profile}"
            );
            let stripe = striped.then_some(u64::from(data) * 65_536);
            assert_eq!(array.stripe_bytes.known().copied(), stripe, "{profile}");
        }
    }

    #[test]
    fn of_several_profiles_the_largest() {
        assert_eq!(pool(&[("single", "8388608"), ("raid0", "1073741824")], 2).array.level, "raid0");
        let none = pool(&[], 2).array;
        assert_eq!((none.level.as_str(), none.disks.known()), ("btrfs", Some(&2)));
        assert!(none.data_disks.why().is_some());
    }

    #[test]
    fn a_missing_device_is_counted() {
        let tree = Tree::new(&[
            ("sys/fs/btrfs/u/allocation/data/raid1/total_bytes", "1"),
            ("sys/fs/btrfs/u/devices/sda/x", ""),
            ("sys/fs/btrfs/u/devinfo/1/missing", "0"),
            ("sys/fs/btrfs/u/devinfo/2/missing", "1"),
        ]);
        let pools = btrfs(&tree.sysroot());
        assert_eq!((pools[0].array.degraded.known(), pools[0].array.disks.known()), (Some(&1), Some(&2)));
        assert_eq!(pools[0].devices, ["sda"]);
        assert_eq!(pools[0].checksum, None, "a kernel that does not say");
    }

    #[test]
    fn a_pool_has_a_state_and_no_more() {
        let tree = Tree::new(&[
            ("proc/spl/kstat/zfs/tank/state", "ONLINE\n"),
            ("proc/spl/kstat/zfs/old/state", "DEGRADED\n"),
        ]);
        let tank = zfs(&tree.sysroot(), "tank/data/deep");
        assert_eq!(
            (tank.state.known().map(String::as_str), tank.degraded.known()),
            (Some("ONLINE"), Some(&0))
        );
        assert!(tank.disks.why().is_some_and(|why| why.contains("zpool status -P tank")));
        assert_eq!(zfs(&tree.sysroot(), "old").degraded.known(), None);
        assert!(zfs(&tree.sysroot(), "..").state.why().is_some());
    }

    fn of(kind: &str, options: &str) -> Option<Array> {
        stripe_options(kind, options, || Fact::Known(4096))
    }

    #[test]
    fn xfs_counts_sectors() {
        let array =
            of("xfs", "rw,noatime,attr2,logbsize=256k,sunit=1024,swidth=8192,noquota").expect("a stripe");
        assert_eq!((array.chunk_bytes.known(), array.data_disks.known()), (Some(&524_288), Some(&8)));
        assert_eq!(array.stripe_bytes.known(), Some(&4_194_304));
        assert_eq!(of("xfs", "rw,noatime,attr2"), None);
        assert!(of("xfs", "sunit=1024").expect("a unit").data_disks.why().is_some());
        assert!(of("xfs", "sunit=3,swidth=8").expect("a unit").stripe_bytes.why().is_some());
    }

    #[test]
    fn ext4_counts_blocks() {
        let array = of("ext4", "rw,relatime,stripe=256").expect("a stripe");
        assert_eq!(array.stripe_bytes.known(), Some(&1_048_576));
        let recorded =
            stripe_options("ext4", "stripe=256", || Fact::unknown("a recorded tree")).expect("a stripe");
        assert_eq!(recorded.stripe_bytes.why(), Some("256 blocks of unknown size (a recorded tree)"));
        assert_eq!(of("ext4", "rw,relatime"), None);
        assert_eq!(of("tmpfs", "stripe=256"), None);
    }

    proptest! {
        #[test]
        fn any_options_are_read(options in "(sunit|swidth|stripe|rw)?=?[0-9]{0,21},(sunit|swidth|stripe)=[0-9]{0,21}|.{0,40}") {
            let _ = (of("xfs", &options), of("ext4", &options));
        }
    }
}
