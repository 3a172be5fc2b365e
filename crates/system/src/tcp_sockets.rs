//! The TCP connections of the network namespace of the process, with what each has moved (`sock_diag(7)`,
//! `net/ipv4/inet_diag.c`): what `ss -ti` shows. A question that needs no privilege.

pub use super::netlink::Dump;
use super::netlink::{ask, attributes, dump, messages, u32_at, u64_at};
use super::socket::{RawTcpInfo, TcpInfo};
use rustix::net::netlink;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSocket {
    /// The kernel's number of this socket; none other ever has it.
    pub cookie: u64,
    /// As `/proc/PID/fd` names it; 0 for one that no program holds any more.
    pub inode: u32,
    /// Of its owner.
    pub user: u32,
    pub info: TcpInfo,
    /// Its own address and that of the other end; none where the kernel's answer has none.
    pub ends: Option<[SocketAddr; 2]>,
    /// Index of the interface that it is bound to, or 0.
    pub bound_to: u32,
    /// Received, and not yet taken by its program.
    pub unread_bytes: u32,
    /// The shortest round trip, microseconds (Linux 4.6).
    pub least_rtt_us: u32,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `1 << (INET_DIAG_INFO - 1)`.
const WANT_INFO: u8 = 1 << 1;
const INET_DIAG_INFO: u16 = 2;
/// All states but TIME_WAIT (6), LISTEN (10) and NEW_SYN_RECV (12), which move no bytes.
const STATES: u32 = !(1 << 6 | LISTEN | 1 << 12);
const LISTEN: u32 = 1 << 10;
/// `struct inet_diag_req_v2`, `struct inet_diag_msg`.
const REQUEST_BYTES: usize = 56;
const MESSAGE_BYTES: usize = 72;
/// A large server's; what is above costs no memory.
const MOST: usize = 262_144;

/// All of them, of both IP versions.
pub fn read() -> io::Result<Vec<TcpSocket>> {
    in_states(STATES)
}

/// Those that wait for connections.
pub fn listening() -> io::Result<Vec<TcpSocket>> {
    in_states(LISTEN)
}

/// One that was read before, as it is now; none: it is not there any more. All are not gone through for that.
pub fn read_again(known: &TcpSocket) -> Option<TcpSocket> {
    let (family, [local, peer]) = match known.ends? {
        ends @ [SocketAddr::V4(_), SocketAddr::V4(_)] => (libc::AF_INET, ends),
        ends => (libc::AF_INET6, ends),
    };
    // `struct inet_diag_sockid` in the request: ports, addresses, interface, cookie.
    let mut request = request(family as u8, STATES);
    for (end, port_at, address_at) in [(local, 8, 12), (peer, 10, 28)] {
        request[port_at..port_at + 2].copy_from_slice(&end.port().to_be_bytes());
        match end.ip() {
            IpAddr::V4(address) => request[address_at..address_at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => request[address_at..address_at + 16].copy_from_slice(&address.octets()),
        }
    }
    request[44..48].copy_from_slice(&known.bound_to.to_ne_bytes());
    request[48..].copy_from_slice(&known.cookie.to_ne_bytes());
    let (_, answer) = ask(Some(netlink::SOCK_DIAG), SOCK_DIAG_BY_FAMILY, &request).ok()?;
    let mut found = Vec::new();
    parse(&answer, &mut found).ok()?;
    found.pop()
}

fn in_states(states: u32) -> io::Result<Vec<TcpSocket>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let take = |datagram: &[u8]| parse(datagram, &mut found);
        dump(Some(netlink::SOCK_DIAG), SOCK_DIAG_BY_FAMILY, &request(family as u8, states), take)?;
    }
    Ok(found)
}

/// An address that names nothing: all connections in these states.
fn request(family: u8, states: u32) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..3].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, WANT_INFO]);
    request[4..8].copy_from_slice(&states.to_ne_bytes());
    request
}

/// Takes what one datagram of a dump holds. What is cut short, of another kind or without counters is left
/// out; an error that the kernel reports is one.
pub fn parse(datagram: &[u8], found: &mut Vec<TcpSocket>) -> io::Result<Dump> {
    messages(datagram, SOCK_DIAG_BY_FAMILY, |body| {
        if found.len() < MOST {
            found.extend(socket(body));
        }
    })
}

fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (_, info) = attributes(body.get(MESSAGE_BYTES..)?).find(|(kind, _)| *kind == INET_DIAG_INFO)?;
    let raw = RawTcpInfo::of(info);
    Some(TcpSocket {
        cookie: u64_at(body, 44)?,
        user: u32_at(body, 64)?,
        inode: u32_at(body, 68)?,
        info: raw.info(),
        ends: end(body, 4, 8).zip(end(body, 6, 24)).map(|(local, peer)| [local, peer]),
        bound_to: u32_at(body, 40)?,
        unread_bytes: u32_at(body, 56)?,
        least_rtt_us: raw.word(148),
    })
}

