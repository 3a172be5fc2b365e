//! Rated bandwidth of memory: of a channel by the DIMMs in it, and of a socket by its family of processors.
//!
//! A channel carries transfers per second × its width. JEDEC writes the rates cut to whole numbers: DDR3-1333 makes
//! 1333⅓ million transfers a second, as the clock is a multiple of 16⅔ MHz.
//!
//! A family of processors has channels of a socket, the fastest DIMMs that it takes, and how far more DIMMs on a channel
//! slow them. Those figures are from the makers' guides; a model below the best of its family is often slower. What the
//! firmware says that the DIMMs run at (SMBIOS type 17, configured speed) goes before them.

use super::rows;

/// Data bits of a channel without ECC; DDR5 splits them into two subchannels.
pub(crate) const CHANNEL_BITS: u32 = 64;
/// Where the figures of most families of processors come from.
pub(crate) const SOURCE: &str =
    "makers' data sheets and memory guides; models differ, confirm for yours (confidence: medium)";
/// Where the three rates of Nehalem come from.
pub(crate) const NEHALEM_SOURCE: &str = "SARA D1.3 (2010), table 3";

/// Bytes per second of `channels` channels of `width_bits` data bits (without ECC) at `mt_per_second` million
/// transfers a second.
pub fn bytes_per_second(mt_per_second: f64, width_bits: u32, channels: u32) -> f64 {
    mt_per_second * 1e6 * f64::from(width_bits) / 8.0 * f64::from(channels)
}

/// The exact rate behind a rate as JEDEC and the firmware write it, mega-transfers per second: 1333 (or 1334)
/// is 1333⅓. A rate that is not a multiple of 33⅓ is taken as it is.
fn exact_mt_per_second(written: u32) -> f64 {
    let written = f64::from(written);
    let multiple = (written * 3.0 / 100.0).round() * 100.0 / 3.0;
    if (multiple - written).abs() < 1.0 { multiple } else { written }
}

/// Share of the rated figure that memory of a generation reaches with all cores streaming.
struct Efficiency {
    family: &'static str,
    share: f64,
    /// STREAM triad ÷ transfers × width × channels of a published server.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by people, and by the test"))]
    source: &'static str,
}

/// The middle of what is published, not the best of it: refresh, turns between reads and writes, and closed rows
/// take the rest.
const EFFICIENCIES: [Efficiency; 3] = [
    Efficiency {
        family: "DDR3",
        share: 0.78,
        source: "Dell HPC, “STREAM on Sandy Bridge servers”, 2012: 79.6 of 102.4 GB/s, 2 × E5-2680, 1600 MT/s; \
                 cited from memory, not read again",
    },
    Efficiency {
        family: "DDR4",
        share: 0.83,
        source: "Microsoft, “HBv3-series performance”: 330-350 of 409.6 GB/s, 16 channels of 3200 MT/s",
    },
    Efficiency {
        family: "DDR5",
        share: 0.83,
        source: "Microsoft, “HBv4-series performance”: 750-780 of 921.6 GB/s, 24 channels of 4800 MT/s",
    },
];

/// What memory of a kind (`DDR4`) reaches of its rated figure, 0 to 1; none where nothing was found published.
pub fn efficiency_of(kind: &str) -> Option<f64> {
    let family = kind.trim().to_ascii_uppercase();
    EFFICIENCIES.iter().find(|efficiency| family == efficiency.family).map(|efficiency| efficiency.share)
}

/// A rate that JEDEC gives DIMMs of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grade {
    /// `DDR3`, `DDR5-MRDIMM` …
    pub family: &'static str,
    /// Mega-transfers per second as written.
    pub mt_per_second: u32,
    /// Name of the module.
    pub module: &'static str,
    /// The standard.
    pub source: &'static str,
}

impl Grade {
    /// Bytes per second of one channel.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        bytes_per_second(exact_mt_per_second(self.mt_per_second), CHANNEL_BITS, 1)
    }
}

const DDR: (&str, &str) = ("DDR", "JEDEC JESD79");
const DDR2: (&str, &str) = ("DDR2", "JEDEC JESD79-2");
const DDR3: (&str, &str) = ("DDR3", "JEDEC JESD79-3; SARA D1.3 (2010), table 2");
const DDR4: (&str, &str) = ("DDR4", "JEDEC JESD79-4");
const DDR5: (&str, &str) =
    ("DDR5", "JEDEC JESD79-5: a DIMM is two subchannels of 32 bits, together this row");
const MRDIMM: (&str, &str) = ("DDR5-MRDIMM", "multiplexed ranks (MCRDIMM, MRDIMM), rate of the host's bus");

const fn grade(family: (&'static str, &'static str), mt_per_second: u32, module: &'static str) -> Grade {
    Grade { family: family.0, mt_per_second, module, source: family.1 }
}

