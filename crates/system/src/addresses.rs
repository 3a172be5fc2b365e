//! Addresses of this machine's network interfaces (`getifaddrs`).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface, or the label of the address.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Bits of the network part.
    pub prefix: u8,
}

impl InterfaceAddress {
    /// Its interface: an IPv4 address may carry a label (`eth0:backup`) in place of the name.
    pub fn interface_name(&self) -> &str {
        self.interface.split(':').next().unwrap_or(&self.interface)
    }
}

/// Frees the list also where a conversion panics.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a getifaddrs that succeeded and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

/// Every IPv4 and IPv6 address of every interface of the network namespace of this process.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: getifaddrs writes one pointer to `first`.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let mut addresses = Vec::new();
    let mut next = list.0;
    while !next.is_null() {
        // SAFETY: a non-null element of the list, which lives until `list` is dropped.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: both are null or lead to a socket address of the list.
        let (address, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        // SAFETY: `ifa_name` is a string of the list that ends in a zero.
        let interface = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        addresses.push(InterfaceAddress { interface, address, prefix: mask.map_or(0, ones) });
    }
    Ok(addresses)
}

/// The IP address in a socket address; none for other families (packet sockets) and for null.
///
/// # Safety
/// `address` is null or leads to a socket address as long as its family says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address starts with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in.
            let inet = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6.
            let inet = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(inet.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// Length of a netmask.
fn ones(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().leading_ones() as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address_where_it_is_up() {
        let addresses = interface_addresses().expect("a list");
        if let Some(lo) = addresses.iter().find(|a| a.address == IpAddr::V4(Ipv4Addr::LOCALHOST)) {
            assert_eq!((lo.interface.as_str(), lo.prefix), ("lo", 8));
        }
        assert!(addresses.iter().all(|a| !a.interface.is_empty()));
    }

    #[test]
    fn netmasks() {
        assert_eq!(ones("255.255.254.0".parse().expect("a mask")), 23);
        assert_eq!(ones("ffff:ffff:ffff:ffff::".parse().expect("a mask")), 64);
        assert_eq!(ones("0.0.0.0".parse().expect("a mask")), 0);
    }
}
