//! `linerate network --no-receiver`: UDP at a rate to where nobody receives, a switch that drops it, counted
//! by the NICs that it leaves by, all at once, pinned and not.

use super::{NetworkSpec, finish, target};
use crate::event::Event;
use crate::measure::streams::job::usual_method;
use crate::measure::streams::{
    ETHERNET, HEADERS, HEADERS_V6, SentBlindly, StreamDirection, StreamFigure, StreamsJob, all_blind,
    from_blind, statistic,
};
use crate::measure::window::{Meter, Watch, WindowObservation, WindowSpec};
use crate::measure::{Measurement, Stage};
use crate::run::{Run, RunContext, ends};
use linerate_facts::counters::{self, NetworkCounters};
use linerate_facts::failure::Failure;
use linerate_facts::host::{HostSampler, HostUse};
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::{PathPlan, Pin, StreamPlacement, place_streams};
use linerate_system::addresses::interface_addresses;
use linerate_system::affinity::pin_within_allowed;
use linerate_system::clock;
use linerate_system::counters::process_cpu;
use linerate_system::socket::{forbid_fragments, send_on_link_only};
use linerate_system::stop::Stop;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{SendMethod, StreamCounters, StreamRole, StreamSpec, send_blindly};
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
    /// `ADDRESS[:PORT]`, for each of the NICs.
    pub to: Vec<String>,
    pub nics: Vec<String>,
    /// The user has said so.
    pub agreed: bool,
}

/// A figure for each NIC, one for all of them, and the same not pinned where that is asked for. A `Failure` means that
/// nothing was measured.
pub fn conduct_no_receiver(
    mut context: RunContext<'_>,
    spec: &NetworkSpec,
    wanted: &NoReceiverSpec,
) -> Result<Run, Failure> {
    let targets = wanted.to.iter().map(|to| target::parse(to)).collect::<Result<Vec<_>, _>>()?;
    let rate = check(spec, wanted)?;
    let own = interface_addresses()
        .map_err(|error| Failure::Lacks(format!("the addresses of this host are not known: {error}")))?;
    let locals = targets.iter().zip(&wanted.nics).map(|(to, nic)| target::local_address(to.ip(), nic, &own));
    let locals = locals.collect::<Result<Vec<_>, _>>()?;
    let machine = spec.probe(&mut context)?;
    let paths: Vec<PathPlan> = (targets.iter().zip(locals).zip(&wanted.nics))
        .map(|((to, local), nic)| path(context.sysroot, &machine, *to, local, nic))
        .collect();
    let shown: Vec<String> = targets.iter().map(SocketAddr::to_string).collect();
    let name = spec.name.clone().unwrap_or_else(|| format!("{}, no receiver", shown.join(", ")));
    let mut run = Run::begin_stage(Stage::Network, name, machine.clone(), spec.goal());
    (context.save)(&run)?;
    let host = run.machine.host.known().cloned().unwrap_or_else(|| "this host".into());
    for pin in spec.pin.clone() {
        if context.stop.is_ended() {
            break;
        }
        let sending =
            BlindSending::new(context.sysroot, spec, (&machine, &paths), (rate, pin), context.stop)?;
        let name = sending.name("all paths");
        let seconds = spec.seconds * f64::from(spec.repeats);
        context.listener.hear(&Event::Started { stage: Stage::Network, name, seconds });
        let sent = sending.send(&mut context)?;
        run.measurements.extend(sending.figures(&host, &sent));
        // Where this fails, so does the save at the end, which is an error of the run.
        let _ = (context.save)(&run);
    }
    finish(context, run, spec)
}

/// The rate, where the words can be meant.
fn check(spec: &NetworkSpec, wanted: &NoReceiverSpec) -> Result<f64, Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    if spec.protocols != [Protocol::Udp] {
        return usage("--no-receiver sends UDP alone: give --protocol udp".into());
    }
    let (addresses, nics) = (wanted.to.len(), wanted.nics.len());
    if addresses != nics {
        return usage(format!(
            "each --no-receiver has a --nic of its own, in the same order: {addresses} and {nics} are given"
        ));
    }
    if let Some(nic) = wanted.nics.iter().enumerate().find(|(at, nic)| wanted.nics[..*at].contains(nic)) {
        return usage(format!("--nic {} is given twice: what it counts is one figure", nic.1));
    }
    let rates = [spec.bytes_per_second, spec.rate_limit].into_iter().flatten().reduce(f64::min);
    let Some(rate) = rates else {
        return usage(
            "--no-receiver needs a rate, since nobody says what arrives: give --rate, such as 5G".into(),
        );
    };
    let seconds = spec.seconds * f64::from(spec.repeats) * spec.pin.len() as f64;
    if seconds > MOST_SECONDS {
        return usage(format!(
            "--no-receiver sends for {MOST_SECONDS:.0} s at most, and all windows together are {seconds:.0} s: \
             give less of --seconds or --repeats"
        ));
    }
    if !wanted.agreed {
        return usage(format!(
            "--no-receiver sends {} of UDP for {seconds:.0} s to {}, which nobody there has agreed to: where \
             this network is yours and may have it, give --yes",
            linerate_facts::units::show_bits_rate(rate),
            wanted.to.join(" and ")
        ));
    }
    Ok(rate)
}

