//! Device mapper: `/sys/block/dm-0/dm` and what the sizes of the queue show of its table.
//!
//! The table itself (`dmsetup table`) is root's, over an ioctl that linerate does not ask: so a probe says
//! the same to every user. The kernel shows a striped or RAID target by two sizes: its chunk as the smallest good request, its stripe as the optimal one (drivers/md/dm-stripe.c
//! `stripe_io_hints`, dm-raid.c `raid_io_hints`).

use super::md::with_stripe;
use crate::probe::machine::{Array, Disk};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

/// Name and maker of a dm device: `vg-lv` and `LVM` (of the uuid `LVM-…`).
pub(super) fn read(sysroot: &Sysroot, block: &Path) -> (Option<String>, Option<String>) {
    let word = |file: &str| sysroot.text(block.join("dm").join(file)).ok().filter(|text| !text.is_empty());
    let maker = word("uuid").and_then(|uuid| Some(uuid.split_once('-')?.0.to_string()));
    (word("name"), maker)
}

/// How a dm device over several members spreads its data. `None` where it does not: paths to one device
/// (multipath), a single member, an LVM volume with data apart from metadata or cache. `members` are those of
/// its members that are known.
pub(super) fn array(device: &Disk, members: &[&Disk]) -> Option<Array> {
    let part = |words: &[&str]| {
        let is_part = |name: &str| words.iter().any(|word| name.contains(word));
        members.iter().filter(|disk| disk.mapped_name.as_deref().is_some_and(is_part)).count()
    };
    let lvm = device.mapped_by.as_deref() == Some("LVM");
    if device.members.len() < 2 || device.mapped_by.as_deref() == Some("mpath") || lvm && part(&NO_STRIPE) > 0
    {
        return None;
    }
    let images = if lvm { part(&IMAGES) } else { 0 };
    let disks = u32::try_from(if images > 0 { images } else { device.members.len() }).unwrap_or(u32::MAX);
    let array = match stripe(device, members) {
        Ok(Some((chunk, data))) => Array {
            level: if images > 0 { "raid" } else { "striped" }.into(),
            chunk_bytes: Fact::Known(chunk),
            data_disks: Fact::Known(data),
            copies: match images {
                0 => Fact::Known(1),
                _ => Fact::unknown(
                    "sysfs does not show the level of an LVM RAID (`lvs -o segtype` does, as root)",
                ),
            },
            ..Default::default()
        },
        // RAID levels with chunks, and stripes, show theirs: what is left are mirrors, and one device after
        // the other.
        Ok(None) if lvm => Array {
            level: if images > 0 { "raid1" } else { "linear" }.into(),
            chunk_bytes: Fact::unknown("its queue shows no stripe"),
            data_disks: Fact::Known(1),
            copies: Fact::Known(if images > 0 { disks } else { 1 }),
            ..Default::default()
        },
        other => {
            let why = other.err().unwrap_or(
                "its queue shows no stripe, and sysfs not its table (`dmsetup table` does, as root)",
            );
            let (chunk_bytes, data_disks, copies) =
                (Fact::unknown(why), Fact::unknown(why), Fact::unknown(why));
            Array { level: "dm".into(), chunk_bytes, data_disks, copies, ..Default::default() }
        }
    };
    let not_shown = "sysfs does not show it of a dm device (`dmsetup status` does, as root)";
    Some(with_stripe(Array {
        disks: Fact::Known(disks),
        degraded: Fact::unknown(not_shown),
        layout: Fact::unknown(not_shown),
        state: Fact::unknown(not_shown),
        sync_action: Fact::unknown(not_shown),
        ..array
    }))
}

/// Members of an LVM RAID or mirror that hold data, each beside its metadata: `vg-lv_rimage_0` (lvmraid(7)).
const IMAGES: [&str; 2] = ["_rimage_", "_mimage_"];

/// Members of LVM volumes whose data lies on one of them: thin and VDO pools, caches, snapshots, integrity
/// (lvmthin(7), lvmcache(7)).
const NO_STRIPE: [&str; 10] =
    ["_tdata", "_tmeta", "_vdata", "_cdata", "_cmeta", "_corig", "_wcorig", "_cvol", "-cow", "_imeta"];

