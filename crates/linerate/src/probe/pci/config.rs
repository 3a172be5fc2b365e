//! What the bytes of a function's configuration space tell: `/sys/bus/pci/devices/*/config`, or the hex dump of `lspci -xxx`.
//!
//! Header: PCI local bus specification 3.0, 6.1–6.2, and PCI-to-PCI bridge architecture 1.2, 3.2. The list of capabilities hangs on
//! the header; the kernel shows it to root only.

use super::address::Buses;
use super::capabilities::{Capabilities, End, PCI_EXPRESS, PCI_X};
use super::{express, parallel};
use crate::fact::Fact;
use crate::probe::machine::{Express, ParallelBus, PciLink};

/// Header and capabilities lie within so many bytes; what follows (extended capabilities) is not read.
pub const CONFIG_BYTES: u64 = 256;

/// One function's configuration space, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpace {
    /// Vendor id.
    pub vendor: Fact<u32>,
    /// Device id.
    pub device: Fact<u32>,
    /// Class code, 24 bits.
    pub class: Fact<u32>,
    /// Buses behind it, where it is a bridge.
    pub buses: Option<Buses>,
    /// Its PCI Express capability.
    pub express: Express,
    /// Link as it runs now.
    pub link: Fact<PciLink>,
    /// The most that this end of the link can do.
    pub link_max: Fact<PciLink>,
    /// The parallel bus that it is made for.
    pub parallel: Fact<ParallelBus>,
    /// The parallel bus behind it.
    pub parallel_below: Fact<ParallelBus>,
}

/// Decodes the first bytes of a configuration space, however few they are.
pub fn decode(bytes: &[u8]) -> ConfigSpace {
    let registers = Registers(bytes);
    let (Some(ids), Some(class)) = (registers.long(0), registers.long(8)) else {
        return ConfigSpace::unreadable("its configuration space is empty or cut off");
    };
    // A read that nothing answers gives ones. A virtual function has ones for its ids only (SR-IOV 1.1, 3.4.1).
    if (ids, class) == (u32::MAX, u32::MAX) {
        return ConfigSpace::unreadable("it does not answer: powered off, or gone");
    }
    let own_ids = |value| match ids {
        u32::MAX => Fact::unknown("a virtual function: the physical one tells it"),
        _ => Fact::Known(value),
    };
    let capabilities = Capabilities::walk(&registers);
    let mut space = ConfigSpace::unreadable(missing(&capabilities, bytes.len()));
    space.vendor = own_ids(ids & 0xffff);
    space.device = own_ids(ids >> 16);
    space.class = Fact::Known(class >> 8);
    space.buses = buses(&registers);
    if let Some(at) = capabilities.offset(PCI_EXPRESS) {
        express::decode(&registers, at, &mut space);
    }
    let bridge = space.buses.is_some();
    if let Some(at) = capabilities.offset(PCI_X) {
        (space.parallel, space.parallel_below) = parallel::pci_x(&registers, at, bridge);
    } else if capabilities.end == End::Complete {
        space.parallel = parallel::conventional(&registers);
        space.parallel_below = Fact::unknown("no bridge to PCI-X");
    }
    if capabilities.offset(PCI_EXPRESS).is_some() {
        space.parallel = Fact::unknown("it is PCI Express");
    }
    space
}

impl ConfigSpace {
    /// Nothing is known, for one reason.
    pub fn unreadable(why: &str) -> Self {
        ConfigSpace {
            vendor: Fact::unknown(why),
            device: Fact::unknown(why),
            class: Fact::unknown(why),
            buses: None,
            express: express::unknown(why),
            link: Fact::unknown(why),
            link_max: Fact::unknown(why),
            parallel: Fact::unknown(why),
            parallel_below: Fact::unknown(why),
        }
    }
}

/// Why a capability was not found.
fn missing(capabilities: &Capabilities, length: usize) -> &'static str {
    match capabilities.end {
        End::Complete => "it has no PCI Express capability: conventional PCI, or a part of the chip itself",
        End::Broken => "its list of capabilities is damaged",
        End::CutOff if length <= 64 => "root reads it: others see 64 bytes of the configuration space",
        End::CutOff => "its configuration space is cut off",
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

/// Registers by offset, little-endian; none beyond the bytes that are there.
pub(super) struct Registers<'a>(pub(super) &'a [u8]);

impl Registers<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk().copied()
    }

    pub(super) fn byte(&self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    pub(super) fn word(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub(super) fn long(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// Layout of the header: 0 a device, 1 a bridge to PCI, 2 one to CardBus; the top bit tells of further functions.
    pub(super) fn header(&self) -> u8 {
        self.byte(0x0e).unwrap_or(0) & 0x7f
    }
}
