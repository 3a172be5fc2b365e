//! `linerate network`: what is asked of it, and whether it can be meant; then ways to the peers, RDMA where it is asked for, a
//! short calibration, each protocol in each direction over all NICs at once; what each path carries in one packet, what
//! a request takes beside the bulk, and both hosts' counters before and after.

mod iperf3;
mod no_receiver;
mod steps;
mod target;

use super::context::cut_at_stop;
use super::{Run, RunContext, ends};
use crate::diagnose::ledger::ledgers;
use crate::measure::rdma::check_rdma;
use crate::measure::streams::{SendMethod, StreamBench, StreamDirection};
use crate::measure::{Stage, WindowSpec};
pub use iperf3::conduct_iperf3;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::flow::Method;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::{Goal, PathPlan, Pin, path_rate};
use linerate_transport::agent::AgentSession;
pub use no_receiver::{NoReceiverSpec, conduct_no_receiver};
use std::path::PathBuf;
use std::time::Duration;
use steps::Steps;

/// TCP and the UDP window find their rate in this time, seconds.
const WARM_UP_SECONDS: f64 = 0.5;

/// Does all of it. A `Failure` means that nothing was measured; what fails later is in `Run::errors`.
pub fn conduct_network(mut context: RunContext<'_>, spec: &NetworkSpec) -> Result<Run, Failure> {
    let machine = spec.probe(&mut context)?;
    let (sysroot, stop) = (context.sysroot, context.stop);
    let mut prepared = ends::prepare_paths(sysroot, &machine, &spec.peers, spec.key_file.as_deref(), stop)?;
    let protocol = spec.protocols.first().copied().unwrap_or(linerate_facts::protocol::Protocol::Tcp);
    for path in &mut prepared.plans {
        path.rate = path_rate(&machine, path, protocol, Method::Direct);
    }
    context.say_devices(&machine, &prepared.plans, &[]);
    let mut run =
        Run::begin_stage(Stage::Network, spec.called(&prepared.plans), machine.clone(), spec.goal());
    (context.save)(&run)?;
    let loopback = ends::all_over_loopback(&machine, &prepared.plans);
    let bench = StreamBench {
        sysroot,
        machine: &machine,
        paths: &prepared.plans,
        sessions: &prepared.sessions,
        loopback,
        bind_device: spec.bind_device,
        trace_drops: spec.trace_drops,
        rate_limit: spec.rate_limit,
        idle: spec.idle,
        windows: WindowSpec {
            warm_up: Duration::from_secs_f64(WARM_UP_SECONDS),
            window: Duration::from_secs_f64(spec.seconds),
            repeats: spec.repeats.max(1),
        },
        losses: LossCount::default(),
        opened: Vec::new(),
        stop,
        listener: &mut *context.listener,
    };
    if spec.rdma {
        check_rdma(&bench)?;
    }
    let cutters = prepared.sessions.iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || {
        Steps { bench, spec, run: &mut run, save: &mut *context.save }.take();
    });
    finish(context, run, spec)
}

fn finish(mut context: RunContext<'_>, mut run: Run, spec: &NetworkSpec) -> Result<Run, Failure> {
    run.ledgers = ledgers(&run.measurements);
    if spec.verify {
        let unequal = unequal(&run);
        run.errors.extend(unequal);
    }
    context.finish(run)
}

/// Figures whose bytes did not arrive as they were sent.
fn unequal(run: &Run) -> Vec<String> {
    let streams = |measurement: &crate::measure::Measurement| {
        measurement
            .streams
            .as_ref()
            .map_or(0, |result| result.streams.iter().filter(|stream| stream.verified == Some(false)).count())
    };
    let wrong = run.measurements.iter().filter(|measurement| streams(measurement) > 0);
    wrong
        .map(|measurement| {
            format!(
                "{}: on {} of its streams the bytes that arrived are not those that were sent",
                measurement.name,
                streams(measurement)
            )
        })
        .collect()
}

