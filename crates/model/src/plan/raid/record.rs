//! ZFS: the record that goes with the requests, and what RAID-Z makes of it.
//!
//! RAID-Z writes each record as a stripe of its own: sectors of data, parity for each row of them, and
//! padding to whole multiples of parity + 1 (OpenZFS, module/zfs/vdev_raidz.c, vdev_raidz_asize). There is no
//! chunk, and no stripe is ever written in part; a write of part of a record reads the record.

use super::traffic::Traffic;
use super::{RaidSpec, exact_size};

/// The largest record that every OpenZFS takes.
pub(super) const MOST_BYTES: u64 = 1 << 20;
const LEAST_BYTES: u64 = 4096;

/// `ashift`: the power of two of the sector; 12 at least, as a pool of 512-byte sectors takes no later disk
/// of 4096.
pub(super) fn ashift(block_bytes: u64) -> u32 {
    block_bytes.max(1).ilog2().clamp(12, 16)
}

/// The record: a request's size, or the power of two below it for large ones, above it for small ones.
pub(super) fn record_bytes(ask: &RaidSpec) -> u64 {
    let record = if ask.pattern.is_sequential() {
        1 << ask.request_bytes.max(1).ilog2()
    } else {
        ask.request_bytes.next_power_of_two()
    };
    record.clamp(LEAST_BYTES.max(1 << ashift(ask.block_bytes)), MOST_BYTES)
}

/// Bytes that a record takes on the disks, parity and padding included.
fn on_disk_bytes(record: u64, disks: u32, parity: u32, ashift: u32) -> u64 {
    let (data_disks, parity) = (u64::from(disks.saturating_sub(parity)).max(1), u64::from(parity));
    let data = record.div_ceil(1 << ashift);
    let whole = data + parity * data.div_ceil(data_disks);
    whole.next_multiple_of(parity + 1) << ashift
}

/// What requests do to the disks of a RAID-Z, and why this record.
pub(super) fn of_raidz(ask: &RaidSpec, record: u64) -> (Traffic, String) {
    let ashift = ashift(ask.block_bytes);
    let on_disk = on_disk_bytes(record, ask.disks, ask.level.parity(), ashift) as f64 / record as f64;
    let sectors = (record.min(ask.request_bytes) >> ashift).max(1);
    let data_disks = u64::from(ask.level.data_disks(ask.disks)).max(1);
    let records = ask.request_bytes.div_ceil(record) as f64;
    let part = (ask.request_bytes as f64 / record as f64).min(1.0);
    let write = ask.pattern.is_write();
    // A record that is written in part is read and written whole.
    let traffic = Traffic {
        disks_per_request: if records > 1.0 { data_disks as f64 } else { sectors.min(data_disks) as f64 },
        read_per_byte: match (write, part < 1.0) {
            (false, _) | (true, true) => 1.0 / part,
            (true, false) => 0.0,
        },
        written_per_byte: if write { on_disk / part } else { 0.0 },
        whole_stripes: 1.0,
        operations_of_small_write: ask.level.parity() + 1,
    };
    let why = format!(
        "a record of {} goes with requests of {}; with parity and padding it takes {:.2} of itself on the \
         disks ({:.2} would be ideal)",
        exact_size(record),
        exact_size(ask.request_bytes),
        on_disk,
        f64::from(ask.disks) / data_disks as f64
    );
    (traffic, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_as_openzfs_counts_it() {
        // Known from the OpenZFS wiki: raidz1 of 5 disks, 8 KiB records on 4 KiB sectors: 2 data + 1 parity +
        // 1 padding = 16 KiB.
        assert_eq!(on_disk_bytes(8 << 10, 5, 1, 12), 16 << 10);
        // 128 KiB on raidz2 of 10: 32 data + 8 parity = 40, padded to 42.
        assert_eq!(on_disk_bytes(128 << 10, 10, 2, 12), 42 << 12);
        // One sector on raidz2: 1 + 2.
        assert_eq!(on_disk_bytes(4096, 8, 2, 12), 3 << 12);
    }

    #[test]
    fn sectors_are_4_kib_at_least_and_64_at_most() {
        assert_eq!([512, 4096, 8192, 1 << 20].map(ashift), [12, 12, 13, 16]);
        assert_eq!(ashift(0), 12);
    }
}
