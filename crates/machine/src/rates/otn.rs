//! The optical transport network: rates of OTU, ODU and OPU by the formulas of ITU-T G.709, and of SDH.
//!
//! An OTUk frame has 4 rows of 4080 bytes: 14 of overhead (ODU and OTU), 2 of OPU overhead, 3808 of payload,
//! 256 of error correction. So OPU : ODU : OTU = 238 : 239 : 255 of a sixteenth of the columns; the number
//! under the fraction is what is left after stuff columns that fit the clients in.

use super::rows;

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
    /// As it is shown; none where there is no text.
    fn read(text: &str) -> Option<Formula> {
        let (factors, base) = text.rsplit_once(" × ").unwrap_or(("", text));
        let mut formula = Formula { times: 1, part: 1, whole: 1, base: base.parse().ok()? };
        for factor in factors.split(" × ").filter(|factor| !factor.is_empty()) {
            match factor.split_once('/') {
                Some((part, whole)) => {
                    (formula.part, formula.whole) = (part.parse().ok()?, whole.parse().ok()?)
                }
                None => formula.times = factor.parse().ok()?,
            }
        }
        Some(formula)
    }

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

/// G.709's hierarchy, then SDH.
pub(crate) fn signals() -> Vec<Signal> {
    rows(include_str!("otn.txt"), |[name, line, odu, opu, tolerance_ppm, note], source| {
        Some(Signal {
            name,
            line: Formula::read(line)?,
            odu: Formula::read(odu),
            opu: Formula::read(opu),
            tolerance_ppm: tolerance_ppm.parse().ok()?,
            note,
            source,
        })
    })
}

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
        let signals = signals();
        let odu = |name: &str| {
            let signal = signals.iter().find(|signal| signal.name == name).expect("a signal");
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
        for text in ["255/237 × 9953.28", "4 × 255/236 × 10312.5", "8 × 239/226 × 99532.8", "2488.32"] {
            assert_eq!(Formula::read(text).expect("a formula").to_string(), text);
        }
        assert_eq!(Formula::read(""), None);
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("otn") else { return };
        let signals = signals();
        assert_eq!(rows.len(), signals.len());
        for (row, signal) in rows.iter().zip(&signals) {
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
