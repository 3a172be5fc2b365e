//! Where an iperf3 server is: `host`, `host:port`, `[address]:port`.

use crate::failure::Failure;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// iperf3's port.
pub const DEFAULT_PORT: u16 = 5201;

/// The address of `host[:port]`; a name is looked up, and its first address taken.
pub fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    let (host, port) = split(text)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let found = (host, port).to_socket_addrs();
    found.ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        Failure::Lacks(format!(
            "iperf3 server {text}: this name has no address; check it, or give an address"
        ))
    })
}

fn split(text: &str) -> Result<(&str, u16), Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "`{text}` is no address of an iperf3 server: give HOST, HOST:PORT or [ADDRESS]:PORT (port {DEFAULT_PORT} where none is given)"
        ))
    };
    let port = |digits: &str| digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong);
    if let Some(inside) = text.strip_prefix('[') {
        let (host, rest) = inside.split_once(']').ok_or_else(wrong)?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host, port(digits)?)),
            None if rest.is_empty() => Ok((host, DEFAULT_PORT)),
            None => Err(wrong()),
        };
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address without brackets.
        Some((_, rest)) if rest.contains(':') => Ok((text, DEFAULT_PORT)),
        Some((host, digits)) if !host.is_empty() => Ok((host, port(digits)?)),
        None if !text.is_empty() => Ok((text, DEFAULT_PORT)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:5201"),
            ("127.0.0.1:99", "127.0.0.1:99"),
            ("::1", "[::1]:5201"),
            ("[::1]", "[::1]:5201"),
            ("[fe80::1]:7", "[fe80::1]:7"),
        ] {
            assert_eq!(parse_address(text).expect(text), expected.parse().expect("an address"));
        }
        for wrong in ["", ":5201", "host:", "host:0", "host:99999", "[::1", "[::1]x", "[::1]:x"] {
            assert!(matches!(parse_address(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
