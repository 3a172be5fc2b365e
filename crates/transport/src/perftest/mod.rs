//! RDMA by the programs of perftest: `ib_write_bw` and `ib_read_bw`, one at each host, which move bytes from memory to
//! memory past both kernels. linerate has no RDMA engine of its own: these are what the vendors of the NICs measure with.
//!
//! [`RdmaPort::find`] names the device behind an address, [`PerftestSpec`] becomes their arguments,
//! [`RunningPerftest`] runs one and never longer than it was given, [`PerftestFigure::parse`] reads what it
//! printed.

mod device;
mod program;

pub use device::{DeviceError, RdmaPort};
pub use program::{OutputError, PerftestError, PerftestFigure, RunningPerftest};

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};

/// Bounds on what a peer may ask for.
const MOST_SECONDS: u32 = 3600;
const MOST_QUEUE_PAIRS: u32 = 256;
const MESSAGE_BYTES: std::ops::RangeInclusive<u32> = 1..=16 << 20;

/// What the end that starts a test does with the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RdmaOperation {
    /// It writes: bytes leave it.
    Write,
    /// It reads: bytes come to it.
    Read,
}

impl RdmaOperation {
    /// The program.
    pub fn program(self) -> &'static str {
        match self {
            RdmaOperation::Write => "ib_write_bw",
            RdmaOperation::Read => "ib_read_bw",
        }
    }
}

/// One test. Both ends have to be given the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerftestSpec {
    pub operation: RdmaOperation,
    /// Both ends do so at once.
    pub both_ways: bool,
    /// Length of the test; whole seconds, as perftest takes it.
    pub seconds: u32,
    pub queue_pairs: u32,
    pub message_bytes: u32,
}

impl PerftestSpec {
    /// Whether it is within what may be asked for; a test of no length would never end.
    pub fn is_bounded(&self) -> bool {
        (1..=MOST_SECONDS).contains(&self.seconds)
            && (1..=MOST_QUEUE_PAIRS).contains(&self.queue_pairs)
            && MESSAGE_BYTES.contains(&self.message_bytes)
    }

    /// The arguments of one end; `peer`: the host whose server is waiting, none for the server itself.
    pub fn arguments(&self, at: &RdmaPort, tcp_port: u16, peer: Option<Ipv4Addr>) -> Vec<String> {
        let mut words: Vec<String> =
            vec!["-d".into(), at.device.clone(), "-F".into(), "--report_gbits".into()];
        let numbers = [
            ("-i", at.port),
            ("-p", u32::from(tcp_port)),
            ("-D", self.seconds),
            ("-q", self.queue_pairs),
            ("-s", self.message_bytes),
        ];
        let gid = at.gid_index.map(|index| ("-x", index));
        words.extend(
            numbers.into_iter().chain(gid).flat_map(|(word, number)| [word.into(), number.to_string()]),
        );
        words.extend(self.both_ways.then(|| "-b".to_string()));
        words.extend(peer.map(|peer| peer.to_string()));
        words
    }
}

/// Both ends name each other by IPv4: the perftest of Debian 12 (4.5) finds its server by no other.
pub fn ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address.to_canonical() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: PerftestSpec = PerftestSpec {
        operation: RdmaOperation::Write,
        both_ways: false,
        seconds: 2,
        queue_pairs: 4,
        message_bytes: 65536,
    };

    #[test]
    fn both_ends_are_given_the_same_and_their_own_device() {
        let here =
            RdmaPort { device: "mlx5_0".into(), port: 1, gid_index: Some(3), link_layer: "Ethernet".into() };
        let client = SPEC.arguments(&here, 18515, Some(Ipv4Addr::new(192, 0, 2, 7)));
        let expected = "-d mlx5_0 -F --report_gbits -i 1 -p 18515 -D 2 -q 4 -s 65536 -x 3 192.0.2.7";
        assert_eq!(client.join(" "), expected);
        let there =
            RdmaPort { device: "mlx4_1".into(), port: 2, gid_index: None, link_layer: "InfiniBand".into() };
        let server = PerftestSpec { both_ways: true, ..SPEC }.arguments(&there, 18515, None);
        assert_eq!(server.join(" "), "-d mlx4_1 -F --report_gbits -i 2 -p 18515 -D 2 -q 4 -s 65536 -b");
    }

    #[test]
    fn what_a_peer_asks_for_is_bounded() {
        assert!(SPEC.is_bounded());
        let wrong = [
            PerftestSpec { seconds: 0, ..SPEC },
            PerftestSpec { seconds: u32::MAX, ..SPEC },
            PerftestSpec { queue_pairs: 0, ..SPEC },
            PerftestSpec { queue_pairs: 257, ..SPEC },
            PerftestSpec { message_bytes: 0, ..SPEC },
            PerftestSpec { message_bytes: u32::MAX, ..SPEC },
        ];
        assert!(wrong.iter().all(|spec| !spec.is_bounded()));
    }
}
