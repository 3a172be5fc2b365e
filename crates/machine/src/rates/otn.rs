//! The optical transport network: rates of OTU, ODU and OPU by the formulas of ITU-T G.709, and of SDH.
//!
//! An OTUk frame has 4 rows of 4080 bytes: 14 of overhead (ODU and OTU), 2 of OPU overhead, 3808 of payload,
//! 256 of error correction. So OPU : ODU : OTU = 238 : 239 : 255 of a sixteenth of the columns; the number
//! under the fraction is what is left after stuff columns that fit the clients in.

/// STM-1, 155.52 Mb/s.
const STM_1: f64 = 155.52;
const STM_16: f64 = 16.0 * STM_1;
const STM_64: f64 = 64.0 * STM_1;
const STM_256: f64 = 256.0 * STM_1;
/// 40 × STM-16, the base of 100G and beyond.
const STM_640: f64 = 40.0 * STM_16;
/// 10GBASE-R's line.
const TEN_GIGABIT_LAN: f64 = 10_312.5;
/// 10G Fibre Channel's line.
const TEN_GIGABIT_FC: f64 = 10_518.75;

/// A rate as G.709 writes it: `times × part/whole × base`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formula {
    /// How many.
    pub times: u32,
    /// Numerator.
    pub part: u32,
    /// Denominator.
    pub whole: u32,
    /// Megabits per second of what is carried.
    pub base: f64,
}

impl Formula {
    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.times) * f64::from(self.part) / f64::from(self.whole) * self.base * 1e6 / 8.0
    }
}

impl std::fmt::Display for Formula {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.times != 1 {
            write!(f, "{} × ", self.times)?;
        }
        if self.part != self.whole {
            write!(f, "{}/{} × ", self.part, self.whole)?;
        }
        write!(f, "{}", self.base)
    }
}

/// One signal of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// `OTU2`, `FlexO-4-RS`, `STM-64/OC-192` …
    pub name: &'static str,
    /// On the fibre; of the container where it has no line of its own (ODU0).
    pub line: Formula,
    /// The container that is switched.
    pub odu: Option<Formula>,
    /// The client's bytes.
    pub opu: Option<Formula>,
    /// Clock tolerance, parts per million.
    pub tolerance_ppm: u32,
    /// What it is made for, and what to know.
    pub note: &'static str,
    /// Where the formula is.
    pub source: &'static str,
}

const G709: &str = "ITU-T G.709/Y.1331, tables 7-1 to 7-3";
const SUP43: &str = "ITU-T G.Sup43: 10G LAN and FC, not in all equipment";
const FLEXO: &str = "ITU-T G.709.1: FlexO with RS(544,514)";
const SDH: &str = "ITU-T G.707: SDH; Telcordia GR-253: SONET";

const fn times(times: u32, part: u32, whole: u32, base: f64) -> Formula {
    Formula { times, part, whole, base }
}

/// An OTUk with its ODU and OPU; `whole` is what its fraction has under it.
const fn otu(
    name: &'static str,
    whole: u32,
    count: u32,
    base: f64,
    tolerance_ppm: u32,
    source: &'static str,
    note: &'static str,
) -> Signal {
    Signal {
        name,
        line: times(count, 255, whole, base),
        odu: Some(times(count, 239, whole, base)),
        opu: Some(times(count, 238, whole, base)),
        tolerance_ppm,
        note,
        source,
    }
}

/// Beyond 100G: no error correction of its own, so OTUCn and ODUCn are equal.
const fn otuc(name: &'static str, count: u32, note: &'static str) -> Signal {
    let line = times(count, 239, 226, STM_640);
    let opu = times(count, 238, 226, STM_640);
    Signal { name, line, odu: Some(line), opu: Some(opu), tolerance_ppm: 20, note, source: G709 }
}

/// n × OTUC with the error correction of FlexO: 256/241 × 239/226.
const fn flexo(name: &'static str, count: u32) -> Signal {
    let line = times(count, 256 * 239, 241 * 226, STM_640);
    Signal {
        name,
        line,
        odu: None,
        opu: None,
        tolerance_ppm: 20,
        note: "OTUC; 256/241 × 239/226",
        source: FLEXO,
    }
}

const fn stm(name: &'static str, count: u32) -> Signal {
    let line = times(count, 1, 1, STM_1);
    Signal { name, line, odu: None, opu: None, tolerance_ppm: 20, note: "line rate", source: SDH }
}