fn path(sysroot: &Sysroot, machine: &Machine, to: SocketAddr, local: IpAddr, nic: &str) -> PathPlan {
    let found = machine.nic(nic);
    let mut path = ends::way_to(sysroot, machine, to);
    (path.name, path.resource) = (nic.into(), format!("nic:{nic}"));
    (path.nic, path.local) = (Some(nic.into()), local);
    if let Some(found) = found {
        (path.node, path.mtu) = (found.node.clone(), found.mtu.clone());
    }
    path
}

/// One stream and the path that it takes.
struct Sender {
    /// Index of its path.
    path: usize,
    spec: StreamSpec,
    socket: UdpSocket,
}

/// What is sent, and over which sockets.
struct BlindSending<'a> {
    sysroot: &'a Sysroot,
    paths: &'a [PathPlan],
    nics: Vec<String>,
    job: StreamsJob,
    senders: Vec<Sender>,
    windows: u32,
    window: Duration,
}

impl<'a> BlindSending<'a> {
    fn new(
        sysroot: &'a Sysroot,
        network_spec: &NetworkSpec,
        (machine, paths): (&Machine, &'a [PathPlan]),
        (rate, pin): (f64, Pin),
        stop: &Stop,
    ) -> Result<BlindSending<'a>, Failure> {
        let fits = paths.iter().map(fits).min().unwrap_or(64);
        let datagram_bytes = network_spec.datagram_bytes.unwrap_or(fits);
        let streams = network_spec.streams.unwrap_or(1).max(paths.len() as u32);
        // The kernel cuts a train into datagrams that fit, not datagrams into fragments.
        let method = match datagram_bytes > fits {
            true => SendMethod::Datagrams,
            false => network_spec.method.unwrap_or(usual_method(Protocol::Udp)),
        };
        let spec = StreamSpec {
            method,
            write_bytes: 0,
            datagram_bytes,
            bytes_per_second: Some(rate / f64::from(streams)),
            send_buffer_bytes: network_spec.window_bytes,
            ..StreamSpec::new(Protocol::Udp, StreamRole::Send)
        };
        let placed = place_streams(machine, paths, streams, 1, &pin, false);
        let job = StreamsJob {
            streams,
            method,
            write_bytes: 0,
            datagram_bytes: Some(datagram_bytes),
            bytes_per_second: Some(rate),
            send_buffer_bytes: network_spec.window_bytes,
            pin,
            ..StreamsJob::plain(Protocol::Udp, StreamDirection::Send)
        };
        let sender = |place: StreamPlacement| -> Result<Sender, Failure> {
            let path = &paths[place.path];
            let socket = socket(path, datagram_bytes, network_spec.window_bytes)?;
            Ok(Sender { path: place.path, spec: StreamSpec { core: place.core, ..spec.clone() }, socket })
        };
        let senders = placed.into_iter().flatten().map(sender).collect::<Result<Vec<_>, _>>()?;
        let nics = paths.iter().map(|path| path.name.clone()).collect();
        let (windows, window) = (network_spec.repeats.max(1), Duration::from_secs_f64(network_spec.seconds));
        let sending = BlindSending { sysroot, paths, nics, job, senders, windows, window };
        for (at, path) in paths.iter().enumerate() {
            let socket = sending.senders.iter().find(|sender| sender.path == at).map(|sender| &sender.socket);
            sending.await_neighbour(path, socket, stop)?;
        }
        Ok(sending)
    }

    /// `eth0 udp send, not pinned, no receiver`; of one NIC alone its own name is that of all.
    fn name(&self, of: &str) -> String {
        let of = if let [only] = self.paths { only.name.as_str() } else { of };
        let pinned = if self.job.pin == Pin::None { ", not pinned" } else { "" };
        format!("{of} udp send{pinned}, no receiver")
    }

