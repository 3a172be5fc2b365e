//! The flows of one member in one window: connections to the agents of the receivers, begun together, rates
//! counted by the receivers, and what the CPUs of the member did meanwhile, whoever used them.

use crate::disk_tasks::DiskTasks;
use crate::protocol::{FlowFailure, FlowReport, FlowRequest};
use linerate_facts::failure::Failure;
use linerate_facts::host::HostSampler;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::measure::streams::RoundTrips;
use linerate_measure::measure::window::{Look, Meter, Watch, WindowSpec};
use linerate_measure::run::fleet::{FlowFigures, HostLoad};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, Key, LocalBinding, OpenedStream, StreamEnds};
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{
    Content, RunningStream, StreamCounters, StreamRole, StreamSample, StreamSpec, start,
};
use linerate_transport::flow::worker::WorkerError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call hands over this much: as `linerate network` does where it has tried nothing else.
const WRITE_BYTES: u32 = 512 << 10;

/// Small requests beside a flow: enough of them for a percentile, and no load of their own.
const REQUESTS_PER_SECOND: f64 = 250.0;

/// When a window begins and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub begin: Instant,
    pub warm_up: Duration,
    pub length: Duration,
}

/// Waits for the window and looks at both its ends.
pub(crate) fn load_during(times: WindowTimes, stop: &Stop) -> HostLoad {
    let host = HostSampler::of_cpus(&Sysroot::live());
    stop.wait_until(times.begin + times.warm_up);
    let before = host.sample();
    stop.wait_until(times.begin + times.warm_up + times.length);
    let used = host.sample().since(&before);
    let count = used.cpus.len().max(1) as f64;
    HostLoad {
        cpus: used.cpus.len(),
        busy: used.busy_cpus() / count,
        busiest: used.cpus.iter().max_by(|one, other| one.busy().total_cmp(&other.busy())).copied(),
        throttled: used.throttled,
        steal: used.cpus.iter().map(|cpu| cpu.steal).sum::<f64>() / count,
    }
}

/// A flow with its connections.
pub(crate) struct PreparedFlow {
    to: usize,
    session: AgentSession,
    streams: Vec<(OpenedStream, Content)>,
    /// Of small requests beside it.
    asks: Option<OpenedStream>,
}

/// Connects all flows at once; those that cannot be come back with the reason. `disks`: what was prepared of them,
/// for flows that send what they read.
pub(crate) fn prepare(
    requests: &[FlowRequest],
    disks: Option<&DiskTasks>,
    key: &Key,
    stop: &Stop,
) -> (Vec<PreparedFlow>, Vec<FlowFailure>) {
    let (mut flows, mut failures) = (Vec::new(), Vec::new());
    let reading = || requests.iter().filter(|request| request.disks).map(|request| request.streams.max(1));
    let read = match (reading().sum::<u32>(), disks) {
        (0, _) => Ok(Vec::new()),
        (streams, Some(disks)) => disks.contents(streams as usize),
        (_, None) => Err(Failure::lacks("its sources were not made ready")),
    };
    let mut read = match read {
        Ok(contents) => contents.into_iter(),
        Err(failure) => {
            let why = failure.to_string();
            let failed = |request: &FlowRequest| FlowFailure { to: request.to, why: why.clone() };
            return (flows, requests.iter().map(failed).collect());
        }
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for request in requests {
            let count = request.streams.max(1) as usize;
            let contents: Vec<Content> = match request.disks {
                true => read.by_ref().take(count).collect(),
                false => vec![Content::Memory; count],
            };
            threads.push((request.to, scope.spawn(move || prepare_one(request, contents, key, stop))));
        }
        for (to, thread) in threads {
            match thread.join() {
                Ok(Ok(flow)) => flows.push(flow),
                Ok(Err(failure)) => failures.push(FlowFailure { to, why: failure.to_string() }),
                Err(_) => failures.push(FlowFailure { to, why: "its thread failed".into() }),
            }
        }
    });
    (flows, failures)
}

