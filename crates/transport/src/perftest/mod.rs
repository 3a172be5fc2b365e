//! RDMA by the programs of perftest: `ib_write_bw` and `ib_read_bw`, one at each host, which move bytes from memory to
//! memory past both kernels. linerate has no RDMA engine of its own: these are what the vendors of the NICs measure with.
//!
//! [`RdmaPort::find`] names the device behind an address (`/sys/class/infiniband`), [`PerftestSpec`] becomes their
//! arguments, [`RunningPerftest`] runs one and never longer than it was given, [`PerftestFigure::parse`] reads what it
//! printed.

mod program;

use linerate_facts::sysroot::Sysroot;
pub use program::{OutputError, PerftestError, PerftestFigure, RunningPerftest};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bounds on what a peer may ask for.
const MOST_SECONDS: u32 = 3600;
const MOST_QUEUE_PAIRS: u32 = 256;
const MESSAGE_BYTES: std::ops::RangeInclusive<u32> = 1..=16 << 20;

const INFINIBAND_CLASS: &str = "/sys/class/infiniband";
/// A port has up to some hundred of them; more are not looked at.
const MOST_GIDS: usize = 4096;

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

/// Where one end of a test is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaPort {
    /// `mlx5_0`.
    pub device: String,
    pub port: u32,
    /// Index of the address in the port's table (RoCE); none over InfiniBand, where the subnet's manager gives
    /// addresses.
    pub gid_index: Option<u32>,
    /// `Ethernet` or `InfiniBand`, as the kernel says.
    pub link_layer: String,
}

