//! Where an iperf3 server is: `host`, `host:port`, `[address]:port`.

use crate::address::resolve_named;
use linerate_facts::failure::Failure;
use std::net::SocketAddr;

/// iperf3's port.
pub const DEFAULT_PORT: u16 = 5201;

/// The address of `host[:port]`; a name is looked up, and its first address taken.
pub fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    resolve_named("--iperf3", text, DEFAULT_PORT)
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
