//! Which boundary a partition or an array should start on, and how far from it the start lies.

use linerate_facts::fact::Fact;

/// The boundary that a start should lie on, bytes, from the queue's three sizes (each 0 or unknown where the
/// device reports none).
///
/// The kernel's own rule is the larger of physical block and smallest good request (block/blk-settings.c,
/// `queue_limit_alignment_offset`). The optimal request counts, too, where it is a stripe: a whole number of
/// smallest requests that are larger than a block. Plain drives behind some SAS and USB bridges claim 16 or
/// 32 MiB less a sector, which is no boundary.
pub(super) fn boundary(physical: &Fact<u32>, minimum: &Fact<u64>, optimal: &Fact<u64>) -> Fact<u64> {
    let known = |fact: &Fact<u64>| fact.known().copied().unwrap_or(0);
    let physical = u64::from(physical.known().copied().unwrap_or(0));
    let (minimum, optimal) = (known(minimum), known(optimal));
    let striped = minimum > physical && optimal > minimum && optimal.is_multiple_of(minimum);
    let boundary = if striped { optimal } else { minimum.max(physical) };
    Fact::from_option((boundary > 0).then_some(boundary), "the kernel reports no block size")
}

/// How far the start of a whole device lies behind its last boundary, from `alignment_offset`: the bytes up
/// to its first one.
pub(super) fn of_device(alignment_offset: u64, boundary: u64) -> Option<u64> {
    let first = alignment_offset.checked_rem(boundary)?;
    (boundary - first).checked_rem(boundary)
}

/// How far the start of a partition lies behind the last boundary, `device` being that of the device it is
/// on.
pub(super) fn of_partition(start_bytes: u64, device: u64, boundary: u64) -> Option<u64> {
    let (start, device) = (start_bytes.checked_rem(boundary)?, device.checked_rem(boundary)?);
    let room = boundary - start;
    Some(if device < room { start + device } else { device - room })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(physical: u32, minimum: u64, optimal: u64) -> Option<u64> {
        boundary(&Fact::Known(physical), &Fact::Known(minimum), &Fact::Known(optimal)).known().copied()
    }

    #[test]
    fn what_a_start_should_lie_on() {
        assert_eq!(of(4096, 4096, 0), Some(4096));
        assert_eq!(of(512, 512, 33_553_920), Some(512), "a bridge that claims nonsense");
        assert_eq!(of(4096, 4096, 16_773_120), Some(4096), "a multiple of the block is not a stripe yet");
        assert_eq!(of(512, 131_072, 6 * 131_072), Some(786_432), "a stripe");
        assert_eq!(of(4096, 65_536, 100_000), Some(65_536), "no whole number of chunks");
        assert_eq!(of(0, 0, 0), None);
    }

    #[test]
    fn how_far_behind() {
        assert_eq!(of_partition(63 * 512, 0, 4096), Some(3584), "the partition of an old fdisk");
        assert_eq!(of_partition(1 << 20, 0, 4096), Some(0));
        assert_eq!(
            of_partition(1 << 20, 0, 768 << 10),
            Some(256 << 10),
            "1 MiB is not a whole number of stripes of 6"
        );
        // A drive whose sector 7 is aligned, so that sector 63 is: what the jumper of the first 4 KiB drives
        // did.
        assert_eq!(of_device(3584, 4096), Some(512));
        assert_eq!(of_partition(63 * 512, 512, 4096), Some(0));
        assert_eq!((of_device(0, 4096), of_device(5, 0), of_partition(5, 5, 0)), (Some(0), None, None));
    }

    proptest! {
        #[test]
        fn never_a_whole_boundary_behind(start: u64, offset: u64, boundary: u64) {
            if let Some(device) = of_device(offset, boundary) {
                let behind = of_partition(start, device, boundary).expect("the boundary is not 0");
                prop_assert!(device < boundary && behind < boundary);
                let modulus = u128::from(boundary);
                prop_assert_eq!((u128::from(behind) + u128::from(offset)) % modulus, u128::from(start) % modulus);
            }
        }
    }
}
