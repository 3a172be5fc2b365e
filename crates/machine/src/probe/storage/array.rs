//! The arithmetic of RAID levels: which part of a stripe is data, how many times each byte is stored.

use crate::probe::machine::Array;
use linerate_facts::fact::Fact;

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
    use proptest::prelude::*;

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
