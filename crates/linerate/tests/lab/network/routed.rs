//! Three network namespaces: a client, a router with a smaller MTU behind it, a server with an agent. Taken
//! down whatever happens.

use super::ONE_AT_A_TIME;
use crate::support::agent::listening;
use crate::support::lab::lacking;
use crate::support::namespaces::Namespaces;
use crate::support::process::{Ends, ProcessEnd, Running};
use crate::support::{program, rights};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{MutexGuard, PoisonError};

/// What the router lets through in one packet; both ends have 1500.
pub const MIDDLE_MTU: u64 = 1400;
const SERVER: &str = "10.78.2.1";
/// ICMP and UDP in an IPv4 header.
pub const ICMP: u8 = 1;
pub const UDP: u8 = 17;

/// The three hosts.
pub struct Routed {
    agents: Vec<Running>,
    key: tempfile::TempDir,
    hosts: Namespaces,
    /// Until they are taken down.
    _alone: MutexGuard<'static, ()>,
}

impl Routed {
    /// With an agent on the server; none, with a message, where this machine cannot have it.
    pub fn new() -> Option<Routed> {
        if let Some(why) = lacking() {
            rights::skipped(&why);
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = Namespaces::new("routed", &["client", "router", "server"])?;
        for (host, link, network) in [("client", "near", "10.78.1"), ("server", "far", "10.78.2")] {
            let address = |host: u32| format!("{network}.{host}");
            hosts.cable((host, "eth0"), ("router", link));
            for (host, device, number) in [(host, "eth0", 1), ("router", link, 2)] {
                hosts.address(host, device, &(address(number) + "/24"));
            }
            hosts.ip(host, &["route", "add", "default", "via", &address(2)]);
            // A link of a smaller MTU in the middle: what is longer is not passed on, in both directions.
            let (network, mtu) = (address(0) + "/24", MIDDLE_MTU.to_string());
            hosts.ip("router", &["route", "replace", &network, "dev", link, "mtu", "lock", &mtu]);
        }
        hosts.printed("router", &["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        let key = tempfile::tempdir().expect("a temporary folder");
        let mut ground = Routed { agents: Vec::new(), key, hosts, _alone: alone };
        ground.agent(7411);
        Some(ground)
    }

    /// One more agent on the server; its process number.
    pub fn agent(&mut self, port: u16) -> u32 {
        let (listen, key) = (format!("{SERVER}:{port}"), self.key_file());
        let words = [&program(), "agent", "--listen", &listen, "--key-file", &key];
        let (agent, _) = listening(self.hosts.inside("server", &words).stderr(Stdio::null()));
        let number = agent.id();
        self.agents.push(Running(agent));
        number
    }

    fn key_file(&self) -> String {
        self.key.path().join("key").display().to_string()
    }

    /// The router passes on no packet of this protocol towards the client; false, with a message, where the
    /// kernel lacks the means.
    pub fn router_swallows(&self, protocol: u8) -> bool {
        self.swallows("router", "near", protocol)
    }

    /// Nor does the client itself send one.
    pub fn client_swallows(&self, protocol: u8) -> bool {
        self.swallows("client", "eth0", protocol)
    }

    fn swallows(&self, host: &str, device: &str, protocol: u8) -> bool {
        // Direct action, on the byte that holds the protocol: TC_ACT_SHOT, or go on.
        let program = format!("4,48 0 0 23,21 0 1 {protocol},6 0 0 2,6 0 0 4294967295");
        let namespace = self.hosts.name(host);
        let tc = |words: &[&str]| {
            let mut command = Command::new("tc");
            command.args(["-n", &namespace]).args(words).stderr(Stdio::null());
            command.status().expect("tc starts").success()
        };
        let made = tc(&["qdisc", "add", "dev", device, "clsact"])
            && tc(&["filter", "add", "dev", device, "egress", "bpf", "da", "bytecode", &program]);
        if !made {
            println!("skipped: no clsact with BPF here");
        }
        made
    }

    /// `linerate network` from the client to the agent at this port.
    pub fn network(&self, port: u16, words: &[&str]) -> Command {
        self.linerate("network", port, words)
    }

    /// `linerate run` from the client, in this folder.
    pub fn run(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = self.linerate("run", 7411, words);
        command.current_dir(folder);
        command
    }

    fn linerate(&self, name: &str, port: u16, words: &[&str]) -> Command {
        let (program, key, peer) = (program(), self.key_file(), format!("{SERVER}:{port}"));
        let begin = [program.as_str(), name, "--json", "--key-file", &key, "--peer", &peer];
        let mut command = self.hosts.inside("client", &[&begin[..], words].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// From now on the router lets through no more than this in one packet to the server, and says so.
    pub fn shrink(&self, mtu: u64) {
        let mtu = mtu.to_string();
        self.hosts.ip("router", &["route", "replace", "10.78.2.0/24", "dev", "far", "mtu", "lock", &mtu]);
    }

    /// What the client has sent so far.
    pub fn sent_bytes(&self) -> u64 {
        let file = "/sys/class/net/eth0/statistics/tx_bytes";
        self.hosts.printed("client", &["cat", file]).trim().parse().unwrap_or(0)
    }

    /// The same for its product.
    pub fn measure(&self, words: &[&str]) -> (Value, ProcessEnd) {
        let ended = self.network(7411, words).ended();
        (ended.json(), ended)
    }
}
