//! How fast one core computes CRC-32C (RFC 3385; iSCSI, NVMe over TCP, SCTP, ext4 and btrfs use it), timed in
//! a few milliseconds.

use crc_fast::{CrcAlgorithm, checksum};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Fits the second-level cache of every server of the last ten years: the core is timed, not the memory.
const BLOCK_BYTES: usize = 64 << 10;
/// The best of these slices counts: in each of the others something else ran, or the clock had not risen yet.
const SLICES: usize = 6;
const SLICE: Duration = Duration::from_micros(300);

/// Times this machine's core; a recorded tree has none.
pub(crate) fn bytes_per_second(sysroot: &Sysroot) -> Fact<f64> {
    if !sysroot.is_live() {
        return Fact::unknown("only the machine itself can be timed");
    }
    let block = vec![0x5a; BLOCK_BYTES];
    // The first call finds out what the processor can do.
    black_box(checksum(CrcAlgorithm::Crc32Iscsi, &block));
    let best = (0..SLICES).map(|_| slice(&block)).fold(0.0, f64::max);
    // A whole number, so that it is the same when it comes back from a file.
    Fact::from_option((best >= 1.0).then(|| best.round()), "the clock cannot measure times this short")
}

fn slice(block: &[u8]) -> f64 {
    let started = Instant::now();
    let mut bytes = 0;
    loop {
        black_box(checksum(CrcAlgorithm::Crc32Iscsi, black_box(block)));
        bytes += block.len();
        let took = started.elapsed();
        if took >= SLICE {
            return bytes as f64 / took.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_does_more_than_a_hundred_megabytes_a_second() {
        let Fact::Known(rate) = bytes_per_second(&Sysroot::live()) else { panic!("not timed") };
        assert!((1e8..1e12).contains(&rate), "{rate}");
        assert!(bytes_per_second(&Sysroot::recorded("/nonexistent")).why().is_some());
    }

    /// The check value of CRC-32C, RFC 3720 appendix B.4: it is this algorithm that is timed.
    #[test]
    fn it_is_the_algorithm_of_iscsi() {
        assert_eq!(checksum(CrcAlgorithm::Crc32Iscsi, b"123456789"), 0xe306_9283);
    }
}
