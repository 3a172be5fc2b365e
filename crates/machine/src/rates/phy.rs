//! Ethernet's physical layers: lanes × symbols × bits, what the line code leaves, the medium and its reach.
//!
//! The rate of the MAC follows from the line: 4 lanes × 25.78125 GBd × 64/66 = 100 Gb/s. Media and reaches
//! are those of IEEE 802.3; a module of a maker may do more.

use super::coding::{Coding, Modulation};

/// A physical layer, or several that differ in the medium only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phy {
    /// `40GBASE-SR4`, or a group `100GBASE-KR4/CR4/SR4`.
    pub name: &'static str,
    /// Amendment of IEEE 802.3 that brought it.
    pub standard: &'static str,
    /// Lanes (wavelengths, fibres, pairs) per direction.
    pub lanes: u32,
    /// Symbols per second and lane, giga.
    pub gigabaud: f64,
    /// What a symbol carries.
    pub modulation: Modulation,
    /// What the line code leaves.
    pub coding: Coding,
    /// Medium and reach.
    pub medium: &'static str,
}

impl Phy {
    /// Bytes per second and direction of all lanes, before the line code is taken off (BASE-T: after it).
    pub(crate) fn line_bytes_per_second(&self) -> f64 {
        f64::from(self.lanes) * self.gigabaud * 1e9 * self.modulation.bits() / 8.0
    }

    /// Bytes per second and direction of the MAC: the rate that the link is sold as.
    pub(crate) fn mac_bytes_per_second(&self) -> f64 {
        self.line_bytes_per_second() * self.coding.share()
    }
}

use Coding::{B8b10, B64b66, B64b66InSts192c, None as Uncoded, Rs528, Rs544, Rs544Kp4};
use Modulation::{Nrz, Pam4, Pam5, Pam16};

const fn phy(
    name: &'static str,
    standard: &'static str,
    lanes: u32,
    gigabaud: f64,
    code: (Modulation, Coding),
    medium: &'static str,
) -> Phy {
    Phy { name, standard, lanes, gigabaud, modulation: code.0, coding: code.1, medium }
}

