//! What the request queue of a block device reports: `/sys/block/sda/queue`
//! (Documentation/ABI/stable/sysfs-block).
//!
//! By that it is known which boundary a partition or an array should start on, and how far from it the start
//! lies.

use crate::probe::machine::Disk;
use linerate_facts::counters::parse_device_stat;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

/// The facts of a whole device's queue, and its alignment; the other fields are left as they are by default.
pub(super) fn read(sysroot: &Sysroot, directory: &Path) -> Disk {
    let queue = directory.join("queue");
    let number = |file: &str| sysroot.parse::<u64>(queue.join(file));
    let kibibytes = |file: &str| number(file).map(|count| count.saturating_mul(1024));
    let (minimum_io_bytes, optimal_io_bytes) = (number("minimum_io_size"), number("optimal_io_size"));
    let physical_block_bytes = sysroot.parse(queue.join("physical_block_size"));
    let alignment_bytes = alignment_boundary(&physical_block_bytes, &minimum_io_bytes, &optimal_io_bytes);
    Disk {
        rotational: sysroot.parse::<u32>(queue.join("rotational")).map(|flag| flag == 1),
        logical_block_bytes: sysroot.parse(queue.join("logical_block_size")),
        misaligned_bytes: misaligned(sysroot, directory, &alignment_bytes),
        alignment_bytes,
        physical_block_bytes,
        minimum_io_bytes,
        optimal_io_bytes,
        discard: number("discard_max_bytes").map(|most| most > 0),
        trimmed: trimmed(sysroot, directory),
        scheduler: sysroot.fact(queue.join("scheduler")).and_then(|choice| scheduler(&choice)),
        read_ahead_bytes: kibibytes("read_ahead_kb"),
        requests: sysroot.parse(queue.join("nr_requests")),
        max_request_bytes: kibibytes("max_sectors_kb"),
        write_cache: sysroot.fact(queue.join("write_cache")),
        ..Default::default()
    }
}

/// Whether anything was discarded, where a timer of a week had its time.
fn trimmed(sysroot: &Sysroot, directory: &Path) -> Fact<bool> {
    const LONG_ENOUGH_SECONDS: f64 = 8.0 * 86_400.0;
    let uptime = sysroot.fact("/proc/uptime").and_then(|text| {
        let seconds = text.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
        Fact::from_option(seconds, "/proc/uptime has no number")
    });
    let counted = sysroot.fact(directory.join("stat")).and_then(|text| {
        Fact::from_option(parse_device_stat(&text), "the kernel counts no discards (before Linux 4.18)")
    });
    match (uptime, counted) {
        (_, Fact::Known(counted)) if counted.discards > 0 => Fact::Known(true),
        (Fact::Known(..LONG_ENOUGH_SECONDS), _) => Fact::unknown("the host has not run for eight days yet"),
        (Fact::Known(_), Fact::Known(counted)) if counted.written_bytes > 0 => Fact::Known(false),
        (Fact::Known(_), Fact::Known(_)) => Fact::unknown("nothing was written since the host started"),
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why),
    }
}

/// The choice of `mq-deadline kyber [bfq] none`; where there is none to choose, the word is alone.
fn scheduler(choice: &str) -> Fact<String> {
    let chosen = choice.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let alone = (!choice.is_empty() && !choice.contains(char::is_whitespace)).then_some(choice);
    Fact::from_option(chosen.or(alone).map(str::to_string), "the kernel names no scheduler")
}

/// How far a whole device starts behind a boundary. −1 is the kernel's word for members that do not fit
/// together.
fn misaligned(sysroot: &Sysroot, directory: &Path, boundary: &Fact<u64>) -> Fact<u64> {
    let offset = sysroot.parse::<i64>(directory.join("alignment_offset"));
    match (offset, boundary) {
        (Fact::Known(..0), _) => Fact::unknown("the kernel calls it misaligned and does not say by how much"),
        (Fact::Known(offset), Fact::Known(boundary)) => Fact::from_option(
            alignment_of_device(offset.unsigned_abs(), *boundary),
            "the kernel reports no block size",
        ),
        (Fact::Unknown { why }, _) => Fact::unknown(why),
        (_, Fact::Unknown { why }) => Fact::unknown(why.clone()),
    }
}

/// The boundary that a start should lie on, bytes, from the queue's three sizes (each 0 or unknown where the
/// device reports none).
///
/// The kernel's own rule is the larger of physical block and smallest good request (block/blk-settings.c,
/// `queue_limit_alignment_offset`). The optimal request counts, too, where it is a stripe: a whole number of
/// smallest requests that are larger than a block. Plain drives behind some SAS and USB bridges claim 16 or
/// 32 MiB less a sector, which is not a boundary.
fn alignment_boundary(physical: &Fact<u32>, minimum: &Fact<u64>, optimal: &Fact<u64>) -> Fact<u64> {
    let known = |fact: &Fact<u64>| fact.known().copied().unwrap_or(0);
    let physical = u64::from(physical.known().copied().unwrap_or(0));
    let (minimum, optimal) = (known(minimum), known(optimal));
    let striped = minimum > physical && optimal > minimum && optimal.is_multiple_of(minimum);
    let boundary = if striped { optimal } else { minimum.max(physical) };
    Fact::from_option((boundary > 0).then_some(boundary), "the kernel reports no block size")
}

/// How far the start of a whole device lies behind its last boundary, from `alignment_offset`: the bytes up
/// to its first one.
fn alignment_of_device(alignment_offset: u64, boundary: u64) -> Option<u64> {
    let first = alignment_offset.checked_rem(boundary)?;
    (boundary - first).checked_rem(boundary)
}

