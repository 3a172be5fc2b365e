//! What requests do to the disks: how many a request touches, and how many bytes move for each byte of a
//! write.
//!
//! A write of part of a stripe makes md read first, row by row of the stripe: the old data and the old parity
//! (read-modify-write), or the rest of the row (reconstruct-write), whichever is less (drivers/md/raid5.c,
//! handle_stripe_dirtying). Rows that are written whole are not read.
//!
//! RAID-Z writes each record of ZFS as a stripe of its own: sectors of data, parity for each row of them, and
//! padding to whole multiples of parity + 1 (OpenZFS, module/zfs/vdev_raidz.c, vdev_raidz_asize). There is no
//! chunk, and no stripe is ever written in part; a write of part of a record reads the record.

use super::level::RaidLevel;
use super::{Pattern, RaidSpec, exact_size};
use serde::Serialize;

/// Positions that are tried at most; they repeat after stripe ÷ request of them in nearly all layouts that
/// anybody makes.
const MOST_POSITIONS: u64 = 4096;

/// The largest record that every OpenZFS takes.
pub(super) const MOST_RECORD_BYTES: u64 = 1 << 20;
const LEAST_RECORD_BYTES: u64 = 4096;

/// Averages over requests that lie back to back, or at random multiples of their size: the positions in a
/// stripe are the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Disks with data that a request touches.
    pub disks_per_request: f64,
    /// Bytes read from disks for each byte of a request.
    pub read_per_byte: f64,
    /// Bytes written to disks for each byte of a request.
    pub written_per_byte: f64,
    /// Share of a write that fills whole stripes, 0 to 1; 1 where that makes no difference.
    pub whole_stripes: f64,
    /// Reads and writes of disks for one write of one block.
    pub operations_of_small_write: u32,
}

/// What requests of `request_bytes` do. `chunk_bytes`: none where nothing is striped.
pub fn traffic(
    level: RaidLevel,
    disks: u32,
    chunk_bytes: Option<u64>,
    request_bytes: u64,
    pattern: Pattern,
) -> Traffic {
    traffic_over(level, disks, level.data_disks(disks), chunk_bytes, request_bytes, pattern)
}

/// The same with the chunks of data in a stripe as the array reports them: a raid10 whose copies lie far has as
/// many as disks.
pub(crate) fn traffic_over(
    level: RaidLevel,
    disks: u32,
    data_disks: u32,
    chunk_bytes: Option<u64>,
    request_bytes: u64,
    pattern: Pattern,
) -> Traffic {
    let parity = level.parity();
    let operations_of_small_write = if parity > 0 { 2 * (1 + parity) } else { level.copies(disks) };
    let array = chunk_bytes.filter(|chunk| *chunk > 0).map(|chunk| Stripe {
        chunk,
        data: u64::from(data_disks).max(1),
        parity: u64::from(parity),
    });
    let Some(stripe) = array.filter(|_| request_bytes > 0) else {
        let written_per_byte = if pattern.is_write() { f64::from(level.copies(disks)) } else { 0.0 };
        return Traffic {
            disks_per_request: 1.0,
            read_per_byte: if pattern.is_write() { 0.0 } else { 1.0 },
            written_per_byte,
            whole_stripes: 1.0,
            operations_of_small_write,
        };
    };
    let positions =
        (stripe.bytes() / greatest_common_divisor(stripe.bytes(), request_bytes)).clamp(1, MOST_POSITIONS);
    let mut touched = 0;
    let mut moved = Moved::default();
    for index in 0..positions {
        let start = (u128::from(index) * u128::from(request_bytes) % u128::from(stripe.bytes())) as u64;
        touched += stripe.disks(start, request_bytes);
        moved = moved.and(stripe.write(start, request_bytes));
    }
    let bytes = positions as f64 * request_bytes as f64;
    let write = pattern.is_write();
    Traffic {
        disks_per_request: touched as f64 / positions as f64,
        read_per_byte: if write { moved.read as f64 / bytes } else { 1.0 },
        written_per_byte: if write {
            moved.written as f64 / bytes * f64::from(level.copies(disks))
        } else {
            0.0
        },
        whole_stripes: if write && parity > 0 { moved.whole as f64 / bytes } else { 1.0 },
        operations_of_small_write,
    }
}

