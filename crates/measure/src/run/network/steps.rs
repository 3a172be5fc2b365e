//! The figures of `linerate network`, in their order: what each path carries, idle latency, calibration, those by RDMA
//! where they are asked for (each path in each direction, one after another, so that those of TCP are side by side with
//! them), then the figures themselves.

use super::NetworkSpec;
use crate::event::Event;
use crate::measure::rdma::{RdmaError, RdmaJob, measure_rdma};
use crate::measure::streams::{
    MethodTrial, PathMtu, RateSearch, RoundTrips, SenderSource, StreamBench, StreamDirection, StreamsJob,
    StreamsResult, choose_method, choose_peer_method, choose_streams, compare_congestion_controls,
    find_path_mtus, find_rate, idle_latency, measure, measure_quietly,
};
use crate::measure::{Measurement, Stage, StreamTrial};
use crate::run::{Run, Save};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_transport::agent::AgentSession;

/// Trials and openings beside the figures, seconds: for the progress line.
const TRIALS_SECONDS: f64 = 5.0;

/// Bytes of one message of RDMA, where nobody names them: perftest's own.
const MESSAGE_BYTES: u32 = 64 << 10;

/// Everything that the steps share.
pub(super) struct Steps<'a, 'b> {
    pub bench: StreamBench<'a>,
    pub spec: &'a NetworkSpec,
    pub run: &'b mut Run,
    pub save: Save<'b>,
}

/// What was learned before the figures of a protocol.
#[derive(Default)]
struct Learned {
    methods: Vec<MethodTrial>,
    /// Of what the agents send.
    peer_methods: Vec<MethodTrial>,
    congestion_controls: Vec<MethodTrial>,
    streams: Vec<StreamTrial>,
    idle: Option<RoundTrips>,
    path_mtus: Vec<PathMtu>,
}