/// How far the start of a partition lies behind the last boundary, `device` being that of the device it is
/// on.
pub(super) fn alignment_of_partition(start_bytes: u64, device: u64, boundary: u64) -> Option<u64> {
    let (start, device) = (start_bytes.checked_rem(boundary)?, device.checked_rem(boundary)?);
    let room = boundary - start;
    Some(if device < room { start + device } else { device - room })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn sizes_choices_and_the_start() {
        let tree = Tree::new(&[
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/sda/queue/logical_block_size", "512\n"),
            ("sys/block/sda/queue/physical_block_size", "4096\n"),
            ("sys/block/sda/queue/minimum_io_size", "4096\n"),
            ("sys/block/sda/queue/optimal_io_size", "0\n"),
            ("sys/block/sda/queue/discard_max_bytes", "0\n"),
            ("sys/block/sda/queue/scheduler", "none mq-deadline kyber [bfq]\n"),
            ("sys/block/sda/queue/read_ahead_kb", "128\n"),
            ("sys/block/sda/queue/nr_requests", "64\n"),
            ("sys/block/sda/queue/max_sectors_kb", "1280\n"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
            ("sys/block/sda/alignment_offset", "3584\n"),
            ("sys/block/dm-0/queue/physical_block_size", "4096"),
            ("sys/block/dm-0/alignment_offset", "-1"),
        ]);
        let disk = read(&tree.sysroot(), Path::new("/sys/block/sda"));
        assert_eq!((disk.rotational.known(), disk.discard.known()), (Some(&true), Some(&false)));
        assert_eq!(
            (disk.logical_block_bytes.known(), disk.physical_block_bytes.known()),
            (Some(&512), Some(&4096))
        );
        assert_eq!((disk.alignment_bytes.known(), disk.misaligned_bytes.known()), (Some(&4096), Some(&512)));
        assert_eq!((disk.minimum_io_bytes.known(), disk.optimal_io_bytes.known()), (Some(&4096), Some(&0)));
        assert_eq!(disk.scheduler.known().map(String::as_str), Some("bfq"));
        assert_eq!((disk.read_ahead_bytes.known(), disk.requests.known()), (Some(&131_072), Some(&64)));
        assert_eq!(disk.max_request_bytes.known(), Some(&1_310_720));
        assert_eq!(disk.write_cache.known().map(String::as_str), Some("write back"));
        let askew = read(&tree.sysroot(), Path::new("/sys/block/dm-0"));
        assert!(askew.misaligned_bytes.why().is_some_and(|why| why.contains("misaligned")));
        assert_eq!(askew.scheduler.why(), Some("/sys/block/dm-0/queue/scheduler: not there"));
    }

    #[test]
    fn whether_anything_was_ever_trimmed() {
        let trimmed = |uptime: &str, stat: &str| {
            let tree = Tree::new(&[("proc/uptime", uptime), ("sys/block/sda/stat", stat)]);
            read(&tree.sysroot(), Path::new("/sys/block/sda")).trimmed
        };
        let (week, month) = ("600000.00 1.00", "2600000.00 1.00");
        let stat = |written: u64, discards: u64| {
            format!("   1 0 8 0 5 0 {written} 0 0 0 0 {discards} 0 {discards} 0 3 0\n")
        };
        assert_eq!(trimmed(month, &stat(4096, 0)), Fact::Known(false));
        assert_eq!(trimmed(week, &stat(4096, 7)), Fact::Known(true));
        for (uptime, stat, why) in [
            (week, stat(4096, 0), "eight days"),
            (month, stat(0, 0), "nothing was written"),
            (month, "1 0 8 0 5 0 9 0 0 0 0".into(), "before Linux 4.18"),
            ("soon", stat(4096, 0), "no number"),
        ] {
            let found = trimmed(uptime, &stat);
            assert!(found.why().is_some_and(|found| found.contains(why)), "{found:?}");
        }
    }

    #[test]
    fn schedulers() {
        assert_eq!(scheduler("[none] mq-deadline"), Fact::Known("none".into()));
        assert_eq!(scheduler("none"), Fact::Known("none".into()), "where there is no choice");
        assert!(scheduler("").why().is_some() && scheduler("a b").why().is_some());
    }

    fn of(physical: u32, minimum: u64, optimal: u64) -> Option<u64> {
        alignment_boundary(&Fact::Known(physical), &Fact::Known(minimum), &Fact::Known(optimal))
            .known()
            .copied()
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
        assert_eq!(alignment_of_partition(63 * 512, 0, 4096), Some(3584), "the partition of an old fdisk");
        assert_eq!(alignment_of_partition(1 << 20, 0, 4096), Some(0));
        assert_eq!(
            alignment_of_partition(1 << 20, 0, 768 << 10),
            Some(256 << 10),
            "1 MiB is not a whole number of stripes of 6"
        );
        // A drive whose sector 7 is aligned, so that sector 63 is: what the jumper of the first 4 KiB drives
        // did.
        assert_eq!(alignment_of_device(3584, 4096), Some(512));
        assert_eq!(alignment_of_partition(63 * 512, 512, 4096), Some(0));
        assert_eq!(
            (alignment_of_device(0, 4096), alignment_of_device(5, 0), alignment_of_partition(5, 5, 0)),
            (Some(0), None, None)
        );
    }

    proptest! {
        #[test]
        fn never_a_whole_boundary_behind(start: u64, offset: u64, boundary: u64) {
            if let Some(device) = alignment_of_device(offset, boundary) {
                let behind = alignment_of_partition(start, device, boundary).expect("the boundary is not 0");
                prop_assert!(device < boundary && behind < boundary);
                let modulus = u128::from(boundary);
                prop_assert_eq!((u128::from(behind) + u128::from(offset)) % modulus, u128::from(start) % modulus);
            }
        }
    }
}
