//! Linux software RAID: `/sys/block/md0/md` (Documentation/admin-guide/md.rst), and the arithmetic of RAID
//! levels: which part of a stripe is data, how many times each byte is stored.

use crate::probe::in_order;
use crate::probe::machine::Array;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::counted;
use std::path::Path;
use std::str::FromStr;

/// The array in a block device's directory, and its members by their places, spares not among them. `None`
/// where it is not an array that holds data: not assembled, or a container of firmware RAID whose volumes are
/// arrays of their own.
pub(super) fn read(sysroot: &Sysroot, block: &Path) -> Option<(Array, Vec<String>)> {
    let md = block.join("md");
    let level = sysroot.text(md.join("level")).ok()?;
    if matches!(level.as_str(), "" | "container" | "none") {
        return None;
    }
    let disks: Fact<u32> = number(sysroot, &md, "raid_disks");
    let layout: Fact<u32> = number(sysroot, &md, "layout");
    let (near, all) = match layout {
        Fact::Known(layout) if level == "raid10" => raid10_copies(layout),
        _ => (None, None),
    };
    let array = Array {
        chunk_bytes: match number(sysroot, &md, "chunk_size") {
            Fact::Known(0) => Fact::unknown(format!("{level} has no chunks")),
            chunk => chunk,
        },
        data_disks: parts(&level, &disks, near, data_disks),
        copies: parts(&level, &disks, all, copies),
        degraded: match sysroot.parse(md.join("degraded")) {
            // md counts only where there is redundancy: without, an array runs whole or not at all.
            Fact::Unknown { .. } if matches!(level.as_str(), "raid0" | "linear") => Fact::Known(0),
            degraded => degraded,
        },
        layout: match layout {
            Fact::Known(layout) => {
                Fact::from_option(layout_name(&level, layout), format!("{level} has one layout only"))
            }
            Fact::Unknown { why } => Fact::unknown(why),
        },
        state: sysroot.fact(md.join("array_state")),
        sync_action: match level.as_str() {
            "raid0" | "linear" => Fact::Known("idle".into()),
            _ => sysroot.fact(md.join("sync_action")),
        },
        disks,
        level,
        ..Default::default()
    };
    Some((with_stripe(array), members(sysroot, &md)))
}

/// Data disks or copies of a level; raid10 needs its layout for either.
fn parts(
    level: &str,
    disks: &Fact<u32>,
    of_raid10: Option<u32>,
    rule: fn(&str, u32, u32) -> Option<u32>,
) -> Fact<u32> {
    if level == "raid10" && of_raid10.is_none() {
        return Fact::unknown("the kernel shows no layout of this raid10");
    }
    match disks {
        Fact::Known(count) => Fact::from_option(
            rule(level, *count, of_raid10.unwrap_or(1)),
            format!("{level} of {}", counted(*count, "member")),
        ),
        Fact::Unknown { why } => Fact::unknown(why.clone()),
    }
}

/// The first number of a file: while an array changes its shape, `4 (3)` says what it will be and what it
/// was.
fn number<T: FromStr>(sysroot: &Sysroot, md: &Path, file: &str) -> Fact<T> {
    let path = md.join(file);
    match sysroot.text(&path) {
        Ok(text) => Fact::from_option(
            text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()),
            format!("{}: no number", path.display()),
        ),
        Err(why) => Fact::unknown(why),
    }
}

/// Near copies, and all copies, of a raid10: bits 0–7 near, 8–15 far, 16 far copies in the next row
/// (`offset`).
fn raid10_copies(layout: u32) -> (Option<u32>, Option<u32>) {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    match near * far {
        0 => (None, None),
        all => (Some(near), Some(all)),
    }
}

/// A layout by the name that mdadm has for it.
fn layout_name(level: &str, layout: u32) -> Option<String> {
    // drivers/md/raid5.h, ALGORITHM_*.
    const PARITY: [&str; 6] = [
        "left-asymmetric",
        "right-asymmetric",
        "left-symmetric",
        "right-symmetric",
        "parity-first",
        "parity-last",
    ];
    match level {
        "raid5" | "raid6" => {
            let name = usize::try_from(layout).ok().and_then(|at| PARITY.get(at));
            Some(name.map_or_else(|| layout.to_string(), |name| name.to_string()))
        }
        "raid10" => {
            let (near, all) = raid10_copies(layout);
            let (near, far) = (near?, all? / near?);
            let far_word = if layout & 1 << 16 != 0 { "offset" } else { "far" };
            Some(match (near, far) {
                (near, 1) => format!("near={near}"),
                (1, far) => format!("{far_word}={far}"),
                (near, far) => format!("near={near} {far_word}={far}"),
            })
        }
        _ => None,
    }
}

