//! Ethernet's physical layers: lanes × symbols × bits, what the line code leaves, the medium and its reach.
//!
//! The rate of the MAC follows from the line: 4 lanes × 25.78125 GBd × 64/66 = 100 Gb/s. Media and reaches
//! are those of IEEE 802.3; a module of a maker may do more.

use super::coding::{Coding, Modulation};
use super::rows::rows;

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

/// By rate and age.
pub(crate) fn all() -> Vec<Phy> {
    rows(include_str!("phy.txt"), |[name, standard, lanes, gigabaud, modulation, coding, medium], _| {
        Some(Phy {
            name,
            standard,
            lanes: lanes.parse().ok()?,
            gigabaud: gigabaud.parse().ok()?,
            modulation: modulation.parse().ok()?,
            coding: coding.parse().ok()?,
            medium,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("ethernet") else { return };
        let phys = all();
        assert_eq!(rows.len(), phys.len());
        for (row, phy) in rows.iter().zip(&phys) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            assert_eq!((row["phy"].as_str(), row["ieee"].as_str()), (phy.name, phy.standard));
            assert_eq!(number("lanes"), f64::from(phy.lanes));
            assert_eq!(number("gbaud_per_lane"), phy.gigabaud);
            assert_eq!(row["modulation"], phy.modulation.name());
            let line = phy.line_bytes_per_second() * 8.0 / 1e9;
            assert!((number("line_gbps_total") - line).abs() < 5.1e-6, "{row:?} {line}");
            // 10GBASE-W is printed with three decimals, the others are whole or exact.
            let mac = phy.mac_bytes_per_second() * 8.0 / 1e9;
            let printed = if phy.coding == Coding::B64b66InSts192c { 5.1e-4 } else { 1e-9 };
            assert!((number("mac_gbps") - mac).abs() < printed, "{row:?} {mac}");
        }
    }
}
