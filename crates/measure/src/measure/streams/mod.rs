//! The streams of `linerate network`: opened, watched, ended, described. `measure(bench, job) ->
//! Measurement`.
//!
//! Rates are what the receivers counted, on their clocks, between completions. What both hosts' kernels counted while a
//! figure was measured is what the ledger is made of. A stream that cannot be opened
//! or that dies is told and the others go on.

pub(crate) mod calibrate;
mod describe;
pub mod find_rate;
pub mod job;
mod observe;
mod open;
mod other_ends;
mod path_mtu;
pub mod result;

use super::product::{Measurement, Stage};
use super::window::WindowSpec;
use crate::event::{Event, Listener, Silent};
pub use calibrate::MethodTrial;
pub(crate) use calibrate::{choose_method, choose_peer_method, choose_streams, compare_congestion_controls};
pub use find_rate::{RateSearch, RateTrial, find_rate};
pub use job::{Handover, SenderSource, StreamDirection, StreamsJob};
use linerate_facts::counters::{DropReasons, NetworkCounters, read_with};
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::PathPlan;
use linerate_model::plan::long_path::LossCount;
use linerate_system::file;
use linerate_system::stop::Stop;
use linerate_transport::agent::AgentSession;
use linerate_transport::flow::stream::Content;
pub use linerate_transport::flow::stream::SendMethod;
use observe::{Observed, RunningStreams};
use open::{Connected, Wanted};
pub(crate) use other_ends::{
    ETHERNET, HEADERS, HEADERS_V6, SentBlindly, all_blind, from_blind, from_iperf3, statistic,
};
pub use path_mtu::PathMtu;
pub(crate) use path_mtu::find_path_mtus;
pub use result::{Buffers, NicAccount, PathFigure, RoundTrips, StreamFigure, StreamsResult};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Of the idle round trips.
const IDLE: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(50), window: Duration::from_millis(400), repeats: 1 };

/// Where streams are measured, and who hears of it.
pub struct StreamBench<'a> {
    pub sysroot: &'a Sysroot,
    pub machine: &'a Machine,
    pub paths: &'a [PathPlan],
    /// One a path, in their order.
    pub sessions: &'a [AgentSession],
    /// The other end is a process of our own on this machine.
    pub loopback: bool,
    /// Bind data sockets to the NIC of their path (SO_BINDTODEVICE).
    pub bind_device: bool,
    /// Have the kernel tell its own reasons of dropped packets (root; a tracefs instance of our own, removed
    /// again).
    pub trace_drops: bool,
    /// The most that all streams of a figure move together, bytes of payload per second.
    pub rate_limit: Option<f64>,
    /// Our ends take only what nobody else wants of the CPUs.
    pub idle: bool,
    pub windows: WindowSpec,
    /// What trials of TCP from here have lost, with the congestion control that the figures have.
    pub losses: LossCount,
    /// Paths whose agents have a test of our own open.
    pub opened: Vec<usize>,
    pub stop: &'a Stop,
    pub listener: &'a mut dyn Listener,
}

/// One figure, and what failed on the way; no figure where nothing was measured.
#[derive(Debug, Default)]
pub struct StreamMeasurement {
    pub measurement: Option<Measurement>,
    pub failures: Vec<String>,
}

impl StreamBench<'_> {
    /// A path in a sentence: `eth0 to 192.0.2.7:7411`.
    fn way(&self, path: usize) -> String {
        format!("{} to {}", self.paths[path].name, self.paths[path].peer)
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.is_ended()
    }
}

/// As [`measure`], but nobody hears of it: for trials.
pub(crate) fn measure_quietly(bench: &mut StreamBench<'_>, job: &StreamsJob) -> StreamMeasurement {
    let mut silent = Silent;
    let name = describe::name(bench, job);
    let mut quiet = StreamBench { listener: &mut silent, opened: Vec::new(), ..*bench };
    if job.behind.file().is_some() { files(&mut quiet, job, &name) } else { streams(&mut quiet, job, &name) }
}