    /// Of each NIC; of several also that of all.
    fn figures(&self, host: &str, (sent, used): &(Vec<SentBlindly>, HostUse)) -> Vec<Measurement> {
        let one = |(path, sent): (&PathPlan, &SentBlindly)| {
            from_blind(self.name(&path.name), host.to_string(), path, &self.job, sent)
        };
        let mut figures: Vec<Measurement> = self.paths.iter().zip(sent).map(one).collect();
        if figures.len() > 1 {
            let all = all_blind(self.name("all paths"), &figures, &self.job, used);
            // The host's own counters are of all NICs together.
            let alone = figures.iter_mut().filter_map(|figure| figure.streams.as_mut());
            alone.for_each(|streams| streams.counters.clear());
            figures.push(all);
        }
        figures
    }

    /// Without a hardware address to send to, the kernel drops everything before the NIC.
    fn await_neighbour(
        &self,
        path: &PathPlan,
        socket: Option<&UdpSocket>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let (Some(socket), IpAddr::V4(to)) = (socket, path.peer.ip()) else { return Ok(()) };
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
                    && words.last() == Some(&path.name.as_str())
            })
        };
        // Makes the kernel ask.
        let _ = socket.send(&[0]);
        while !known() {
            if clock::since(begun) > NEIGHBOUR {
                return Err(Failure::Lacks(no_neighbour(path)));
            }
            if stop.wait(Duration::from_millis(20)) {
                return Err(Failure::Interrupted);
            }
        }
        Ok(())
    }

    /// Sends until the windows are over, or Ctrl-C; what left by each NIC, and what the host did for all of it.
    fn send(&self, context: &mut RunContext<'_>) -> Result<(Vec<SentBlindly>, HostUse), Failure> {
        let over = Stop::new();
        let counted: Vec<StreamCounters> =
            self.senders.iter().map(|_| StreamCounters::new(clock::now())).collect();
        let before = self.read();
        let (cpu, begun) = (process_cpu(), clock::now());
        let (observed, ended) = std::thread::scope(|scope| {
            let senders: Vec<_> = (self.senders.iter().zip(&counted))
                .map(|(sender, counters)| scope.spawn(|| sender.send(counters, &over)))
                .collect();
            let observed = self.watch(&counted, context, || senders.iter().any(|one| one.is_finished()));
            over.end();
            let lost = || Err(io::Error::other("its thread has ended"));
            let ended: Vec<io::Result<u64>> =
                senders.into_iter().map(|one| one.join().unwrap_or_else(|_| lost())).collect();
            (observed, ended)
        });
        let seconds = clock::since(begun).as_secs_f64();
        let cpu_seconds = process_cpu().saturating_sub(cpu).as_secs_f64();
        let unreachable = (self.senders.iter().zip(ended))
            .map(|(sender, ended)| ended.map_err(|error| self.failed(sender, &error)))
            .collect::<Result<Vec<u64>, Failure>>()?;
        let counters = self.settled().since(&before);
        let host = match observed.host.seconds > 0.0 {
            true => observed.host.clone(),
            false => HostUse { seconds, cpu_seconds, ..HostUse::default() },
        };
        let of_path = |path: usize| {
            let own = || (0..self.senders.len()).filter(move |at| self.senders[*at].path == path);
            let streams = own().map(|at| self.stream(at, &counted[at], &observed.samples_of(at), seconds));
            let streams: Vec<StreamFigure> = streams.collect();
            // Of several NICs each has the time of its own senders.
            let cpu_seconds = streams.iter().map(|stream| stream.sender_cpu_share * seconds).sum();
            let alone = HostUse { seconds, cpu_seconds, ..HostUse::default() };
            SentBlindly {
                counters: counters.clone(),
                samples: own().map(|at| observed.samples_of(at)).collect(),
                streams,
                unreachable: own().map(|at| unreachable[at]).sum(),
                host: if self.paths.len() == 1 { host.clone() } else { alone },
            }
        };
        Ok(((0..self.paths.len()).map(of_path).collect(), host.clone()))
    }

    fn failed(&self, sender: &Sender, error: &io::Error) -> Failure {
        let path = &self.paths[sender.path];
        Failure::Lacks(match error.kind() {
            io::ErrorKind::HostUnreachable => no_neighbour(path),
            _ => format!("sending to {} by {} failed: {error}; is the link up?", path.peer, path.name),
        })
    }

    /// The rates of each stream in each window, and what the host did.
    fn watch(
        &self,
        counted: &[StreamCounters],
        context: &mut RunContext<'_>,
        ended: impl Fn() -> bool,
    ) -> WindowObservation {
        let windows = WindowSpec { warm_up: Duration::ZERO, window: self.window, repeats: self.windows };
        let mut shown = 0.0;
        let mut tick = |rate: f64| {
            if rate != shown {
                shown = rate;
                context.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second: rate });
            }
            !ended()
        };
        let watch = Watch::new(windows, context.stop).beside(HostSampler::of_cpus(self.sysroot));
        let Ok(observed) = watch.observe(&mut BlindMeter(counted), &mut tick);
        // The last window has nobody behind it who would show it.
        if let Some(&bytes_per_second) = observed.samples.last() {
            context.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
        }
        observed
    }

    fn read(&self) -> NetworkCounters {
        counters::read(self.sysroot, &self.nics)
    }

    /// When the NICs count no more of it.
    fn settled(&self) -> NetworkCounters {
        let begun = clock::now();
        let mut last = self.read();
        loop {
            // What has left belongs to the figures, also of a test that was stopped.
            clock::sleep(SETTLING);
            let now = self.read();
            let sent = |of: &NetworkCounters| -> u64 {
                let nics = self.nics.iter().filter_map(|nic| of.interface(nic));
                nics.map(|nic| statistic(nic, "tx_packets")).sum()
            };
            if sent(&now) == sent(&last) && clock::since(begun) > 2 * SETTLING
                || clock::since(begun) > MOST_SETTLING
            {
                return now;
            }
            last = now;
        }
    }

    fn stream(&self, at: usize, counted: &StreamCounters, samples: &[f64], seconds: f64) -> StreamFigure {
        let sample = counted.sample();
        let sender = &self.senders[at];
        StreamFigure {
            path: self.paths[sender.path].name.clone(),
            direction: StreamDirection::Send,
            bytes_per_second: sample.bytes as f64 / seconds,
            samples: samples.to_vec(),
            sent_bytes: sample.bytes,
            sent_datagrams: sample.datagrams,
            trains: sample.trains,
            refused_sends: sample.refused_sends,
            sender_cpu_share: sample.cpu_nanos as f64 / 1e9 / seconds,
            core: sender.spec.core,
            ..StreamFigure::default()
        }
    }
}

