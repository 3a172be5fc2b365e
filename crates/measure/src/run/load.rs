//! `linerate load`: files made ready, the search run on jobs over them, the curve and what holds it.
//!
//! A user is one request in flight. Up to a few for each core they are threads of their own; more of them are
//! requests in flight on these threads, since a thousand threads would measure the scheduler.

use super::{Run, RunContext, Save};
use crate::event::Event;
use crate::measure::access::{
    Access, AccessBench, AccessJob, AccessOrder, FileLayout, Latency, LoadPoint, Permissions, Prepared,
    WARM_UP_SECONDS, conduct,
};
use crate::measure::load::{
    Keep, LoadEnd, Offer, RequestServer, Searched, Taker, at_rate, closed, highest_rate, twice,
};
use crate::measure::{Measurement, Stage};
use linerate_facts::failure::Failure;
use linerate_facts::wording::counted;
use linerate_model::plan::Goal;
use std::path::PathBuf;
use std::time::Duration;

/// Threads for each core before users become requests in flight.
const THREADS_PER_CORE: usize = 2;
/// Threads that do not crowd a small machine.
const MOST_THREADS: usize = 16;
/// Requests in flight of one thread at most: the largest ring.
const DEEPEST: u32 = 4096;
/// A file that is slow to write is shortened after this.
const WRITING_SECONDS: u64 = 8;

/// What is asked, and how it is searched.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// What the user calls it; none: the first source.
    pub name: Option<String>,
    pub sources: Vec<PathBuf>,
    pub search: Search,
    pub keep: Keep,
    /// Bytes a request.
    pub transfer_bytes: u64,
    pub access: Access,
    pub order: AccessOrder,
    /// Of a file that is made in a directory.
    pub file_bytes: u64,
    /// Most users; in an open loop most requests in flight.
    pub workers: u32,
    pub direct: bool,
    /// Length of a window, and windows of a step.
    pub seconds: f64,
    pub repeats: u32,
    pub seed: u64,
    pub permissions: Permissions,
    pub io_uring: bool,
}

/// Which question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Search {
    /// Ever more users.
    Users,
    /// One rate on schedule.
    Rate(f64),
    /// The highest rate that keeps the limit.
    HighestRate,
}

/// Does all of it. A `Failure` means that nothing was measured; what fails later is in `Run::errors`.
pub fn conduct_load(mut context: RunContext<'_>, spec: &LoadSpec) -> Result<Run, Failure> {
    let machine = context.probe();
    let name = spec.name.clone().or_else(|| spec.sources.first().map(|path| path.display().to_string()));
    let mut run = Run::begin_stage(Stage::Load, name.unwrap_or_default(), machine.clone(), goal(spec));
    let bench = AccessBench::new(context.sysroot, &machine, context.stop, &mut *context.listener);
    let mut bench = AccessBench {
        io_uring: spec.io_uring,
        warm_up_seconds: WARM_UP_SECONDS.max(spec.keep.limit.min(1.0) * 2.0),
        windows: spec.repeats,
        ..bench
    };
    let mut permissions = spec.permissions.clone();
    permissions.shorten_after = Some(Duration::from_secs(WRITING_SECONDS));
    let mut prepared = Prepared::new(&bench, &spec.sources, permissions)?;
    let threads = threads(&bench, spec);
    let shape = Shape { spec, threads };
    // One thread has a whole file, many have equal parts of it.
    prepared
        .ready_for(&mut bench, &shape.job(Offer { workers: shape.sources(), requests_per_second: None }))?;
    (context.save)(&run)?;
    let mut steps = Steps { bench, prepared, shape, run: &mut run, save: &mut *context.save, failure: None };
    let Searched { curve, ended } = match spec.search {
        Search::Users => closed(&mut steps, spec.keep, spec.workers),
        Search::Rate(rate) => at_rate(&mut steps, spec.keep, spec.workers, rate),
        Search::HighestRate => highest_rate(&mut steps, spec.keep, spec.workers),
    };
    let failure = steps.failure.take();
    drop(steps);
    if run.measurements.is_empty() {
        return Err(match (failure, ended) {
            (Some(failure), _) => failure,
            (None, Some(LoadEnd::Failed(why))) => Failure::Lacks(why),
            _ => Failure::Interrupted,
        });
    }
    if let Some(LoadEnd::Failed(why)) = ended {
        run.errors.push(why);
    }
    run.load = Some(curve);
    context.finish(run)
}

/// What was asked for, as far as a whole run has words for it; each job is in its measurement.
fn goal(spec: &LoadSpec) -> Goal {
    Goal {
        sources: spec.sources.clone(),
        seconds: Some(spec.seconds),
        repeats: spec.repeats,
        ..Goal::default()
    }
}

/// Of all sources together; each has the same number of them.
fn threads(bench: &AccessBench<'_>, spec: &LoadSpec) -> u32 {
    let wanted = (bench.machine.cpu.usable().len() * THREADS_PER_CORE).clamp(1, MOST_THREADS);
    let sources = spec.sources.len().max(1);
    (wanted.max(sources).div_ceil(sources) * sources) as u32
}

/// How a number of users becomes a job.
struct Shape<'a> {
    spec: &'a LoadSpec,
    threads: u32,
}

