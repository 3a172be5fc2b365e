//! RDMA between two hosts, measured by perftest at both: linerate starts the one here, the peer's agent the other.
//! `measure_rdma(bench, path, job) -> Measurement`.

use super::product::{Measurement, Stage};
use super::streams::{StreamBench, StreamDirection};
use super::window::WindowObservation;
use crate::event::Event;
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_model::plan::{flow::Method, path_rate};
use linerate_system::clock;
use linerate_transport::agent::AgentSession;
use linerate_transport::perftest::{
    DeviceError, PerftestError, PerftestFigure, PerftestSpec, RdmaOperation, RdmaPort, RunningPerftest, ipv4,
};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Both ends connect, take their memory and exchange their figures beside the test.
const BESIDE: Duration = Duration::from_secs(15);
/// The agent is asked so often whether it is still there: it drops a session that says nothing for a minute.
const ASK: Duration = Duration::from_secs(5);

/// Figures by RDMA that are wanted of each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RdmaJob {
    pub direction: StreamDirection,
    /// Length of one test; perftest takes whole seconds.
    pub seconds: u32,
    /// Tests, each with connections of its own.
    pub repeats: u32,
    pub queue_pairs: u32,
    pub message_bytes: u32,
}

/// What was measured by RDMA, and between which devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RdmaFigure {
    /// Name of its path.
    pub path: String,
    pub direction: StreamDirection,
    /// `ib_write_bw` or `ib_read_bw`, started here.
    pub program: String,
    /// RDMA devices, such as mlx5_0.
    pub device: String,
    pub peer_device: String,
    /// `Ethernet` (RoCE) or `InfiniBand`.
    pub link_layer: String,
    pub queue_pairs: u32,
    pub message_bytes: u64,
    /// Messages that were counted.
    pub messages: u64,
    /// Payload of a full packet, bytes (RDMA's path MTU).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// What the NIC's rate leaves for the payload of RDMA, bytes per second; both directions where both are measured.
    pub ceiling_bytes_per_second: Fact<f64>,
}

/// Why there is no figure: a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RdmaError {
    #[error("on this host {0}")]
    Device(#[from] DeviceError),
    #[error(
        "--protocol rdma needs an IPv4 address of the peer, and {0} is none; perftest finds its server by no other"
    )]
    Ipv6(std::net::IpAddr),
    #[error("on this host {0}")]
    Program(#[from] PerftestError),
    #[error("its end on {host} counts for nothing: {why}")]
    Server { host: String, why: String },
    #[error("{0}")]
    Agent(String),
    #[error("stopped")]
    Stopped,
}

impl RdmaJob {
    fn spec(&self) -> PerftestSpec {
        let operation = match self.direction {
            StreamDirection::Receive => RdmaOperation::Read,
            StreamDirection::Send | StreamDirection::Both => RdmaOperation::Write,
        };
        PerftestSpec {
            operation,
            both_ways: self.direction == StreamDirection::Both,
            seconds: self.seconds,
            queue_pairs: self.queue_pairs,
            message_bytes: self.message_bytes,
        }
    }

    fn name(&self, path: &str) -> String {
        match self.direction {
            StreamDirection::Both => format!("{path} rdma both ways"),
            one => format!("{path} rdma {one}"),
        }
    }
}

/// Whether this host has what it takes on the way to a peer.
pub(crate) fn check_rdma(bench: &StreamBench<'_>) -> Result<(), Failure> {
    for (path, session) in bench.paths.iter().zip(bench.sessions) {
        let lacks = |error: RdmaError| Failure::Lacks(format!("--protocol rdma: {error}"));
        ipv4(path.peer.ip()).ok_or_else(|| lacks(RdmaError::Ipv6(path.peer.ip())))?;
        session.check_rdma()?;
        RdmaPort::find(bench.sysroot, path.local, path.nic.as_deref())
            .map_err(|error| lacks(error.into()))?;
    }
    Ok(())
}

/// All tests of one figure.
pub(crate) fn measure_rdma(
    bench: &mut StreamBench<'_>,
    path: usize,
    job: &RdmaJob,
) -> Result<Measurement, RdmaError> {
    let way = &bench.paths[path];
    let name = job.name(&way.name);
    let seconds = f64::from(job.seconds) * f64::from(job.repeats);
    bench.listener.hear(&Event::Started { stage: Stage::Network, name: name.clone(), seconds });
    let peer = ipv4(way.peer.ip()).ok_or(RdmaError::Ipv6(way.peer.ip()))?;
    let at = RdmaPort::find(bench.sysroot, way.local, way.nic.as_deref())?;
    let (mut figures, mut peer_device) = (Vec::new(), String::new());
    for _ in 0..job.repeats {
        let (figure, device) = test(bench, path, job, &at, peer)?;
        peer_device = device;
        let bytes_per_second = figure.bytes_per_second;
        bench.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
        figures.push(figure);
    }
    let measurement = describe(bench, path, job, (at, peer_device), &figures);
    bench.listener.hear(&Event::Measured(Box::new(measurement.clone())));
    Ok(measurement)
}

