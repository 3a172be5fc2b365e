//! `linerate network --no-receiver`: UDP at a rate to where nobody receives, a switch that drops it, counted
//! by the NIC that it leaves by.

use super::{NetworkSpec, finish, target};
use crate::event::Event;
use crate::measure::Stage;
use crate::measure::streams::job::usual_method;
use crate::measure::streams::{
    HEADERS, HEADERS_V6, SentBlindly, StreamDirection, StreamFigure, StreamsJob, from_blind, statistic,
};
use crate::measure::window::{Meter, Watch, WindowSpec};
use crate::run::{Run, RunContext, paths};
use linerate_facts::counters::{self, NetworkCounters};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::PathPlan;
use linerate_system::addresses::interface_addresses;
use linerate_system::clock;
use linerate_system::counters::process_cpu;
use linerate_system::socket::{forbid_fragments, send_on_link_only};
use linerate_system::stop::Stop;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{StreamCounters, StreamRole, StreamSpec, send_blindly};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Nobody can ask it to stop: it ends by itself after this.
const MOST_SECONDS: f64 = 60.0;
/// The kernel asks three times, a second each, for the hardware address of a host (arp(7)).
const NEIGHBOUR: Duration = Duration::from_millis(3500);
/// Drivers tell what they sent up to a second later.
const MOST_SETTLING: Duration = Duration::from_millis(1500);
const SETTLING: Duration = Duration::from_millis(100);
/// Where the NIC's MTU is not known.
const USUAL_MTU: u64 = 1500;

/// Where to, and that it is meant.
#[derive(Clone, Debug)]
pub struct NoReceiverSpec {
    /// `ADDRESS[:PORT]`.
    pub to: String,
    pub nic: String,
    /// The user has said so.
    pub agreed: bool,
}

/// One figure. A `Failure` means that nothing was measured.
pub fn conduct_no_receiver(
    mut context: RunContext<'_>,
    order: &NetworkSpec,
    wanted: &NoReceiverSpec,
) -> Result<Run, Failure> {
    let to = target::parse(&wanted.to)?;
    let rate = check(order, wanted)?;
    let own = interface_addresses()
        .map_err(|error| Failure::Lacks(format!("the addresses of this host are not known: {error}")))?;
    let local = target::local_address(to.ip(), &wanted.nic, &own)?;
    let machine = order.probe(&mut context)?;
    let path = path(context.sysroot, &machine, to, local, &wanted.nic);
    let sending = Sending::new(context.sysroot, order, &path, rate, context.stop)?;
    let name = order.name.clone().unwrap_or_else(|| format!("{to}, no receiver"));
    let mut run = Run::begin_stage(Stage::Network, name, machine, order.goal());
    (context.save)(&run)?;
    let host = run.machine.host.known().cloned().unwrap_or_else(|| "this host".into());
    let name = format!("{} udp send, no receiver", path.name);
    let seconds = order.seconds * f64::from(order.repeats);
    context.listener.hear(&Event::Started { stage: Stage::Network, name: name.clone(), seconds });
    let sent = sending.send(&mut context)?;
    run.measurements.push(from_blind(name, host, &path, &sending.job, &sent));
    finish(context, run, order)
}

/// The rate, where the words can be meant.
fn check(order: &NetworkSpec, wanted: &NoReceiverSpec) -> Result<f64, Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    if order.protocols != [Protocol::Udp] {
        return usage("--no-receiver sends UDP alone: give --protocol udp".into());
    }
    let rates = [order.bytes_per_second, order.rate_limit].into_iter().flatten().reduce(f64::min);
    let Some(rate) = rates else {
        return usage(
            "--no-receiver needs a rate, since nobody says what arrives: give --rate, such as 5G".into(),
        );
    };
    let seconds = order.seconds * f64::from(order.repeats);
    if seconds > MOST_SECONDS {
        return usage(format!(
            "--no-receiver sends for {MOST_SECONDS:.0} s at most, and --seconds × --repeats are {seconds:.0} s: \
             give less"
        ));
    }
    if !wanted.agreed {
        return usage(format!(
            "--no-receiver sends {} of UDP for {seconds:.0} s to {}, which nobody there has agreed to: where \
             this network is yours and may have it, give --yes",
            linerate_facts::units::show_bits_rate(rate),
            wanted.to
        ));
    }
    Ok(rate)
}