/// What to measure, and how often.
#[derive(Clone, Debug, Default)]
pub struct NetworkSpec {
    /// What the user calls it; none: the peers.
    pub name: Option<String>,
    /// Empty: a receiver of our own on loopback.
    pub peers: Vec<String>,
    pub key_file: Option<PathBuf>,
    pub protocols: Vec<Protocol>,
    /// By RDMA as well.
    pub rdma: bool,
    pub directions: Vec<StreamDirection>,
    /// In each direction, over all paths; none: one a path, or what a way that loses packets is better with.
    pub streams: Option<u32>,
    /// A file to send as well, from the page cache and past it.
    pub source: Option<PathBuf>,
    /// None: the best of some short trials.
    pub method: Option<SendMethod>,
    pub write_bytes: Option<u32>,
    pub datagram_bytes: Option<u32>,
    /// Over all streams of a direction, bytes of payload per second.
    pub bytes_per_second: Option<f64>,
    /// The most that all streams move together, both directions with it, bytes of payload per second.
    pub rate_limit: Option<f64>,
    /// Our ends take only what nobody else wants of the CPUs.
    pub idle: bool,
    /// Search the highest rate of UDP without loss on each path.
    pub find_rate: bool,
    pub congestion_control: Option<String>,
    /// Socket buffers to ask for at both ends.
    pub window_bytes: Option<u64>,
    /// Each figure is taken with each of these.
    pub pin: Vec<Pin>,
    /// Each figure of TCP once more with receivers that do not copy.
    pub skip_receive_copy: bool,
    pub verify: bool,
    /// Round trips, idle and beside the bulk.
    pub latency: bool,
    pub bind_device: bool,
    pub trace_drops: bool,
    pub seconds: f64,
    pub repeats: u32,
}

impl NetworkSpec {
    /// The machine, on which the order can be carried out.
    fn probe(&self, context: &mut RunContext<'_>) -> Result<Machine, Failure> {
        let machine = context.probe();
        self.check(&machine)?;
        if let Some(name) = &self.congestion_control {
            ends::check_congestion_control(context.sysroot, name)?;
        }
        Ok(machine)
    }

    /// What was asked for, as far as a whole run has words for it; each job is in its measurement.
    fn goal(&self) -> Goal {
        Goal {
            sources: self.source.iter().cloned().collect(),
            peers: self.peers.clone(),
            protocols: self.protocols.clone(),
            seconds: Some(self.seconds),
            repeats: self.repeats,
            datagram_bytes: self.datagram_bytes,
            congestion_control: self.congestion_control.clone(),
            verify: self.verify,
            rate_limit: self.rate_limit,
            idle: self.idle,
            ..Goal::default()
        }
    }

    /// What cannot be meant is said before anything is connected.
    fn check(&self, machine: &Machine) -> Result<(), Failure> {
        self.check_rdma()?;
        for pin in &self.pin {
            let Pin::Cores(list) = pin else { continue };
            let online = |core: &u32| machine.cpu.logical.iter().any(|cpu| cpu.id == *core && cpu.online);
            if let Some(absent) = list.iter().find(|core| !online(core)) {
                return Err(Failure::Lacks(format!(
                    "--pin: this machine has no processor {absent} online; `linerate probe` lists those that \
                     it has"
                )));
            }
        }
        if self.source.is_some() {
            self.check_source_is_sent()?;
        }
        if let Some(source) = &self.source {
            let source_error = |why: String| Failure::Lacks(format!("--source {}: {why}", source.display()));
            let found = std::fs::metadata(source).map_err(|error| source_error(error.to_string()))?;
            if !found.is_file() || found.len() == 0 {
                return Err(source_error(
                    "not a file with something in it; give one, such as a large file of the kind you serve"
                        .into(),
                ));
            }
        }
        if self.find_rate && !self.protocols.contains(&Protocol::Udp) {
            return Err(Failure::Usage(
                "--find-rate searches the highest rate of UDP without loss; TCP finds its rate itself: leave \
                 --protocol tcp away".into(),
            ));
        }
        Ok(())
    }

    /// A file goes out over TCP and from here; an order that has neither would measure everything but the
    /// file.
    fn check_source_is_sent(&self) -> Result<(), Failure> {
        let why = if self.find_rate {
            "--find-rate searches with datagrams from memory and sends no file; leave one of the two away"
        } else if !self.protocols.contains(&Protocol::Tcp) {
            "a file goes over TCP, where every byte of it arrives; leave --protocol udp away, or stream it \
             over UDP with `linerate run \
             --protocol udp`"
        } else if !self.directions.contains(&StreamDirection::Send) {
            "a file is sent from this host; give --direction send, or run linerate on the other host"
        } else {
            return Ok(());
        };
        Err(Failure::Usage(format!("--source: {why}")))
    }

    /// The user's name, or the peers'.
    fn called(&self, paths: &[PathPlan]) -> String {
        self.name.clone().unwrap_or_else(|| {
            let peers: Vec<String> = paths.iter().map(|path| path.peer.ip().to_string()).collect();
            if self.peers.is_empty() { "loopback".into() } else { peers.join(", ") }
        })
    }
}