/// One test: the server there, the client here, and how both ended.
fn test(
    bench: &StreamBench<'_>,
    path: usize,
    job: &RdmaJob,
    at: &RdmaPort,
    peer: Ipv4Addr,
) -> Result<(PerftestFigure, String), RdmaError> {
    let (session, spec) = (&bench.sessions[path], job.spec());
    let agent = |failure: Failure| RdmaError::Agent(failure.to_string());
    let ready = session.start_rdma(spec).map_err(agent)?;
    let arguments = spec.arguments(at, ready.tcp_port, Some(peer));
    let client = RunningPerftest::start(spec.operation.program(), &arguments);
    let patience = BESIDE + Duration::from_secs(job.seconds.into());
    let mut watched = RdmaWatch { session, bench, asked: clock::now(), lost: None };
    let printed = client.and_then(|client| client.finish(patience, || watched.goes_on()));
    let lost = watched.lost;
    if bench.stopped() {
        // The agent ends its server with the session.
        return Err(RdmaError::Stopped);
    }
    if let Some(lost) = lost {
        return Err(agent(lost));
    }
    let ended = session.end_rdma();
    let text = printed?;
    // A client whose server was killed prints a table all the same, of what it saw until then.
    if let Some(why) = ended.map_err(agent)? {
        return Err(RdmaError::Server { host: session.hello().host.clone(), why });
    }
    let program = spec.operation.program();
    let figure = PerftestFigure::parse(&text).map_err(|why| PerftestError::Output { program, why })?;
    Ok((figure, ready.device))
}

/// Looks meanwhile whether anybody still wants the figure.
struct RdmaWatch<'a, 'b> {
    session: &'a AgentSession,
    bench: &'a StreamBench<'b>,
    asked: Instant,
    /// The agent is gone.
    lost: Option<Failure>,
}

impl RdmaWatch<'_, '_> {
    fn goes_on(&mut self) -> bool {
        if clock::since(self.asked) >= ASK {
            self.asked = clock::now();
            self.lost = self.session.sample().err();
        }
        self.lost.is_none() && !self.bench.stopped()
    }
}

fn describe(
    bench: &StreamBench<'_>,
    path: usize,
    job: &RdmaJob,
    (at, peer_device): (RdmaPort, String),
    figures: &[PerftestFigure],
) -> Measurement {
    let way = &bench.paths[path];
    let messages = figures.iter().map(|figure| figure.messages).fold(0, u64::saturating_add);
    let message_bytes = figures.first().map_or(0, |figure| figure.message_bytes);
    let observation = WindowObservation {
        samples: figures.iter().map(|figure| figure.bytes_per_second).collect(),
        bytes: messages.saturating_mul(message_bytes),
        host: HostUse { seconds: f64::from(job.seconds) * f64::from(job.repeats), ..HostUse::default() },
        ..WindowObservation::default()
    };
    let mut measurement =
        Measurement::of(Stage::Network, job.name(&way.name), way.resource.clone(), &observation);
    let program = job.spec().operation.program();
    measurement.method = format!(
        "{program} of perftest, messages of {} over {}, {} to {peer_device}",
        show_size(message_bytes),
        counted(job.queue_pairs, "queue pair"),
        at.device
    );
    let ways = if job.direction == StreamDirection::Both { 2.0 } else { 1.0 };
    measurement.rdma = Some(Box::new(RdmaFigure {
        path: way.name.clone(),
        direction: job.direction,
        program: program.into(),
        device: at.device,
        peer_device,
        link_layer: at.link_layer,
        queue_pairs: job.queue_pairs,
        message_bytes,
        messages,
        packet_bytes: figures.first().and_then(|figure| figure.packet_bytes),
        ceiling_bytes_per_second: match path_rate(bench.machine, way, Protocol::Tcp, Method::Rdma) {
            Fact::Known(rate) => Fact::Known(ways * rate),
            unknown => unknown,
        },
    }));
    measurement
}
