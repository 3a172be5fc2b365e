//! `linerate agent`: what becomes of its arguments.

use super::agent_addresses::{listed, ways_here};
use super::agent_events::EventPrinter;
use super::arguments::AgentArgs;
use super::output::Output;
use super::stop::stop_on_signals;
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
    Receivers, serve_own,
};
use linerate_transport::flow::sink::SinkFolder;
use linerate_transport::iperf3;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

impl AgentArgs {
    /// Bytes of `--memory-limit`, or what this host has for strangers. Our own run is none.
    fn memory_bytes(&self) -> u64 {
        let available = || if self.own { None } else { available_bytes(&Sysroot::live()) };
        self.memory_limit.unwrap_or_else(|| ClientLimits::memory_bytes_of(available()))
    }

    fn settings(&self) -> Result<AgentSettings, Failure> {
        let client = ClientLimits {
            memory_bytes: self.memory_bytes(),
            bytes_per_second: self.rate_limit,
            ..ClientLimits::default()
        };
        let limits = AgentLimits {
            test_time: self.time_limit.map(Duration::from_secs_f64),
            client,
            ..AgentLimits::default()
        };
        let allow = AllowList::new(self.allow.iter().copied());
        Ok(AgentSettings { limits, allow, sink: self.open_sink()?, experiments: !self.no_experiment })
    }
}

impl AgentArgs {
    /// The directory for what clients send to be stored.
    fn open_sink(&self) -> Result<Option<Arc<SinkFolder>>, Failure> {
        let Some(directory) = &self.sink else { return Ok(None) };
        let sysroot = Sysroot::live();
        let room = StorageLimits { keep_bytes: None, limit_bytes: self.sink_limit };
        open_folder(&sysroot, &probe(&sysroot), directory, room).map(Some)
    }

    /// The client's bounds as far as iperf3's protocol can keep them.
    fn iperf3_limits(&self) -> iperf3::Iperf3Limits {
        let usual = iperf3::Iperf3Limits::default();
        iperf3::Iperf3Limits {
            seconds: self.time_limit.unwrap_or(usual.seconds),
            bits_per_second: self.rate_limit.map(|rate| bits_per_second(rate) as u64),
            buffer_bytes: self.memory_bytes().min(usual.buffer_bytes),
            ..usual
        }
    }
}

/// Serves until Ctrl-C.
pub(super) fn agent(args: &AgentArgs, output: &Output) -> Result<u8, Failure> {
    let listen: Vec<SocketAddr> = args
        .listen
        .iter()
        .map(|text| {
            listen_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(DEFAULT_PORT)).map_err(Failure::usage)
        })
        .collect::<Result<_, _>>()?;
    if args.own {
        serve_own(&listen, Receivers::default(), interface_of(), args.settings()?)?;
        return Ok(0);
    }
    let stop = stop_on_signals()?;
    // A descriptor for each stream, and strangers hold some as well.
    linerate_system::storage::raise_open_files();
    let (key, made) = Key::find_or_make(args.key_file.as_deref())?;
    let agent =
        Agent::bind_with(&listen, key.clone(), Receivers::default(), interface_of(), args.settings()?)?;
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
    let iperf3 = match args.iperf3 {
        true => {
            let allow = AllowList::new(args.allow.iter().copied());
            let server = iperf3::Iperf3Server::bind(&iperf3_addresses(&listen))?;
            Some(server.admitting(Arc::new(move |address| allow.admits(address))))
        }
        false => None,
    };
    for address in iperf3.iter().flat_map(iperf3::Iperf3Server::local_addresses) {
        text.push_str(&format!("answering iperf3 on {address}\n"));
    }
    output.print(&text)?;
    std::thread::scope(|scope| {
        if let Some(server) = &iperf3 {
            let limits = args.iperf3_limits();
            let stop = &stop;
            let begun = std::thread::Builder::new().spawn_scoped(scope, move || {
                let printer = EventPrinter::start(output);
                if let Err(failure) = server.serve(stop, &limits, &mut |event| printer.print(event)) {
                    output.complain(&failure.to_string());
                }
            });
            begun.map_err(|error| Failure::lacks(format!("no thread can be started for iperf3: {error}")))?;
        }
        agent.serve(&stop);
        Ok(0)
    })
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
