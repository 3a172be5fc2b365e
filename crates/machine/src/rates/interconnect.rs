//! Links between sockets, dies and the chipset: transfers × width × what the code and the flits leave, per
//! direction.
//!
//! QPI moves 20 bits a transfer, of which 16 are data: a flit of 80 bits holds 8 of CRC and 8 of header
//! (Intel, An Introduction to the Intel QuickPath Interconnect, 2009). Makers' figures are often the sum of
//! both directions; here everything is one direction.

use super::rows;
use crate::probe::Confidence;

/// A kind of link at one of its speeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interconnect {
    /// `Intel QPI` …
    pub name: &'static str,
    /// Giga-transfers per second and wire; for on-package fabrics the fabric clock.
    pub gt_per_second: f64,
    /// Bits moved by one transfer.
    pub bits: u32,
    /// Share after the code of the line or the CRC, as numerator and denominator; (1, 1): none.
    pub coded: (u32, u32),
    /// Share that is payload, of the whole.
    pub payload: (u32, u32),
    /// How sure `payload` is.
    pub confidence: Confidence,
    /// Processors, and what else is to be known.
    pub note: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
}

impl Interconnect {
    /// Bytes per second and direction on the wires.
    pub fn raw_bytes_per_second(&self) -> f64 {
        bytes_per_second(self.gt_per_second, self.bits)
    }

    /// After the code or the CRC: the figure of SARA's table for QPI.
    pub(crate) fn coded_bytes_per_second(&self) -> f64 {
        self.raw_bytes_per_second() * share(self.coded)
    }

    /// Bytes of payload per second and direction.
    pub fn payload_bytes_per_second(&self) -> f64 {
        self.raw_bytes_per_second() * share(self.payload)
    }
}

/// Bytes per second and direction of `bits` wires, one bit a transfer.
pub fn bytes_per_second(gt_per_second: f64, bits: u32) -> f64 {
    gt_per_second * 1e9 * f64::from(bits) / 8.0
}

fn share((part, whole): (u32, u32)) -> f64 {
    f64::from(part) / f64::from(whole)
}

/// By maker and age.
pub(crate) fn links() -> Vec<Interconnect> {
    let share = |cell: &str| -> Option<(u32, u32)> {
        let (part, whole) = cell.split_once('/')?;
        Some((part.parse().ok()?, whole.parse().ok()?))
    };
    rows(include_str!("interconnect.txt"), |[name, speed, bits, coded, payload, confidence, note], source| {
        Some(Interconnect {
            name,
            gt_per_second: speed.parse().ok()?,
            bits: bits.parse().ok()?,
            coded: share(coded)?,
            payload: share(payload)?,
            confidence: match confidence {
                "low" => Confidence::Low,
                "medium" => Confidence::Medium,
                "high" => Confidence::High,
                _ => return None,
            },
            note,
            source,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn sara_table_4_of_d1_3() {
        let links = links();
        let qpi = |speed: f64| {
            *links.iter().find(|link| link.name == "Intel QPI" && link.gt_per_second == speed).expect("a QPI")
        };
        for (speed, printed) in [(4.8, "86.4"), (5.86, "105.5"), (6.4, "115.2")] {
            assert_eq!(
                format!("{:.1}", qpi(speed).coded_bytes_per_second() * 8.0 / 1e9),
                printed,
                "QPI {speed}"
            );
        }
        // The table gives HyperTransport at its full width of 32 bits.
        for (speed, printed) in [(1.6, "51.2"), (2.8, "89.6"), (5.2, "166.4"), (6.4, "204.8")] {
            let is_it = |link: &&Interconnect| {
                link.name.starts_with("AMD HyperTransport") && link.gt_per_second == speed && link.bits == 32
            };
            let link = links.iter().find(is_it).unwrap_or_else(|| panic!("HyperTransport at {speed}"));
            assert_eq!(
                format!("{:.1}", link.coded_bytes_per_second() * 8.0 / 1e9),
                printed,
                "HyperTransport {speed}"
            );
        }
        // "For QPI, each 72-bit flit contains 64-bits payload": the effective rate is 64/72 of the table's.
        let fastest = qpi(6.4);
        let share = fastest.payload_bytes_per_second() / fastest.coded_bytes_per_second();
        assert!((share - 64.0 / 72.0).abs() < 1e-12);
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("cpu-interconnect") else { return };
        let links = links();
        // D1.3's table has three widths of HyperTransport that the reference has not.
        let of_d1_3 = |link: &&Interconnect| {
            link.name.starts_with("AMD HyperTransport") && link.bits == 32 && link.gt_per_second < 6.0
        };
        let links: Vec<Interconnect> = links.iter().filter(|link| !of_d1_3(link)).copied().collect();
        assert_eq!(rows.len(), links.len());
        for (row, link) in rows.iter().zip(&links) {
            let same = |column: &str, ours: f64| {
                let theirs = tables::number(row, column);
                assert!(
                    theirs.is_none_or(|theirs| (ours - theirs).abs() < 5.1e-5),
                    "{column} {ours} {row:?}"
                );
                theirs.is_some()
            };
            assert_eq!(row["link"].split(' ').next(), link.name.split(' ').next(), "{row:?}");
            same("gt_s", link.gt_per_second);
            same("lanes_or_bits", f64::from(link.bits));
            let lanes = ["Intel QPI", "Intel UPI 1.x", "AMD HyperTransport"];
            if lanes.iter().any(|name| link.name.starts_with(name)) {
                same("data_lanes", f64::from(link.bits) * share(link.payload));
            }
            same("raw_gbps_per_direction", link.raw_bytes_per_second() * 8.0 / 1e9);
            same("gbps_after_coding_1", link.coded_bytes_per_second() * 8.0 / 1e9);
            assert!(same("usable_gbps_per_direction", link.payload_bytes_per_second() * 8.0 / 1e9));
            assert!(same("usable_GBps_per_direction", link.payload_bytes_per_second() / 1e9));
            assert_eq!(row["confidence"], format!("{:?}", link.confidence).to_lowercase());
        }
    }
}
