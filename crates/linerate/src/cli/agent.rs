//! `linerate agent`: its words, and what becomes of them.

use super::agent_told::Teller;
use super::commands::{complain, print};
use super::stop::stop_on_signals;
use super::words::positive;
use crate::agent::{
    Agent, AllowList, ClientLimits, DEFAULT_PORT, Interface, InterfaceOf, Key, Limits, Network, Receivers,
    Settings, serve_own,
};
use crate::failure::Failure;
use crate::iperf3;
use crate::probe::probe;
use crate::sysroot::Sysroot;
use crate::units::{bits_per_second, parse_rate, parse_size};
use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `linerate agent`.
#[derive(Debug, Args)]
pub struct AgentWords {
    /// Address to listen on; repeat for several [default: every address, port 7411]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Vec<String>,
    /// File with the key; made, mode 0600, where it is absent [default: the digits in LINERATE_KEY]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Take connections from these hosts only, be it with the key; repeat for several [default: every host]
    #[arg(long, value_name = "ADDRESS[/PREFIX]", value_parser = network)]
    pub allow: Vec<Network>,
    /// Tests at once; a client has one for each of its paths, and half of all at most
    #[arg(long, value_name = "TESTS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub tests: u32,
    /// Data streams of one client at once
    #[arg(long, value_name = "STREAMS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub streams: u32,
    /// Payload that all streams of one client together may move, such as 10G [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<f64>,
    /// Length of one test; then it is ended [default: as long as the client likes]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub time_limit: Option<f64>,
    /// Buffers of one client's streams together, such as 512M
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = size)]
    pub memory_limit: u64,
    /// Pin the threads of streams to the cores that the client names, or let the kernel place them
    #[arg(long, value_enum, default_value_t = PinWord::Auto)]
    pub pin: PinWord,
    /// Answer iperf3's clients as well, on port 5201 of the same addresses, one test at a time. Its protocol knows no key: whoever can connect
    /// can test, within the limits above
    #[arg(long)]
    pub iperf3: bool,
    /// For linerate's own use: key from standard input, ends with it
    #[arg(long, hide = true, conflicts_with = "key_file")]
    pub own: bool,
}

/// `--pin` of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PinWord {
    Auto,
    None,
}

fn network(text: &str) -> Result<Network, String> {
    text.parse()
}

