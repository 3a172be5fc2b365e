//! What requests do to the disks: how many a request touches, and how many bytes move for each byte of a
//! write.
//!
//! A write of part of a stripe makes md read first, row by row of the stripe: the old data and the old parity
//! (read-modify-write), or the rest of the row (reconstruct-write), whichever is less (drivers/md/raid5.c,
//! handle_stripe_dirtying). Rows that are written whole are not read.

use super::Pattern;
use super::level::RaidLevel;
use serde::Serialize;

/// Positions that are tried at most; they repeat after stripe ÷ request of them in nearly all layouts that
/// anybody makes.
const MOST_POSITIONS: u64 = 4096;

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
