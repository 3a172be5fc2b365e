//! Running streams, watched: rates between completions at the receivers, in windows back to back; then ended
//! so that every datagram is accounted for.
//!
//! The order of the end matters. Senders of our own stop first and say how much they sent; receivers at the
//! agents take what is still on its way; then the agents' senders stop, and our receivers take theirs.

use super::job::StreamDirection;
use super::open::{Connected, Wanted};
use super::{HostCounters, StreamBench, between_counters, read_host_counters};
use crate::event::Event;
use crate::measure::Stage;
use crate::measure::access::Series;
use crate::measure::lossy_path::LossWatch;
use crate::measure::peer_figures::FarHosts;
use crate::measure::running::started;
use crate::measure::window::{Meter, RateGlance, Watch, WindowObservation};
use linerate_facts::counters::{AgentProcess, DropReasons};
use linerate_facts::host::HostSampler;
use linerate_model::plan::long_path::LossCount;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::connection;
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, TestSample};
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{
    Content, RunningStream, StreamCounters, StreamSample, StreamSocket, start,
};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is on its way when a sender stops arrives within this, or is lost.
const ARRIVAL: Duration = Duration::from_millis(1000);

/// A stream while it runs and after.
pub(super) struct StreamWatch {
    pub wanted: Wanted,
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    counters: Arc<StreamCounters>,
    running: Option<RunningStream>,
    /// Of TCP, where our end sends, until it is told to stop; and what was seen of its losses as they came.
    connection: Option<TcpStream>,
    losses: LossWatch,
    /// At the begin of the first window and at the end of the last; then what both ends had when they had ended.
    first: BothEnds,
    last: BothEnds,
    pub end: BothEnds,
    /// Rate of each window.
    pub samples: Vec<f64>,
}

/// What our end of a stream and the peer's have counted.
#[derive(Clone, Debug, Default)]
pub(super) struct BothEnds {
    pub own: StreamSample,
    peer: StreamSample,
}

/// What was seen of a job.
pub(super) struct Observed {
    pub streams: Vec<StreamWatch>,
    pub windows: WindowObservation,
    /// What the agents reported around the windows.
    pub far: FarHosts,
    /// What the hosts' kernels counted from before the first byte to after the last.
    pub counters: Vec<HostCounters>,
    pub failures: Vec<String>,
    /// Of short windows, bytes per second at our ends; and how long each was.
    pub rates: Vec<f64>,
    pub short_window_seconds: f64,
}

/// All streams started.
pub(super) struct RunningStreams<'a, 'b> {
    bench: &'a mut StreamBench<'b>,
    streams: Vec<StreamWatch>,
    started: Instant,
    stop_senders: Arc<Stop>,
    stop_receivers: Arc<Stop>,
    /// The agents' samples just before our senders started, and around the windows.
    before: Vec<Option<TestSample>>,
    far: FarHosts,
    counters: Vec<Option<HostCounters>>,
    /// Of our own drops, while the streams run.
    reasons: DropReasons,
    failures: Vec<String>,
    /// Bytes that our ends moved in the windows, at even distances of time.
    series: Series,
    /// When the first window began, and the bytes until then.
    first_window: Option<(Instant, u64)>,
    glance: RateGlance,
}

impl StreamWatch {
    fn sends(&self) -> bool {
        self.wanted.direction() == StreamDirection::Send
    }

    fn received<'s>(&self, both_ends: &'s BothEnds) -> &'s StreamSample {
        if self.sends() { &both_ends.peer } else { &both_ends.own }
    }

    /// How far the receiver is.
    fn mark(&self) -> Mark {
        self.received(&self.last).mark()
    }

    /// Bytes per second at the receiver, over all windows.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.mark().rate_since(&self.received(&self.first).mark())
    }

    /// What both ends had counted in the end: sender, receiver.
    pub(crate) fn ends(&self) -> (&StreamSample, &StreamSample) {
        let BothEnds { own, peer } = &self.end;
        if self.sends() { (own, peer) } else { (peer, own) }
    }

    /// Its losses among its segments, where our end sent by TCP.
    pub(crate) fn loss_count(&self) -> LossCount {
        let tcp = self.end.own.tcp.as_ref();
        self.losses.count(tcp.map_or(0, |tcp| tcp.segment_bytes))
    }

    /// CPU time of the sender's and the receiver's thread ÷ time of the windows.
    pub(crate) fn cpu_shares(&self, seconds: f64) -> (f64, f64) {
        let share = |late: &StreamSample, early: &StreamSample| {
            (late.cpu_nanos.saturating_sub(early.cpu_nanos) as f64 * 1e-9 / seconds.max(1e-9)).min(1.0)
        };
        let (first, last) = (&self.first, &self.last);
        let (own, peer) = (share(&last.own, &first.own), share(&last.peer, &first.peer));
        if self.sends() { (own, peer) } else { (peer, own) }
    }
}