/// DIMMs of servers, oldest first.
pub(crate) const GRADES: [Grade; 36] = [
    grade(DDR, 200, "PC-1600"),
    grade(DDR, 266, "PC-2100"),
    grade(DDR, 333, "PC-2700"),
    grade(DDR, 400, "PC-3200"),
    grade(DDR2, 400, "PC2-3200"),
    grade(DDR2, 533, "PC2-4200"),
    grade(DDR2, 667, "PC2-5300"),
    grade(DDR2, 800, "PC2-6400"),
    grade(DDR3, 800, "PC3-6400"),
    grade(DDR3, 1066, "PC3-8500"),
    grade(DDR3, 1333, "PC3-10600"),
    grade(DDR3, 1600, "PC3-12800"),
    grade(DDR3, 1866, "PC3-14900"),
    grade(DDR3, 2133, "PC3-17000"),
    grade(DDR4, 1600, "PC4-12800"),
    grade(DDR4, 1866, "PC4-14900"),
    grade(DDR4, 2133, "PC4-17000"),
    grade(DDR4, 2400, "PC4-19200"),
    grade(DDR4, 2666, "PC4-21300"),
    grade(DDR4, 2933, "PC4-23466"),
    grade(DDR4, 3200, "PC4-25600"),
    grade(DDR5, 3200, "PC5-25600"),
    grade(DDR5, 3600, "PC5-28800"),
    grade(DDR5, 4000, "PC5-32000"),
    grade(DDR5, 4400, "PC5-35200"),
    grade(DDR5, 4800, "PC5-38400"),
    grade(DDR5, 5200, "PC5-41600"),
    grade(DDR5, 5600, "PC5-44800"),
    grade(DDR5, 6000, "PC5-48000"),
    grade(DDR5, 6400, "PC5-51200"),
    grade(DDR5, 6800, "PC5-54400"),
    grade(DDR5, 7200, "PC5-57600"),
    grade(DDR5, 8000, "PC5-64000"),
    grade(DDR5, 8800, "PC5-70400"),
    grade(MRDIMM, 8800, "MRDIMM/MCRDIMM"),
    grade(MRDIMM, 12800, "MRDIMM/MCRDIMM"),
];

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
pub(crate) fn all_platforms() -> Vec<Platform> {
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

    fn gigabits(mt_per_second: u32) -> f64 {
        bytes_per_second(exact_mt_per_second(mt_per_second), 64, 1) * 8.0 / 1e9
    }

    #[test]
    fn each_efficiency_is_a_share_with_its_source() {
        for Efficiency { family, share, source } in &EFFICIENCIES {
            assert!((0.5..1.0).contains(share) && source.contains(" of "), "{family}");
        }
        assert_eq!(efficiency_of("ddr4"), Some(0.83));
        assert_eq!((efficiency_of("DDR2"), efficiency_of("DRAM"), efficiency_of("")), (None, None, None));
    }

    #[test]
    fn sara_table_2_of_d1_3() {
        let printed = [(800, "51.2"), (1066, "68.3"), (1333, "85.3"), (1600, "102.4")];
        for (rate, expected) in printed {
            assert_eq!(format!("{:.1}", gigabits(rate)), expected, "DDR3-{rate}");
        }
        // D1.1, section 2: "a peak transfer rate of 10667 MB/s for each channel".
        assert_eq!((gigabits(1333) / 8.0 * 1e3).round(), 10_667.0);
    }

    #[test]
    fn two_channels_of_ddr266_as_openbench_counts_them() {
        // openBench Labs (2003): "theoretical … bandwidth of 4.27GB per second" of the E7501 with DDR266.
        assert_eq!((bytes_per_second(exact_mt_per_second(266), 64, 2) / 1e7).round(), 427.0);
    }

    #[test]
    fn a_rate_is_exact_as_it_is_written_by_either_rule() {
        assert_eq!(exact_mt_per_second(2667), exact_mt_per_second(2666));
        assert_eq!(exact_mt_per_second(2666), 8000.0 / 3.0);
        assert_eq!(exact_mt_per_second(4800), 4800.0);
        assert_eq!(exact_mt_per_second(1350), 1350.0);
        assert_eq!(exact_mt_per_second(0), 0.0);
        assert!(exact_mt_per_second(u32::MAX).is_finite());
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("memory") else { return };
        let ours = GRADES.iter().filter(|grade| !matches!(grade.family, "DDR" | "DDR2"));
        assert_eq!(rows.len(), ours.clone().count());
        for (row, grade) in rows.iter().zip(ours) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            assert_eq!((row["family"].as_str(), row["module"].as_str()), (grade.family, grade.module));
            assert_eq!(number("mt_s"), f64::from(grade.mt_per_second));
            assert!(
                (number("exact_mt_s") - exact_mt_per_second(grade.mt_per_second)).abs() < 5.1e-4,
                "{row:?}"
            );
            assert_eq!(number("data_bits"), f64::from(CHANNEL_BITS));
            let rate = grade.bytes_per_second() / 1e9;
            assert!((number("GBps_per_channel") - rate).abs() < 5.1e-4, "{row:?}");
            assert!((number("gbps_per_channel") - rate * 8.0).abs() < 5.1e-4, "{row:?}");
        }
    }

    #[test]
    fn sara_table_3_of_d1_3() {
        let nehalem = all_platforms()[0];
        let clock =
            |dimms| nehalem.mt_per_second(dimms).map(|rate| (exact_mt_per_second(rate) / 2.0).round());
        assert_eq!([clock(1), clock(2), clock(3)], [Some(667.0), Some(533.0), Some(400.0)]);
        assert_eq!([1, 2, 3].map(|dimms| nehalem.mt_per_second(dimms)), [Some(1333), Some(1066), Some(800)]);
        assert_eq!(nehalem.mt_per_second(0), None);
        assert_eq!(nehalem.mt_per_second(4), None);
        assert_eq!(nehalem.mt_per_second(u32::MAX), None);
    }

    #[test]
    fn platforms_are_equal_to_the_reference_table() {
        let Some(rows) = tables::rows("memory-platforms") else { return };
        let platforms = all_platforms();
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