fn path(sysroot: &Sysroot, machine: &Machine, to: SocketAddr, local: IpAddr, nic: &str) -> PathPlan {
    let found = machine.nics.iter().find(|one| one.name == nic);
    let mut path = paths::way_to(sysroot, machine, to);
    (path.name, path.resource) = (nic.into(), format!("nic:{nic}"));
    (path.nic, path.local) = (Some(nic.into()), local);
    if let Some(found) = found {
        (path.node, path.mtu) = (found.node.clone(), found.mtu.clone());
    }
    path
}

/// What is sent, and over which sockets.
struct Sending<'a> {
    sysroot: &'a Sysroot,
    path: &'a PathPlan,
    nic: String,
    job: StreamsJob,
    spec: StreamSpec,
    sockets: Vec<UdpSocket>,
    windows: u32,
    window: Duration,
}

impl<'a> Sending<'a> {
    fn new(
        sysroot: &'a Sysroot,
        order: &NetworkSpec,
        path: &'a PathPlan,
        rate: f64,
        stop: &Stop,
    ) -> Result<Sending<'a>, Failure> {
        let nic = path.nic.clone().unwrap_or_default();
        let headers = if path.peer.is_ipv6() { HEADERS_V6 } else { HEADERS } - 14;
        let mtu = path.mtu.known().map_or(USUAL_MTU, |mtu| u64::from(*mtu));
        let fits = u32::try_from(mtu.saturating_sub(headers)).unwrap_or(0).clamp(64, 65_507);
        let datagram_bytes = order.datagram_bytes.unwrap_or(fits);
        let streams = order.streams.unwrap_or(1);
        let method = order.method.unwrap_or(usual_method(Protocol::Udp));
        let spec = StreamSpec {
            method,
            write_bytes: 0,
            datagram_bytes,
            bytes_per_second: Some(rate / f64::from(streams)),
            send_buffer_bytes: order.send_buffer_bytes,
            ..StreamSpec::new(Protocol::Udp, StreamRole::Send)
        };
        let job = StreamsJob {
            streams,
            method,
            write_bytes: 0,
            datagram_bytes: Some(datagram_bytes),
            bytes_per_second: Some(rate),
            send_buffer_bytes: order.send_buffer_bytes,
            ..StreamsJob::plain(Protocol::Udp, StreamDirection::Send)
        };
        let sockets: Result<Vec<_>, _> =
            (0..streams).map(|_| socket(path, &nic, order.send_buffer_bytes)).collect();
        let (windows, window) = (order.repeats.max(1), Duration::from_secs_f64(order.seconds));
        let sending = Sending { sysroot, path, nic, job, spec, sockets: sockets?, windows, window };
        sending.await_neighbour(stop)?;
        Ok(sending)
    }

    /// Without a hardware address to send to, the kernel drops everything before the NIC.
    fn await_neighbour(&self, stop: &Stop) -> Result<(), Failure> {
        let (Some(socket), IpAddr::V4(to)) = (self.sockets.first(), self.path.peer.ip()) else {
            return Ok(());
        };
        let begun = clock::now();
        let known = || {
            let table = self.sysroot.text("/proc/net/arp").unwrap_or_default();
            table.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let flags = words.get(2).and_then(|flags| flags.strip_prefix("0x"));
                // ATF_COM: the entry is complete.
                let complete =
                    flags.and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0) & 2 != 0;
                complete
                    && words.first() == Some(&to.to_string().as_str())
                    && words.last() == Some(&self.nic.as_str())
            })
        };
        // Makes the kernel ask.
        let _ = socket.send(&[0]);
        while !known() {
            if clock::since(begun) > NEIGHBOUR {
                return Err(Failure::Lacks(self.no_neighbour()));
            }
            if stop.wait(Duration::from_millis(20)) {
                return Err(Failure::Interrupted);
            }
        }
        Ok(())
    }

    fn no_neighbour(&self) -> String {
        let (to, nic) = (self.path.peer.ip(), &self.nic);
        format!(
            "{to} has no hardware address (ARP), so that nothing leaves by {nic}: name the address of a host that \
             is there, or give it one that the switch drops (`ip neigh replace {to} lladdr 02:00:00:00:00:01 dev \
             {nic}`)"
        )
    }

    /// Sends until the windows are over, or Ctrl-C.
    fn send(&self, context: &mut RunContext<'_>) -> Result<SentBlindly, Failure> {
        let over = Stop::new();
        let counted: Vec<StreamCounters> =
            self.sockets.iter().map(|_| StreamCounters::new(clock::now())).collect();
        let before = self.read();
        let (cpu, begun) = (process_cpu(), clock::now());
        let (samples, ended) = std::thread::scope(|scope| {
            let senders: Vec<_> = (self.sockets.iter().zip(&counted))
                .map(|(socket, counters)| scope.spawn(|| send_blindly(socket, &self.spec, counters, &over)))
                .collect();
            let samples = self.watch(&counted, context, || senders.iter().any(|one| one.is_finished()));
            over.end();
            let lost = || Err(io::Error::other("its thread has ended"));
            let ended: Vec<io::Result<u64>> =
                senders.into_iter().map(|one| one.join().unwrap_or_else(|_| lost())).collect();
            (samples, ended)
        });
        let seconds = clock::since(begun).as_secs_f64();
        let cpu_seconds = process_cpu().saturating_sub(cpu).as_secs_f64();
        let mut unreachable = 0;
        for one in ended {
            unreachable += one.map_err(|error| self.failed(&error))?;
        }
        let counters = self.settled().since(&before);
        let streams = counted.iter().zip(&samples).map(|(one, samples)| self.stream(one, samples, seconds));
        Ok(SentBlindly { counters, streams: streams.collect(), samples, unreachable, seconds, cpu_seconds })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::Lacks(match error.kind() {
            io::ErrorKind::HostUnreachable => self.no_neighbour(),
            _ => format!(
                "sending to {} by {} failed: {error}; is the link up, and do datagrams of {} bytes fit its MTU?",
                self.path.peer, self.nic, self.spec.datagram_bytes
            ),
        })
    }

    /// The rates of each stream in each window.
    fn watch(
        &self,
        counted: &[StreamCounters],
        context: &mut RunContext<'_>,
        ended: impl Fn() -> bool,
    ) -> Vec<Vec<f64>> {
        let windows = WindowSpec { warm_up: Duration::ZERO, window: self.window, repeats: self.windows };
        let mut shown = 0.0;
        let mut tick = |rate: f64| {
            if rate != shown {
                shown = rate;
                context.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second: rate });
            }
            !ended()
        };
        let Ok(observed) = Watch::new(windows, context.stop).observe(&mut BlindMeter(counted), &mut tick);
        // The last window has nobody behind it who would show it.
        if let Some(&bytes_per_second) = observed.samples.last() {
            context.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
        }
        (0..counted.len()).map(|stream| observed.samples_of(stream)).collect()
    }

    fn read(&self) -> NetworkCounters {
        counters::read(self.sysroot, std::slice::from_ref(&self.nic))
    }

    /// When the NIC counts no more of it.
    fn settled(&self) -> NetworkCounters {
        let begun = clock::now();
        let mut last = self.read();
        loop {
            // What has left belongs to the figures, also of a test that was stopped.
            clock::sleep(SETTLING);
            let now = self.read();
            let sent = |of: &NetworkCounters| of.interface(&self.nic).map(|nic| statistic(nic, "tx_packets"));
            if sent(&now) == sent(&last) && clock::since(begun) > 2 * SETTLING
                || clock::since(begun) > MOST_SETTLING
            {
                return now;
            }
            last = now;
        }
    }

    fn stream(&self, counted: &StreamCounters, samples: &[f64], seconds: f64) -> StreamFigure {
        let sample = counted.sample();
        StreamFigure {
            path: self.path.name.clone(),
            direction: StreamDirection::Send,
            bytes_per_second: sample.bytes as f64 / seconds,
            samples: samples.to_vec(),
            sent_bytes: sample.bytes,
            sent_datagrams: sample.datagrams,
            trains: sample.trains,
            refused_sends: sample.refused_sends,
            sender_cpu_share: sample.cpu_nanos as f64 / 1e9 / seconds,
            ..StreamFigure::default()
        }
    }
}

/// Reads what the kernel took of each sender: nobody receives it.
struct BlindMeter<'a>(&'a [StreamCounters]);

impl Meter for BlindMeter<'_> {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        Ok(Some(self.0.iter().map(|counters| counters.progress.mark()).collect()))
    }
}

/// From the NIC's own address, by that NIC, and to no gateway.
fn socket(path: &PathPlan, nic: &str, buffer_bytes: Option<u64>) -> Result<UdpSocket, Failure> {
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddr::new(path.local, 0))?;
        send_on_link_only(&socket)?;
        forbid_fragments(&socket)?;
        // Also without the right to bind to a NIC the address is its own, and only its network is reached.
        let _ = socket2::SockRef::from(&socket).bind_device(Some(nic.as_bytes()));
        if let Some(bytes) = buffer_bytes {
            linerate_system::socket::set_send_buffer(&socket, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
        socket.connect(path.peer)?;
        Ok(socket)
    };
    open().map_err(|error| {
        Failure::Lacks(format!("no way to {} by {nic}: {error}; is the NIC up (`ip link`)?", path.peer))
    })
}
