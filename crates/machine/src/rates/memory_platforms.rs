//! Server processors and their memory: channels of a socket, the fastest DIMMs, and how far more DIMMs on a
//! channel slow it.
//!
//! From the makers' guides; a model below the best of its family is often slower. What the firmware says that
//! the DIMMs run at (SMBIOS type 17, configured speed) goes before all of this.

use super::memory::{CHANNEL_BITS, bytes_per_second, exact_mt_per_second};
use super::rows::rows;

/// A family of server processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Platform {
    /// Maker, code name, model numbers.
    pub name: &'static str,
    /// Year of the first.
    pub year: u32,
    /// Channels of a socket; 0: the memory is part of the package and its peak is published.
    pub channels: u32,
    /// `DDR4` …
    pub family: &'static str,
    /// Mega-transfers per second with 1, 2, 3 DIMMs on each channel; 0: not supported, or not reported.
    pub by_dimms: [u32; 3],
    /// Peak of a socket where it does not follow from channels, bytes per second.
    pub published_bytes_per_second: Option<f64>,
    /// What bounds the figures.
    pub note: &'static str,
}

/// Where most of them come from.
pub(crate) const SOURCE: &str =
    "makers' data sheets and memory guides; models differ, confirm for yours (confidence: medium)";
/// Where the three rates of Nehalem come from.
pub(crate) const NEHALEM_SOURCE: &str = "SARA D1.3 (2010), table 3";

impl Platform {
    /// Bytes per second of a socket with all channels filled, at the fastest rate.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.published_bytes_per_second.unwrap_or_else(|| {
            bytes_per_second(exact_mt_per_second(self.by_dimms[0]), CHANNEL_BITS, self.channels)
        })
    }

    /// Mega-transfers per second with this many DIMMs on a channel; none where that is not supported or not
    /// published.
    pub(crate) fn mt_per_second(&self, dimms_per_channel: u32) -> Option<u32> {
        let at = usize::try_from(dimms_per_channel.checked_sub(1)?).ok()?;
        self.by_dimms.get(at).copied().filter(|rate| *rate > 0)
    }
}

/// Oldest first, by maker.
pub(crate) fn all() -> Vec<Platform> {
    rows(
        include_str!("memory_platforms.txt"),
        |[name, year, channels, family, by_one, by_two, by_three, published, note], _| {
            Some(Platform {
                name,
                year: year.parse().ok()?,
                channels: channels.parse().ok()?,
                family,
                by_dimms: [by_one.parse().ok()?, by_two.parse().ok()?, by_three.parse().ok()?],
                published_bytes_per_second: published.parse().ok(),
                note,
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn sara_table_3_of_d1_3() {
        let nehalem = all()[0];
        let clock =
            |dimms| nehalem.mt_per_second(dimms).map(|rate| (exact_mt_per_second(rate) / 2.0).round());
        assert_eq!([clock(1), clock(2), clock(3)], [Some(667.0), Some(533.0), Some(400.0)]);
        assert_eq!([1, 2, 3].map(|dimms| nehalem.mt_per_second(dimms)), [Some(1333), Some(1066), Some(800)]);
        assert_eq!(nehalem.mt_per_second(0), None);
        assert_eq!(nehalem.mt_per_second(4), None);
        assert_eq!(nehalem.mt_per_second(u32::MAX), None);
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("memory-platforms") else { return };
        let platforms = all();
        assert_eq!(rows.len(), platforms.len());
        for (row, platform) in rows.iter().zip(&platforms) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            assert_eq!((row["platform"].as_str(), row["family"].as_str()), (platform.name, platform.family));
            assert_eq!(number("year"), f64::from(platform.year));
            assert_eq!(number("channels_per_socket"), f64::from(platform.channels));
            assert_eq!(number("max_mt_s"), f64::from(platform.by_dimms[0]));
            let rate = platform.bytes_per_second() / 1e9;
            assert!((number("peak_GBps_per_socket") - rate).abs() < 0.051, "{row:?} {rate}");
            assert!((number("peak_gbps_per_socket") - rate * 8.0).abs() < 0.051, "{row:?} {rate}");
        }
    }
}