/// A stripe of md.
#[derive(Clone, Copy, Debug)]
struct Stripe {
    chunk: u64,
    data: u64,
    parity: u64,
}

/// Bytes that writes move, mirrors not counted.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    read: u128,
    written: u128,
    /// Payload in whole stripes.
    whole: u128,
}

impl Moved {
    fn and(self, other: Moved) -> Moved {
        Moved {
            read: self.read + other.read,
            written: self.written + other.written,
            whole: self.whole + other.whole,
        }
    }
}

impl Stripe {
    fn bytes(&self) -> u64 {
        self.chunk.saturating_mul(self.data)
    }

    /// Data disks under a request that starts so far into a stripe.
    fn disks(&self, start: u64, length: u64) -> u64 {
        let last = start.saturating_add(length.saturating_sub(1));
        (last / self.chunk - start / self.chunk + 1).min(self.data)
    }

    fn write(&self, start: u64, length: u64) -> Moved {
        let (end, size) = (start.saturating_add(length), self.bytes());
        if end <= size {
            return self.part(start, end);
        }
        let head = if start > 0 { self.part(start, size) } else { Moved::default() };
        let rest = end - if start > 0 { size } else { 0 };
        let whole = u128::from(rest / size) * u128::from(size);
        let with_parity =
            u128::from(rest / size) * u128::from(self.chunk) * u128::from(self.data + self.parity);
        head.and(Moved { read: 0, written: with_parity, whole }).and(self.part(0, rest % size))
    }

    /// A write within one stripe, from `start` to `end`: rows with the same number of chunks touched are
    /// taken together.
    fn part(&self, start: u64, end: u64) -> Moved {
        if start >= end {
            return Moved::default();
        }
        if end - start == self.bytes() {
            let written = u128::from(self.chunk) * u128::from(self.data + self.parity);
            return Moved { read: 0, written, whole: u128::from(end - start) };
        }
        let (first, from) = (start / self.chunk, start % self.chunk);
        let (last, until) = ((end - 1) / self.chunk, (end - 1) % self.chunk + 1);
        let touched = |row: u64| {
            if first == last {
                return u64::from((from..until).contains(&row));
            }
            last - first - 1 + u64::from(row >= from) + u64::from(row < until)
        };
        let mut edges = [0, from.min(until), from.max(until), self.chunk];
        edges.sort_unstable();
        edges
            .windows(2)
            .fold(Moved::default(), |moved, edge| moved.and(self.rows(edge[1] - edge[0], touched(edge[0]))))
    }

    /// This many rows (bytes of each chunk), in which this many chunks are written.
    fn rows(&self, rows: u64, touched: u64) -> Moved {
        if rows == 0 || touched == 0 {
            return Moved::default();
        }
        let reads = match self.parity {
            0 => 0,
            parity => (touched + parity).min(self.data.saturating_sub(touched)),
        };
        let rows = u128::from(rows);
        Moved { read: rows * u128::from(reads), written: rows * u128::from(touched + self.parity), whole: 0 }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

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
    record.clamp(LEAST_RECORD_BYTES.max(1 << ashift(ask.block_bytes)), MOST_RECORD_BYTES)
}

/// Bytes that a record takes on the disks, parity and padding included.
fn on_disk_bytes(record: u64, disks: u32, parity: u32, ashift: u32) -> u64 {
    let (data_disks, parity) = (u64::from(disks.saturating_sub(parity)).max(1), u64::from(parity));
    let data = record.div_ceil(1 << ashift);
    let whole = data + parity * data.div_ceil(data_disks);
    whole.next_multiple_of(parity + 1) << ashift
}

/// What requests do to the disks of a RAID-Z, and why this record.
pub(super) fn traffic_of_raidz(ask: &RaidSpec, record: u64) -> (Traffic, String) {
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
