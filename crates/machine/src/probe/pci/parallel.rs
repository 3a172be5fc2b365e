//! Conventional PCI and PCI-X: what a function on a parallel bus reports of that bus.

use super::registers::Registers;
use crate::probe::machine::ParallelBus;
use linerate_facts::fact::Fact;

const CUT_OFF: &str = "its configuration space is cut off";

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
