//! Device mapper: `/sys/block/dm-0/dm` and what the sizes of the queue tell of its table.
//!
//! The table itself (`dmsetup table`) is root's, over an ioctl. The kernel shows a striped or RAID target by two sizes: its chunk as the
//! smallest good request, its stripe as the optimal one (drivers/md/dm-stripe.c `stripe_io_hints`, dm-raid.c `raid_io_hints`).

use super::array::with_stripe;
use crate::fact::Fact;
use crate::probe::machine::{Array, Disk};
use crate::sysroot::Sysroot;
use std::path::Path;

/// Name and maker of a dm device: `vg-lv` and `LVM` (of the uuid `LVM-…`).
pub(in crate::probe) fn read(sysroot: &Sysroot, block: &Path) -> (Option<String>, Option<String>) {
    let word = |file: &str| sysroot.text(block.join("dm").join(file)).ok().filter(|text| !text.is_empty());
    let maker = word("uuid").and_then(|uuid| Some(uuid.split_once('-')?.0.to_string()));
    (word("name"), maker)
}

/// How a dm device over several members spreads its data; `None` for paths to one device (multipath) and for a single member.
/// `members` are those of its members that are known.
pub(in crate::probe) fn array(device: &Disk, members: &[&Disk]) -> Option<Array> {
    if device.members.len() < 2 || device.mapped_by.as_deref() == Some("mpath") {
        return None;
    }
    let images = images(members);
    let disks = u32::try_from(images.unwrap_or(device.members.len())).unwrap_or(u32::MAX);
    let array = match (stripe(device, members), images) {
        (Some((chunk, data)), images) => Array {
            level: if images.is_some() { "raid" } else { "striped" }.into(),
            chunk_bytes: Fact::Known(chunk),
            data_disks: Fact::Known(data),
            copies: match images {
                None => Fact::Known(1),
                Some(_) => Fact::unknown("only root may read the level of an LVM RAID"),
            },
            ..Default::default()
        },
        (None, images) => {
            let why = "only root may read the table of a dm device, and its queue shows no stripe";
            Array {
                level: if images.is_some() { "raid" } else { "linear" }.into(),
                chunk_bytes: Fact::unknown(why),
                // One after the other: a request meets one device. A RAID without chunks is a mirror.
                data_disks: Fact::Known(1),
                copies: if images.is_some() { Fact::Known(disks) } else { Fact::Known(1) },
                ..Default::default()
            }
        }
    };
    let untold = "only root may ask a dm device for this";
    Some(with_stripe(Array {
        disks: Fact::Known(disks),
        degraded: Fact::unknown(untold),
        layout: Fact::unknown(untold),
        state: Fact::unknown(untold),
        sync_action: Fact::unknown(untold),
        ..array
    }))
}

/// Data images of an LVM RAID among the members: `vg-lv_rimage_0`, each with its `_rmeta_0`.
fn images(members: &[&Disk]) -> Option<usize> {
    let image = |disk: &&&Disk| disk.mapped_name.as_deref().is_some_and(|name| name.contains("_rimage_"));
    Some(members.iter().filter(image).count()).filter(|count| *count > 0)
}

/// Chunk and number of chunks of data, where the queue shows a stripe that is not just passed on from a member.
fn stripe(device: &Disk, members: &[&Disk]) -> Option<(u64, u32)> {
    let (chunk, stripe) = (*device.minimum_io_bytes.known()?, *device.optimal_io_bytes.known()?);
    let passed_on = members.iter().any(|member| member.optimal_io_bytes == device.optimal_io_bytes);
    let data = stripe.checked_rem(chunk).filter(|rest| *rest == 0).and_then(|_| stripe.checked_div(chunk))?;
    (data > 1 && data <= device.members.len() as u64 && !passed_on).then_some((chunk, data as u32))
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
    fn paths_to_one_device_are_no_array() {
        assert_eq!(over(&plain(2), 512, 0, "mpath"), None);
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
    }
}