/// Why there is none: a phrase about that host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "there is no RDMA device: its NICs have none, or the driver is not loaded (`rdma link` lists them; `rdma link \
         add rxe0 type rxe netdev NIC` makes one in software)"
    )]
    NoDevice,
    #[error(
        "the RDMA device {found} is not that of {nic}, which has {address}: name an address of the RDMA device's own \
         NIC with --peer, or give {nic} one"
    )]
    OtherNic { address: IpAddr, nic: String, found: String },
    #[error(
        "port {port} of the RDMA device {device} is {state}: is the cable in, and the link up (`rdma link`)?"
    )]
    Down { device: String, port: u32, state: String },
}

impl RdmaPort {
    /// The port that has this address of this host; `nic`: the interface that holds it, where that is known.
    ///
    /// # Errors
    /// A phrase for the user: no device, that of another NIC, or one whose link is down.
    pub fn find(sysroot: &Sysroot, address: IpAddr, nic: Option<&str>) -> Result<RdmaPort, DeviceError> {
        let mut devices = sysroot.list(INFINIBAND_CLASS);
        devices.sort();
        if devices.is_empty() {
            return Err(DeviceError::NoDevice);
        }
        let ports = devices.iter().flat_map(|device| {
            let mut ports: Vec<u32> = sysroot
                .list(format!("{INFINIBAND_CLASS}/{device}/ports"))
                .iter()
                .filter_map(|port| port.parse().ok())
                .collect();
            ports.sort_unstable();
            ports.into_iter().map(move |port| (device.as_str(), port))
        });
        for (device, port) in ports {
            let path = format!("{INFINIBAND_CLASS}/{device}/ports/{port}");
            let link_layer = sysroot.text(format!("{path}/link_layer")).unwrap_or_default();
            let gid_index = match link_layer.as_str() {
                "InfiniBand"
                    if nic.is_some_and(|nic| interfaces(sysroot, device).iter().any(|one| one == nic)) =>
                {
                    None
                }
                "InfiniBand" => continue,
                _ => match gid_index(sysroot, &path, address) {
                    Some(index) => Some(index),
                    None => continue,
                },
            };
            let state = sysroot.text(format!("{path}/state")).unwrap_or_default();
            if !state.contains("ACTIVE") {
                // `1: DOWN`.
                let state = state.split(": ").last().unwrap_or_default().to_string();
                return Err(DeviceError::Down { device: device.into(), port, state });
            }
            return Ok(RdmaPort { device: device.into(), port, gid_index, link_layer });
        }
        let named = |device: &String| match interfaces(sysroot, device).first() {
            Some(nic) => format!("{device} ({nic})"),
            None => device.clone(),
        };
        let found: Vec<String> = devices.iter().map(named).collect();
        let nic = nic.unwrap_or("the interface").to_string();
        Err(DeviceError::OtherNic { address, nic, found: found.join(", ") })
    }
}

/// Interfaces of a device: of a real one below its function, of a software one its parent.
fn interfaces(sysroot: &Sysroot, device: &str) -> Vec<String> {
    let mut names = sysroot.list(format!("{INFINIBAND_CLASS}/{device}/device/net"));
    names.extend(sysroot.text(format!("{INFINIBAND_CLASS}/{device}/parent")));
    names.sort();
    names
}

/// Where the port's table has the address; RoCE version 2 before version 1, which no router forwards.
fn gid_index(sysroot: &Sysroot, port: &str, address: IpAddr) -> Option<u32> {
    let wanted = match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut indices: Vec<u32> =
        sysroot.list(format!("{port}/gids")).iter().filter_map(|index| index.parse().ok()).collect();
    indices.sort_unstable();
    let has = |index: &u32| {
        let gid =
            sysroot.text(format!("{port}/gids/{index}")).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
        gid == Some(wanted)
    };
    let is_routable = |index: &u32| {
        sysroot.text(format!("{port}/gid_attrs/types/{index}")).is_ok_and(|kind| kind.contains("v2"))
    };
    let found: Vec<u32> = indices.into_iter().take(MOST_GIDS).filter(has).collect();
    found.iter().find(|index| is_routable(index)).or(found.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(format!("sys/class/infiniband/{file}"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, format!("{text}\n")).expect("written");
    }

    /// A RoCE device of eth2, with 192.0.2.1 in both versions, and InfiniBand with ib0.
    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let at = |file: &str, text: &str| write(root.path(), file, text);
        at("mlx5_0/ports/1/link_layer", "Ethernet");
        at("mlx5_0/ports/1/state", "4: ACTIVE");
        at("mlx5_0/device/net/eth2/mtu", "9000");
        let gids = [
            ("0", "fe80:0000:0000:0000:5054:00ff:fed5:9d01", "IB/RoCE v1"),
            ("1", "fe80:0000:0000:0000:5054:00ff:fed5:9d01", "RoCE v2"),
            ("10", "0000:0000:0000:0000:0000:0000:0000:0000", ""),
            ("2", "0000:0000:0000:0000:0000:ffff:c000:0201", "IB/RoCE v1"),
            ("3", "0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2"),
        ];
        for (index, gid, kind) in gids {
            at(&format!("mlx5_0/ports/1/gids/{index}"), gid);
            at(&format!("mlx5_0/ports/1/gid_attrs/types/{index}"), kind);
        }
        at("mlx5_1/ports/1/link_layer", "InfiniBand");
        at("mlx5_1/ports/1/state", "4: ACTIVE");
        at("mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:ec0d:9a03:0011:2233");
        at("mlx5_1/device/net/ib0/mtu", "4092");
        root
    }

    fn find(root: &Path, address: &str, nic: &str) -> Result<RdmaPort, DeviceError> {
        RdmaPort::find(&Sysroot::recorded(root), address.parse().expect("an address"), Some(nic))
    }

    #[test]
    fn an_address_leads_to_its_device_and_the_routable_version() {
        let root = host();
        let port = find(root.path(), "192.0.2.1", "eth2").expect("a port");
        assert_eq!((port.device.as_str(), port.port, port.gid_index), ("mlx5_0", 1, Some(3)));
        assert_eq!(find(root.path(), "::ffff:192.0.2.1", "eth2").expect("the same").gid_index, Some(3));
        // Over InfiniBand by the interface: no index.
        let port = find(root.path(), "198.51.100.1", "ib0").expect("a port");
        assert_eq!(
            (port.device.as_str(), port.gid_index, port.link_layer.as_str()),
            ("mlx5_1", None, "InfiniBand")
        );
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let root = host();
        let other = find(root.path(), "203.0.113.1", "eth0").expect_err("another NIC").to_string();
        assert!(
            other.starts_with("the RDMA device mlx5_0 (eth2), mlx5_1 (ib0) is not that of eth0"),
            "{other}"
        );
        assert!(other.contains("203.0.113.1"), "{other}");
        write(root.path(), "mlx5_0/ports/1/state", "1: DOWN");
        let down = find(root.path(), "192.0.2.1", "eth2").expect_err("down").to_string();
        assert!(down.starts_with("port 1 of the RDMA device mlx5_0 is DOWN"), "{down}");
        let bare = tempfile::tempdir().expect("a folder");
        assert_eq!(find(bare.path(), "192.0.2.1", "eth2"), Err(DeviceError::NoDevice));
    }
}
