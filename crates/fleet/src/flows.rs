//! The flows of one member in one window: connections to the agents of the receivers, begun together, rates
//! counted by the receivers.

use crate::disk_tasks::DiskTasks;
use crate::figures::HostLoad;
use crate::product::FlowFigures;
use crate::protocol::{FlowFailure, FlowReport, FlowRequest};
use crate::window_times::{WindowTimes, sleep_until};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::streams::RoundTrips;
use linerate_transport::agent::{AgentSession, Key, LocalBinding, OpenRequest};
use linerate_transport::flow::stream::{
    Content, RunningStream, StreamCounters, StreamError, StreamRole, StreamSample, StreamSocket, StreamSpec,
    start,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A call hands over this much: as `linerate network` does where it has tried nothing else.
const WRITE_BYTES: u32 = 512 << 10;
/// Time between two looks at the receivers' counters: each is a sample.
const SAMPLE: Duration = Duration::from_secs(1);
/// Time between two looks at `stop`.
const LOOK: Duration = Duration::from_millis(20);

/// Small requests beside a flow: enough of them for a percentile, and no load of their own.
const REQUEST_BYTES: u32 = 64;
const REQUESTS_PER_SECOND: f64 = 250.0;

/// A flow with its connections.
pub(crate) struct PreparedFlow {
    to: usize,
    session: AgentSession,
    streams: Vec<(StreamSpec, StreamSocket, Content)>,
    /// Of small requests beside it.
    asks: Option<(StreamSpec, StreamSocket)>,
}

/// Connects all flows at once; those that cannot be come back with the reason. `disks`: what was prepared of them,
/// for flows that send what they read.
pub(crate) fn prepare(
    requests: &[FlowRequest],
    disks: Option<&DiskTasks>,
    key: &Key,
    stop: &AtomicBool,
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
    stop: &AtomicBool,
) -> Result<PreparedFlow, Failure> {
    let session = AgentSession::connect(request.address, key)?;
    let bulk = StreamSpec {
        write_bytes: WRITE_BYTES,
        bytes_per_second: request.bytes_per_second.map(|rate| rate / contents.len() as f64),
        // A file begins again at its end, as memory does.
        limit_bytes: request.disks.then_some(u64::MAX),
        ..StreamSpec::new(Protocol::Tcp, StreamRole::Send)
    };
    let asking = StreamSpec {
        write_bytes: REQUEST_BYTES,
        bytes_per_second: Some(REQUESTS_PER_SECOND * f64::from(REQUEST_BYTES)),
        ..StreamSpec::new(Protocol::Tcp, StreamRole::Ask)
    };
    let own: Vec<StreamSpec> =
        contents.iter().map(|_| bulk.clone()).chain(request.asks.then_some(asking)).collect();
    let theirs = |own: &StreamSpec| StreamSpec {
        role: own.role.other(),
        bytes_per_second: None,
        limit_bytes: None,
        ..own.clone()
    };
    let opened =
        session.open(OpenRequest { streams: own.iter().map(theirs).collect(), ..OpenRequest::default() })?;
    let mut connected = Vec::new();
    for (ticket, own) in opened.streams.iter().zip(own) {
        let spec = ticket.held(own);
        let socket = session.connect_stream_until(ticket, &spec, LocalBinding::default(), stop)?;
        connected.push((spec, socket));
    }
    let asks = if request.asks { connected.pop() } else { None };
    let streams =
        connected.into_iter().zip(contents).map(|((spec, socket), content)| (spec, socket, content));
    Ok(PreparedFlow { to: request.to, session, streams: streams.collect(), asks })
}

/// Why a flow has no figure.
#[derive(Debug, thiserror::Error)]
enum FlowError {
    #[error("no thread for a stream: {0}")]
    Thread(std::io::Error),
    #[error("{0}")]
    Receiver(Failure),
    #[error("what it sends cannot be read: {0}")]
    Unread(StreamError),
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
    stop: &Arc<AtomicBool>,
) -> (Instant, Vec<FlowReport>, HostLoad) {
    sleep_until(times.begin, stop);
    let began = Instant::now();
    let (reports, load) = std::thread::scope(|scope| {
        let load = scope.spawn(|| HostLoad::during(times, stop));
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

fn measure_one(flow: PreparedFlow, times: WindowTimes, stop: &AtomicBool) -> Result<FlowFigures, FlowError> {
    let PreparedFlow { session, streams, asks, .. } = flow;
    let ended = Arc::new(AtomicBool::new(false));
    let begin = |spec, socket, content, clock| -> Result<Running, FlowError> {
        let counters = Arc::new(StreamCounters::new(clock));
        let started = start(spec, socket, content, Arc::clone(&counters), Arc::clone(&ended));
        Ok((started.map_err(FlowError::Thread)?, counters))
    };
    let reads = streams.iter().any(|(.., content)| matches!(content, Content::File { .. }));
    let mut running = Vec::new();
    for (spec, socket, content) in streams {
        running.push(begin(spec, socket, content, times.begin)?);
    }
    let samples = |running: &[Running]| -> Vec<StreamSample> {
        running.iter().map(|(_, counters)| counters.sample()).collect()
    };
    let first_at = times.begin + times.warm_up;
    sleep_until(first_at, stop);
    let before = samples(&running);
    let asking = asks.map(|(spec, socket)| begin(spec, socket, Content::Memory, first_at)).transpose();
    let measured = asking.and_then(|asking| Ok((observe(&session, running.len(), times, stop)?, asking)));
    let after = samples(&running);
    ended.store(true, Ordering::Release);
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

/// The rate of the whole window, and of each second of it, over the first streams of the session.
fn observe(
    session: &AgentSession,
    streams: usize,
    times: WindowTimes,
    stop: &AtomicBool,
) -> Result<(f64, Vec<f64>), FlowError> {
    let first_at = times.begin + times.warm_up;
    let end = first_at + times.length;
    let look = || {
        let asked = Instant::now();
        let sample = session.sample().map_err(FlowError::Receiver)?;
        // The counters were read somewhere between the question and the answer.
        let at = asked + asked.elapsed() / 2;
        Ok::<Look, FlowError>((at, sample.streams.into_iter().take(streams).collect()))
    };
    sleep_until(first_at, stop);
    let first = look()?;
    let (mut before, mut samples) = (first.clone(), Vec::new());
    let mut next = first_at;
    loop {
        // The last sample is no shorter than the others.
        next = if next + 2 * SAMPLE > end { end } else { next + SAMPLE };
        sleep_until(next, stop);
        if stop.load(Ordering::Relaxed) {
            return Err(FlowError::Stopped);
        }
        let now = look()?;
        samples.push(rate_between(&before, &now));
        if next == end {
            return Ok((rate_between(&first, &now), samples));
        }
        before = now;
    }
}

/// The counters of a flow's streams at one moment.
type Look = (Instant, Vec<StreamSample>);

/// Completions whose span differs by more than this from the time between the looks: the stream paused at an edge.
const PAUSED: f64 = 0.1;

/// Sum over the streams, each by the clock of its receiver and between its own completions; one that paused at an edge
/// has what it received over the whole time, pauses included.
fn rate_between((begin, before): &Look, (end, after): &Look) -> f64 {
    let all_nanos = end.duration_since(*begin).as_nanos() as f64;
    let rate = |(before, after): (&StreamSample, &StreamSample)| {
        let bytes = after.bytes.saturating_sub(before.bytes) as f64;
        let nanos = after.bytes_nanos.saturating_sub(before.bytes_nanos) as f64;
        let nanos = if (nanos / all_nanos - 1.0).abs() > PAUSED { all_nanos } else { nanos };
        if nanos > 0.0 { bytes * 1e9 / nanos } else { 0.0 }
    };
    before.iter().zip(after).map(rate).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bytes` in all, the last of them so many milliseconds after the clock's begin.
    fn look(zero: Instant, at_ms: u64, bytes: u64, last_ms: u64) -> Look {
        let sample = StreamSample { bytes, bytes_nanos: last_ms * 1_000_000, ..StreamSample::default() };
        (zero + Duration::from_millis(at_ms), vec![sample])
    }

    #[test]
    fn a_stream_that_pauses_at_an_edge_has_the_rate_of_the_whole_time() {
        let zero = Instant::now();
        let rate = |before: &Look, after: &Look| rate_between(before, after).round();
        let begin = look(zero, 1000, 500, 990);
        assert_eq!(rate(&begin, &look(zero, 2000, 1490, 1980)), 1000.0, "between its completions");
        assert_eq!(rate(&begin, &look(zero, 2000, 600, 1090)), 100.0, "a burst, then nothing");
        assert_eq!(
            rate(&look(zero, 1000, 500, 200), &look(zero, 2000, 1500, 1990)),
            1000.0,
            "nothing before"
        );
        assert_eq!(rate(&begin, &look(zero, 2000, 500, 990)), 0.0, "nothing at all");
    }
}
