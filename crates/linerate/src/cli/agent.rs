//! `linerate agent`: what becomes of its arguments; the addresses by which other hosts reach it, and what it
//! prints of its clients.
//!
//! The addresses of the fastest links come first, for the first is mostly the one that is meant, and a host's
//! name mostly leads to its slowest. A line for each test of iperf3 is printed on a thread of its own, for who
//! reads our output may have stopped to.

use super::arguments::AgentArgs;
use super::output::Output;
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::room::{StorageLimits, available_bytes};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::{bits_per_second, show_bits_rate};
use linerate_machine::probe::{Machine, Nic, probe};
use linerate_measure::run::ends::open_folder;
use linerate_system::clock;
use linerate_transport::address::listen_address;
use linerate_transport::agent::{
    Agent, AgentLimits, AgentSettings, AllowList, ClientLimits, DEFAULT_PORT, Interface, InterfaceOf, Key,
    serve_own,
};
use linerate_transport::flow::sink::SinkFolder;
use linerate_transport::iperf3::{self, ServerEvent};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
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
        let (sink, experiments) = (self.open_sink()?, !self.no_experiment);
        Ok(AgentSettings { allow, sink, experiments, interface_of: interface_of(), ..limits.into() })
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
        serve_own(&listen, args.settings()?)?;
        return Ok(0);
    }
    let stop = stop_on_signals()?;
    // A descriptor for each stream, and strangers hold some as well.
    linerate_system::storage::raise_open_files();
    let (key, made) = Key::find_or_make(args.key_file.as_deref())?;
    let agent = Agent::bind(&listen, key.clone(), args.settings()?)?;
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

/// One address of this host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgentAddress {
    pub(super) address: SocketAddr,
    interface: String,
    /// Of its NIC; none: unknown.
    pub(super) bits_per_second: Option<u64>,
}

/// The addresses behind “every address”, fastest first, and among equals in the kernel's order. None where it
/// listens on named ones only: who named them knows them.
pub(super) fn ways_here(machine: &Machine, listening: &[SocketAddr]) -> Vec<AgentAddress> {
    let Some(open) = listening.iter().find(|address| address.ip().is_unspecified()) else {
        return Vec::new();
    };
    let mut ways: Vec<AgentAddress> =
        machine.nics.iter().filter(|nic| !nic.loopback).flat_map(|nic| ways_of(nic, *open)).collect();
    ways.sort_by_key(|way| std::cmp::Reverse(way.bits_per_second));
    ways
}

fn ways_of(nic: &Nic, open: SocketAddr) -> impl Iterator<Item = AgentAddress> {
    let is_reached = move |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => open.is_ipv6() && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let ips = nic.addresses.iter().map(|(ip, _)| *ip).filter(is_reached);
    let bits_per_second = nic.speed_bits_per_second.known().copied();
    ips.map(move |ip| AgentAddress {
        address: SocketAddr::new(ip, open.port()),
        interface: nic.name.clone(),
        bits_per_second,
    })
}

impl AgentAddress {
    /// `eth0, 100 Gb/s`.
    pub(super) fn link(&self) -> String {
        let bits = self.bits_per_second;
        let rate = bits.map_or("rate unknown".into(), |bits| show_bits_rate(bits as f64 / 8.0));
        format!("{}, {rate}", self.interface)
    }
}

/// A line for each.
pub(super) fn listed(ways: &[AgentAddress]) -> String {
    if ways.is_empty() {
        return String::new();
    }
    let width = ways.iter().map(|way| way.address.to_string().len()).max().unwrap_or_default();
    let line = |way: &AgentAddress| format!("  {:width$}  {}\n", way.address.to_string(), way.link());
    format!("reached at, the fastest first:\n{}", ways.iter().map(line).collect::<String>())
}

/// Lines that wait to be read; more are dropped.
const MOST_WAITING_LINES: usize = 64;
/// The last lines get this long to be written.
const FAREWELL: Duration = Duration::from_millis(300);

/// Writes lines that nobody need read.
struct EventPrinter {
    lines: Option<SyncSender<String>>,
    /// None where no thread was to be had: nothing is printed then.
    writer: Option<JoinHandle<()>>,
}

impl EventPrinter {
    /// To standard output.
    fn start(output: &Output) -> EventPrinter {
        let output = output.clone();
        EventPrinter::writing(move |line| {
            // Nobody may read it any more.
            let _ = output.print(line);
        })
    }