/// Measures a job. Whole files are sent as often as there are windows; everything else runs as long as they
/// last.
pub fn measure(bench: &mut StreamBench<'_>, job: &StreamsJob) -> StreamMeasurement {
    let name = describe::name(bench, job);
    let seconds = bench.windows.total().as_secs_f64();
    bench.listener.hear(&Event::Started { stage: Stage::Network, name: name.clone(), seconds });
    let mut measured =
        if job.behind.file().is_some() { files(bench, job, &name) } else { streams(bench, job, &name) };
    if bench.stopped() {
        // What the stop tears down is not news.
        measured.failures.clear();
    }
    if let Some(measurement) = &measured.measurement {
        bench.listener.hear(&Event::Measured(Box::new(measurement.clone())));
    }
    for failure in &mut measured.failures {
        *failure = format!("{name}: {failure}");
        bench.listener.hear(&Event::Failed(failure.clone()));
    }
    measured
}

fn streams(bench: &mut StreamBench<'_>, job: &StreamsJob, name: &str) -> StreamMeasurement {
    let wanted = open::wanted(bench, job);
    let (connected, mut failures) = open::open(bench, job, wanted);
    if !connected.iter().any(|connected| !connected.wanted.asks()) {
        close(bench);
        return StreamMeasurement { measurement: None, failures };
    }
    let contents = connected.iter().map(|_| Content::Memory).collect();
    let observed = RunningStreams::start(bench, connected, contents).watch();
    failures.extend(observed.failures.iter().cloned());
    let whole = !observed.windows.samples.is_empty();
    StreamMeasurement {
        measurement: whole.then(|| describe::describe(bench, job, name, &observed)),
        failures,
    }
}

/// Round trips of small requests while nothing else is sent; with several paths of the slowest.
pub fn idle_latency(bench: &mut StreamBench<'_>, job: &StreamsJob) -> Option<RoundTrips> {
    let job = StreamsJob { latency: true, ..job.clone() };
    let mut wanted = open::wanted(bench, &job);
    wanted.retain(Wanted::asks);
    wanted.iter_mut().for_each(|wanted| wanted.number = 0);
    let (connected, _) = open::open(bench, &job, wanted);
    if connected.is_empty() {
        close(bench);
        return None;
    }
    let contents = connected.iter().map(|_| Content::Memory).collect();
    let windows = std::mem::replace(&mut bench.windows, IDLE);
    let observed = RunningStreams::start(bench, connected, contents).watch();
    bench.windows = windows;
    let trips = observed.streams.iter().filter_map(|stream| RoundTrips::of(&stream.end.own));
    trips.max_by(|a, b| a.p50.total_cmp(&b.p50))
}

/// Ends tests that were opened and will not run: the next would be refused.
fn close(bench: &StreamBench<'_>) {
    for session in bench.sessions {
        let _ = session.close();
    }
}

/// A file sent whole, a byte range a stream, once a window; the clock stops when the last byte has arrived.
fn files(bench: &mut StreamBench<'_>, job: &StreamsJob, name: &str) -> StreamMeasurement {
    let mut failures = Vec::new();
    let mut last: Option<Observed> = None;
    let mut samples = Vec::new();
    for _ in 0..bench.windows.repeats {
        if bench.stopped() {
            break;
        }
        match send_file(bench, job) {
            Ok((observed, rate)) => {
                failures.extend(observed.failures.iter().cloned());
                samples.extend(rate);
                last = Some(observed);
            }
            Err(why) => {
                failures.extend(why);
                break;
            }
        }
    }
    let measurement = last.filter(|_| !samples.is_empty()).map(|mut observed| {
        observed.windows.samples = samples;
        describe::describe(bench, job, name, &observed)
    });
    StreamMeasurement { measurement, failures }
}

fn send_file(bench: &mut StreamBench<'_>, job: &StreamsJob) -> Result<(Observed, Option<f64>), Vec<String>> {
    let mut wanted = open::wanted(bench, job);
    let contents = ranges(job, &mut wanted).map_err(|why| vec![why])?;
    let length: u64 = wanted.iter().filter_map(|wanted| wanted.spec.limit_bytes).sum();
    let count = wanted.len();
    let (connected, failures) = open::open(bench, job, wanted);
    if connected.len() < count {
        // A file with a hole is not a file.
        close(bench);
        return Err(failures);
    }
    let contents = in_order_of(&connected, contents);
    let (observed, arrived) = RunningStreams::start(bench, connected, contents).until_arrived();
    let rate = arrived.map(|time| length as f64 / time.as_secs_f64().max(1e-9));
    Ok((observed, rate))
}