fn prepare_one(
    request: &FlowRequest,
    contents: Vec<Content>,
    key: &Key,
    stop: &Stop,
) -> Result<PreparedFlow, Failure> {
    let session = AgentSession::connect(request.address, key)?;
    let bulk = StreamSpec {
        write_bytes: WRITE_BYTES,
        bytes_per_second: request.bytes_per_second.map(|rate| rate / contents.len() as f64),
        // A file begins again at its end, as memory does.
        limit_bytes: request.disks.then_some(u64::MAX),
        ..StreamSpec::new(Protocol::Tcp, StreamRole::Send)
    };
    let asking = request.asks.then(|| StreamSpec::asking(Protocol::Tcp, REQUESTS_PER_SECOND));
    let own = contents.iter().map(|_| bulk.clone()).chain(asking);
    let ends: Vec<StreamEnds> = own.map(|own| StreamEnds { theirs: own.other_end(), own }).collect();
    let wanted = ends.len();
    let opened = session.open_streams(ends, LocalBinding::default(), stop)?;
    let mut connected: Vec<OpenedStream> = opened.into_iter().collect::<Result<_, _>>()?;
    if connected.len() < wanted {
        return Err(Failure::lacks("stopped before it began"));
    }
    let asks = if request.asks { connected.pop() } else { None };
    let streams = connected.into_iter().zip(contents).collect();
    Ok(PreparedFlow { to: request.to, session, streams, asks })
}

/// Why a flow has no figure.
#[derive(Debug, thiserror::Error)]
enum FlowError {
    #[error("no thread for a stream: {0}")]
    Thread(std::io::Error),
    #[error("{0}")]
    Receiver(Failure),
    #[error("what it sends cannot be read: {0}")]
    Unread(WorkerError),
    #[error("no byte arrived in the window")]
    NoByte,
    #[error("stopped before its end")]
    Stopped,
    #[error("its thread failed: please report this")]
    Panicked,
}

/// Sends all flows through the window; also when they really began, and what the CPUs did.
pub(crate) fn measure(
    flows: Vec<PreparedFlow>,
    times: WindowTimes,
    stop: &Arc<Stop>,
) -> (Instant, Vec<FlowReport>, HostLoad) {
    stop.wait_until(times.begin);
    let began = clock::now();
    let (reports, load) = std::thread::scope(|scope| {
        let load = scope.spawn(|| load_during(times, stop));
        let threads: Vec<_> = flows
            .into_iter()
            .map(|flow| (flow.to, scope.spawn(move || measure_one(flow, times, stop))))
            .collect();
        let mut reports = Vec::new();
        for (to, thread) in threads {
            let measured = thread.join().unwrap_or(Err(FlowError::Panicked));
            reports.push(match measured {
                Ok(figures) => FlowReport { to, figures },
                Err(error) => FlowReport::failed(to, error.to_string()),
            });
        }
        (reports, load.join().unwrap_or_default())
    });
    (began, reports, load)
}

/// A stream that runs, and what it counts.
type Running = (RunningStream, Arc<StreamCounters>);

fn measure_one(flow: PreparedFlow, times: WindowTimes, stop: &Stop) -> Result<FlowFigures, FlowError> {
    let PreparedFlow { session, streams, asks, .. } = flow;
    let ended = Arc::new(Stop::new());
    let begin = |opened: OpenedStream, content, clock| -> Result<Running, FlowError> {
        let counters = Arc::new(StreamCounters::new(clock));
        let started = start(opened.spec, opened.socket, content, Arc::clone(&counters), Arc::clone(&ended));
        Ok((started.map_err(FlowError::Thread)?, counters))
    };
    let reads = streams.iter().any(|(_, content)| matches!(content, Content::File { .. }));
    let mut running = Vec::new();
    for (opened, content) in streams {
        running.push(begin(opened, content, times.begin)?);
    }
    let samples = |running: &[Running]| -> Vec<StreamSample> {
        running.iter().map(|(_, counters)| counters.sample()).collect()
    };
    let first_at = times.begin + times.warm_up;
    stop.wait_until(first_at);
    let before = samples(&running);
    let asking = asks.map(|asks| begin(asks, Content::Memory, first_at)).transpose();
    let measured = asking.and_then(|asking| Ok((observe(&session, running.len(), times, stop)?, asking)));
    let after = samples(&running);
    ended.end();
    let error = running.into_iter().map(|(stream, _)| stream.join()).find_map(Result::err);
    let ((bytes_per_second, samples), asking) = measured?;
    // A receiver that has gone ends its sender with an error as well, but has no figures then.
    if let Some(error) = error.filter(|_| reads) {
        return Err(FlowError::Unread(error));
    }
    // What others starve has a rate, and that is 0: an incast looks for it. Elsewhere it is tried again.
    if bytes_per_second == 0.0 && asking.is_none() {
        return Err(FlowError::NoByte);
    }
    let tcp = || after.iter().filter_map(|sample| sample.tcp.as_ref());
    Ok(FlowFigures {
        bytes_per_second: Some(bytes_per_second),
        samples,
        retransmits: tcp().map(|tcp| tcp.retransmits).sum(),
        rtt_micros: tcp().map(|tcp| tcp.rtt_micros).max(),
        retransmitted_share: retransmitted(&before, &after),
        p99_seconds: asking.and_then(|(stream, counters)| {
            // What it counted until then is counted.
            let _ = stream.join();
            RoundTrips::of(&counters.sample()).map(|trips| trips.p99)
        }),
        failure: None,
    })
}