    fn writing(write: impl Fn(&str) + Send + 'static) -> EventPrinter {
        let (lines, waiting) = sync_channel::<String>(MOST_WAITING_LINES);
        let writer = std::thread::Builder::new().name("events".into());
        let writer = writer.spawn(move || waiting.iter().for_each(|line| write(&line)));
        EventPrinter { lines: Some(lines), writer: writer.ok() }
    }

    /// Tells of a test that ended, and of a client that got none.
    fn print(&self, event: &ServerEvent) {
        if let (Some(lines), Some(line)) = (&self.lines, event_line(event)) {
            // Full: anyone who reads has not for a while.
            let _ = lines.try_send(line);
        }
    }
}

impl Drop for EventPrinter {
    fn drop(&mut self) {
        self.lines = None;
        let patience = clock::now() + FAREWELL;
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && clock::now() < patience {
            // The agent has ended: no stop shortens this.
            clock::sleep(Duration::from_millis(5));
        }
    }
}

fn event_line(event: &ServerEvent) -> Option<String> {
    match event {
        ServerEvent::Ended(outcome) => {
            let from = outcome.addresses.map_or_else(String::new, |(_, client)| format!(" of {client}"));
            let rate = |ours| show_bits_rate(outcome.received_bytes_per_second(ours));
            let error = outcome.error.as_ref().map_or_else(String::new, |why| format!("; {why}"));
            Some(format!("iperf3 test{from}: {} received, {} sent{error}\n", rate(false), rate(true)))
        }
        ServerEvent::Refused { client, why } => Some(format!("iperf3 client {client} refused: {why}\n")),
        ServerEvent::Started { .. } | ServerEvent::Progress(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::fact::Fact;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    fn nic(name: &str, bits_per_second: Option<u64>, addresses: &[&str]) -> Nic {
        Nic {
            name: name.into(),
            loopback: name == "lo",
            speed_bits_per_second: Fact::from_option(bits_per_second, "virtual"),
            addresses: addresses.iter().map(|text| (text.parse().expect("an address"), 24)).collect(),
            ..Nic::default()
        }
    }

    #[test]
    fn the_fastest_link_is_first_and_what_others_do_not_reach_is_left_out() {
        let nics = vec![
            nic("lo", None, &["127.0.0.1", "::1"]),
            nic("veth", None, &["10.0.0.1"]),
            nic("eth0", Some(1_000_000_000), &["198.51.100.7", "fe80::1"]),
            nic("eth1", Some(100_000_000_000), &["192.0.2.7", "2001:db8::7"]),
        ];
        let machine = Machine { nics, ..Machine::default() };
        let at = |listen: &str| listed(&ways_here(&machine, &[listen.parse().expect("an address")]));
        let all = "reached at, the fastest first:\n  192.0.2.7:7411      eth1, 100 Gb/s\n  \
                   [2001:db8::7]:7411  eth1, 100 Gb/s\n  198.51.100.7:7411   eth0, 1.00 Gb/s\n  \
                   10.0.0.1:7411       veth, rate unknown\n";
        assert_eq!(at("[::]:7411"), all);
        assert!(!at("0.0.0.0:7411").contains("2001"), "no IPv6 there");
        assert_eq!(at("192.0.2.7:7411"), "");
    }

    fn refused() -> ServerEvent {
        ServerEvent::Refused { client: ([192, 0, 2, 1], 5201).into(), why: "busy".into() }
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let written = Arc::new(AtomicUsize::new(0));
        let (writing, began) = (written.clone(), Instant::now());
        let printer = EventPrinter::writing(move |_| {
            writing.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(3600));
        });
        (0..10 * MOST_WAITING_LINES).for_each(|_| printer.print(&refused()));
        drop(printer);
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(written.load(Ordering::Relaxed) <= 1);
    }

    #[test]
    fn the_last_line_is_written() {
        let (sender, lines) = std::sync::mpsc::channel();
        let printer =
            EventPrinter::writing(move |line| sender.send(line.to_string()).expect("somebody listens"));
        printer.print(&refused());
        drop(printer);
        let line = lines.recv_timeout(Duration::from_secs(10)).expect("a line");
        assert_eq!(line, "iperf3 client 192.0.2.1:5201 refused: busy\n");
    }
}