/// Of a stream by TCP whose sender is ours.
fn sender_connection(socket: &StreamSocket, sends: bool) -> Option<TcpStream> {
    match socket {
        StreamSocket::Tcp(stream) if sends => stream.try_clone().ok(),
        _ => None,
    }
}

impl<'a, 'b> RunningStreams<'a, 'b> {
    /// Starts our ends. `contents`: what each sends, in their order.
    pub(crate) fn start(
        bench: &'a mut StreamBench<'b>,
        connected: Vec<Connected>,
        contents: Vec<Content>,
    ) -> Self {
        let mut running = RunningStreams {
            reasons: match bench.trace_drops {
                true => DropReasons::start(bench.sysroot),
                false => DropReasons::none("not traced: --trace-drops does"),
            },
            far: FarHosts::new(bench.sessions),
            bench,
            streams: Vec::new(),
            started: clock::now(),
            stop_senders: Arc::default(),
            stop_receivers: Arc::default(),
            before: Vec::new(),
            counters: Vec::new(),
            failures: Vec::new(),
            series: Series::new(),
            first_window: None,
            glance: RateGlance::new(0),
        };
        running.counters = read_host_counters(running.bench, &running.reasons);
        let sample = |session: &AgentSession| session.sample().ok();
        running.before = running.bench.sessions.iter().map(sample).collect();
        let clock = clock::now();
        for (Connected { wanted, socket }, content) in connected.into_iter().zip(contents) {
            let counters = Arc::new(StreamCounters::new(clock));
            let sends = wanted.direction() == StreamDirection::Send;
            let stop = if sends { &running.stop_senders } else { &running.stop_receivers };
            let addresses = socket.addresses();
            let connection = sender_connection(&socket, sends);
            let (spec, own, stop) = (wanted.spec.clone(), counters.clone(), stop.clone());
            match started(running.bench.idle, || start(spec, socket, content, own, stop)) {
                Ok(thread) => {
                    let watched = StreamWatch::new(wanted, addresses, counters, thread);
                    running.streams.push(StreamWatch { connection, ..watched });
                }
                Err(error) => running.failures.push(format!("a stream did not start: {error}")),
            }
        }
        running
    }

    /// The agents' samples by path; none where no stream leads there, or where it does not answer.
    fn ask_agents(&mut self) -> Vec<Option<TestSample>> {
        let asked = |path: usize| self.streams.iter().any(|stream| stream.wanted.path == path);
        let mut samples = Vec::new();
        for (path, session) in self.bench.sessions.iter().enumerate() {
            let sample = asked(path).then(|| session.sample());
            samples.push(match sample {
                Some(Ok(sample)) => Some(sample),
                Some(Err(failure)) => {
                    let why = format!("{}: {failure}", self.bench.way(path));
                    if !self.failures.contains(&why) {
                        self.failures.push(why);
                    }
                    None
                }
                None => None,
            });
        }
        samples
    }

