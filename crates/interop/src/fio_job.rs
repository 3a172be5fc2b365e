//! One figure of fio: a job, or the jobs of a group together.

use crate::fio_json::{FioSide, Job, Times};
use crate::lenient::{Number, Text};
use crate::verdict::FigureContext;
use linerate_measure::measure::access::fio_job::values;
use linerate_measure::measure::access::{
    Access, AccessJob, AccessOrder, AccessResult, DeviceUse, Engine, Latency, LatencyQuantile, SideResult,
};
use linerate_measure::measure::{Measurement, Stage, WorkerResult};
use linerate_model::verdict::RequestsEvidence;
use std::collections::BTreeMap;

/// Options by which a job pauses by itself.
const PAUSES: [&str; 4] = ["thinktime", "flow", "latency_target", "rate_process"];

/// The options of a job, its own before those of all; fio's defaults for the others.
pub(crate) struct JobOptions {
    options: BTreeMap<String, Text>,
    /// fio wrote its options.
    known: bool,
    /// Processes that its figures are of.
    processes: f64,
}

impl JobOptions {
    pub(crate) fn of(global: &BTreeMap<String, Text>, job: &Job) -> Self {
        let mut options = global.clone();
        options.extend(job.options.clone().unwrap_or_default());
        let known = job.options.is_some() || !global.is_empty();
        let mut found = JobOptions { known, options, processes: 1.0 };
        // fio leaves out options without a value, `group_reporting` among them.
        let in_options = || if found.is_on("group_reporting") { found.number("numjobs") } else { None };
        found.processes = job.processes().or_else(in_options).unwrap_or(1.0);
        found
    }

    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.options.get(*name)).map(|text| text.0.as_str())
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.get(&[name])?.parse().ok().filter(|number: &f64| (1.0..=1e6).contains(number))
    }

    /// A key alone is on.
    fn is_on(&self, name: &str) -> bool {
        self.get(&[name]).is_some_and(|value| value.is_empty() || values::switch(Some(value)) == Some(true))
    }

    fn engine_name(&self) -> &str {
        self.get(&["ioengine"]).filter(|name| !name.is_empty()).unwrap_or("psync")
    }

    /// Those that linerate does not have are asynchronous but for few.
    fn engine(&self) -> Engine {
        values::engine(self.engine_name()).unwrap_or(Engine::IoUring)
    }

    fn is_direct(&self) -> bool {
        self.is_on("direct") || self.get(&["buffered"]) == Some("0")
    }

    /// It asks all the time whether a request has come to its end.
    fn polls(&self) -> bool {
        self.is_on("hipri")
            || self.is_on("sqthread_poll")
            || self.get(&["iodepth_batch_complete_min"]) == Some("0")
    }

    /// Requests in flight of each of its processes; a blocking engine has one, whatever `iodepth` is.
    fn depth(&self) -> f64 {
        let depth = self.number("iodepth").filter(|_| self.engine() == Engine::IoUring);
        depth.unwrap_or(1.0)
    }

    /// None: it is not in fio's file, or linerate has no such pattern.
    fn pattern(&self) -> Option<(AccessOrder, Access)> {
        let word = self.get(&["rw", "readwrite"]).filter(|word| !word.is_empty()).unwrap_or("read");
        let word = word.split(':').next().unwrap_or(word);
        let share = |name| self.get(&[name])?.parse().ok().filter(|percent| *percent <= 100);
        let mixed = values::mixed(share("rwmixread"), share("rwmixwrite"));
        values::pattern(word, mixed).filter(|_| self.known)
    }

    /// Bytes per second that its user allows all of it.
    fn rate_limit(&self, bytes_each: f64) -> Option<f64> {
        let bytes = self.in_its_directions("rate");
        let requests = self.in_its_directions("rate_iops");
        bytes.or(requests.map(|requests| requests * bytes_each)).map(|rate| rate * self.processes)
    }

    /// A limit of reads and one of writes, or one value for each of them: what all that the job does may reach.
    fn in_its_directions(&self, name: &str) -> Option<f64> {
        let rate = |word: &str| values::size(word.trim()).filter(|rate| *rate > 0).map(|rate| rate as f64);
        let mut rates = self.get(&[name])?.split(',').map(rate);
        let reads = rates.next().flatten();
        let writes = rates.next().unwrap_or(reads);
        match self.pattern()?.1 {
            Access::Read => reads,
            Access::Write => writes,
            Access::Mixed { .. } => Some(reads? + writes?),
        }
    }

    fn job(&self, bytes_each: f64) -> AccessJob {
        let (order, access) = self.pattern().unwrap_or((AccessOrder::Sequential, Access::Read));
        let workers = if self.pattern().is_some() { self.processes as u32 } else { 0 };
        AccessJob {
            sources: values::named(self.get(&["filename", "directory"]).unwrap_or_default()),
            workers,
            transfer_bytes: bytes_each.round() as u64,
            block_bytes: bytes_each.round() as u64,
            queue_depth: self.depth() as u32,
            engine: self.engine(),
            direct: self.is_direct(),
            fsync: self.is_on("end_fsync"),
            limit_bytes_per_second: self.rate_limit(bytes_each),
            ..AccessJob::plain(access, order)
        }
    }
}

