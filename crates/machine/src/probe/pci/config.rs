//! What the bytes of a function's configuration space tell: `/sys/bus/pci/devices/*/config`, or the hex dump
//! of `lspci -xxx`.
//!
//! Header: PCI local bus specification 3.0, 6.1–6.2, and PCI-to-PCI bridge architecture 1.2, 3.2. The list of
//! capabilities hangs on the header; the kernel shows it to root only.

use super::address::Buses;
use super::link;
pub use super::registers::ConfigSpace;
use super::registers::{Capabilities, CapabilityEnd, PCI_EXPRESS, PCI_X, Registers};
use linerate_facts::fact::Fact;

/// Header and capabilities lie within this many bytes; what follows (extended capabilities) is not read.
pub(crate) const CONFIG_BYTES: usize = 256;

/// Decodes the first bytes of a configuration space, however few they are.
pub fn decode(bytes: &[u8]) -> ConfigSpace {
    of_registers(&|at| bytes.get(at..)?.first_chunk().copied())
}

/// Decodes a configuration space of which `long` gives the four bytes at an offset. Only what is needed is
/// asked for, each offset once: the kernel reads a register for each, which takes 30 µs where a hypervisor
/// emulates it, and the whole space 50 ms.
pub(crate) fn of_registers(long: &dyn Fn(usize) -> Option<[u8; 4]>) -> ConfigSpace {
    let registers = Registers::new(long);
    let (Some(ids), Some(class)) = (registers.long(0), registers.long(8)) else {
        return ConfigSpace::unreadable("its configuration space is empty or cut off");
    };
    // A read that nothing answers gives ones. A virtual function has ones for its ids only (SR-IOV 1.1,
    // 3.4.1).
    if (ids, class) == (u32::MAX, u32::MAX) {
        return ConfigSpace::unreadable("it does not answer: powered off, or gone");
    }
    let own_ids = |value| match ids {
        u32::MAX => Fact::unknown("a virtual function: the physical one reports it"),
        _ => Fact::Known(value),
    };
    let capabilities = Capabilities::walk(&registers);
    let mut space = ConfigSpace::unreadable(missing(&capabilities, &registers));
    space.vendor = own_ids(ids & 0xffff);
    space.device = own_ids(ids >> 16);
    space.class = Fact::Known(class >> 8);
    space.buses = buses(&registers);
    if let Some(at) = capabilities.offset(PCI_EXPRESS) {
        link::decode(&registers, at, &mut space);
    }
    let bridge = space.buses.is_some();
    if let Some(at) = capabilities.offset(PCI_X) {
        (space.parallel, space.parallel_below) = link::pci_x(&registers, at, bridge);
    } else if capabilities.end == CapabilityEnd::Complete {
        space.parallel = link::conventional(&registers);
        space.parallel_below = Fact::unknown("no bridge to PCI-X");
    }
    if capabilities.offset(PCI_EXPRESS).is_some() {
        space.parallel = Fact::unknown("it is PCI Express");
    }
    space
}

impl ConfigSpace {
    /// Nothing is known, for one reason.
    pub(crate) fn unreadable(why: &str) -> Self {
        ConfigSpace {
            vendor: Fact::unknown(why),
            device: Fact::unknown(why),
            class: Fact::unknown(why),
            buses: None,
            express: link::unknown(why),
            link: Fact::unknown(why),
            link_max: Fact::unknown(why),
            parallel: Fact::unknown(why),
            parallel_below: Fact::unknown(why),
        }
    }
}

/// Why a capability was not found.
fn missing(capabilities: &Capabilities, registers: &Registers) -> &'static str {
    match capabilities.end {
        CapabilityEnd::Complete => {
            "it has no PCI Express capability: conventional PCI, or a part of the chip itself"
        }
        CapabilityEnd::Broken => "its list of capabilities is damaged",
        CapabilityEnd::CutOff if registers.long(0x40).is_none() => {
            "root reads it: others see 64 bytes of the configuration space"
        }
        CapabilityEnd::CutOff => "its configuration space is cut off",
    }
}