impl Sender {
    fn send(&self, counters: &StreamCounters, over: &Stop) -> io::Result<u64> {
        if let Some(core) = self.spec.core {
            // A core that is taken away meanwhile is not a reason to send nothing.
            let _ = pin_within_allowed(core);
        }
        send_blindly(&self.socket, &self.spec, counters, over)
    }
}

fn no_neighbour(path: &PathPlan) -> String {
    let (to, nic) = (path.peer.ip(), &path.name);
    format!(
        "{to} has no hardware address (ARP), so that nothing leaves by {nic}: name the address of a host that \
         is there, or give it one that the switch drops (`ip neigh replace {to} lladdr 02:00:00:00:00:01 dev \
         {nic}`)"
    )
}

/// Payload of the largest datagram that this path carries in one packet.
fn fits(path: &PathPlan) -> u32 {
    let headers = if path.peer.is_ipv6() { HEADERS_V6 } else { HEADERS } - ETHERNET;
    let mtu = path.mtu.known().map_or(USUAL_MTU, |mtu| u64::from(*mtu));
    u32::try_from(mtu.saturating_sub(headers)).unwrap_or(0).clamp(64, 65_507)
}

/// Reads what the kernel took of each sender: nobody receives it.
struct BlindMeter<'a>(&'a [StreamCounters]);

impl Meter for BlindMeter<'_> {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        Ok(Some(self.0.iter().map(|counters| counters.progress.mark()).collect()))
    }
}

/// From the NIC's own address, by that NIC, and to no gateway. A datagram that fits is one packet or none; a larger one goes
/// in fragments, as it would for iperf.
fn socket(path: &PathPlan, datagram_bytes: u32, buffer_bytes: Option<u64>) -> Result<UdpSocket, Failure> {
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddr::new(path.local, 0))?;
        send_on_link_only(&socket)?;
        if datagram_bytes <= fits(path) {
            forbid_fragments(&socket)?;
        }
        // Also without the right to bind to a NIC the address is its own, and only its network is reached.
        let _ = socket2::SockRef::from(&socket).bind_device(Some(path.name.as_bytes()));
        if let Some(bytes) = buffer_bytes {
            linerate_system::socket::set_send_buffer(&socket, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        }
        socket.connect(path.peer)?;
        Ok(socket)
    };
    open().map_err(|error| {
        let (peer, nic) = (path.peer, &path.name);
        Failure::Lacks(format!("no way to {peer} by {nic}: {error}; is the NIC up (`ip link`)?"))
    })
}
