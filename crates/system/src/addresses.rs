//! Addresses of this machine's network interfaces (`getifaddrs`), and by which of them the kernel sends what goes from one
//! address to another (RTM_GETROUTE over rtnetlink, `net/ipv4/route.c`): what `ip route get` shows, policy routing
//! included. A question that needs no privilege and sends nothing. Of the network namespace of the process.

use crate::netlink::{ask, attributes, messages, u32_at};
use rustix::net::netdevice::index_to_name;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`.
const RTMSG_BYTES: usize = 12;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const AF_INET: u8 = libc::AF_INET as u8;
const AF_INET6: u8 = libc::AF_INET6 as u8;

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

/// Two ends of a connection, and the interface that its socket is bound to (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub bound_to: u32,
}

/// Name of the interface by which TCP segments from `local` to `peer` leave.
pub fn interface_to(query: RouteQuery) -> io::Result<String> {
    let (socket, answer) = ask(None, RTM_GETROUTE, &route_request(query))?;
    let index = interface_of(&answer)?;
    index_to_name(&socket, index).map_err(io::Error::from)
}

fn route_request(query: RouteQuery) -> Vec<u8> {
    let RouteQuery { local, peer, bound_to } = query;
    // Of a link-local address only the interface says where it is.
    let scope = match peer {
        SocketAddr::V6(peer) => peer.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let ips = (local.ip().to_canonical(), peer.ip().to_canonical());
    let bytes = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (source, destination) = (bytes(ips.0), bytes(ips.1));
    let mut body = vec![0; RTMSG_BYTES];
    body[0] = if ips.1.is_ipv4() { AF_INET } else { AF_INET6 };
    (body[1], body[2]) = ((destination.len() * 8) as u8, (source.len() * 8) as u8);
    let mut put = |kind: u16, value: &[u8]| {
        body.extend(((4 + value.len()) as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    };
    put(RTA_DST, &destination);
    put(RTA_SRC, &source);
    if bound_to.max(scope) > 0 {
        put(RTA_OIF, &bound_to.max(scope).to_ne_bytes());
    }
    // Of several equal routes the kernel takes one by these, where it is set to (`fib_multipath_hash_policy`).
    put(RTA_IP_PROTO, &[libc::IPPROTO_TCP as u8]);
    put(RTA_SPORT, &local.port().to_be_bytes());
    put(RTA_DPORT, &peer.port().to_be_bytes());
    body
}

/// The index of the interface in an answer.
fn interface_of(answer: &[u8]) -> io::Result<u32> {
    let mut index = None;
    messages(answer, RTM_NEWROUTE, |body| {
        let attributes = body.get(RTMSG_BYTES..).map(attributes).into_iter().flatten();
        index = attributes.filter(|(kind, _)| *kind == RTA_OIF).find_map(|(_, value)| u32_at(value, 0));
    })?;
    index.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the route leads by no interface"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::made::{attribute, error, message};
    use proptest::prelude::*;

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

    fn query(local: &str, peer: &str) -> RouteQuery {
        let end = |text: &str| text.parse().expect("an address");
        RouteQuery { local: end(local), peer: end(peer), bound_to: 0 }
    }

    #[test]
    fn what_stays_on_this_host_goes_by_loopback() {
        let lo = interface_to(query("127.0.0.1:40000", "127.0.0.1:80")).expect("a route");
        assert_eq!(lo, "lo");
        // As a socket for both families shows it.
        assert_eq!(
            interface_to(query("[::ffff:127.0.0.1]:4", "[::ffff:127.0.0.1]:80")).expect("a route"),
            "lo"
        );
    }

    #[test]
    fn an_address_that_this_host_has_not_is_an_error() {
        assert!(interface_to(query("192.0.2.77:1", "127.0.0.1:80")).is_err());
    }

    #[test]
    fn the_interface_is_read_from_the_answer() {
        let of = |attributes: &[u8]| {
            interface_of(&message(RTM_NEWROUTE, &[&[0; RTMSG_BYTES][..], attributes].concat()))
        };
        let oif = attribute(RTA_OIF, &7u32.to_ne_bytes());
        assert_eq!(of(&[attribute(RTA_DST, &[1, 2, 3, 4]), oif].concat()).expect("an index"), 7);
        assert_eq!(of(&[]).expect_err("none").kind(), io::ErrorKind::NotFound);
        let unreachable = interface_of(&error(-101)).expect_err("no route");
        assert_eq!(unreachable.raw_os_error(), Some(101));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(answer in proptest::collection::vec(any::<u8>(), 16..200)) {
            let _ = interface_of(&answer);
        }
    }
}