/// Chunk and number of chunks of data, where the queue shows a stripe that is not just passed on from a
/// member; the error is why the queue reports neither.
fn stripe(device: &Disk, members: &[&Disk]) -> Result<Option<(u64, u32)>, &'static str> {
    let (Fact::Known(chunk), Fact::Known(stripe)) = (&device.minimum_io_bytes, &device.optimal_io_bytes)
    else {
        return Err("the sizes of its queue are not there to be read");
    };
    let passed_on = members.iter().any(|member| member.optimal_io_bytes == device.optimal_io_bytes);
    let whole = stripe.checked_rem(*chunk) == Some(0);
    let data = stripe.checked_div(*chunk).unwrap_or(0);
    let possible = whole && !passed_on && data > 1 && data <= device.members.len() as u64;
    Ok(possible.then(|| (*chunk, u32::try_from(data).unwrap_or(u32::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, minimum: u64, optimal: u64) -> Disk {
        Disk {
            name: name.into(),
            mapped_name: Some(format!("vg-{name}")),
            minimum_io_bytes: Fact::Known(minimum),
            optimal_io_bytes: Fact::Known(optimal),
            ..Default::default()
        }
    }

    fn over(members: &[Disk], minimum: u64, optimal: u64, maker: &str) -> Option<Array> {
        let device = Disk {
            members: members.iter().map(|member| member.name.clone()).collect(),
            mapped_by: Some(maker.into()),
            ..disk("dm-9", minimum, optimal)
        };
        array(&device, &members.iter().collect::<Vec<_>>())
    }

    fn plain(count: usize) -> Vec<Disk> {
        (0..count).map(|n| disk(&format!("sd{n}"), 512, 0)).collect()
    }

    #[test]
    fn a_striped_volume_shows_chunk_and_stripe() {
        let striped = over(&plain(4), 65_536, 262_144, "LVM").expect("an array");
        assert_eq!((striped.level.as_str(), striped.data_disks.known()), ("striped", Some(&4)));
        assert_eq!(
            (striped.chunk_bytes.known(), striped.stripe_bytes.known()),
            (Some(&65_536), Some(&262_144))
        );
    }

    #[test]
    fn without_the_two_sizes_it_is_one_after_the_other() {
        let linear = over(&plain(3), 512, 0, "LVM").expect("an array");
        assert_eq!((linear.level.as_str(), linear.data_disks.known()), ("linear", Some(&1)));
        assert!(linear.chunk_bytes.why().is_some());
        // Two arrays one after the other pass the stripe of the first on.
        let arrays = [disk("md0", 524_288, 4_194_304), disk("md1", 524_288, 4_194_304)];
        assert_eq!(over(&arrays, 524_288, 4_194_304, "LVM").map(|array| array.level), Some("linear".into()));
        // More chunks than members cannot be.
        assert_eq!(over(&plain(2), 512, 33_553_920, "LVM").map(|array| array.level), Some("linear".into()));
    }

    #[test]
    fn what_is_not_reported_is_not_guessed() {
        let made_by_hand = over(&plain(2), 512, 0, "x").expect("an array");
        assert_eq!((made_by_hand.level.as_str(), made_by_hand.data_disks.known()), ("dm", None));
        let device = Disk {
            members: vec!["a".into(), "b".into()],
            mapped_by: Some("LVM".into()),
            ..Default::default()
        };
        let recorded = array(&device, &[]).expect("an array");
        assert!(recorded.stripe_bytes.why().is_some_and(|why| why.contains("not there to be read")));
        assert_eq!(recorded.disks, Fact::Known(2));
    }

    #[test]
    fn paths_to_one_device_are_no_array() {
        assert_eq!(over(&plain(2), 512, 0, "mpath"), None);
        let pool = [disk("pool_tdata", 65_536, 262_144), disk("pool_tmeta", 512, 0)];
        assert_eq!(over(&pool, 65_536, 262_144, "LVM"), None, "a thin pool's data is one member");
        assert_eq!(over(&plain(1), 65_536, 262_144, "LVM"), None);
    }

    #[test]
    fn an_lvm_raid_counts_its_images() {
        let mut members: Vec<Disk> = (0..6).map(|n| disk(&format!("lv_rimage_{n}"), 512, 0)).collect();
        members.extend((0..6).map(|n| disk(&format!("lv_rmeta_{n}"), 512, 0)));
        let raid = over(&members, 65_536, 5 * 65_536, "LVM").expect("an array");
        assert_eq!(
            (raid.level.as_str(), raid.disks.known(), raid.data_disks.known()),
            ("raid", Some(&6), Some(&5))
        );
        assert!(raid.copies.why().is_some());
        let mirror = over(&members[..2], 512, 0, "LVM").expect("an array");
        assert_eq!((mirror.level.as_str(), mirror.copies.known()), ("raid1", Some(&2)));
    }
}