/// The figure of these jobs, which ran at once.
pub(crate) fn figure(tool: &str, jobs: &[&Job], options: &[JobOptions]) -> (Measurement, FigureContext) {
    let first = &options[0];
    let together = jobs.len() > 1;
    let reads = side_result(jobs, Job::reads);
    let writes = side_result(jobs, |job| &job.write);
    let rate = [&reads, &writes].into_iter().flatten().map(|side| side.bytes_per_second).sum();
    let counted = |of: fn(&SideResult) -> f64| [&reads, &writes].into_iter().flatten().map(of).sum::<f64>();
    let (bytes, operations) = (counted(|side| side.bytes as f64), counted(|side| side.operations as f64));
    let bytes_each = bytes / operations.max(1.0);
    let mut job = first.job(bytes_each);
    if together {
        let alike = options.iter().all(|other| {
            let other = other.job(bytes_each);
            (other.order, other.access, other.queue_depth, other.direct, other.engine)
                == (job.order, job.access, job.queue_depth, job.direct, job.engine)
        });
        let workers: f64 = options.iter().map(|one| one.processes).sum();
        job.workers = if alike && job.workers > 0 { workers as u32 } else { 0 };
    }
    let milliseconds =
        jobs.iter().flat_map(|job| [job.reads(), &job.write]).map(|side| side.runtime.or_zero());
    let seconds = milliseconds.fold(0.0, f64::max) / 1000.0;
    let at_once: f64 = options.iter().map(|one| one.depth() * one.processes).sum();
    let limits = options.iter().map(|one| one.rate_limit(bytes_each)).sum();
    let requests = counted(|side| side.operations_per_second);
    let waits = counted(|side| side.operations_per_second * side.latency.mean);
    let least = [&reads, &writes].into_iter().flatten().map(|side| side.latency.minimum).reduce(f64::min);
    // A request that is flushed has come to its end after that.
    let flushes = |job: &&Job| job.sync.lat_ns.mean.or_zero() * 1e-9 * job.sync.lat_ns.count.or_zero();
    let flushing = jobs.iter().map(flushes).sum::<f64>() / operations.max(1.0);
    let cpus: f64 = jobs.iter().zip(options).map(|(job, options)| job.cpu_share() * options.processes).sum();
    let beside = FigureContext {
        rate_limit: limits,
        requests: (first.known && requests > 0.0 && waits > 0.0).then_some(RequestsEvidence {
            at_once,
            seconds: waits / requests + flushing,
            flush_seconds: flushing,
            least_seconds: least.filter(|seconds| *seconds > 0.0),
        }),
        unknown: options.iter().find_map(pause_of_job),
        is_direct: options.iter().all(JobOptions::is_direct),
        cpus: Some(cpus),
        polls: options.iter().any(JobOptions::polls),
        ..FigureContext::default()
    };
    let worker = |(index, (job, options)): (usize, (&&Job, &JobOptions))| WorkerResult {
        worker: index,
        bytes_per_second: job.reads().bytes_per_second() + job.write.bytes_per_second(),
        queue_depth: (options.depth() * options.processes) as u32,
        cpu_share: job.cpu_share(),
        ..WorkerResult::default()
    };
    let mut access = AccessResult::of(job);
    access.checks.little_depth = waits;
    access.checks.asked_depth = if first.known { at_once } else { 0.0 };
    (access.reads, access.writes) = (reads, writes);
    let measurement = Measurement {
        stage: Stage::Disk,
        name: if together { format!("{} jobs together", jobs.len()) } else { jobs[0].jobname.0.clone() },
        resource: "all".into(),
        together,
        bytes_per_second: rate,
        samples: vec![rate],
        seconds,
        cpu_seconds_per_gb: if bytes > 0.0 { cpus * seconds * 1e9 / bytes } else { 0.0 },
        method: method(tool, first),
        flags: notes(jobs),
        workers: jobs.iter().zip(options).enumerate().map(worker).collect(),
        access: Some(Box::new(access)),
        ..Measurement::default()
    };
    (measurement, beside)
}

/// What the disks below did; a figure of one disk is that disk's.
pub(crate) fn set_devices(whole: &mut Measurement, devices: Vec<DeviceUse>) {
    if let [one] = &devices[..] {
        whole.resource = format!("disk:{}", one.name);
        whole.workers.iter_mut().for_each(|worker| worker.source = whole.resource.clone());
    }
    if let Some(access) = &mut whole.access {
        access.devices = devices.clone();
    }
    whole.devices = devices;
}

fn pause_of_job(options: &JobOptions) -> Option<String> {
    let paused = PAUSES.iter().find(|name| options.get(&[name]).is_some_and(|value| value != "0"))?;
    Some(format!("the job pauses by itself ({paused})"))
}

