//! Links between sockets, dies and the chipset: transfers × width × what the code and the flits leave, per
//! direction.
//!
//! QPI moves 20 bits a transfer, of which 16 are data: a flit of 80 bits holds 8 of CRC and 8 of header
//! (Intel, An Introduction to the Intel QuickPath Interconnect, 2009). Makers' figures are often the sum of
//! both directions; here everything is one direction.

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

const QPI: &str = "Intel, An Introduction to the Intel QuickPath Interconnect (2009): flits of 80 bits, 8 \
                   CRC, 8 header; SARA D1.3, table 4";
const UPI: &str = "Intel Xeon Scalable data sheets: 20.8 GB/s a direction at 10.4 GT/s";
const UPI2: &str =
    "Intel product pages: 24 lanes and the speed; no payload figure is published, so an upper bound";
const HT: &str =
    "HyperTransport I/O Link Specification 3.10: double data rate, no line code; SARA D1.3, table 4";
const XGMI: &str = "AMD EPYC data sheets (speeds); AnandTech 2017 (Zen 1: 8/9 by CRC, 37.9 GB/s both \
                    directions), assumed for later ones";
const GMI: &str =
    "AMD EPYC architecture papers: 32 bytes a fabric clock read, 16 written, at 1.6 and 1.8 GHz";
const DMI: &str = "Intel chipset data sheets: PCI Express 2.0 and 3.0 x4";
const CXL: &str = "Compute Express Link 2.0: the wires of PCI Express 5.0";

const fn qpi(gt_per_second: f64) -> Interconnect {
    Interconnect {
        name: "Intel QPI",
        gt_per_second,
        bits: 20,
        coded: (72, 80),
        payload: (64, 80),
        confidence: Confidence::High,
        note: "Nehalem to Broadwell",
        source: QPI,
    }
}

const fn upi(gt_per_second: f64, note: &'static str) -> Interconnect {
    Interconnect {
        name: "Intel UPI 1.x",
        coded: (1, 1),
        payload: (16, 20),
        note,
        source: UPI,
        ..qpi(gt_per_second)
    }
}

const fn upi2(gt_per_second: f64, note: &'static str) -> Interconnect {
    let confidence = Confidence::Low;
    let payload = (1, 1);
    Interconnect {
        name: "Intel UPI 2.0",
        bits: 24,
        payload,
        confidence,
        source: UPI2,
        ..upi(gt_per_second, note)
    }
}

const fn ht(name: &'static str, gt_per_second: f64, bits: u32) -> Interconnect {
    Interconnect {
        name,
        bits,
        coded: (1, 1),
        payload: (1, 1),
        note: "headers not deducted",
        source: HT,
        ..qpi(gt_per_second)
    }
}

const fn xgmi(gt_per_second: f64, confidence: Confidence, note: &'static str) -> Interconnect {
    Interconnect {
        name: "AMD xGMI / Infinity Fabric",
        gt_per_second,
        bits: 16,
        coded: (8, 9),
        payload: (8, 9),
        confidence,
        note,
        source: XGMI,
    }
}

const fn gmi(name: &'static str, fabric_gigahertz: f64, note: &'static str) -> Interconnect {
    let confidence = Confidence::Medium;
    Interconnect {
        name,
        bits: 256,
        coded: (1, 1),
        payload: (1, 1),
        source: GMI,
        ..xgmi(fabric_gigahertz, confidence, note)
    }
}

const fn pcie_like(
    name: &'static str,
    gt_per_second: f64,
    bits: u32,
    coded: (u32, u32),
    note: &'static str,
    source: &'static str,
) -> Interconnect {
    Interconnect { name, bits, coded, payload: coded, note, source, ..qpi(gt_per_second) }
}

/// By maker and age.
pub(crate) const INTERCONNECTS: [Interconnect; 29] = [
    qpi(4.8),
    qpi(5.86),
    qpi(6.4),
    qpi(7.2),
    qpi(8.0),
    qpi(9.6),
    upi(9.6, "Skylake and Cascade Lake, low models"),
    upi(10.4, "Skylake-SP, Cascade Lake-SP; 2 or 3 links"),
    upi(11.2, "Ice Lake-SP; 2 or 3 links"),
    upi2(16.0, "Sapphire Rapids; 3 or 4 links"),
    upi2(20.0, "Emerald Rapids; 3 or 4 links"),
    upi2(24.0, "Granite Rapids, Sierra Forest; to 6 links"),
    ht("AMD HyperTransport 1.x", 1.6, 16),
    ht("AMD HyperTransport 2.0", 2.0, 16),
    ht("AMD HyperTransport 2.0", 2.8, 16),
    ht("AMD HyperTransport 3.0", 4.4, 16),
    ht("AMD HyperTransport 3.0", 5.2, 16),
    ht("AMD HyperTransport 3.1", 6.4, 16),
    ht("AMD HyperTransport 3.1", 6.4, 32),
    xgmi(10.667, Confidence::Medium, "Naples (Zen 1); to 4 links"),
    xgmi(16.0, Confidence::Low, "Rome, Milan, set down in the BIOS; 3 or 4 links"),
    xgmi(18.0, Confidence::Medium, "Rome, Milan (Zen 2, 3); 3 or 4 links"),
    xgmi(25.0, Confidence::Low, "Genoa, set down; 3 or 4 links"),
    xgmi(32.0, Confidence::Medium, "Genoa, Turin (Zen 4, 5); 3 or 4 links"),
    gmi("AMD GMI2, one die", 1.6, "Rome, Milan: reads; writes the half. All that one die's cores can move"),
    gmi("AMD GMI3, one die", 1.8, "Genoa: reads; writes the half. Some models have 2 links a die"),
    pcie_like("Intel DMI 2.0", 5.0, 4, (8, 10), "all that hangs on the chipset: SATA, onboard NICs", DMI),
    pcie_like("Intel DMI 3.0", 8.0, 4, (128, 130), "x8 on some server chipsets (C62x)", DMI),
    pcie_like("CXL 1.1/2.0", 32.0, 16, (128, 130), "x16; flits of 68 bytes take a further 6 to 10 %", CXL),
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn sara_table_4_of_d1_3() {
        for (speed, printed) in [(4.8, "86.4"), (5.86, "105.5"), (6.4, "115.2")] {
            assert_eq!(
                format!("{:.1}", qpi(speed).coded_bytes_per_second() * 8.0 / 1e9),
                printed,
                "QPI {speed}"
            );
        }
        // The table gives HyperTransport at its full width of 32 bits.
        for (speed, printed) in [(1.6, "51.2"), (2.8, "89.6"), (5.2, "166.4"), (6.4, "204.8")] {
            let known = INTERCONNECTS.iter().any(|link| link.source == HT && link.gt_per_second == speed);
            assert!(known, "HyperTransport at {speed}");
            assert_eq!(
                format!("{:.1}", bytes_per_second(speed, 32) * 8.0 / 1e9),
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
        assert_eq!(rows.len(), INTERCONNECTS.len());
        for (row, link) in rows.iter().zip(&INTERCONNECTS) {
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
            if link.source == QPI || link.source == UPI || link.source == HT {
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