/// Segments sent again by segments sent, as the kernel counts them.
fn retransmitted(before: &[StreamSample], after: &[StreamSample]) -> Option<f64> {
    let (mut again, mut sent) = (0, 0.0);
    for (before, after) in before.iter().zip(after) {
        let tcp = after.tcp.as_ref().filter(|tcp| tcp.segment_bytes > 0)?;
        again += tcp.retransmits.saturating_sub(before.tcp.as_ref().map_or(0, |tcp| tcp.retransmits));
        sent += after.bytes.saturating_sub(before.bytes) as f64 / f64::from(tcp.segment_bytes);
    }
    (sent > 0.0).then(|| again as f64 / (sent + again as f64))
}

/// Reads the first streams of a session at their receiver.
struct ReceiverMeter<'a> {
    session: &'a AgentSession,
    streams: usize,
}

impl Meter for ReceiverMeter<'_> {
    type Error = FlowError;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, FlowError> {
        let sample = self.session.sample().map_err(FlowError::Receiver)?;
        Ok(Some(sample.streams.iter().take(self.streams).map(StreamSample::mark).collect()))
    }
}

/// The rate of the whole window, and of each second of it, over the first streams of the session.
fn observe(
    session: &AgentSession,
    streams: usize,
    times: WindowTimes,
    stop: &Stop,
) -> Result<(f64, Vec<f64>), FlowError> {
    let seconds = times.length.as_secs().clamp(1, u64::from(u32::MAX)) as u32;
    let windows = WindowSpec { warm_up: times.warm_up, window: times.length / seconds, repeats: seconds };
    let first_window = Some(times.begin + times.warm_up);
    let watch = Watch { first_window, ..Watch::new(windows, stop) };
    let observation = watch.observe(&mut ReceiverMeter { session, streams }, &mut |_| true)?;
    match &observation.looks[..] {
        [first, .., last] if !observation.cut_short => {
            let samples = observation.looks.windows(2).map(|pair| rate_between(&pair[0], &pair[1]));
            Ok((rate_between(first, last), samples.collect()))
        }
        _ => Err(FlowError::Stopped),
    }
}

/// Completions whose span differs by more than this from the time between the looks: the stream paused at an edge.
const PAUSED: f64 = 0.1;

/// Sum over the streams, each by the clock of its receiver and between its own completions; one that paused at an edge
/// has what it received over the whole time, pauses included.
fn rate_between(begin: &Look, end: &Look) -> f64 {
    let all_nanos = end.at.duration_since(begin.at).as_nanos() as f64;
    let rate = |(before, after): (&Mark, &Mark)| {
        let bytes = after.bytes.saturating_sub(before.bytes) as f64;
        let nanos = after.nanos.saturating_sub(before.nanos) as f64;
        let nanos = if (nanos / all_nanos - 1.0).abs() > PAUSED { all_nanos } else { nanos };
        if nanos > 0.0 { bytes * 1e9 / nanos } else { 0.0 }
    };
    begin.marks.iter().zip(&end.marks).map(rate).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bytes` in all, the last of them so many milliseconds after the clock's begin.
    fn look(zero: Instant, at_ms: u64, bytes: u64, last_ms: u64) -> Look {
        let mark = Mark { bytes, nanos: last_ms * 1_000_000 };
        Look { at: zero + Duration::from_millis(at_ms), marks: vec![mark] }
    }

    #[test]
    fn a_stream_that_pauses_at_an_edge_has_the_rate_of_the_whole_time() {
        let zero = Instant::now();
        let rate = |before: &Look, after: &Look| rate_between(before, after).round();
        let begin = look(zero, 1000, 500, 990);
        assert_eq!(rate(&begin, &look(zero, 2000, 1490, 1980)), 1000.0, "between its completions");
        assert_eq!(rate(&begin, &look(zero, 2000, 600, 1090)), 100.0, "a burst, then nothing");
        assert_eq!(rate(&look(zero, 1000, 500, 200), &look(zero, 2000, 1500, 1990)), 1000.0, "none before");
        assert_eq!(rate(&begin, &look(zero, 2000, 500, 990)), 0.0, "nothing at all");
    }
}