/// Members by place: `rd0` is a link to `dev-sda1`.
fn members(sysroot: &Sysroot, md: &Path) -> Vec<String> {
    let mut places: Vec<String> = sysroot.list(md);
    places.retain(|name| {
        name.strip_prefix("rd").is_some_and(|place| place.bytes().all(|byte| byte.is_ascii_digit()))
    });
    places.sort_by(|a, b| in_order(a, b));
    let member = |place: &String| Some(sysroot.link_name(md.join(place))?.strip_prefix("dev-")?.to_string());
    places.iter().filter_map(member).collect()
}

/// Chunks of data in a stripe over `disks` members; `None` where so few members make no such array, or the
/// level is not known here.
///
/// Levels by md's and btrfs' names. `near` counts only for `raid10`; see [`Array::data_disks`] for what a
/// stripe is there.
pub(in crate::probe) fn data_disks(level: &str, disks: u32, near: u32) -> Option<u32> {
    let without = |parity: u32| disks.checked_sub(parity).filter(|data| *data > 0);
    match level {
        "linear" | "raid1" | "raid1c3" | "raid1c4" | "single" | "dup" | "multipath" => {
            (disks > 0).then_some(1)
        }
        "raid0" => without(0),
        "raid4" | "raid5" => without(1),
        "raid6" => without(2),
        // drivers/md/raid10.c, raid10_nr_stripes(): the same rule as for the optimal request.
        "raid10" => match disks.checked_rem(near)? {
            0 => disks.checked_div(near).filter(|data| *data > 0),
            _ => without(0),
        },
        _ => None,
    }
}

/// How many times each byte is stored; `None` where the level is not known here.
pub(in crate::probe) fn copies(level: &str, disks: u32, raid10_copies: u32) -> Option<u32> {
    match level {
        "linear" | "raid0" | "raid4" | "raid5" | "raid6" | "single" | "multipath" => Some(1),
        "raid1" => Some(disks),
        "dup" => Some(2),
        "raid1c3" => Some(3),
        "raid1c4" => Some(4),
        "raid10" => Some(raid10_copies),
        _ => None,
    }
}

