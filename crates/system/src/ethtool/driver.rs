//! Who drives an interface, and the firmware of its card.
//!
//! A virtual interface (veth, ifb, bond) has no `device/driver` link in sysfs; this question is the only way
//! to its driver's name.

use super::{Ethtool, text};
use std::io;

const ETHTOOL_GDRVINFO: u32 = 0x0000_0003;

/// Who drives an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name of the driver (`mlx5_core`, `veth`).
    pub name: String,
    /// Its version; drivers of the kernel's own give the kernel's.
    pub version: String,
    /// Firmware of the card; empty where there is none.
    pub firmware: String,
    /// Where it sits (`0000:03:00.0`); empty for what sits nowhere.
    pub bus: String,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    expansion_rom_version: [u8; 32],
    reserved: [u8; 12],
    private_flags: u32,
    statistics: u32,
    test_info_bytes: u32,
    eeprom_bytes: u32,
    register_dump_bytes: u32,
}

impl Ethtool {
    /// Driver and firmware, as `ethtool -i` shows them. Fails with `EOPNOTSUPP` where the driver names itself
    /// nowhere (`lo`).
    pub fn driver(&self, interface: &str) -> io::Result<Driver> {
        let request = DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware_version: [0; 32],
            bus_info: [0; 32],
            expansion_rom_version: [0; 32],
            reserved: [0; 12],
            private_flags: 0,
            statistics: 0,
            test_info_bytes: 0,
            eeprom_bytes: 0,
            register_dump_bytes: 0,
        };
        // SAFETY: DriverInfo is struct ethtool_drvinfo, which ETHTOOL_GDRVINFO fills.
        let info = unsafe { self.fixed(interface, request) }?;
        Ok(Driver {
            name: text(&info.driver),
            version: text(&info.version),
            firmware: text(&info.firmware_version),
            bus: text(&info.bus_info),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure smaller than the kernel's would have the stack behind it overwritten.
    #[test]
    fn the_structure_has_the_size_that_the_kernel_copies() {
        assert_eq!(size_of::<DriverInfo>(), 196);
    }
}
