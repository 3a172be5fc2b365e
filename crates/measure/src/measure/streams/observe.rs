//! Running streams, watched: rates between completions at the receivers, in windows back to back; then ended
//! so that every datagram is accounted for.
//!
//! The order of the end matters. Senders of our own stop first and say how much they sent; receivers at the
//! agents take what is still on its way; then the agents' senders stop, and our receivers take theirs.

use super::StreamBench;
use super::counters::{self, HostCounters};
use super::job::StreamDirection;
use super::open::{Connected, Wanted};
use crate::event::Event;
use crate::measure::Stage;
use crate::measure::access::Series;
use crate::measure::losses::LossWatch;
use crate::measure::running::started;
use crate::measure::window::{
    ProcessWatch, Reading, Surroundings, WindowObservation, WorkerObservation, fill_between,
};
use linerate_facts::counters::DropReasons;
use linerate_model::plan::long_path::LossCount;
use linerate_system::connection;
use linerate_transport::agent::{AgentSession, TestSample};
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{
    Content, RunningStream, StreamCounters, StreamSample, StreamSocket, start,
};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two looks at `stop` and at the streams.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks that are for the user's eyes only.
const GLANCE: Duration = Duration::from_millis(500);
/// What is on its way when a sender stops arrives within this, or is lost.
const ARRIVAL: Duration = Duration::from_millis(1000);

/// A stream while it runs and after.
pub(super) struct Watched {
    pub wanted: Wanted,
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    counters: Arc<StreamCounters>,
    running: Option<RunningStream>,
    /// Of TCP, where our end sends, until it is told to stop; and what was seen of its losses as they came.
    connection: Option<TcpStream>,
    losses: LossWatch,
    /// At the begin of the first window and at the end of the last, the receiver's view; then what both ends
    /// had when they had ended.
    first: StreamSample,
    last: StreamSample,
    own_first: StreamSample,
    own_last: StreamSample,
    peer_first: StreamSample,
    peer_last: StreamSample,
    pub own_end: StreamSample,
    pub peer_end: StreamSample,
    /// Rate of each window.
    pub samples: Vec<f64>,
}

/// What was seen of a job.
pub(super) struct Observed {
    pub streams: Vec<Watched>,
    pub seen: WindowObservation,
    /// The agents' samples around the windows, by path.
    pub agents: Vec<Option<(TestSample, TestSample)>>,
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
    streams: Vec<Watched>,
    started: Instant,
    stop_senders: Arc<AtomicBool>,
    stop_receivers: Arc<AtomicBool>,
    /// The agents' samples just before our senders started.
    before: Vec<Option<TestSample>>,
    counters: Vec<Option<HostCounters>>,
    /// Of our own drops, while the streams run.
    reasons: DropReasons,
    failures: Vec<String>,
    /// Bytes that our ends moved in the windows, at even distances of time.
    series: Series,
    /// When the first window began, and the bytes until then.
    first_window: Option<(Instant, u64)>,
}

impl Watched {
    fn sends(&self) -> bool {
        self.wanted.direction() == StreamDirection::Send
    }

