//! Server processors and their memory: channels of a socket, the fastest DIMMs, and how far more DIMMs on a
//! channel slow it.
//!
//! From the makers' guides; a model below the best of its family is often slower. What the firmware says that
//! the DIMMs run at (SMBIOS type 17, configured speed) goes before all of this.

use super::memory::{CHANNEL_BITS, bytes_per_second, exact_mt_per_second};

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
    /// Mega-transfers per second with 1, 2, 3 DIMMs on each channel; 0: not supported, or not told.
    pub by_dimms: [u32; 3],
    /// Peak of a socket where it does not follow from channels, bytes per second.
    pub published_bytes_per_second: Option<f64>,
    /// What bounds the figures.
    pub note: &'static str,
}

/// Where most of [`PLATFORMS`] comes from.
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

    /// Mega-transfers per second with so many DIMMs on a channel; none where that is not supported or not
    /// told.
    pub(crate) fn mt_per_second(&self, dimms_per_channel: u32) -> Option<u32> {
        let at = usize::try_from(dimms_per_channel.checked_sub(1)?).ok()?;
        self.by_dimms.get(at).copied().filter(|rate| *rate > 0)
    }
}

const fn platform(
    name: &'static str,
    year: u32,
    channels: u32,
    family: &'static str,
    by_dimms: [u32; 3],
    note: &'static str,
) -> Platform {
    Platform { name, year, channels, family, by_dimms, published_bytes_per_second: None, note }
}

/// Oldest first, by maker.
pub(crate) const PLATFORMS: [Platform; 21] = [
    platform("Intel Nehalem-EP (Xeon 5500)", 2009, 3, "DDR3", [1333, 1066, 800], ""),
    platform("Intel Westmere-EP (Xeon 5600)", 2010, 3, "DDR3", [1333, 1333, 800], "2 DIMMs: by model"),
    platform("Intel Sandy Bridge-EP (E5-2600)", 2012, 4, "DDR3", [1600, 1600, 1066], "3 DIMMs: or less"),
    platform("Intel Ivy Bridge-EP (E5-2600 v2)", 2013, 4, "DDR3", [1866, 1600, 1066], ""),
    platform("Intel Haswell-EP (E5-2600 v3)", 2014, 4, "DDR4", [2133, 2133, 1600], "3 DIMMs: 1600 or 1866"),
    platform(
        "Intel Broadwell-EP (E5-2600 v4)",
        2016,
        4,
        "DDR4",
        [2400, 2400, 1866],
        "3 DIMMs: 1866 or 2133; low models 2133",
    ),
    platform(
        "Intel Skylake-SP (Xeon Scalable 1)",
        2017,
        6,
        "DDR4",
        [2666, 0, 0],
        "2133, 2400 or 2666 by model",
    ),
    platform("Intel Cascade Lake-SP (2)", 2019, 6, "DDR4", [2933, 2666, 0], "low models 2133 or 2400"),
    platform("Intel Ice Lake-SP (3)", 2021, 8, "DDR4", [3200, 3200, 0], "2 DIMMs: top models"),
    platform("Intel Sapphire Rapids (4)", 2023, 8, "DDR5", [4800, 4400, 0], ""),
    platform("Intel Emerald Rapids (5)", 2023, 8, "DDR5", [5600, 4400, 0], "2 DIMMs: 4400 or 4800"),
    platform("Intel Granite Rapids-AP (6900P)", 2024, 12, "DDR5", [6400, 0, 0], "MRDIMM 8800"),
    platform("Intel Granite/Sierra Forest-SP (6700)", 2024, 8, "DDR5", [6400, 5200, 0], "MRDIMM 8000"),
    platform("AMD Opteron 6100 (Magny-Cours G34)", 2010, 4, "DDR3", [1333, 0, 0], ""),
    platform("AMD EPYC 7001 Naples", 2017, 8, "DDR4", [2666, 2133, 0], "2 DIMMs: 2133 or 2400"),
    platform("AMD EPYC 7002/7003 Rome/Milan", 2019, 8, "DDR4", [3200, 2933, 0], "2 DIMMs: or less"),
    platform("AMD EPYC 9004 Genoa", 2022, 12, "DDR5", [4800, 4400, 0], "2 DIMMs: 3600 to 4400 by rank"),
    platform(
        "AMD EPYC 9005 Turin",
        2024,
        12,
        "DDR5",
        [6400, 4400, 0],
        "6000 on the first boards; 2 DIMMs: 4400 or 5200",
    ),
    platform("Ampere Altra", 2020, 8, "DDR4", [3200, 0, 0], ""),
    platform("Ampere AmpereOne", 2024, 8, "DDR5", [5200, 0, 0], ""),
    Platform {
        published_bytes_per_second: Some(512e9),
        ..platform(
            "NVIDIA Grace",
            2023,
            0,
            "LPDDR5X",
            [8532, 0, 0],
            "480 GB; soldered, no channels in SMBIOS",
        )
    },
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn sara_table_3_of_d1_3() {
        let nehalem = PLATFORMS[0];
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
        assert_eq!(rows.len(), PLATFORMS.len());
        for (row, platform) in rows.iter().zip(&PLATFORMS) {
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
