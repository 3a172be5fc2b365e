//! The flows of one member in one window: connections to the agents of the receivers, begun together, rates
//! counted by the receivers.

use crate::host_load::HostLoad;
use crate::protocol::{FlowFailure, FlowReport, FlowRequest};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_transport::agent::{AgentSession, Key, LocalBinding, OpenRequest};
use linerate_transport::flow::stream::{
    Content, StreamCounters, StreamRole, StreamSample, StreamSocket, StreamSpec, start,
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

/// A flow with its connections.
pub(crate) struct PreparedFlow {
    to: usize,
    session: AgentSession,
    streams: Vec<(StreamSpec, StreamSocket)>,
}

/// Connects all flows at once; those that cannot be come back with the reason.
pub(crate) fn prepare(
    requests: &[FlowRequest],
    key: &Key,
    stop: &AtomicBool,
) -> (Vec<PreparedFlow>, Vec<FlowFailure>) {
    let (mut flows, mut failures) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .map(|request| (request.to, scope.spawn(move || prepare_one(request, key, stop))))
            .collect();
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

fn prepare_one(request: &FlowRequest, key: &Key, stop: &AtomicBool) -> Result<PreparedFlow, Failure> {
    let session = AgentSession::connect(request.address, key)?;
    let count = request.streams.max(1);
    let own = StreamSpec {
        write_bytes: WRITE_BYTES,
        bytes_per_second: request.bytes_per_second.map(|rate| rate / f64::from(count)),
        ..StreamSpec::new(Protocol::Tcp, StreamRole::Send)
    };
    let theirs = StreamSpec { role: StreamRole::Receive, bytes_per_second: None, ..own.clone() };
    let opened =
        session.open(OpenRequest { streams: vec![theirs; count as usize], ..OpenRequest::default() })?;
    let mut streams = Vec::new();
    for ticket in &opened.streams {
        let spec = ticket.held(own.clone());
        let socket = session.connect_stream_until(ticket, &spec, LocalBinding::default(), stop)?;
        streams.push((spec, socket));
    }
    Ok(PreparedFlow { to: request.to, session, streams })
}

/// When a window begins and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub begin: Instant,
    pub warm_up: Duration,
    pub length: Duration,
}

/// Why a flow has no figure.
#[derive(Debug, thiserror::Error)]
enum FlowError {
    #[error("no thread for a stream: {0}")]
    Thread(std::io::Error),
    #[error("{0}")]
    Receiver(Failure),
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
            reports.push(measured.unwrap_or_else(|error| FlowReport {
                to,
                failure: Some(error.to_string()),
                ..FlowReport::default()
            }));
        }
        (reports, load.join().unwrap_or_default())
    });
    (began, reports, load)
}

fn measure_one(flow: PreparedFlow, times: WindowTimes, stop: &AtomicBool) -> Result<FlowReport, FlowError> {
    let ended = Arc::new(AtomicBool::new(false));
    let mut running = Vec::new();
    for (spec, socket) in flow.streams {
        let counters = Arc::new(StreamCounters::new(times.begin));
        let stream = start(spec, socket, Content::Memory, Arc::clone(&counters), Arc::clone(&ended))
            .map_err(FlowError::Thread)?;
        running.push((stream, counters));
    }
    let measured = observe(&flow.session, times, stop);
    let sent: Vec<StreamSample> = running.iter().map(|(_, counters)| counters.sample()).collect();
    ended.store(true, Ordering::Release);
    for (stream, _) in running {
        // A receiver that has gone ends its sender with an error, and the counters say so already.
        let _ = stream.join();
    }
    let (bytes_per_second, samples) = measured?;
    if bytes_per_second == 0.0 {
        return Err(FlowError::NoByte);
    }
    let tcp = || sent.iter().filter_map(|sample| sample.tcp.as_ref());
    Ok(FlowReport {
        to: flow.to,
        bytes_per_second,
        samples,
        retransmits: tcp().map(|tcp| tcp.retransmits).sum(),
        rtt_micros: tcp().map(|tcp| tcp.rtt_micros).max(),
        failure: None,
    })
}

/// The rate of the whole window, and of each second of it.
fn observe(
    session: &AgentSession,
    times: WindowTimes,
    stop: &AtomicBool,
) -> Result<(f64, Vec<f64>), FlowError> {
    let first_at = times.begin + times.warm_up;
    let end = first_at + times.length;
    let look = || session.sample().map(|sample| sample.streams).map_err(FlowError::Receiver);
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

/// Sum over the streams, each by the clock of its receiver and between its own completions.
fn rate_between(before: &[StreamSample], after: &[StreamSample]) -> f64 {
    let rate = |(before, after): (&StreamSample, &StreamSample)| {
        let bytes = after.bytes.saturating_sub(before.bytes) as f64;
        let nanos = after.bytes_nanos.saturating_sub(before.bytes_nanos) as f64;
        if nanos > 0.0 { bytes * 1e9 / nanos } else { 0.0 }
    };
    before.iter().zip(after).map(rate).sum()
}

pub(crate) fn sleep_until(moment: Instant, stop: &AtomicBool) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