/// G.709's hierarchy, then SDH.
pub(crate) const SIGNALS: [Signal; 25] = [
    Signal {
        odu: Some(times(1, 1, 2, STM_16)),
        opu: Some(times(1, 238, 2 * 239, STM_16)),
        line: times(1, 1, 2, STM_16),
        ..otu("ODU0", 2, 1, STM_16, 20, G709, "1GbE; a container, no line (OTU0 added in 2022)")
    },
    otu("OTU1", 238, 1, STM_16, 20, G709, "STM-16/OC-48"),
    otu("OTU2", 237, 1, STM_64, 20, G709, "STM-64, 10GBASE-W; 10GBASE-R does not fit"),
    otu("OTU1e", 238, 1, TEN_GIGABIT_LAN, 100, SUP43, "10GBASE-R, no fixed stuff"),
    otu("OTU2e", 237, 1, TEN_GIGABIT_LAN, 100, G709, "10GBASE-R"),
    otu("OTU1f", 238, 1, TEN_GIGABIT_FC, 100, SUP43, "10GFC"),
    otu("OTU2f", 237, 1, TEN_GIGABIT_FC, 100, SUP43, "10GFC"),
    otu("OTU3", 236, 1, STM_256, 20, G709, "STM-256, 40GbE transcoded"),
    otu("OTU3e1", 236, 4, TEN_GIGABIT_LAN, 100, SUP43, "4 × ODU2e"),
    Signal {
        line: times(16, 243, 217, STM_16),
        odu: Some(times(16, 243 * 239, 217 * 255, STM_16)),
        opu: None,
        ..otu("OTU3e2", 217, 16, STM_16, 20, SUP43, "4 × ODU2e")
    },
    otu("OTU4", 227, 1, STM_640, 20, G709, "100GbE, 10 × ODU2e"),
    otuc("OTUC1", 1, "100G class; FEC not counted"),
    otuc("OTUC2", 2, "200G class"),
    otuc("OTUC4", 4, "400G class"),
    otuc("OTUC8", 8, "800G class"),
    otuc("OTUC16", 16, "1.6T class"),
    flexo("FlexO-1-RS", 1),
    flexo("FlexO-2-RS", 2),
    flexo("FlexO-4-RS", 4),
    flexo("FlexO-8-RS", 8),
    stm("STM-1/OC-3", 1),
    stm("STM-4/OC-12", 4),
    stm("STM-16/OC-48", 16),
    stm("STM-64/OC-192", 64),
    stm("STM-256/OC-768", 256),
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    fn megabits(formula: Formula) -> f64 {
        formula.bytes_per_second() * 8.0 / 1e6
    }

    #[test]
    fn literal_rates_of_g_709() {
        // Table 7-2: ODU1 2 498 775.126, ODU2 10 037 273.924, ODU3 40 319 218.983, ODU4 104 794 445.815,
        // ODU2e 10 399 525.316 kbit/s.
        let odu = |name: &str| {
            let signal = SIGNALS.iter().find(|signal| signal.name == name).expect("a signal");
            megabits(signal.odu.expect("an ODU"))
        };
        for (name, expected) in [
            ("ODU0", 1_244.160),
            ("OTU1", 2_498.775_126),
            ("OTU2", 10_037.273_924),
            ("OTU3", 40_319.218_983),
            ("OTU4", 104_794.445_815),
            ("OTU2e", 10_399.525_316),
        ] {
            assert!((odu(name) - expected).abs() < 1e-6, "{name}: {}", odu(name));
        }
    }

    #[test]
    fn a_formula_reads_as_the_recommendation_has_it() {
        assert_eq!(times(1, 255, 237, STM_64).to_string(), "255/237 × 9953.28");
        assert_eq!(times(4, 255, 236, TEN_GIGABIT_LAN).to_string(), "4 × 255/236 × 10312.5");
        assert_eq!(times(1, 1, 1, STM_16).to_string(), "2488.32");
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("otn") else { return };
        assert_eq!(rows.len(), SIGNALS.len());
        for (row, signal) in rows.iter().zip(&SIGNALS) {
            assert!(row["signal"].starts_with(signal.name), "{row:?}");
            let near = |column: &str, ours: f64| {
                let theirs = tables::number(row, column);
                assert!(
                    theirs.is_none_or(|theirs| (theirs - ours).abs() < 5.1e-7),
                    "{column} {ours} {row:?}"
                );
                theirs.is_some()
            };
            assert!(near("mbps", megabits(signal.line)));
            assert!(near("gbps", megabits(signal.line) / 1e3));
            assert!(near("tolerance_ppm", f64::from(signal.tolerance_ppm)));
            let payload = signal.opu.map(megabits);
            assert_eq!(near("payload_mbps", payload.unwrap_or_default()), payload.is_some(), "{row:?}");
        }
    }
}
