//! `/proc/diskstats` (Documentation/admin-guide/iostats.rst).

use serde::{Deserialize, Serialize};

/// More than any machine has, with partitions.
const MOST_DISKS: usize = 16_384;
/// Sectors of `/proc/diskstats` are of 512 bytes, whatever the disk's are.
pub(super) const SECTOR_BYTES: u64 = 512;

/// One line. Times are 32 bits of milliseconds in the kernel and wrap; the rest is as wide as its words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    pub name: String,
    pub reads: u64,
    pub reads_merged: u64,
    pub read_bytes: u64,
    pub read_ms: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub written_bytes: u64,
    pub write_ms: u64,
    /// Requests in the disk now: a state.
    pub in_flight: u64,
    /// Time with at least one request in the disk.
    pub busy_ms: u64,
    /// Time of all requests together.
    pub weighted_ms: u64,
    /// Told since Linux 4.18.
    pub discards: u64,
    pub discards_merged: u64,
    pub discarded_bytes: u64,
    pub discard_ms: u64,
    /// Told since Linux 5.5.
    pub flushes: u64,
    pub flush_ms: u64,
}

/// Reads the table in its order; lines that are none are left out.
pub fn parse_diskstats(text: &str) -> Option<Vec<DiskCounters>> {
    let found: Vec<DiskCounters> = text.lines().filter_map(parse_line).take(MOST_DISKS).collect();
    (!found.is_empty()).then_some(found)
}

/// Reads `/sys/block/NAME/stat`, the same columns of one device. None before Linux 4.18, which counts no discards.
pub fn parse_device_stat(text: &str) -> Option<DiskCounters> {
    (text.split_ascii_whitespace().count() >= 15).then(|| parse_line(&format!("0 0 device {text}")))?
}

fn parse_line(line: &str) -> Option<DiskCounters> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next().filter(|name| super::plain(name))?;
    let mut counts = [0u64; 17];
    let mut columns = 0;
    for (count, word) in counts.iter_mut().zip(words) {
        *count = word.parse().ok()?;
        columns += 1;
    }
    let sectors = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    // Linux 2.6 had lines of four for partitions.
    (columns >= 11).then(|| DiskCounters {
        name: name.to_string(),
        reads: counts[0],
        reads_merged: counts[1],
        read_bytes: sectors(counts[2]),
        read_ms: counts[3],
        writes: counts[4],
        writes_merged: counts[5],
        written_bytes: sectors(counts[6]),
        write_ms: counts[7],
        in_flight: counts[8],
        busy_ms: counts[9],
        weighted_ms: counts[10],
        discards: counts[11],
        discards_merged: counts[12],
        discarded_bytes: sectors(counts[13]),
        discard_ms: counts[14],
        flushes: counts[15],
        flush_ms: counts[16],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_old_and_new_kernels() {
        let text = "   8  0 sda 25354637 34367663 1003346126 18492372 28444756 11134226 505697032 63877960 0 \
                    9653880 82621804\n\
                    259  0 nvme0n1 47114 4 4643973 21650 1078320 43950 39451633 1011053 2 222766 1032546 1 2 \
                    3 4 5 6 77\n\
                    8 1 sda1 5 6 7 8\n8 2 sdb 1 2 3 x 5 6 7 8 9 10 11\nno\n";
        let disks = parse_diskstats(text).expect("disks");
        assert_eq!(disks.len(), 2);
        assert_eq!((disks[0].reads, disks[0].read_bytes, disks[0].flushes), (25_354_637, 513_713_216_512, 0));
        assert_eq!((disks[1].in_flight, disks[1].discarded_bytes, disks[1].flush_ms), (2, 1536, 6));
        assert_eq!(parse_diskstats("\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(([0-9]{1,22}|sd[a-é]) ?\n?){0,60}") {
            prop_assert!(parse_diskstats(&text).is_none_or(|disks| disks.iter().all(|disk| !disk.name.is_empty())));
        }
    }
}