/// What each stream sends of the file: equal ranges that begin where a page does (O_DIRECT), the last one
/// what is left. Streams for which nothing is left are not opened.
fn ranges(job: &StreamsJob, wanted: &mut Vec<Wanted>) -> Result<Vec<(usize, usize, Content)>, String> {
    const PAGE: u64 = 4096;
    let Some(path) = job.behind.file() else { return Ok(Vec::new()) };
    let label = path.display().to_string();
    let direct = matches!(job.behind, SenderSource::Cold(_));
    let named_error = |error: std::io::Error| format!("{label}: {error}");
    let length = std::fs::metadata(path).map_err(named_error)?.len();
    let senders = wanted.iter().filter(|wanted| !wanted.asks()).count() as u64;
    let each = length.div_ceil(senders.max(1)).next_multiple_of(PAGE);
    open::keep_first(wanted, length.div_ceil(each.max(1)) as usize);
    let mut contents = Vec::new();
    for (number, wanted) in wanted.iter_mut().filter(|wanted| !wanted.asks()).enumerate() {
        let offset = (each * number as u64).min(length);
        let length = each.min(length - offset);
        wanted.spec.limit_bytes = Some(length);
        let file = Arc::new(file::open_to_read(path, direct).map_err(named_error)?);
        let content = Content::File { file, label: label.clone(), offset, length, direct };
        contents.push((wanted.path, wanted.number, content));
    }
    Ok(contents)
}

fn in_order_of(connected: &[Connected], mut contents: Vec<(usize, usize, Content)>) -> Vec<Content> {
    let mut ordered = Vec::new();
    for Connected { wanted, .. } in connected {
        let mine =
            contents.iter().position(|(path, number, _)| (*path, *number) == (wanted.path, wanted.number));
        ordered.push(mine.map_or(Content::Memory, |index| contents.swap_remove(index).2));
    }
    ordered
}

/// One host's counters over the time of a figure, from before its first datagram to after its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Our name or the peer's.
    pub host: String,
    /// Of the other host.
    pub peer: bool,
    /// Names of the paths that lead to it; of our own: all.
    pub paths: Vec<String>,
    /// Its interface on the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Differences.
    pub counters: NetworkCounters,
}

/// Of each host once: ours, then each agent's by its first path. None where an agent did not answer.
fn read_host_counters(bench: &StreamBench<'_>, reasons: &DropReasons) -> Vec<Option<HostCounters>> {
    let nics: Vec<String> = bench.paths.iter().filter_map(|path| path.nic.clone()).collect();
    let host = bench.machine.host.known().cloned().unwrap_or_else(|| "this host".into());
    let own = HostCounters {
        host,
        peer: false,
        paths: bench.paths.iter().map(|path| path.name.clone()).collect(),
        interface: nics.first().cloned(),
        counters: read_with(bench.sysroot, &nics, reasons),
    };
    let mut all = vec![Some(own)];
    let mut known: Vec<&str> = Vec::new();
    for session in bench.sessions {
        let hello = session.hello();
        if known.contains(&hello.instance.as_str()) {
            continue;
        }
        known.push(&hello.instance);
        all.push(session.counters().ok().map(|counters| HostCounters {
            host: hello.host.clone(),
            peer: true,
            paths: paths_to(bench, &hello.instance),
            interface: hello.interface.clone(),
            counters,
        }));
    }
    all
}

/// Several addresses may lead to one agent.
fn paths_to(bench: &StreamBench<'_>, instance: &str) -> Vec<String> {
    let there =
        bench.sessions.iter().zip(bench.paths).filter(|(session, _)| session.hello().instance == instance);
    there.map(|(_, path)| path.name.clone()).collect()
}

/// What was counted in between, of the hosts that answered both times.
fn between_counters(
    before: Vec<Option<HostCounters>>,
    after: Vec<Option<HostCounters>>,
) -> Vec<HostCounters> {
    let pairs = before.into_iter().zip(after).filter_map(|(before, after)| before.zip(after));
    pairs
        .map(|(before, after)| HostCounters { counters: after.counters.since(&before.counters), ..after })
        .collect()
}