    /// Bytes that our ends have sent or received: for the user's eyes only, figures are the receivers'.
    fn own_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.counters.progress.mark().bytes).sum()
    }

    fn look_at_losses(&mut self) {
        let seconds = clock::since(self.started).as_secs_f64();
        for stream in &mut self.streams {
            let view = stream.connection.as_ref().and_then(|tcp| connection::view(tcp).ok());
            view.iter().for_each(|view| stream.losses.look_at(seconds, view));
        }
    }

    /// Watches for the bench's windows, then ends all.
    pub(crate) fn watch(mut self) -> Observed {
        let host = HostSampler::of_cpus(self.bench.sysroot);
        let watch = Watch::new(self.bench.windows, self.bench.stop).beside(host);
        let watch = Watch { agents: self.agents(), ..watch };
        let Ok(observation) = watch.observe(&mut self, &mut |_| true);
        self.observed(observation)
    }

    /// What there is at the end.
    fn observed(mut self, observation: WindowObservation) -> Observed {
        let counters = self.finish();
        Observed {
            streams: self.streams,
            windows: observation,
            far: self.far,
            counters,
            failures: self.failures,
            rates: self.series.rates(),
            short_window_seconds: self.series.window_seconds(),
        }
    }

    fn agents(&self) -> Vec<AgentProcess> {
        self.bench.sessions.iter().filter_map(|session| session.hello().process.clone()).collect()
    }

    /// Until everything that our senders have to send has arrived. Gives the time from their start to the
    /// last byte, on the receivers' clocks; none where some of it did not arrive.
    pub(crate) fn until_arrived(mut self) -> (Observed, Option<Duration>) {
        let host = HostSampler::of_cpus(self.bench.sysroot);
        let first = host.begin();
        self.begin(self.before.clone());
        let mut arrived = None;
        while !self.bench.stop.is_ended() {
            let agents = self.ask_agents();
            self.streams.iter_mut().for_each(|stream| stream.look(&agents));
            let lost = self.streams.iter().any(|stream| agents[stream.wanted.path].is_none());
            self.far.add(agents);
            if self.streams.iter().all(|stream| stream.received(&stream.last).ended) {
                // A sender that failed ends its stream, too: only what arrived whole has a rate.
                let whole = |stream: &StreamWatch| {
                    stream.wanted.spec.limit_bytes.is_none_or(|limit| stream.mark().bytes == limit)
                };
                arrived = self.last_arrival().filter(|_| self.streams.iter().all(whole));
                break;
            }
            if lost {
                break;
            }
            self.bench.stop.wait(POLL_INTERVAL);
        }
        let mut last = host.sample();
        host.add_processes(&mut last);
        let mut observation = WindowObservation {
            bytes: self.bulk().map(|stream| stream.mark().bytes).fold(0, u64::saturating_add),
            host: last.since_beside(&first, &self.agents()),
            cut_short: arrived.is_none(),
            ..WindowObservation::default()
        };
        observation.part_busy(None);
        (self.observed(observation), arrived)
    }

    /// The latest last byte, counted from the sample that each agent gave before the start.
    fn last_arrival(&self) -> Option<Duration> {
        let since_start = |stream: &StreamWatch| {
            let before = self.before.get(stream.wanted.path)?.as_ref()?;
            Some(Duration::from_nanos(stream.mark().nanos.saturating_sub(before.host.nanos)))
        };
        self.streams.iter().map(since_start).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Those whose bytes are the figure.
    fn bulk(&self) -> impl Iterator<Item = &StreamWatch> {
        self.streams.iter().filter(|stream| !stream.wanted.asks())
    }

    fn begin(&mut self, agents: Vec<Option<TestSample>>) {
        for stream in &mut self.streams {
            stream.look(&agents);
            stream.first = stream.last.clone();
        }
        self.far.add(agents);
        self.first_window = Some((clock::now(), self.own_bytes()));
    }

    /// The rates since the last look.
    fn window(&mut self, agents: Vec<Option<TestSample>>) {
        for stream in &mut self.streams {
            let before = stream.mark();
            stream.look(&agents);
            stream.samples.push(stream.mark().rate_since(&before));
        }
        self.far.add(agents);
        self.glance = RateGlance::new(self.own_bytes());
        let bytes_per_second = self.bulk().filter_map(|stream| stream.samples.last()).sum();
        self.bench.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
    }

    /// Ends all streams, in the order of the head of this file.
    fn finish(&mut self) -> Vec<HostCounters> {
        // A connection that somebody holds stays open.
        self.streams.iter_mut().for_each(|stream| stream.connection = None);
        self.stop_senders.end();
        self.join(StreamDirection::Send);
        let patience = clock::now() + ARRIVAL;
        loop {
            let agents = self.ask_agents();
            let sent = || self.streams.iter().filter(|stream| stream.sends());
            let there = |stream: &StreamWatch| stream.peer_now(&agents).is_none_or(|sample| sample.ended);
            if sent().all(there) || clock::now() > patience || self.bench.stop.wait(POLL_INTERVAL) {
                break;
            }
        }
        let mut closed = Vec::new();
        for (path, session) in self.bench.sessions.iter().enumerate() {
            // Also where no stream came about: a test that stays open has the next one refused.
            let used = self.bench.opened.contains(&path);
            closed.push(used.then(|| session.close().ok()).flatten());
        }
        let patience = clock::now() + ARRIVAL;
        let receiving =
            |stream: &StreamWatch| !stream.sends() && !stream.counters.ended.load(Ordering::Acquire);
        // A peer that does not answer ends nothing: after Ctrl-C it is not waited for.
        while self.streams.iter().any(receiving)
            && clock::now() < patience
            && !self.bench.stop.wait(POLL_INTERVAL / 4)
        {}
        self.stop_receivers.end();
        self.join(StreamDirection::Receive);
        let mut of_peer = Vec::new();
        for stream in &mut self.streams {
            let peer = stream.peer_now(&closed).unwrap_or(&stream.last.peer);
            stream.end = BothEnds { own: stream.counters.sample(), peer: peer.clone() };
            if let Some(error) = &stream.end.peer.error {
                of_peer.push(format!("{}, at the peer: {error}", self.bench.way(stream.wanted.path)));
            }
        }
        // An agent that ended a stream says why; what we saw of it is only a connection that was reset.
        self.failures.splice(0..0, of_peer);
        let after = read_host_counters(self.bench, &self.reasons);
        between_counters(std::mem::take(&mut self.counters), after)
    }

    fn join(&mut self, direction: StreamDirection) {
        for stream in self.streams.iter_mut().filter(|stream| stream.wanted.direction() == direction) {
            if let Some(Err(error)) = stream.running.take().map(RunningStream::join) {
                self.failures.push(format!("{}: {error}", self.bench.way(stream.wanted.path)));
            }
        }
    }
}

