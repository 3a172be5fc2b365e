//! `linerate agent`: its words, and what becomes of them.

use super::agent_addresses::{listed, ways_here};
use super::agent_told::Teller;
use super::arguments::values::{one_of, rate, seconds, size};
use super::commands::{complain, print};
use super::stop::stop_on_signals;
use clap::{ArgAction, Args};
use linerate_facts::failure::Failure;
use linerate_facts::memory::available_bytes;
use linerate_facts::room::StorageLimits;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::bits_per_second;
use linerate_machine::probe::probe;
use linerate_measure::run::sinks::open_folder;
use linerate_transport::address::listen_address;
use linerate_transport::agent::{
    Agent, AgentLimits, AgentSettings, AllowList, ClientLimits, DEFAULT_PORT, Interface, InterfaceOf, Key,
    Network, NetworkError, Receivers, serve_own,
};
use linerate_transport::flow::sink::SinkFolder;
use linerate_transport::iperf3;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `linerate agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address to listen on; repeat for several [default: every address, port 7411]
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub listen: Vec<String>,
    /// File with the key; made, mode 0600, where it is absent [default: the digits in LINERATE_KEY,
    /// else $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Take connections from these hosts only, whether with the key; repeat for several [default: every host]
    #[arg(long, value_name = "ADDRESS[/PREFIX]", value_parser = network)]
    pub allow: Vec<Network>,
    /// Tests at once; a client has one for each of its paths, and half of all at most
    #[arg(long, value_name = "TESTS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub tests: u32,
    /// Data streams of one client at once
    #[arg(long, value_name = "STREAMS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub streams: u32,
    /// Payload that all streams of one client together may move, such as 10G [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1000.0..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Length of one test; then it is ended [default: as long as the client likes]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub time_limit: Option<f64>,
    /// Buffers of all clients' streams together, such as 512M [default: a quarter of the memory that is
    /// available at the start, 8G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60))]
    pub memory_limit: Option<u64>,
    /// Store what `linerate run --flow disk-to-disk` sends in this directory, in files without a name that end
    /// with each measurement; no file that is there is touched [default: all is thrown away]
    #[arg(long, value_name = "DIR", conflicts_with = "own")]
    pub sink: Option<PathBuf>,
    /// What stays free of the sink's file system [default: a tenth of it, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), requires = "sink")]
    pub sink_keep: Option<u64>,
    /// All files in the sink together [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "sink")]
    pub sink_limit: Option<u64>,
    /// Pin the threads of streams to the cores that the client names, or let the kernel place them
    #[arg(long, value_parser = one_of(&[("auto", "", true), ("none", "", false)]), action = ArgAction::Set, default_value = "auto")]
    pub pin: bool,
    /// Answer iperf3's clients as well, on port 5201 of the same addresses, one test at a time. Its protocol
    /// knows no key: anyone who can connect can test, within the limits above
    #[arg(long)]
    pub iperf3: bool,
    /// For linerate's own use: key from standard input, ends with it
    #[arg(long, hide = true, conflicts_with = "key_file")]
    pub own: bool,
}

fn network(text: &str) -> Result<Network, NetworkError> {
    text.parse()
}

impl AgentArgs {
    /// Bytes of `--memory-limit`, or what this host has for strangers. Our own run is none.
    fn memory_bytes(&self) -> u64 {
        let available = || if self.own { None } else { available_bytes(&Sysroot::live()) };
        self.memory_limit.unwrap_or_else(|| ClientLimits::memory_bytes_of(available()))
    }

    fn settings(&self) -> Result<AgentSettings, Failure> {
        let streams = self.streams as usize;
        let client =
            ClientLimits { streams, memory_bytes: self.memory_bytes(), bytes_per_second: self.rate_limit };
        let limits = AgentLimits {
            tests: self.tests as usize,
            test_time: self.time_limit.map(Duration::from_secs_f64),
            client,
            ..AgentLimits::default()
        };
        let allow = AllowList::new(self.allow.iter().copied());
        Ok(AgentSettings { limits, allow, pin: self.pin, sink: self.open_sink()? })
    }
}

impl AgentArgs {
    /// The directory for what clients send to be stored.
    fn open_sink(&self) -> Result<Option<Arc<SinkFolder>>, Failure> {
        let Some(directory) = &self.sink else { return Ok(None) };
        let sysroot = Sysroot::live();
        let room = StorageLimits { keep_bytes: self.sink_keep, limit_bytes: self.sink_limit };
        open_folder(&sysroot, &probe(&sysroot), directory, room).map(Some)
    }

    /// The client's bounds as far as iperf3's protocol can keep them.
    fn iperf3_limits(&self) -> iperf3::Iperf3Limits {
        let usual = iperf3::Iperf3Limits::default();
        iperf3::Iperf3Limits {
            seconds: self.time_limit.unwrap_or(usual.seconds),
            streams: self.streams.min(usual.streams),
            bits_per_second: self.rate_limit.map(|rate| bits_per_second(rate) as u64),
            buffer_bytes: self.memory_bytes().min(usual.buffer_bytes),
            ..usual
        }
    }
}

/// Serves until Ctrl-C.
pub(super) fn agent(words: &AgentArgs) -> Result<u8, Failure> {
    let listen: Vec<SocketAddr> = words
        .listen
        .iter()
        .map(|text| {
            listen_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(DEFAULT_PORT)).map_err(Failure::usage)
        })
        .collect::<Result<_, _>>()?;
    if words.own {
        serve_own(&listen, Receivers::default(), interface_of(), words.settings()?)?;
        return Ok(0);
    }
    let stop = stop_on_signals()?;
    // A descriptor for each stream, and strangers hold some as well.
    linerate_system::storage::raise_open_files();
    let (key, made) = Key::find_or_make(words.key_file.as_deref())?;
    let agent =
        Agent::bind_with(&listen, key.clone(), Receivers::default(), interface_of(), words.settings()?)?;
    let mut text = String::new();
    if let Some(path) = made {
        text.push_str(&format!("made a new key in {}\n", path.display()));
    }
    for address in agent.local_addresses() {
        text.push_str(&format!("listening on {address}\n"));
    }
    let port = agent.local_addresses().first().map_or(DEFAULT_PORT, SocketAddr::port);
    let ways = ways_here(&probe(&Sysroot::live()), &agent.local_addresses());
    text.push_str(&listed(&ways));
    let host = ways.first().map(|way| way.address.ip().to_string());
    let host_name =
        || Sysroot::live().text("/proc/sys/kernel/hostname").unwrap_or_else(|_| "THIS-HOST".into());
    let line = key.paste_line(&host.unwrap_or_else(host_name), port);
    text.push_str(&format!("on the other host, with its sources:\n  {line}\n"));
    text.push_str(
        "UDP data comes to ports that the kernel picks: let them through a firewall between the hosts\n",
    );
    let iperf3 = match words.iperf3 {
        true => {
            let allow = AllowList::new(words.allow.iter().copied());
            let server = iperf3::Iperf3Server::bind(&iperf3_addresses(&listen))?;
            Some(server.admitting(Arc::new(move |address| allow.admits(address))))
        }
        false => None,
    };
    for address in iperf3.iter().flat_map(iperf3::Iperf3Server::local_addresses) {
        text.push_str(&format!("answering iperf3 on {address}\n"));
    }
    print(&text)?;
    std::thread::scope(|scope| {
        if let Some(server) = &iperf3 {
            let limits = words.iperf3_limits();
            let stop = &stop;
            let begun = std::thread::Builder::new().spawn_scoped(scope, move || {
                let teller = Teller::start();
                if let Err(failure) = server.serve(stop, &limits, &mut |event| teller.tell(event)) {
                    complain(&failure.to_string());
                }
            });
            begun.map_err(|error| Failure::lacks(format!("no thread can be started for iperf3: {error}")))?;
        }
        agent.serve(&stop)
    })?;
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