fn method(tool: &str, options: &JobOptions) -> String {
    if !options.known {
        return tool.to_string();
    }
    let cache = if options.is_direct() { "O_DIRECT" } else { "buffered" };
    format!("{tool}, {}, {cache}", options.engine_name())
}

/// What the columns do not hold.
fn notes(jobs: &[&Job]) -> Vec<String> {
    let flushed = jobs.iter().map(|job| &job.sync.lat_ns).filter(|times| times.count.or_zero() > 0.0);
    let flushed = flushed.max_by(|one, other| one.mean.or_zero().total_cmp(&other.mean.or_zero()));
    let milliseconds = |number: Number| number.or_zero() * 1e-6;
    let flushed = flushed.map(|times| {
        let p99 = times.percentile.get("99.000000").copied().unwrap_or_default();
        format!(
            "{} flushes, {:.3} ms on the mean, p99 {:.3} ms",
            times.count.count(),
            milliseconds(times.mean),
            milliseconds(p99)
        )
    });
    let trimmed = jobs.iter().any(|job| job.trims()).then(|| "trims are not counted".to_string());
    flushed.into_iter().chain(trimmed).collect()
}

/// Reads or writes of all of them: fio's own sum, all bytes over the longest time.
fn side_result(jobs: &[&Job], of: impl Fn(&Job) -> &FioSide) -> Option<SideResult> {
    let sides: Vec<&FioSide> =
        jobs.iter().map(|job| of(job)).filter(|side| side.operations() > 0.0).collect();
    let sum = |of: fn(&FioSide) -> f64| sides.iter().map(|side| of(side)).sum::<f64>();
    let (operations, bytes) = (sum(FioSide::operations), sum(FioSide::bytes));
    let seconds = sides.iter().map(|side| side.runtime.or_zero()).fold(0.0, f64::max) / 1000.0;
    let (bytes_per_second, operations_per_second) = match &sides[..] {
        [] => return None,
        [one] => (one.bytes_per_second(), one.operations_per_second()),
        _ if seconds > 0.0 => (bytes / seconds, operations / seconds),
        _ => (sum(FioSide::bytes_per_second), sum(FioSide::operations_per_second)),
    };
    let latency = match &sides[..] {
        [one] => latency(one),
        several => joined_latency(several),
    };
    Some(SideResult {
        operations: operations as u64,
        bytes: bytes as u64,
        operations_per_second,
        bytes_per_second,
        latency,
    })
}

/// Of one job: the mean is of the whole request, percentiles are of that as well where fio has them, else of its
/// completion, as in fio's own summary.
fn latency(side: &FioSide) -> Latency {
    let (whole, completion, unit) = request_times(side);
    let percentiles = if whole.percentile.is_empty() { completion } else { whole };
    let mut quantiles: Vec<LatencyQuantile> = percentiles
        .percentile
        .iter()
        .filter_map(|(key, value)| {
            let quantile = key.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share))? / 100.0;
            Some(LatencyQuantile { quantile, seconds: value.positive()? * unit })
        })
        .collect();
    quantiles.sort_by(|one, other| one.quantile.total_cmp(&other.quantile));
    let mut take = |wanted: f64| {
        let at = quantiles.iter().position(|one| (one.quantile - wanted).abs() < 1e-9);
        at.map_or(0.0, |at| quantiles.remove(at).seconds)
    };
    Latency {
        mean: whole.mean.or_zero() * unit,
        minimum: whole.min.or_zero() * unit,
        maximum: whole.max.or_zero() * unit,
        p50: take(0.5),
        p90: take(0.9),
        p95: take(0.95),
        p99: take(0.99),
        p99_9: take(0.999),
        p99_99: take(0.9999),
        standard_deviation: whole.stddev.get().map(|value| value * unit),
        quantiles,
        distribution: Vec::new(),
    }
}

/// The whole request, its completion, and the unit of both in seconds.
fn request_times(side: &FioSide) -> (&Times, &Times, f64) {
    let (whole, completion, unit) =
        match side.clat_ns.mean.get().is_some() || side.lat_ns.mean.get().is_some() {
            true => (&side.lat_ns, &side.clat_ns, 1e-9),
            false => (&side.lat, &side.clat, 1e-6),
        };
    // With `gtod_reduce` and its like only one of them is there.
    (if whole.mean.or_zero() > 0.0 { whole } else { completion }, completion, unit)
}

/// Of several jobs: what can be joined. Their percentiles cannot.
fn joined_latency(sides: &[&FioSide]) -> Latency {
    let all: f64 = sides.iter().map(|side| side.operations()).sum();
    let seconds = |of: fn(&Times) -> Number| {
        move |side: &&FioSide| {
            let (whole, _, unit) = request_times(side);
            of(whole).or_zero() * unit
        }
    };
    let mean = seconds(|times| times.mean);
    Latency {
        mean: sides.iter().map(|side| mean(side) * side.operations()).sum::<f64>() / all.max(1.0),
        minimum: sides.iter().map(seconds(|times| times.min)).fold(f64::MAX, f64::min),
        maximum: sides.iter().map(seconds(|times| times.max)).fold(0.0, f64::max),
        ..Latency::default()
    }
}
