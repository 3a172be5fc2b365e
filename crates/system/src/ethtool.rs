//! What a driver tells about a network interface through the ethtool ioctl (`include/uapi/linux/ethtool.h`): its name.
//!
//! A virtual interface (veth, ifb, bond) has no `device/driver` link in sysfs; this ioctl is the only way to its driver's name.

use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::AsRawFd;

const ETHTOOL_GDRVINFO: u32 = 0x0000_0003;

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
    flags: u32,
    statistics: u32,
    test_info_bytes: u32,
    eeprom_bytes: u32,
    register_dump_bytes: u32,
}

/// Name of the driver of an interface, as `ethtool -i` shows it. Needs no privilege.
///
/// Fails with `EOPNOTSUPP` where the driver names itself nowhere (`lo`) and with `ENODEV` where the interface is gone.
pub fn driver_name(interface: &str) -> io::Result<String> {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware_version: [0; 32],
        bus_info: [0; 32],
        expansion_rom_version: [0; 32],
        reserved: [0; 12],
        flags: 0,
        statistics: 0,
        test_info_bytes: 0,
        eeprom_bytes: 0,
        register_dump_bytes: 0,
    };
    let mut request = libc::ifreq {
        ifr_name: interface_name(interface)?,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut info).cast() },
    };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: `request` is an ifreq whose data pointer leads to `info`, which has the layout and the size of
    // `struct ethtool_drvinfo` that ETHTOOL_GDRVINFO fills; both outlive the call.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// The name as the kernel takes it: at most 15 bytes and a zero.
fn interface_name(interface: &str) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let bytes = interface.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
    }
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_that_the_kernel_copies() {
        // sizeof(struct ethtool_drvinfo): a larger copy would overwrite the stack.
        assert_eq!(size_of::<DriverInfo>(), 196);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = driver_name("linerate-none").expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(driver_name("a-name-that-is-far-too-long").is_err());
        assert!(driver_name("").is_err());
    }
}