/// By rate and age.
pub(crate) const PHYS: [Phy; 34] = [
    phy("1000BASE-X", "802.3z", 1, 1.25, (Nrz, B8b10), "SX: MMF 550 m; LX: SMF 5 km; CX: 25 m; KX: 1 m"),
    phy("1000BASE-T", "802.3ab", 4, 0.125, (Pam5, Uncoded), "Cat 5e 100 m"),
    phy("2.5GBASE-T", "802.3bz", 4, 0.2, (Pam16, Uncoded), "Cat 5e 100 m"),
    phy("5GBASE-T", "802.3bz", 4, 0.4, (Pam16, Uncoded), "Cat 5e or 6, 100 m"),
    phy(
        "10GBASE-R (SR/LR/ER/KR/CR)",
        "802.3ae/ap",
        1,
        10.3125,
        (Nrz, B64b66),
        "SR: OM3 300 m; LR: SMF 10 km; ER: SMF 40 km; KR: 1 m; CR: twinax 7 m (SFF-8431)",
    ),
    phy(
        "10GBASE-X (CX4/LX4/KX4)",
        "802.3ak/ae",
        4,
        3.125,
        (Nrz, B8b10),
        "CX4: 15 m; LX4: MMF 300 m, SMF 10 km; KX4: 1 m",
    ),
    phy("10GBASE-T", "802.3an", 4, 0.8, (Pam16, Uncoded), "Cat 6A 100 m; Cat 6 55 m"),
    phy("10GBASE-W (WAN PHY)", "802.3ae", 1, 9.95328, (Nrz, B64b66InSts192c), "as 10GBASE-R, over SONET/SDH"),
    phy(
        "25GBASE-R (SR/LR/CR/KR)",
        "802.3by/cc",
        1,
        25.78125,
        (Nrz, B64b66),
        "SR: OM3 70 m, OM4 100 m; LR: SMF 10 km; CR: twinax 5 m; KR: 1 m",
    ),
    phy("40GBASE-KR4", "802.3ba", 4, 10.3125, (Nrz, B64b66), "backplane 1 m"),
    phy("40GBASE-CR4", "802.3ba", 4, 10.3125, (Nrz, B64b66), "twinax 7 m"),
    phy("40GBASE-SR4", "802.3ba", 4, 10.3125, (Nrz, B64b66), "OM3 100 m, OM4 150 m, MPO"),
    phy("40GBASE-LR4", "802.3ba", 4, 10.3125, (Nrz, B64b66), "SMF 10 km, 4 wavelengths"),
    phy("40GBASE-ER4", "802.3bm", 4, 10.3125, (Nrz, B64b66), "SMF 40 km"),
    phy("40GBASE-FR", "802.3bg", 1, 41.25, (Nrz, B64b66), "SMF 2 km, serial"),
    phy("40GBASE-T", "802.3bq", 4, 3.2, (Pam16, Uncoded), "Cat 8 30 m"),
    phy(
        "50GBASE-R (KR/CR/SR/FR/LR)",
        "802.3cd",
        1,
        26.5625,
        (Pam4, Rs544),
        "KR: 1 m; CR: twinax 3 m; SR: OM4 100 m; FR: SMF 2 km; LR: SMF 10 km",
    ),
    phy("100GBASE-CR10", "802.3ba", 10, 10.3125, (Nrz, B64b66), "twinax 7 m"),
    phy("100GBASE-SR10", "802.3ba", 10, 10.3125, (Nrz, B64b66), "OM3 100 m, OM4 150 m"),
    phy("100GBASE-LR4", "802.3ba", 4, 25.78125, (Nrz, B64b66), "SMF 10 km"),
    phy("100GBASE-ER4", "802.3ba", 4, 25.78125, (Nrz, B64b66), "SMF 40 km"),
    phy(
        "100GBASE-KR4/CR4/SR4",
        "802.3bj/bm",
        4,
        25.78125,
        (Nrz, Rs528),
        "KR4: 1 m; CR4: twinax 5 m; SR4: OM3 70 m, OM4 100 m",
    ),
    phy("100GBASE-KP4", "802.3bj", 4, 13.59375, (Pam4, Rs544Kp4), "backplane 1 m"),
    phy(
        "100GBASE-KR2/CR2/SR2",
        "802.3cd",
        2,
        26.5625,
        (Pam4, Rs544),
        "KR2: 1 m; CR2: twinax 3 m; SR2: OM4 100 m",
    ),
    phy(
        "100GBASE-DR/FR1/LR1",
        "802.3cd/cu",
        1,
        53.125,
        (Pam4, Rs544),
        "DR: SMF 500 m; FR1: SMF 2 km; LR1: SMF 10 km",
    ),
    phy(
        "100GBASE-KR1/CR1/SR1/VR1",
        "802.3ck/db",
        1,
        53.125,
        (Pam4, Rs544),
        "CR1: twinax 2 m; SR1: OM4 100 m; VR1: OM4 50 m",
    ),
    phy(
        "200GBASE-DR4/FR4/LR4/SR4/KR4/CR4",
        "802.3bs/cd",
        4,
        26.5625,
        (Pam4, Rs544),
        "DR4: SMF 500 m; FR4: SMF 2 km; LR4: SMF 10 km; SR4: OM4 100 m; CR4: twinax 3 m",
    ),
    phy(
        "200GBASE-KR2/CR2/SR2/VR2",
        "802.3ck/db",
        2,
        53.125,
        (Pam4, Rs544),
        "CR2: twinax 2 m; SR2: OM4 100 m; VR2: OM4 50 m",
    ),
    phy("400GBASE-SR16", "802.3bs", 16, 26.5625, (Nrz, Rs544), "OM4 100 m"),
    phy(
        "400GBASE-FR8/LR8/SR8/ER8",
        "802.3bs/cm/cn",
        8,
        26.5625,
        (Pam4, Rs544),
        "SR8: OM4 100 m; FR8: SMF 2 km; LR8: SMF 10 km; ER8: SMF 40 km",
    ),
    phy(
        "400GBASE-DR4/FR4/LR4-6",
        "802.3bs/cu",
        4,
        53.125,
        (Pam4, Rs544),
        "DR4: SMF 500 m; FR4: SMF 2 km; LR4-6: SMF 6 km",
    ),
    phy(
        "400GBASE-KR4/CR4/SR4/VR4",
        "802.3ck/db",
        4,
        53.125,
        (Pam4, Rs544),
        "CR4: twinax 2 m; SR4: OM4 100 m; VR4: OM4 50 m",
    ),
    phy(
        "800GBASE-KR8/CR8/SR8/VR8/DR8",
        "802.3df",
        8,
        53.125,
        (Pam4, Rs544),
        "CR8: twinax 2 m; SR8: OM4 100 m; VR8: OM4 50 m; DR8: SMF 500 m",
    ),
    phy(
        "800GBASE-KR4/CR4/DR4/FR4",
        "802.3dj (draft)",
        4,
        106.25,
        (Pam4, Rs544),
        "DR4: SMF 500 m; FR4: SMF 2 km",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("ethernet") else { return };
        assert_eq!(rows.len(), PHYS.len());
        for (row, phy) in rows.iter().zip(&PHYS) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            assert_eq!((row["phy"].as_str(), row["ieee"].as_str()), (phy.name, phy.standard));
            assert_eq!(number("lanes"), f64::from(phy.lanes));
            assert_eq!(number("gbaud_per_lane"), phy.gigabaud);
            assert_eq!(row["modulation"], phy.modulation.name());
            let line = phy.line_bytes_per_second() * 8.0 / 1e9;
            assert!((number("line_gbps_total") - line).abs() < 5.1e-6, "{row:?} {line}");
            // 10GBASE-W is printed with three decimals, the others are whole or exact.
            let mac = phy.mac_bytes_per_second() * 8.0 / 1e9;
            let printed = if phy.coding == B64b66InSts192c { 5.1e-4 } else { 1e-9 };
            assert!((number("mac_gbps") - mac).abs() < printed, "{row:?} {mac}");
        }
    }
}