fn rate(text: &str) -> Result<f64, String> {
    parse_rate(text).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

impl AgentWords {
    fn settings(&self) -> Settings {
        let streams = self.streams as usize;
        let client =
            ClientLimits { streams, memory_bytes: self.memory_limit, bytes_per_second: self.rate_limit };
        let limits = Limits {
            tests: self.tests as usize,
            test_time: self.time_limit.map(Duration::from_secs_f64),
            client,
            ..Limits::default()
        };
        let allow = AllowList::new(self.allow.iter().copied());
        Settings { limits, allow, pin: self.pin == PinWord::Auto }
    }
}

impl AgentWords {
    /// The client's bounds as far as iperf3's protocol can keep them.
    fn iperf3_limits(&self) -> iperf3::Limits {
        let usual = iperf3::Limits::default();
        iperf3::Limits {
            seconds: self.time_limit.unwrap_or(usual.seconds),
            streams: self.streams.min(usual.streams),
            bits_per_second: self.rate_limit.map(|rate| bits_per_second(rate) as u64),
            buffer_bytes: self.memory_limit.min(usual.buffer_bytes),
            ..usual
        }
    }
}

/// Serves until Ctrl-C.
pub fn agent(words: &AgentWords) -> Result<u8, Failure> {
    let listen: Vec<SocketAddr> = words
        .listen
        .iter()
        .map(|text| listen_address(text).map_err(Failure::Usage))
        .collect::<Result<_, _>>()?;
    if words.own {
        serve_own(&listen, Receivers::default(), interface_of(), words.settings())?;
        return Ok(0);
    }
    let stop = stop_on_signals()?;
    // A descriptor for each stream, and strangers hold some as well.
    linerate_system::storage::raise_open_files();
    let (key, made) = Key::find_or_make(words.key_file.as_deref())?;
    let agent =
        Agent::bind_with(&listen, key.clone(), Receivers::default(), interface_of(), words.settings())?;
    let mut text = String::new();
    if let (true, Some(path)) = (made, &words.key_file) {
        text.push_str(&format!("made a new key in {}\n", path.display()));
    }
    for address in agent.local_addresses() {
        text.push_str(&format!("listening on {address}\n"));
    }
    let port = agent.local_addresses().first().map_or(DEFAULT_PORT, SocketAddr::port);
    let host = Sysroot::live().text("/proc/sys/kernel/hostname").unwrap_or_else(|_| "THIS-HOST".into());
    text.push_str(&format!("on the other host, with its sources:\n  {}\n", key.paste_line(&host, port)));
    text.push_str(
        "UDP data comes to ports that the kernel picks: let them through a firewall between the hosts\n",
    );
    let iperf3 = match words.iperf3 {
        true => {
            let allow = AllowList::new(words.allow.iter().copied());
            let server = iperf3::Server::bind(&iperf3_addresses(&listen))?;
            Some(server.admitting(Arc::new(move |address| allow.admits(address))))
        }
        false => None,
    };
    for address in iperf3.iter().flat_map(iperf3::Server::local_addresses) {
        text.push_str(&format!("answering iperf3 on {address}\n"));
    }
    print(&text)?;
    std::thread::scope(|scope| {
        if let Some(server) = &iperf3 {
            let limits = words.iperf3_limits();
            let stop = &stop;
            scope.spawn(move || {
                let teller = Teller::start();
                if let Err(failure) = server.serve(stop, &limits, &mut |event| teller.tell(event)) {
                    complain(&failure.to_string());
                }
            });
        }
        agent.serve(&stop);
    });
    Ok(0)
}

/// The same addresses with iperf3's port; none: every address.
fn iperf3_addresses(listen: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for mut address in listen.iter().copied() {
        // A link-local address keeps its interface.
        address.set_port(iperf3::DEFAULT_PORT);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// The interface that holds an address, and the cores next to it.
fn interface_of() -> InterfaceOf {
    Arc::new(|address: IpAddr| {
        let machine = probe(&Sysroot::live());
        let nic =
            machine.nics.into_iter().find(|nic| nic.addresses.iter().any(|(own, _)| *own == address))?;
        let node = nic.node.known().and_then(|node| machine.memory.nodes.iter().find(|one| one.id == *node));
        let cores = node.map(|node| node.cpus.clone()).unwrap_or_default();
        Some(Interface { name: nic.name, mtu: nic.mtu.known().copied(), cores })
    })
}

/// An address to listen on; without a port 7411 is meant. A link-local one names its interface: `fe80::1%eth0`.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    listen_address_at(text, DEFAULT_PORT)
}

/// The same with another port where none is given.
pub fn listen_address_at(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    let wrong = || {
        format!(
            "“{text}” is no address to listen on: write it like 0.0.0.0:{default_port}, [::]:{default_port}, 192.0.2.7 or fe80::1%eth0"
        )
    };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, default_port),
        Some((host, after)) => {
            let port = after.strip_prefix(':').and_then(|digits| digits.parse().ok());
            (host, port.ok_or_else(wrong)?)
        }
        None => (text, default_port),
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    // Only the resolver knows the numbers of interfaces; a plain name is not looked up.
    let link_local = host.split_once('%').filter(|(v6, _)| v6.parse::<std::net::Ipv6Addr>().is_ok());
    let (_, interface) = link_local.ok_or_else(wrong)?;
    let found = (host, port).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        format!("“{text}”: this host has no interface {interface}; `ip link` shows those that are there")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_a_port() {
        assert_eq!(listen_address("127.0.0.1:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(listen_address("127.0.0.1"), Ok(SocketAddr::from(([127, 0, 0, 1], 7411))));
        assert_eq!(listen_address("[::1]:5").map(|address| address.port()), Ok(5));
        assert_eq!(listen_address("[::1]").map(|address| address.port()), Ok(7411));
        assert_eq!(listen_address("::").map(|address| address.port()), Ok(7411));
        for text in ["here", "", "[::1]:x", "here%lo", "[::1]5"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_link_local_address_takes_its_interface_along() {
        for (text, port) in [("fe80::1%lo", 7411), ("[fe80::1%lo]:80", 80)] {
            match listen_address(text) {
                Ok(SocketAddr::V6(v6)) => assert_eq!((v6.scope_id() > 0, v6.port()), (true, port), "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let why = listen_address("fe80::1%no-such-nic").expect_err("no interface");
        assert!(why.contains("no-such-nic"), "{why}");
    }
}