impl Meter for RunningStreams<'_, '_> {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        let agents = self.ask_agents();
        if self.streams.iter().any(|stream| agents[stream.wanted.path].is_none()) {
            // A host that says nothing has not received nothing.
            return Ok(None);
        }
        match self.first_window {
            None => self.begin(agents),
            Some(_) => self.window(agents),
        }
        Ok(Some(self.bulk().map(StreamWatch::mark).collect()))
    }

    fn look(&mut self, counted: bool) -> bool {
        let bytes = self.own_bytes();
        if let Some(bytes_per_second) = self.glance.look(bytes) {
            self.bench.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
        }
        self.look_at_losses();
        if let Some((begin, before)) = self.first_window.filter(|_| counted) {
            self.series.look(clock::since(begin), || bytes.saturating_sub(before));
        }
        !self.streams.iter().all(|stream| stream.counters.ended.load(Ordering::Relaxed))
    }
}

impl StreamWatch {
    fn new(
        wanted: Wanted,
        addresses: Option<(SocketAddr, SocketAddr)>,
        counters: Arc<StreamCounters>,
        running: RunningStream,
    ) -> Self {
        StreamWatch {
            wanted,
            addresses,
            counters,
            running: Some(running),
            connection: None,
            losses: LossWatch::default(),
            first: BothEnds::default(),
            last: BothEnds::default(),
            end: BothEnds::default(),
            samples: Vec::new(),
        }
    }

    fn peer_now<'s>(&self, agents: &'s [Option<TestSample>]) -> Option<&'s StreamSample> {
        agents.get(self.wanted.path)?.as_ref()?.streams.get(self.wanted.number)
    }

    /// A look at both ends; what a silent agent said last stays.
    fn look(&mut self, agents: &[Option<TestSample>]) {
        self.last.own = self.counters.sample();
        if let Some(sample) = self.peer_now(agents) {
            self.last.peer = sample.clone();
        }
    }
}
