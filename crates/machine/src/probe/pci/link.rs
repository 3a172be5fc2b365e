//! A PCIe link from what the kernel, `lspci` or a register says of its speed and width.

use crate::probe::machine::{PciDevice, PciLink};
use linerate_facts::fact::Fact;

/// Speeds by the code of the link registers, from 1 (PCIe base specification 7.0, 7.5.3.6: a bit of the
/// supported link speeds vector).
const SPEEDS: [f64; 7] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Why a link of width 0 is not known.
pub(crate) const DOWN: &str = "the link is down (width 0): nothing is plugged in";

impl PciDevice {
    /// Whether its link is one of width 0; of a saved machine only the reason says so.
    pub(crate) fn link_is_down(&self) -> bool {
        self.link.why() == Some(DOWN)
    }
}

/// GT/s of a four-bit speed code of LnkCap, LnkSta or LnkCtl2.
pub(super) fn speed_of_code(code: u32) -> Option<f64> {
    SPEEDS.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
}

/// GT/s of the fastest speed in LnkCap2's vector (bit 1 is 2.5 GT/s) that LnkCap's code admits; without a
/// vector, the code's.
///
/// So does the kernel since 6.13 (`pcie_get_supported_speeds`, `drivers/pci/pci.c`): a port may know speeds
/// that it was set not to use.
pub(super) fn most_of_vector(code: u32, vector: u32) -> Option<f64> {
    let admitted = (1..=7).rev().find(|bit| *bit <= code && vector & (1 << bit) != 0);
    speed_of_code(admitted.unwrap_or(code))
}

/// A number before `GT/s`, one of the seven speeds: `8 GT/s`, `8.0 GT/s PCIe`, `8GT/s`.
pub(in crate::probe) fn parse_speed(text: &str) -> Option<f64> {
    let number = text.split_once("GT/s")?.0.trim().parse::<f64>().ok()?;
    SPEEDS.contains(&number).then_some(number)
}

/// A link; width 0 is one that is down, and what no link can have is not known.
pub(in crate::probe) fn link(gt_per_second: Option<f64>, width: Option<u32>) -> Fact<PciLink> {
    match (gt_per_second, width) {
        (Some(gt_per_second), Some(width @ 1..=32)) => Fact::Known(PciLink { gt_per_second, width }),
        (Some(_), Some(0)) => Fact::unknown(DOWN),
        _ => Fact::unknown("the device does not report its link"),
    }
}

/// A link from the kernel's two strings: speed `8 GT/s`, `8.0 GT/s PCIe` or `Unknown`; width 0 (nothing
/// there) or 255 (not reported) is no link. `drivers/pci/pci-sysfs.c`, `drivers/pci/probe.c`.
pub(super) fn parse_link(speed: &str, width: &str) -> Fact<PciLink> {
    link(parse_speed(speed), width.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_of_all_kernels() {
        let gen3 = |width| Fact::Known(PciLink { gt_per_second: 8.0, width });
        assert_eq!(parse_link("8 GT/s", "16"), gen3(16));
        assert_eq!(parse_link("8.0 GT/s PCIe", "4"), gen3(4));
        assert_eq!(parse_link("2.5 GT/s", "1"), Fact::Known(PciLink { gt_per_second: 2.5, width: 1 }));
        assert_eq!(parse_link("Unknown", "255").why(), Some("the device does not report its link"));
        assert_eq!(parse_link("Unknown speed", "8").why(), Some("the device does not report its link"));
        assert_eq!(parse_link("Unknown", "0").why(), Some("the device does not report its link"));
        assert_eq!(parse_link("", "").why(), Some("the device does not report its link"));
        assert!(parse_link("5.0 GT/s PCIe", "0").why().is_some_and(|why| why.contains("width 0")));
        assert!(parse_link("7 GT/s", "8").known().is_none(), "no generation has it");
    }

    #[test]
    fn codes_and_vectors() {
        assert_eq!((0..9).filter_map(speed_of_code).collect::<Vec<_>>(), SPEEDS);
        // No vector (before PCIe 3): the code alone. A vector up to 8 GT/s, and a port that was set to stay
        // at 2.5.
        assert_eq!(most_of_vector(2, 0), Some(5.0));
        assert_eq!(most_of_vector(3, 0b1110), Some(8.0));
        assert_eq!(most_of_vector(1, 0b1110), Some(2.5));
        assert_eq!(most_of_vector(4, 0b1110), Some(8.0));
        assert_eq!(most_of_vector(0, 0b1110), None);
        // Bit 0 is reserved.
        assert_eq!(most_of_vector(15, 1), None);
    }

    proptest! {
        #[test]
        fn any_link_is_read_or_unknown(speed in ".{0,20}", width in ".{0,6}") {
            if let Fact::Known(link) = parse_link(&speed, &width) {
                prop_assert!(link.gt_per_second >= 2.5 && (1..=32).contains(&link.width));
            }
        }
    }
}
