//! Three network namespaces: a client, a router with a smaller MTU behind it, a server with an agent. Taken
//! down whatever happens.

use crate::support::lab::lacking;
use crate::support::program;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What the router lets through in one packet; both ends have 1500.
pub const MIDDLE_MTU: u64 = 1400;
const SERVER: &str = "10.78.2.1";
/// ICMP and UDP in an IPv4 header.
pub const ICMP: u8 = 1;
pub const UDP: u8 = 17;

/// The three hosts.
pub struct Routed {
    name: String,
    agents: Vec<Child>,
    key: tempfile::TempDir,
}

static GROUNDS: AtomicU32 = AtomicU32::new(0);

impl Routed {
    /// With an agent on the server; none, with a message, where this machine cannot have it.
    pub fn new() -> Option<Routed> {
        if let Some(why) = lacking() {
            println!("skipped: {why}");
            return None;
        }
        let number = GROUNDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("routed{}x{number}", std::process::id());
        let mut ground =
            Routed { name, agents: Vec::new(), key: tempfile::tempdir().expect("a temporary folder") };
        for host in ["client", "router", "server"] {
            ip(&["netns", "add", &ground.namespace(host)]);
            ip(&["-n", &ground.namespace(host), "link", "set", "lo", "up"]);
        }
        for (host, link, network) in [("client", "near", "10.78.1"), ("server", "far", "10.78.2")] {
            let (end, router) = (ground.namespace(host), ground.namespace("router"));
            let pair = ["type", "veth", "peer", "name", link, "netns", &router];
            ip(&[&["link", "add", "eth0", "netns", &end], &pair[..]].concat());
            let address = |host: u32| format!("{network}.{host}");
            for (namespace, device, host) in [(&end, "eth0", 1), (&router, link, 2)] {
                ip(&["-n", namespace, "address", "add", &(address(host) + "/24"), "dev", device]);
                ip(&["-n", namespace, "link", "set", device, "up"]);
            }
            ip(&["-n", &end, "route", "add", "default", "via", &address(2)]);
            // A link of a smaller MTU in the middle: what is longer is not passed on, in both directions.
            let (network, mtu) = (address(0) + "/24", MIDDLE_MTU.to_string());
            let route = ["route", "replace", &network, "dev", link, "mtu", "lock", &mtu];
            ip(&[&["-n", &router], &route[..]].concat());
        }
        let forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"];
        assert!(ground.inside("router", &forward).status().expect("it starts").success());
        ground.agent(7411);
        Some(ground)
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}{host}", self.name)
    }

    /// A command in the namespace of a host.
    fn inside(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host)]).args(words).stdin(Stdio::null());
        crate::support::keep_apart(&mut command, &crate::support::kept());
        command
    }

    /// One more agent on the server; its process number.
    pub fn agent(&mut self, port: u16) -> u32 {
        let (listen, key) = (format!("{SERVER}:{port}"), self.key_file());
        let words = [&program(), "agent", "--listen", &listen, "--key-file", &key].map(String::from);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.inside("server", &words);
        let agent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("an agent");
        let number = agent.id();
        self.agents.push(agent);
        let patience = Instant::now() + Duration::from_secs(20);
        let listens = format!("{SERVER}:{port}");
        while !self.listens(&listens) {
            assert!(Instant::now() < patience, "the agent listens");
            std::thread::sleep(Duration::from_millis(50));
        }
        number
    }

    fn listens(&self, address: &str) -> bool {
        let output = self.inside("server", &["ss", "-Hltn"]).output().expect("ss starts");
        String::from_utf8_lossy(&output.stdout).contains(address)
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
        let namespace = self.namespace(host);
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
        let (program, key, peer) = (program(), self.key_file(), format!("{SERVER}:{port}"));
        let begin = [&program, "network", "--json", "--key-file", &key, "--peer", &peer].map(String::from);
        let all: Vec<&str> = begin.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let mut command = self.inside("client", &all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `linerate run` from the client, in this folder.
    pub fn run(&self, folder: &Path, words: &[&str]) -> Command {
        let (program, key, peer) = (program(), self.key_file(), format!("{SERVER}:7411"));
        let begin = [&program, "run", "--json", "--key-file", &key, "--peer", &peer].map(String::from);
        let all: Vec<&str> = begin.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let mut command = self.inside("client", &all);
        command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// From now on the router lets through no more than this in one packet to the server, and says so.
    pub fn shrink(&self, mtu: u64) {
        let mtu = mtu.to_string();
        let route = ["route", "replace", "10.78.2.0/24", "dev", "far", "mtu", "lock", &mtu];
        ip(&[&["-n", &self.namespace("router")], &route[..]].concat());
    }

    /// What the client has sent so far.
    pub fn sent_bytes(&self) -> u64 {
        let file = "/sys/class/net/eth0/statistics/tx_bytes";
        let output = self.inside("client", &["cat", file]).output().expect("cat starts");
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
    }

    /// The same for its product.
    pub fn measure(&self, words: &[&str]) -> (Value, Output) {
        let output = self.network(7411, words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let run = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (run, output)
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for host in ["client", "router", "server"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(host)]).status();
        }
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("ip starts");
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