/// Fills `stripe_bytes` from chunk and data disks.
pub(in crate::probe) fn with_stripe(mut array: Array) -> Array {
    array.stripe_bytes = match (&array.chunk_bytes, &array.data_disks) {
        (Fact::Known(chunk), Fact::Known(disks)) => Fact::from_option(
            chunk.checked_mul(u64::from(*disks)),
            "chunk and number of disks are too large to be true",
        ),
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why.clone()),
    };
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    /// An array of `level` with chunks of 512 KiB; `layout` as the kernel's number.
    fn array(level: &str, disks: &str, layout: &str) -> Option<Array> {
        let tree = Tree::new(&[
            ("sys/block/md0/md/level", level),
            ("sys/block/md0/md/raid_disks", disks),
            ("sys/block/md0/md/chunk_size", "524288\n"),
            ("sys/block/md0/md/layout", layout),
            ("sys/block/md0/md/degraded", "1\n"),
            ("sys/block/md0/md/array_state", "clean\n"),
            ("sys/block/md0/md/sync_action", "recover\n"),
        ]);
        read(&tree.sysroot(), Path::new("/sys/block/md0")).map(|(array, _)| array)
    }

    #[test]
    fn stripes_of_each_level() {
        let chunks = |count: u64| Fact::Known(count * (512 << 10));
        for (level, disks, layout, name, data, copies) in [
            ("raid0\n", "12\n", "0\n", None, 12, 1),
            ("raid5\n", "8\n", "2\n", Some("left-symmetric"), 7, 1),
            ("raid6\n", "11 (10)\n", "2 (2)\n", Some("left-symmetric"), 9, 1),
            ("raid6\n", "10\n", "18\n", Some("18"), 8, 1),
            ("raid10\n", "8\n", "258\n", Some("near=2"), 4, 2),
            ("raid10\n", "8\n", "513\n", Some("far=2"), 8, 2),
            ("raid10\n", "6\n", "66049\n", Some("offset=2"), 6, 2),
            ("raid10\n", "8\n", "514\n", Some("near=2 far=2"), 4, 4),
        ] {
            let array = array(level, disks, layout).expect("an array");
            assert_eq!(array.level, level.trim());
            assert_eq!(array.data_disks, Fact::Known(data), "{level} {layout}");
            assert_eq!(array.copies, Fact::Known(copies), "{level} {layout}");
            assert_eq!(array.stripe_bytes, chunks(u64::from(data)));
            assert_eq!(array.layout.known().map(String::as_str), name);
            assert_eq!(array.degraded, Fact::Known(1));
        }
        let busy = array("raid5", "3", "2").expect("an array");
        assert_eq!(busy.sync_action, Fact::Known("recover".into()));
        assert_eq!(busy.state, Fact::Known("clean".into()));
    }

    #[test]
    fn a_mirror_has_no_chunk_and_a_container_is_none() {
        let tree = Tree::new(&[
            ("sys/block/md1/md/level", "raid1"),
            ("sys/block/md1/md/raid_disks", "2"),
            ("sys/block/md1/md/chunk_size", "0"),
            ("sys/block/md7/md/level", "container"),
            ("sys/block/md8/md/level", ""),
        ]);
        let (mirror, _) = read(&tree.sysroot(), Path::new("/sys/block/md1")).expect("an array");
        assert_eq!((mirror.data_disks.known(), mirror.copies.known()), (Some(&1), Some(&2)));
        assert_eq!(mirror.chunk_bytes.why(), Some("raid1 has no chunks"));
        assert_eq!(mirror.stripe_bytes.why(), Some("raid1 has no chunks"));
        assert_eq!(read(&tree.sysroot(), Path::new("/sys/block/md7")), None);
        assert_eq!(read(&tree.sysroot(), Path::new("/sys/block/md8")), None);
    }

    #[test]
    fn members_are_in_their_places_and_spares_are_none() {
        let mut tree =
            Tree::new(&[("sys/block/md0/md/level", "raid0"), ("sys/block/md0/md/dev-sdd/state", "spare")]);
        for (place, disk) in [("rd0", "sdc"), ("rd1", "sda1"), ("rd10", "sdb"), ("rd2", "sde")] {
            tree.put(&format!("sys/block/md0/md/dev-{disk}/state"), "in_sync");
            tree.link(&format!("sys/block/md0/md/{place}"), &format!("dev-{disk}"));
        }
        let (array, members) = read(&tree.sysroot(), Path::new("/sys/block/md0")).expect("an array");
        assert_eq!(members, ["sdc", "sda1", "sde", "sdb"]);
        assert_eq!(array.degraded, Fact::Known(0), "without one member it would not run");
    }

    proptest! {
        #[test]
        fn any_text_is_read(level in "raid(0|1|5|6|10)|.{0,6}", disks in "[0-9 \
            ()-]{0,12}|.{0,8}", layout in "[0-9]{0,11}|.{0,8}") {
            if let Some(array) = array(&level, &disks, &layout)
                && let (Fact::Known(data), Fact::Known(all)) = (&array.data_disks, &array.disks)
            {
                prop_assert!(data <= all);
            }
        }
    }

    #[test]
    fn data_of_each_level() {
        for (level, disks, near, data) in [
            ("raid0", 8, 1, Some(8)),
            ("raid1", 3, 1, Some(1)),
            ("raid5", 8, 1, Some(7)),
            ("raid4", 3, 1, Some(2)),
            ("raid6", 10, 1, Some(8)),
            ("raid6", 2, 1, None),
            ("raid10", 8, 2, Some(4)),
            // Far and offset copies lie in other rows: each row is all data.
            ("raid10", 8, 1, Some(8)),
            ("raid10", 3, 2, Some(3)),
            ("raid10", 4, 0, None),
            ("linear", 5, 1, Some(1)),
            ("raid1c3", 5, 1, Some(1)),
            ("raid0", 0, 1, None),
            ("raid7", 5, 1, None),
        ] {
            assert_eq!(data_disks(level, disks, near), data, "{level} of {disks}, near {near}");
        }
    }

    #[test]
    fn a_stripe_is_chunk_times_data() {
        let made = |chunk: u64, disks: u32| {
            let (chunk_bytes, data_disks) = (Fact::Known(chunk), Fact::Known(disks));
            with_stripe(Array { chunk_bytes, data_disks, ..Default::default() }).stripe_bytes
        };
        assert_eq!(made(64 << 10, 8), Fact::Known(512 << 10));
        assert!(made(u64::MAX, 2).why().is_some());
    }

    proptest! {
        #[test]
        fn there_is_never_more_data_than_disks(
            level in "raid(0|1|4|5|6|10|1c3)|linear|.{0,5}", disks: u32, near in 0u32..300
        ) {
            if let Some(data) = data_disks(&level, disks, near) {
                prop_assert!((1..=disks).contains(&data));
            }
        }
    }
}