/// Buses of a PCI-to-PCI or CardBus bridge.
fn buses(registers: &Registers) -> Option<Buses> {
    matches!(registers.header(), 1 | 2).then(|| {
        Some(Buses {
            primary: registers.byte(0x18)?,
            secondary: registers.byte(0x19)?,
            subordinate: registers.byte(0x1a)?,
        })
    })?
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::probe::machine::{PciLink, PortKind};
    use proptest::prelude::*;

    /// A network card of PCIe 3, made by hand: LnkCap 8 GT/s x8, runs at 5 GT/s x4, MaxPayload 256 of 512,
    /// MaxReadRequest 512.
    pub(in crate::probe::pci) fn card() -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x00, &[0x86, 0x80, 0xfb, 0x10, 0x06, 0x04, 0x10, 0x00, 0x01, 0x00, 0x00, 0x02]);
        put(0x34, &[0x40]);
        // Power management, then PCI Express, version 2, an endpoint.
        put(0x40, &[0x01, 0xa0]);
        put(0xa0, &[0x10, 0x00, 0x02, 0x00]);
        put(0xa4, &[0x02, 0x00, 0x00, 0x00, 0x20, 0x20]);
        put(0xac, &[0x83, 0x04, 0x00, 0x00]);
        // LnkCtl: L1 enabled; LnkSta: 5 GT/s x4, changed by itself.
        put(0xb0, &[0x02, 0x00, 0x42, 0x80]);
        put(0xcc, &[0x0e, 0x00, 0x00, 0x00, 0x03, 0x00]);
        bytes
    }

    #[test]
    fn a_card_of_pcie_3() {
        let space = decode(&card());
        assert_eq!((space.vendor, space.device), (Fact::Known(0x8086), Fact::Known(0x10fb)));
        assert_eq!((space.class, space.buses), (Fact::Known(0x020000), None));
        assert_eq!(space.link, Fact::Known(PciLink { gt_per_second: 5.0, width: 4 }));
        assert_eq!(space.link_max, Fact::Known(PciLink { gt_per_second: 8.0, width: 8 }));
        let express = space.express;
        assert_eq!(express.port, Fact::Known(PortKind::Endpoint));
        assert_eq!(express.max_payload_bytes, Fact::Known(256));
        assert_eq!(express.max_payload_supported_bytes, Fact::Known(512));
        assert_eq!(express.max_read_request_bytes, Fact::Known(512));
        assert_eq!(express.power_saving, Fact::Known(true));
        assert_eq!(express.target_gt_per_second, Fact::Known(8.0));
        assert_eq!(express.autonomous_change, Fact::Known(true));
        assert_eq!(express.slot.why(), Some("no slot is reported for it"));
        assert_eq!(space.parallel.why(), Some("it is PCI Express"));
    }

    #[test]
    fn a_root_port_with_a_slot() {
        let mut bytes = card();
        bytes[0x0e] = 0x81;
        bytes[0x18..0x1b].copy_from_slice(&[0x00, 0x04, 0x05]);
        // Root port, slot implemented, number 6; target 2.5 GT/s.
        bytes[0xa2..0xa4].copy_from_slice(&[0x42, 0x01]);
        bytes[0xb4..0xb8].copy_from_slice(&(6u32 << 19).to_le_bytes());
        bytes[0xd0] = 0x01;
        let space = decode(&bytes);
        assert_eq!(space.buses, Some(Buses { primary: 0, secondary: 4, subordinate: 5 }));
        assert_eq!(space.express.port, Fact::Known(PortKind::RootPort));
        assert_eq!(space.express.slot, Fact::Known(6));
        assert_eq!(space.express.target_gt_per_second, Fact::Known(2.5));
        bytes[0xb4..0xb8].fill(0);
        assert!(decode(&bytes).express.slot.why().is_some_and(|why| why.contains("soldered")));
    }

    #[test]
    fn parts_of_the_chip_have_no_link() {
        let mut bytes = card();
        bytes[0xa2] = 0x92;
        let space = decode(&bytes);
        assert_eq!(space.express.port, Fact::Known(PortKind::IntegratedEndpoint));
        assert_eq!(space.express.max_payload_bytes, Fact::Known(256));
        for why in [space.link.why(), space.link_max.why(), space.express.power_saving.why()] {
            assert_eq!(why, Some("a part of the chip itself: it has no link"));
        }
    }

    #[test]
    fn reserved_codes_are_unknown() {
        let mut bytes = card();
        bytes[0xa2] = 0x32;
        bytes[0xa4] = 0x07;
        bytes[0xa8..0xaa].copy_from_slice(&[0xc0, 0x60]);
        bytes[0xb2] = 0x48;
        let space = decode(&bytes);
        let express = &space.express;
        assert!(express.port.known().is_none() && express.max_payload_bytes.known().is_none());
        assert!(express.max_payload_supported_bytes.known().is_none());
        assert!(express.max_read_request_bytes.known().is_none() && space.link.known().is_none());
    }

    #[test]
    fn what_is_not_there_says_why() {
        let why = |bytes: &[u8]| decode(bytes).link.why().map(str::to_string).expect("a reason");
        assert!(why(&[]).contains("cut off"));
        assert!(why(&[0xff; 64]).contains("does not answer"));
        assert!(why(&card()[..64]).contains("root reads it"));
        assert!(why(&card()[..0xb0]).contains("cut off"));
        let mut conventional = card();
        conventional[0x41] = 0;
        assert!(why(&conventional).contains("no PCI Express capability"));
        assert_eq!(decode(&conventional).parallel, Fact::Known(link::of_conventional(false)));
        // A ring, a pointer into the header, a place that does not answer.
        for (at, value) in [(0x41, 0x40), (0x34, 0x10), (0x40, 0xff)] {
            let mut damaged = card();
            damaged[at] = value;
            assert!(why(&damaged).contains("damaged"), "{at:x}");
        }
    }

    #[test]
    fn a_virtual_function_has_its_own_link_registers_but_no_ids() {
        let mut bytes = card();
        bytes[..4].fill(0xff);
        bytes[0xb2..0xb4].fill(0);
        let space = decode(&bytes);
        assert!(space.vendor.why().is_some_and(|why| why.contains("virtual function")));
        assert_eq!(space.express.max_payload_bytes, Fact::Known(256));
        assert!(space.link.known().is_none());
    }

    #[test]
    fn pci_x_of_a_card_and_of_a_bridge() {
        let mut bytes = card();
        bytes[0xa0] = PCI_X;
        bytes[0xa4..0xa8].copy_from_slice(&0x0003_0108u32.to_le_bytes());
        let space = decode(&bytes);
        assert_eq!(space.parallel, Fact::Known(link::of_pci_x(true, 133)));
        assert!(space.parallel_below.known().is_none());
        bytes[0x0e] = 1;
        // Secondary status: 64 bits, 100 MHz.
        bytes[0xa2..0xa4].copy_from_slice(&0x0083u16.to_le_bytes());
        assert_eq!(decode(&bytes).parallel_below, Fact::Known(link::of_pci_x(true, 100)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            decode(&bytes);
        }

        #[test]
        fn any_change_to_a_card_keeps_figures_in_their_ranges(
            changes in proptest::collection::vec((0usize..256, any::<u8>()), 0..20),
            length in 0usize..=256,
        ) {
            let mut bytes = card();
            for (at, value) in changes {
                bytes[at] = value;
            }
            let space = decode(&bytes[..length]);
            for link in [space.link, space.link_max].iter().filter_map(Fact::known) {
                prop_assert!((2.5..=128.0).contains(&link.gt_per_second) && (1..=32).contains(&link.width));
            }
            let express = space.express;
            let sizes =
                [express.max_payload_bytes, express.max_payload_supported_bytes, express.max_read_request_bytes];
            for size in sizes.iter().filter_map(Fact::known) {
                prop_assert!(size.is_power_of_two() && (128..=4096).contains(size));
            }
        }
    }
}