    fn receiver<'s>(&'s self, own: &'s StreamSample, peer: &'s StreamSample) -> &'s StreamSample {
        if self.sends() { peer } else { own }
    }

    /// Bytes per second at the receiver, over all windows.
    pub(crate) fn mean_rate(&self) -> f64 {
        mark(&self.last).rate_since(&mark(&self.first))
    }

    /// What both ends had counted in the end: sender, receiver.
    pub(crate) fn ends(&self) -> (&StreamSample, &StreamSample) {
        if self.sends() { (&self.own_end, &self.peer_end) } else { (&self.peer_end, &self.own_end) }
    }

    /// Its losses among its segments, where our end sent by TCP.
    pub(crate) fn loss_count(&self) -> LossCount {
        let tcp = self.own_end.tcp.as_ref();
        self.losses.count(tcp.map_or(0, |tcp| tcp.segment_bytes))
    }

    /// CPU time of the sender's and the receiver's thread ÷ time of the windows.
    pub(crate) fn cpu_shares(&self, seconds: f64) -> (f64, f64) {
        let share = |late: &StreamSample, early: &StreamSample| {
            (late.cpu_nanos.saturating_sub(early.cpu_nanos) as f64 * 1e-9 / seconds.max(1e-9)).min(1.0)
        };
        let (own, peer) = (share(&self.own_last, &self.own_first), share(&self.peer_last, &self.peer_first));
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

fn mark(sample: &StreamSample) -> Mark {
    Mark { bytes: sample.bytes, nanos: sample.bytes_nanos }
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
            bench,
            streams: Vec::new(),
            started: Instant::now(),
            stop_senders: Arc::default(),
            stop_receivers: Arc::default(),
            before: Vec::new(),
            counters: Vec::new(),
            failures: Vec::new(),
            series: Series::new(),
            first_window: None,
        };
        running.counters = counters::read_all(running.bench, &running.reasons);
        let sample = |session: &AgentSession| session.sample().ok();
        running.before = running.bench.sessions.iter().map(sample).collect();
        let clock = Instant::now();
        for (Connected { wanted, socket }, content) in connected.into_iter().zip(contents) {
            let counters = Arc::new(StreamCounters::new(clock));
            let sends = wanted.direction() == StreamDirection::Send;
            let stop = if sends { &running.stop_senders } else { &running.stop_receivers };
            let addresses = socket.addresses();
            let connection = sender_connection(&socket, sends);
            let (spec, own, stop) = (wanted.spec.clone(), counters.clone(), stop.clone());
            match started(running.bench.idle, || start(spec, socket, content, own, stop)) {
                Ok(thread) => {
                    let watched = Watched::new(wanted, addresses, counters, thread);
                    running.streams.push(Watched { connection, ..watched });
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

    /// Rests until then; false where it was told to stop or nothing runs any more.
    fn rest(&mut self, until: Instant) -> bool {
        let mut glance = (Instant::now(), self.own_bytes());
        while Instant::now() < until {
            if glance.0.elapsed() >= GLANCE {
                let (then, before) = std::mem::replace(&mut glance, (Instant::now(), self.own_bytes()));
                let moved = glance.1.saturating_sub(before) as f64;
                let bytes_per_second = moved / (glance.0 - then).as_secs_f64();
                self.bench.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
            }
            let stopped = self.bench.stop.load(Ordering::Relaxed);
            if stopped || self.streams.iter().all(|stream| stream.counters.ended.load(Ordering::Relaxed)) {
                return false;
            }
            self.look_at_losses();
            if let Some((begin, before)) = self.first_window {
                let moved = self.own_bytes().saturating_sub(before);
                self.series.look(begin.elapsed(), || moved);
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        true
    }

    fn look_at_losses(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        for stream in &mut self.streams {
            let view = stream.connection.as_ref().and_then(|tcp| connection::view(tcp).ok());
            view.iter().for_each(|view| stream.losses.look_at(seconds, view));
        }
    }

    /// Watches for the bench's windows, then ends all.
    pub(crate) fn watch(mut self) -> Observed {
        let windows = self.bench.windows;
        let cut_short = !self.rest(Instant::now() + windows.warm_up);
        let mut seen = WindowObservation { cut_short, ..WindowObservation::default() };
        let processes = ProcessWatch::begin(self.bench.sysroot);
        let first = Reading::now(self.bench.sysroot, &[]);
        let first_agents = self.ask_agents();
        self.begin(&first_agents);
        let mut last = (Reading::now(self.bench.sysroot, &[]), first_agents.clone());
        let mut next = Instant::now();
        self.first_window = Some((next, self.own_bytes()));
        while !seen.cut_short && seen.samples.len() < windows.repeats as usize {
            next += windows.window;
            if !self.rest(next) {
                // A window cut short is no sample; what came before it is kept.
                seen.cut_short = true;
                break;
            }
            let agents = self.ask_agents();
            if self.streams.iter().any(|stream| agents[stream.wanted.path].is_none()) {
                // A host that says nothing has not received nothing.
                seen.cut_short = true;
                break;
            }
            let rate = self.window(&agents);
            seen.samples.push(rate);
            self.bench.listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second: rate });
            last = (Reading::now(self.bench.sysroot, &[]), agents);
        }
        fill_between(&mut seen, &first, &last.0);
        self.observed(seen, processes, (first_agents, last.1))
    }

    /// What there is at the end, with what the agents counted at the first moment and at the last.
    fn observed(
        mut self,
        mut seen: WindowObservation,
        processes: ProcessWatch<'_>,
        (first_agents, last_agents): (Vec<Option<TestSample>>, Vec<Option<TestSample>>),
    ) -> Observed {
        processes.end(&mut seen, &self.surroundings());
        self.fill_workers(&mut seen);
        let counters = self.finish();
        let agents = first_agents.into_iter().zip(last_agents).map(|(first, last)| first.zip(last)).collect();
        Observed {
            streams: self.streams,
            seen,
            agents,
            counters,
            failures: self.failures,
            rates: self.series.rates(),
            short_window_seconds: self.series.window_seconds(),
        }
    }

    fn surroundings(&self) -> Surroundings {
        let agents = self.bench.sessions.iter().filter_map(|session| session.hello().process.clone());
        Surroundings { agents: agents.collect(), ..Surroundings::default() }
    }

    /// Until everything that our senders have to send has arrived. Gives the time from their start to the
    /// last byte, on the receivers' clocks; none where some of it did not arrive.
    pub(crate) fn until_arrived(mut self) -> (Observed, Option<Duration>) {
        let processes = ProcessWatch::begin(self.bench.sysroot);
        let first = Reading::now(self.bench.sysroot, &[]);
        let first_agents = self.before.clone();
        self.begin(&first_agents);
        let mut agents = first_agents.clone();
        let mut arrived = None;
        while !self.bench.stop.load(Ordering::Relaxed) {
            agents = self.ask_agents();
            self.streams.iter_mut().for_each(|stream| stream.look(&agents));
            if self.streams.iter().all(|stream| stream.last.ended) {
                // A sender that failed ends its stream, too: only what arrived whole has a rate.
                let whole = |stream: &Watched| {
                    stream.wanted.spec.limit_bytes.is_none_or(|limit| stream.last.bytes == limit)
                };
                arrived = self.last_arrival().filter(|_| self.streams.iter().all(whole));
                break;
            }
            if self.streams.iter().any(|stream| agents[stream.wanted.path].is_none()) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let mut seen = WindowObservation { cut_short: arrived.is_none(), ..WindowObservation::default() };
        fill_between(&mut seen, &first, &Reading::now(self.bench.sysroot, &[]));
        (self.observed(seen, processes, (first_agents, agents)), arrived)
    }

    /// The latest last byte, counted from the sample that each agent gave before the start.
    fn last_arrival(&self) -> Option<Duration> {
        let since_start = |stream: &Watched| {
            let before = self.before.get(stream.wanted.path)?.as_ref()?;
            Some(Duration::from_nanos(stream.last.bytes_nanos.saturating_sub(before.nanos)))
        };
        self.streams.iter().map(since_start).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn begin(&mut self, agents: &[Option<TestSample>]) {
        for stream in &mut self.streams {
            stream.look(agents);
            stream.first = stream.last.clone();
            stream.own_first = stream.own_last.clone();
            stream.peer_first = stream.peer_last.clone();
        }
    }

    /// The rate since the last look, over all streams of bulk.
    fn window(&mut self, agents: &[Option<TestSample>]) -> f64 {
        let mut sum = 0.0;
        for stream in &mut self.streams {
            let before = mark(&stream.last);
            stream.look(agents);
            let rate = mark(&stream.last).rate_since(&before);
            stream.samples.push(rate);
            if !stream.wanted.asks() {
                sum += rate;
            }
        }
        sum
    }

    fn fill_workers(&mut self, seen: &mut WindowObservation) {
        let bulk = || self.streams.iter().filter(|stream| !stream.wanted.asks());
        // The peers tell these: what cannot be true must not overflow either.
        let moved = bulk().map(|stream| stream.last.bytes.saturating_sub(stream.first.bytes));
        seen.bytes = moved.fold(0, u64::saturating_add);
        let seconds = seen.seconds;
        let worker = |stream: &Watched| {
            let (sender, receiver) = stream.cpu_shares(seconds);
            let cpu_share = if stream.sends() { sender } else { receiver };
            WorkerObservation {
                bytes_per_second: stream.mean_rate(),
                cpu_share,
                ..WorkerObservation::default()
            }
        };
        seen.workers = bulk().map(worker).collect();
    }

    /// Ends all streams, in the order of the head of this file.
    fn finish(&mut self) -> Vec<HostCounters> {
        // A connection that somebody holds stays open.
        self.streams.iter_mut().for_each(|stream| stream.connection = None);
        self.stop_senders.store(true, Ordering::Relaxed);
        self.join(StreamDirection::Send);
        let patience = Instant::now() + ARRIVAL;
        loop {
            let agents = self.ask_agents();
            let sent = || self.streams.iter().filter(|stream| stream.sends());
            let there = |stream: &Watched| stream.peer_now(&agents).is_none_or(|sample| sample.ended);
            if sent().all(there) || Instant::now() > patience || self.bench.stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let mut closed = Vec::new();
        for (path, session) in self.bench.sessions.iter().enumerate() {
            // Also where no stream came about: a test that stays open has the next one refused.
            let used = self.bench.opened.contains(&path);
            closed.push(used.then(|| session.close().ok()).flatten());
        }
        let patience = Instant::now() + ARRIVAL;
        let receiving = |stream: &Watched| !stream.sends() && !stream.counters.ended.load(Ordering::Acquire);
        // A peer that does not answer ends nothing: after Ctrl-C it is not waited for.
        while self.streams.iter().any(receiving)
            && Instant::now() < patience
            && !self.bench.stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(LOOK / 4);
        }
        self.stop_receivers.store(true, Ordering::Relaxed);
        self.join(StreamDirection::Receive);
        let mut told = Vec::new();
        for stream in &mut self.streams {
            stream.own_end = stream.counters.sample();
            stream.peer_end = stream.peer_now(&closed).cloned().unwrap_or_else(|| stream.peer_last.clone());
            if let Some(error) = &stream.peer_end.error {
                told.push(format!("{}, at the peer: {error}", self.bench.way(stream.wanted.path)));
            }
        }
        // An agent that ended a stream says why; what we saw of it is only a connection that was reset.
        self.failures.splice(0..0, told);
        let after = counters::read_all(self.bench, &self.reasons);
        counters::between(std::mem::take(&mut self.counters), after)
    }

    fn join(&mut self, direction: StreamDirection) {
        for stream in self.streams.iter_mut().filter(|stream| stream.wanted.direction() == direction) {
            if let Some(Err(error)) = stream.running.take().map(RunningStream::join) {
                self.failures.push(format!("{}: {error}", self.bench.way(stream.wanted.path)));
            }
        }
    }
}

impl Watched {
    fn new(
        wanted: Wanted,
        addresses: Option<(SocketAddr, SocketAddr)>,
        counters: Arc<StreamCounters>,
        running: RunningStream,
    ) -> Self {
        Watched {
            wanted,
            addresses,
            counters,
            running: Some(running),
            connection: None,
            losses: LossWatch::default(),
            first: StreamSample::default(),
            last: StreamSample::default(),
            own_first: StreamSample::default(),
            own_last: StreamSample::default(),
            peer_first: StreamSample::default(),
            peer_last: StreamSample::default(),
            own_end: StreamSample::default(),
            peer_end: StreamSample::default(),
            samples: Vec::new(),
        }
    }

    fn peer_now<'s>(&self, agents: &'s [Option<TestSample>]) -> Option<&'s StreamSample> {
        agents.get(self.wanted.path)?.as_ref()?.streams.get(self.wanted.number)
    }

    /// A look at both ends; what a silent agent said last stays.
    fn look(&mut self, agents: &[Option<TestSample>]) {
        self.own_last = self.counters.sample();
        if let Some(sample) = self.peer_now(agents) {
            self.peer_last = sample.clone();
        }
        self.last = self.receiver(&self.own_last, &self.peer_last).clone();
    }
}