/// A port and an address of `struct inet_diag_sockid`, both in network byte order.
fn end(body: &[u8], port_at: usize, address_at: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*body.get(port_at..)?.first_chunk()?);
    let address = match i32::from(*body.first()?) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*body.get(address_at..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*body.get(address_at..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::made::{attribute, done, error, failed, message};
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// As the kernel writes one: cookie, user and inode at their places.
    fn made(cookie: u64, inode: u32, acknowledged: u64, received: u64) -> Vec<u8> {
        let mut body = vec![0; MESSAGE_BYTES];
        body[44..52].copy_from_slice(&cookie.to_ne_bytes());
        body[64..68].copy_from_slice(&1000u32.to_ne_bytes());
        body[68..72].copy_from_slice(&inode.to_ne_bytes());
        let mut info = vec![0; 136];
        info[120..128].copy_from_slice(&acknowledged.to_ne_bytes());
        info[128..136].copy_from_slice(&received.to_ne_bytes());
        body.extend(attribute(1, &[0; 16]));
        body.extend(attribute(INET_DIAG_INFO, &info));
        message(SOCK_DIAG_BY_FAMILY, &body)
    }

    #[test]
    fn two_connections_and_the_end() {
        let mut datagram = made(7 << 40, 4711, 5_000_000_000, 12);
        datagram.extend(message(SOCK_DIAG_BY_FAMILY, &[0; MESSAGE_BYTES]));
        datagram.extend(made(8, 0, 1, 2));
        datagram.extend(done());
        let mut found = Vec::new();
        assert_eq!(parse(&datagram, &mut found).expect("a dump"), Dump::Ended);
        assert_eq!(found.len(), 2, "the one without counters is left out");
        assert_eq!((found[0].cookie, found[0].inode, found[0].user), (7 << 40, 4711, 1000));
        assert_eq!((found[0].info.acknowledged_bytes, found[0].info.received_bytes), (5_000_000_000, 12));
    }

    #[test]
    fn an_error_of_the_kernel_is_reported() {
        let error = parse(&error(-2), &mut Vec::new()).expect_err("ENOENT");
        assert_eq!(crate::Errno::from_io_error(&error), Some(crate::Errno::NOENT));
    }

    /// A kernel without `tcp_diag` says so at the end of its answer.
    #[test]
    fn a_dump_that_failed_is_no_empty_list() {
        let error = parse(&failed(-2), &mut Vec::new()).expect_err("ENOENT");
        assert_eq!(crate::Errno::from_io_error(&error), Some(crate::Errno::NOENT));
    }

    #[test]
    fn a_live_connection_is_found_by_its_inode_with_its_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        near.write_all(&[7; 50_000]).expect("sent");
        far.read_exact(&mut [0; 50_000]).expect("received");
        let inode = |socket: &TcpStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("a link");
            let text = link.to_string_lossy().into_owned();
            text.trim_start_matches("socket:[").trim_end_matches(']').parse::<u32>().expect("an inode")
        };
        let all = match read() {
            Ok(all) => all,
            // A sandbox may refuse the family.
            Err(error) => return println!("skipped: no sock_diag: {error}"),
        };
        let of = |socket: &TcpStream| all.iter().find(|one| one.inode == inode(socket)).expect("listed");
        assert_eq!(of(&far).info.received_bytes, 50_000);
        assert!(of(&near).info.acknowledged_bytes <= 50_001, "{:?}", of(&near));
        assert_ne!(of(&near).cookie, of(&far).cookie);
        let [local, peer] = of(&near).ends.expect("addresses");
        assert_eq!(Some(local), near.local_addr().ok());
        assert_eq!(Some(peer), listener.local_addr().ok());
        let again = read_again(of(&far)).expect("it is there");
        assert_eq!((again.cookie, again.info.received_bytes), (of(&far).cookie, 50_000));
        assert_eq!(read_again(&TcpSocket { cookie: 1, ..*of(&far) }), None, "another socket of these ends");
        far.write_all(&[1; 700]).expect("sent");
        let unread =
            || read().expect("asked").into_iter().find(|one| one.inode == inode(&near)).expect("listed");
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while unread().unread_bytes != 700 {
            assert!(std::time::Instant::now() < patience, "{:?}", unread());
        }
        let port = listener.local_addr().expect("an address").port();
        let listening = super::listening().expect("asked");
        assert!(
            listening.iter().any(|one| one.ends.is_some_and(|[local, _]| local.port() == port)),
            "{port}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left_out(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut found = Vec::new();
            let _ = parse(&bytes, &mut found);
            let _ = parse(&message(SOCK_DIAG_BY_FAMILY, &bytes), &mut found);
            prop_assert!(found.len() <= 2 + bytes.len() / MESSAGE_BYTES);
        }
    }
}
