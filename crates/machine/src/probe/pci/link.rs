//! The links and buses of PCI functions: a PCIe link from what the kernel, `lspci` or a register says of its
//! speed and width; the PCI Express capability (PCIe base specification, 7.5.3; register names as `lspci` has
//! them); conventional PCI and PCI-X, what a function on a parallel bus reports of that bus.

use super::registers::{ConfigSpace, Registers};
use crate::probe::machine::{Express, ParallelBus, PciDevice, PciLink, PortKind};
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
fn speed_of_code(code: u32) -> Option<f64> {
    SPEEDS.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
}

/// GT/s of the fastest speed in LnkCap2's vector (bit 1 is 2.5 GT/s) that LnkCap's code admits; without a
/// vector, the code's.
///
/// So does the kernel since 6.13 (`pcie_get_supported_speeds`, `drivers/pci/pci.c`): a port may know speeds
/// that it was set not to use.
fn most_of_vector(code: u32, vector: u32) -> Option<f64> {
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
/// there) or 255 (not reported) is not a link. `drivers/pci/pci-sysfs.c`, `drivers/pci/probe.c`.
pub(super) fn parse_link(speed: &str, width: &str) -> Fact<PciLink> {
    link(parse_speed(speed), width.trim().parse().ok())
}

const NO_LINK: &str = "a part of the chip itself: it has no link";
const CUT_OFF: &str = "its configuration space is cut off";

/// Nothing is known, for one reason.
pub(in crate::probe) fn unknown(why: &str) -> Express {
    Express {
        port: Fact::unknown(why),
        max_payload_bytes: Fact::unknown(why),
        max_payload_supported_bytes: Fact::unknown(why),
        max_read_request_bytes: Fact::unknown(why),
        power_saving: Fact::unknown(why),
        slot: Fact::unknown(why),
        target_gt_per_second: Fact::unknown(why),
        autonomous_change: Fact::unknown(why),
    }
}

/// Decodes the capability at `at`: the link and what is at this end of it.
pub(super) fn decode(registers: &Registers, at: usize, space: &mut ConfigSpace) {
    let Some(flags) = registers.word(at + 0x02) else {
        space.express = unknown(CUT_OFF);
        return;
    };
    let port = port(flags >> 4 & 0xf);
    let integrated = matches!(port, Some(PortKind::IntegratedEndpoint | PortKind::EventCollector));
    // Link registers of an integrated endpoint are not there, or filled with what means nothing.
    let of_link = |offset: usize| if integrated { None } else { registers.word(at + offset) };
    let why = if integrated { NO_LINK } else { CUT_OFF };

    let (status, control) = (of_link(0x12).map(u32::from), of_link(0x10));
    space.link = match status {
        Some(status) => link(speed_of_code(status & 0xf), Some(status >> 4 & 0x3f)),
        None => Fact::unknown(why),
    };
    // The second set of registers came with version 2; the speeds vector with PCIe 3.
    let second = |offset: usize| (flags & 0xf >= 2).then(|| of_link(offset)).flatten();
    space.link_max = match registers.long(at + 0x0c).filter(|_| !integrated) {
        Some(most) => {
            let vector = u32::from(second(0x2c).unwrap_or(0)) & 0xfe;
            link(most_of_vector(most & 0xf, vector), Some(most >> 4 & 0x3f))
        }
        None => Fact::unknown(why),
    };
    let device_control = registers.word(at + 0x08);
    space.express = Express {
        port: Fact::from_option(port, "a kind of port that the specification does not know"),
        max_payload_bytes: size(device_control.map(|control| control >> 5 & 7)),
        max_payload_supported_bytes: size(registers.word(at + 0x04).map(|able| able & 7)),
        max_read_request_bytes: size(device_control.map(|control| control >> 12 & 7)),
        power_saving: Fact::from_option(control.map(|control| control & 3 != 0), why),
        slot: slot(registers, at, port, flags),
        target_gt_per_second: target(second(0x30), if integrated { NO_LINK } else { NO_TARGET }),
        autonomous_change: Fact::from_option(status.map(|status| status & 0x8000 != 0), why),
    };
}

const NO_TARGET: &str = "it has no register for it: before PCIe 2, or a further function of a card";

fn target(control: Option<u16>, why: &str) -> Fact<f64> {
    Fact::from_option(control.and_then(|control| speed_of_code(u32::from(control & 0xf))), why)
}

/// Kinds of ports by their code.
fn port(code: u16) -> Option<PortKind> {
    Some(match code {
        0x0 => PortKind::Endpoint,
        0x1 => PortKind::LegacyEndpoint,
        0x4 => PortKind::RootPort,
        0x5 => PortKind::SwitchUpstream,
        0x6 => PortKind::SwitchDownstream,
        0x7 => PortKind::BridgeToPci,
        0x8 => PortKind::BridgeFromPci,
        0x9 => PortKind::IntegratedEndpoint,
        0xa => PortKind::EventCollector,
        _ => return None,
    })
}

/// MaxPayload or MaxReadRequest, bytes, from its code: 128 doubled up to 4096.
fn size(code: Option<u16>) -> Fact<u32> {
    match code {
        Some(code @ 0..=5) => Fact::Known(128 << code),
        Some(_) => Fact::unknown("a size that the specification does not know"),
        None => Fact::unknown(CUT_OFF),
    }
}

fn slot(registers: &Registers, at: usize, port: Option<PortKind>, flags: u16) -> Fact<u32> {
    let may = matches!(port, Some(PortKind::RootPort | PortKind::SwitchDownstream | PortKind::BridgeFromPci));
    if !may || flags & 0x100 == 0 {
        return Fact::unknown(NO_SLOT);
    }
    match registers.long(at + 0x14) {
        Some(able) => slot_number(able >> 19),
        None => Fact::unknown(CUT_OFF),
    }
}

/// Why a function has no slot number.
pub(in crate::probe) const NO_SLOT: &str = "no slot is reported for it";

/// 0 is for what is soldered to the board; much firmware leaves it at that for slots, too.
pub(in crate::probe) fn slot_number(number: u32) -> Fact<u32> {
    match number {
        0 => Fact::unknown("slot number 0: soldered to the board, or not reported"),
        number => Fact::Known(number),
    }
}

/// Conventional PCI, from the header: bit 5 of its status says 66 MHz (PCI local bus specification 3.0,
/// 6.2.3).
pub(super) fn conventional(registers: &Registers) -> Fact<ParallelBus> {
    Fact::from_option(registers.word(0x06).map(|status| of_conventional(status & 0x20 != 0)), CUT_OFF)
}

/// Conventional PCI that can, or cannot, do 66 MHz.
pub(in crate::probe) fn of_conventional(fast: bool) -> ParallelBus {
    ParallelBus {
        pci_x: false,
        megahertz: Fact::Known(if fast { 66 } else { 33 }),
        bits: Fact::unknown("conventional PCI does not report its width"),
    }
}

/// Conventional PCI is a bus with slots only behind a bridge: the header of a part of the chip set, or of a
/// device that a hypervisor emulates, says the same of a bus that is not there.
pub(in crate::probe) fn real(bus: Fact<ParallelBus>, behind_a_bridge: bool) -> Fact<ParallelBus> {
    match bus {
        Fact::Known(bus) if !bus.pci_x && !behind_a_bridge => {
            Fact::unknown("conventional PCI on a root bus: a part of the chip set, or of a virtual machine")
        }
        bus => bus,
    }
}

/// The PCI-X capability at `at`: what the function can do, and for a bridge how the bus behind it runs (PCI-X
/// addendum 2.0, 7.2 and 8.6).
pub(super) fn pci_x(
    registers: &Registers,
    at: usize,
    bridge: bool,
) -> (Fact<ParallelBus>, Fact<ParallelBus>) {
    let own = registers.long(at + 0x04).map(|status| {
        let megahertz = match status {
            // A bridge has other flags where a device tells these two speeds.
            status if !bridge && status & 1 << 31 != 0 => 533,
            status if !bridge && status & 1 << 30 != 0 => 266,
            status if status & 1 << 17 != 0 => 133,
            _ => 66,
        };
        of_pci_x(status & 1 << 16 != 0, megahertz)
    });
    let below = match registers.word(at + 0x02) {
        _ if !bridge => Fact::unknown("no bridge to PCI-X"),
        Some(status) => {
            Fact::Known(behind(status & 1 != 0, [0, 66, 100, 133].get(usize::from(status >> 6 & 7)).copied()))
        }
        None => Fact::unknown(CUT_OFF),
    };
    (Fact::from_option(own, CUT_OFF), below)
}

/// PCI-X of a width and a clock.
pub(in crate::probe) fn of_pci_x(wide: bool, megahertz: u32) -> ParallelBus {
    ParallelBus { pci_x: true, megahertz: Fact::Known(megahertz), bits: Fact::Known(bits(wide)) }
}

/// The bus behind a PCI-X bridge by its clock in MHz; 0: it runs as conventional PCI, whose clock is not
/// known.
pub(in crate::probe) fn behind(wide: bool, megahertz: Option<u32>) -> ParallelBus {
    match megahertz {
        Some(megahertz) if megahertz > 0 => of_pci_x(wide, megahertz),
        Some(_) => ParallelBus {
            pci_x: false,
            megahertz: Fact::unknown("it runs as conventional PCI, whose clock is not reported"),
            bits: Fact::Known(bits(wide)),
        },
        None => ParallelBus {
            pci_x: true,
            megahertz: Fact::unknown("a clock that the specification does not know"),
            bits: Fact::Known(bits(wide)),
        },
    }
}

fn bits(wide: bool) -> u32 {
    if wide { 64 } else { 32 }
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