impl Shape<'_> {
    fn sources(&self) -> u32 {
        self.spec.sources.len().max(1) as u32
    }

    /// Users that can be had: each thread has as many requests in flight as the others.
    fn users(&self, wanted: u32) -> u32 {
        let wanted = wanted.max(1);
        if wanted <= self.threads {
            return wanted;
        }
        let depth = (wanted + self.threads / 2) / self.threads;
        depth.clamp(1, DEEPEST) * self.threads
    }

    fn job(&self, offer: Offer) -> AccessJob {
        let users = self.users(offer.workers);
        let threads = users.min(self.threads);
        let spec = self.spec;
        let on_a_source = u64::from(threads.div_ceil(self.sources()));
        let part = spec.file_bytes / on_a_source / spec.transfer_bytes * spec.transfer_bytes;
        AccessJob {
            sources: spec.sources.clone(),
            workers: threads,
            layout: FileLayout::Segmented,
            transfer_bytes: spec.transfer_bytes,
            block_bytes: part.max(spec.transfer_bytes),
            queue_depth: users / threads,
            direct: spec.direct,
            seconds: Some(spec.seconds),
            requests_per_second: offer.requests_per_second,
            seed: spec.seed,
            ..AccessJob::plain(spec.access, spec.order)
        }
    }
}

/// The machine as the search sees it.
struct Steps<'a, 'b> {
    bench: AccessBench<'b>,
    prepared: Prepared,
    shape: Shape<'a>,
    run: &'a mut Run,
    save: Save<'a>,
    /// Why no step could be measured, with its exit status.
    failure: Option<Failure>,
}

impl RequestServer for Steps<'_, '_> {
    fn step(&mut self, offer: Offer) -> Result<LoadPoint, LoadEnd> {
        twice(&mut Step(self, offer))
    }

    fn workers(&self, wanted: u32) -> u32 {
        self.shape.users(wanted)
    }
}

/// One step of them.
struct Step<'s, 'a, 'b>(&'s mut Steps<'a, 'b>, Offer);

impl Taker for Step<'_, '_, '_> {
    fn once(&mut self) -> Result<(LoadPoint, Vec<String>), LoadEnd> {
        self.0.once(self.1)
    }

    fn failed(&mut self, error: &str) {
        self.0.bench.listener.hear(&Event::Note(format!("{error}; the step is taken again")));
    }

    fn went_well(&mut self, error: &str) {
        self.0.run.errors.push(format!("{error}; the step was taken again, and went well"));
    }
}

impl Steps<'_, '_> {
    /// One measurement: its point, and what failed in it.
    fn once(&mut self, offer: Offer) -> Result<(LoadPoint, Vec<String>), LoadEnd> {
        if self.bench.stopped() {
            return Err(LoadEnd::Stopped);
        }
        let job = self.shape.job(offer);
        let ready = self.prepared.ready_for(&mut self.bench, &job);
        let measured = ready.and_then(|()| conduct(&mut self.bench, &job, &self.prepared));
        let mut measurement = match measured {
            Ok(measurement) => measurement,
            Err(failure) => {
                let why = failure.to_string();
                self.failure = Some(failure);
                return Err(LoadEnd::Failed(why));
            }
        };
        if measurement.samples.is_empty() || self.bench.stopped() {
            return Err(LoadEnd::Stopped); // cut short: no whole window
        }
        measurement.stage = Stage::Load;
        measurement.name = name(offer, job.workers * job.queue_depth);
        let point = point(offer, &job, &measurement);
        let errors = measurement.access.as_ref().map(|access| access.errors.clone()).unwrap_or_default();
        self.bench.listener.hear(&Event::Measured(Box::new(measurement.clone())));
        self.run.measurements.push(measurement);
        if let Err(failure) = (self.save)(self.run) {
            return Err(LoadEnd::Failed(failure.to_string()));
        }
        Ok((point, errors))
    }
}

fn name(offer: Offer, users: u32) -> String {
    match offer.requests_per_second {
        Some(rate) => format!("{rate} requests/s offered"),
        None => counted(users, "worker"),
    }
}

fn point(offer: Offer, job: &AccessJob, measurement: &Measurement) -> LoadPoint {
    let access = measurement.access.as_ref();
    let sides = || access.into_iter().flat_map(|access| access.reads.iter().chain(&access.writes));
    let operations: u64 = sides().map(|side| side.operations).sum();
    let mean: f64 = sides().map(|side| side.latency.mean * side.operations as f64).sum();
    // Of reads and writes the slower side: a limit holds for both.
    let most = |of: fn(&Latency) -> f64| sides().map(|side| of(&side.latency)).fold(0.0, f64::max);
    LoadPoint {
        workers: job.workers * job.queue_depth,
        offered: offer.requests_per_second,
        operations_per_second: measurement.bytes_per_second / job.transfer_bytes as f64,
        latency: Latency {
            mean: mean / operations.max(1) as f64,
            minimum: sides().map(|side| side.latency.minimum).fold(f64::MAX, f64::min).min(1e9),
            maximum: most(|latency| latency.maximum),
            p50: most(|latency| latency.p50),
            p90: most(|latency| latency.p90),
            p95: most(|latency| latency.p95),
            p99: most(|latency| latency.p99),
            p99_9: most(|latency| latency.p99_9),
            p99_99: most(|latency| latency.p99_99),
            ..Latency::default()
        },
        spread: measurement.spread,
        in_flight: access.map(|access| access.checks.reached_depth),
        within_limit: false,
    }
}