impl Steps<'_, '_> {
    pub(crate) fn take(mut self) {
        self.expect();
        self.rdma_figures();
        let path_mtus = find_path_mtus(&mut self.bench);
        for protocol in self.spec.protocols.clone() {
            if self.stopped() {
                return;
            }
            let mut job = self.job(protocol);
            let mut learned = Learned { path_mtus: path_mtus.clone(), ..Learned::default() };
            if job.datagram_bytes.is_none() && protocol == Protocol::Udp {
                job.datagram_bytes = smallest_datagram(&path_mtus);
            }
            if self.spec.find_rate && protocol == Protocol::Tcp {
                continue;
            }
            self.learn(&mut job, &mut learned);
            if self.spec.find_rate {
                self.search(&job, &learned);
                continue;
            }
            for direction in &self.spec.directions {
                let mut job = directed(&job, *direction);
                if *direction != StreamDirection::Send {
                    // What the way from there loses is not known, and both ways have as many.
                    (job.streams, job.pacing_bytes_per_second) = (self.job(protocol).streams, None);
                }
                self.figures(&job, &learned);
            }
            self.file_figures(&job, &learned);
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.bench.stop.is_ended()
    }

    /// Tells the progress line how long all of it takes.
    fn expect(&mut self) {
        let spec = self.spec;
        let each = self.bench.windows.total().as_secs_f64() + 0.5;
        let pinnings = spec.pin.len() as f64 * if spec.skip_receive_copy { 2.0 } else { 1.0 };
        let figures = (spec.protocols.len() * spec.directions.len()) as f64 * pinnings;
        // Its ends connect for each test.
        let by_rdma = (spec.seconds.ceil() + 1.0) * f64::from(spec.repeats) * self.bench.paths.len() as f64;
        let by_rdma = if spec.rdma { by_rdma * spec.directions.len() as f64 } else { 0.0 };
        let seconds = figures * each + by_rdma + TRIALS_SECONDS;
        self.bench.listener.hear(&Event::Remaining { seconds });
    }

    fn job(&self, protocol: Protocol) -> StreamsJob {
        let spec = self.spec;
        let plain = StreamsJob::plain(protocol, StreamDirection::Send);
        StreamsJob {
            streams: spec.streams.unwrap_or(1).max(self.bench.paths.len() as u32),
            method: spec.method.filter(|method| method.is_for(protocol)).unwrap_or(plain.method),
            write_bytes: spec.write_bytes.unwrap_or(plain.write_bytes),
            datagram_bytes: spec.datagram_bytes,
            bytes_per_second: spec.bytes_per_second,
            congestion_control: spec.congestion_control.clone().filter(|_| protocol == Protocol::Tcp),
            send_buffer_bytes: spec.window_bytes,
            receive_buffer_bytes: spec.window_bytes,
            pin: spec.pin.first().cloned().unwrap_or_default(),
            // Datagrams carry no checksum of our own.
            verify: spec.verify && protocol == Protocol::Tcp,
            latency: spec.latency,
            ..plain
        }
    }

    fn learn(&mut self, job: &mut StreamsJob, learned: &mut Learned) {
        if self.spec.latency {
            learned.idle = idle_latency(&mut self.bench, job);
        }
        if job.protocol == Protocol::Udp {
            return;
        }
        if self.spec.method.is_none() && self.spec.write_bytes.is_none() {
            // A receiver of our own is this very host: what is best for us is best for it.
            let own = self.bench.loopback;
            let any = |sending: bool| self.spec.directions.iter().any(|one| one.has(sending));
            let (sends, receives) = (any(true), any(false));
            if sends || own {
                learned.methods = choose_method(&mut self.bench, job);
            }
            if receives && !own {
                learned.peer_methods = choose_peer_method(&mut self.bench, job);
            }
        }
        if self.spec.congestion_control.is_none() && !self.stopped() {
            // The user has asked for the figures of this way, however long it is.
            let compared = compare_congestion_controls(&mut self.bench, job, f64::INFINITY);
            learned.congestion_controls = compared.unwrap_or_default();
        }
        let sends = self.spec.directions.iter().any(|one| one.has(true));
        if self.spec.streams.is_none() && sends && job.bytes_per_second.is_none() && !self.stopped() {
            learned.streams = choose_streams(&mut self.bench, job);
        }
    }

    /// The figure, and where it is asked for the same without pinning.
    fn figures(&mut self, job: &StreamsJob, learned: &Learned) {
        for pin in self.spec.pin.clone() {
            if self.stopped() {
                return;
            }
            let job = StreamsJob { pin, ..job.clone() };
            let mut measured = measure(&mut self.bench, &job);
            if let Some(figure) = &mut measured.measurement {
                measured.failures.extend(self.network_only(&job, figure));
            }
            self.keep(measured.measurement, measured.failures, learned, None);
        }
    }

    /// The same streams with receivers that do not copy, beside a figure; what failed.
    fn network_only(&mut self, job: &StreamsJob, figure: &mut Measurement) -> Vec<String> {
        if !self.spec.skip_receive_copy || job.protocol != Protocol::Tcp || self.stopped() {
            return Vec::new();
        }
        let copies = self.bench.sessions.iter().map(AgentSession::hello).find(|hello| !hello.discards);
        if let (Some(agent), true) = (copies, job.direction.has(true)) {
            return vec![format!(
                "{}: --skip-receive-copy: the agent on {} (version {}) cannot count without copying; update it",
                figure.name, agent.host, agent.version
            )];
        }
        let job = StreamsJob { skip_receive_copy: true, latency: false, ..job.clone() };
        let measured = measure_quietly(&mut self.bench, &job);
        if let (Some(alone), Some(result)) = (measured.measurement, &mut figure.streams) {
            result.network_only_bytes_per_second = Some(alone.bytes_per_second);
            result.network_only_samples = alone.samples;
        }
        measured.failures.into_iter().map(|why| format!("{}, without copying: {why}", figure.name)).collect()
    }

    /// The same file from the page cache and past it, after the figure from memory: hot, cached and cold side
    /// by side.
    fn file_figures(&mut self, job: &StreamsJob, learned: &Learned) {
        let Some(source) = self.spec.source.clone() else { return };
        if job.protocol == Protocol::Udp || !self.spec.directions.contains(&StreamDirection::Send) {
            return;
        }
        for behind in [SenderSource::Cached(source.clone()), SenderSource::Cold(source)] {
            if self.stopped() {
                return;
            }
            let mut job =
                StreamsJob { behind, direction: StreamDirection::Send, latency: false, ..job.clone() };
            let mut learned = Learned { idle: learned.idle, ..Learned::default() };
            if self.spec.method.is_none() && self.spec.write_bytes.is_none() {
                learned.methods = choose_method(&mut self.bench, &mut job);
            }
            let measured = measure(&mut self.bench, &job);
            self.keep(measured.measurement, measured.failures, &learned, None);
        }
    }

    fn search(&mut self, job: &StreamsJob, learned: &Learned) {
        for path in 0..self.bench.paths.len() {
            if self.stopped() {
                return;
            }
            let name = format!("{} udp, highest rate without loss", self.bench.paths[path].name);
            let seconds = 20.0;
            self.bench.listener.hear(&Event::Started { stage: Stage::Network, name, seconds });
            let job = StreamsJob { path: Some(path), latency: false, ..job.clone() };
            let (search, measurement, mut failures) = find_rate(&mut self.bench, &job);
            if self.stopped() {
                // What the stop tears down is not news.
                failures.clear();
            }
            self.keep(measurement, failures, learned, Some(search));
        }
    }

    fn keep(
        &mut self,
        measurement: Option<Measurement>,
        failures: Vec<String>,
        learned: &Learned,
        search: Option<RateSearch>,
    ) {
        for failure in failures {
            if !self.run.errors.contains(&failure) {
                self.run.errors.push(failure);
            }
        }
        let Some(mut measurement) = measurement else { return };
        measurement.congestion_controls.clone_from(&learned.congestion_controls);
        measurement.stream_trials.clone_from(&learned.streams);
        if let Some(result) = &mut measurement.streams {
            learned.fill(result);
            result.search = search;
        }
        self.keep_figure(measurement);
    }

    pub(super) fn keep_figure(&mut self, measurement: Measurement) {
        self.run.measurements.push(measurement);
        if let Err(failure) = (self.save)(self.run) {
            self.bench.listener.hear(&Event::Failed(failure.to_string()));
        }
    }
}

impl Learned {
    fn fill(&self, result: &mut StreamsResult) {
        // Of those that sent in this figure; on loopback ours stand for both.
        let direction = result.job.direction;
        if direction.has(true) || self.peer_methods.is_empty() {
            result.methods.clone_from(&self.methods);
        }
        if direction.has(false) {
            result.methods.extend(self.peer_methods.iter().cloned());
        }
        result.idle_latency = self.idle;
        result.path_mtus.clone_from(&self.path_mtus);
    }
}

/// The job in one direction: where only the agents send, by what was chosen for them.
fn directed(job: &StreamsJob, direction: StreamDirection) -> StreamsJob {
    let mut job = StreamsJob { direction, ..job.clone() };
    if let (StreamDirection::Receive, Some(peer)) = (direction, job.peer) {
        (job.method, job.write_bytes) = (peer.method, peer.write_bytes);
    }
    if direction == StreamDirection::Send {
        job.peer = None;
    }
    job
}

/// The payload that passes every path in one packet, where one was found smaller than its interfaces say.
fn smallest_datagram(mtus: &[PathMtu]) -> Option<u32> {
    mtus.iter().filter(|path| path.smaller_than_declared()).filter_map(PathMtu::datagram_bytes).min()
}

impl Steps<'_, '_> {
    pub(super) fn rdma_figures(&mut self) {
        if !self.spec.rdma {
            return;
        }
        for direction in self.spec.directions.clone() {
            for path in 0..self.bench.paths.len() {
                if self.stopped() {
                    return;
                }
                let job = rdma_job(self.spec, direction);
                match measure_rdma(&mut self.bench, path, &job) {
                    Ok(measurement) => self.keep_figure(measurement),
                    Err(RdmaError::Stopped) => return,
                    Err(why) => {
                        let failure = format!("{} rdma {direction}: {why}", self.bench.paths[path].name);
                        self.bench.listener.hear(&Event::Failed(failure.clone()));
                        self.run.errors.push(failure);
                    }
                }
            }
        }
    }
}

fn rdma_job(spec: &NetworkSpec, direction: StreamDirection) -> RdmaJob {
    RdmaJob {
        direction,
        seconds: spec.seconds.ceil() as u32,
        repeats: spec.repeats.max(1),
        queue_pairs: spec.streams.unwrap_or(1),
        message_bytes: spec.write_bytes.unwrap_or(MESSAGE_BYTES),
    }
}

impl NetworkSpec {
    /// What perftest cannot do is said before anything is connected.
    pub(super) fn check_rdma(&self) -> Result<(), Failure> {
        if !self.rdma {
            return Ok(());
        }
        let with = [
            (self.rate_limit.is_some(), "--rate-limit"),
            (self.bytes_per_second.is_some(), "--rate"),
            (self.verify, "--verify"),
            (self.source.is_some(), "--source"),
        ];
        if let Some((_, option)) = with.iter().find(|(given, _)| *given) {
            return Err(Failure::Usage(format!(
                "--protocol rdma has perftest move memory as fast as it goes, for which there is no {option}; leave one of \
                 the two away"
            )));
        }
        if self.peers.is_empty() {
            return Err(Failure::Usage(
                "--protocol rdma needs another host: start `linerate agent` there and name it with --peer"
                    .into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::protocol::Protocol;
    use linerate_model::plan::Pin;

    fn spec() -> NetworkSpec {
        NetworkSpec {
            peers: vec!["192.0.2.7".into()],
            protocols: vec![Protocol::Tcp],
            rdma: true,
            directions: vec![StreamDirection::Send],
            streams: Some(4),
            pin: vec![Pin::Auto],
            seconds: 0.5,
            repeats: 3,
            ..NetworkSpec::default()
        }
    }

    #[test]
    fn perftest_is_given_whole_seconds_and_the_streams_as_queue_pairs() {
        let job = rdma_job(&spec(), StreamDirection::Receive);
        assert_eq!((job.seconds, job.repeats, job.queue_pairs, job.message_bytes), (1, 3, 4, 65536));
    }

    #[test]
    fn what_perftest_cannot_do_is_refused() {
        assert!(spec().check_rdma().is_ok());
        let why = |spec: NetworkSpec| spec.check_rdma().expect_err("refused").to_string();
        assert!(why(NetworkSpec { rate_limit: Some(1e6), ..spec() }).contains("there is no --rate-limit"));
        assert!(why(NetworkSpec { verify: true, ..spec() }).contains("there is no --verify"));
        assert!(why(NetworkSpec { peers: Vec::new(), ..spec() }).contains("name it with --peer"));
        let without = NetworkSpec { rdma: false, peers: Vec::new(), verify: true, ..spec() };
        assert!(without.check_rdma().is_ok());
    }
}
