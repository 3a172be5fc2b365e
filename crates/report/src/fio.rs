//! A benchmark in the shape of fio's `--output-format=json` (fio 3.x), for dashboards that read that: one job
//! for each measurement.
//!
//! Only keys that fio has, with fio's units: bandwidth in KiB/s (`bw`) and bytes/s (`bw_bytes`), times in ms
//! and ns. What linerate does not measure is left out rather than written as zero: submission latencies,
//! context switches, page faults, the histogram of depth. `tests/fast/benchmarks/formats.rs` holds the list to fio.

use super::figure::rate;
use linerate_facts::printable::printable;
use linerate_measure::measure::access::{
    Access, AccessJob, AccessOrder, AccessResult, DeviceUse, Engine, Latency, SideResult, SyncMethod,
    WriteSync,
};
use linerate_measure::measure::{CoreUse, Measurement};
use linerate_measure::run::Run;
use serde_json::{Map, Value, json};

/// Of each unit of fio's its name, nanoseconds, and the bounds of its shares in it.
const UNITS: [(&str, u64, &[u64]); 3] = [
    ("latency_ns", 1, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
    ("latency_us", 1_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
    ("latency_ms", 1_000_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000]),
];
/// In ms, for what took longer than all bounds.
const LONGER: &str = ">=2000";

/// A run in the shape of `fio --output-format=json`, a job for each measurement of files; a newline at its end.
pub fn json(run: &Run) -> String {
    let accesses: Vec<(&Measurement, &AccessResult)> =
        run.measurements.iter().filter_map(|m| Some((m, m.access.as_deref()?))).collect();
    let jobs: Vec<Value> =
        accesses.iter().enumerate().map(|(index, (m, access))| job(index, m, access)).collect();
    let started = humantime::parse_rfc3339(&run.started).ok();
    let since = started.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let whole = json!({
        // What reads fio's files looks at this to tell what it reads.
        "fio version": format!("linerate-{}", run.version),
        "timestamp": since.as_secs(),
        "timestamp_ms": since.as_millis() as u64,
        "time": run.started,
        "jobs": jobs,
        "disk_util": devices(&accesses),
    });
    // Only maps with keys that are not strings can fail, and there are none.
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

fn job(index: usize, m: &Measurement, access: &AccessResult) -> Value {
    let runtime_ms = m.seconds.max(0.0) * 1e3;
    let (user, system) = cpu_percent(m, access);
    let write_share = share_of_writes(access);
    let mut whole = json!({
        "jobname": printable(&m.name),
        "groupid": index,
        // fio gives an errno, here EIO; run.json has the errors as text.
        "error": if access.errors.is_empty() { 0 } else { 5 },
        "elapsed": m.seconds.ceil() as u64,
        "job options": options(&access.job),
        "read": side(access.reads.as_ref(), m, 1.0 - write_share),
        "write": side(access.writes.as_ref(), m, write_share),
        "trim": side(None, m, 0.0),
        "job_runtime": (runtime_ms * f64::from(access.job.workers)) as u64,
        "usr_cpu": user,
        "sys_cpu": system,
        "eta": 0,
        // No latency was aimed at: fio's values without `latency_target`.
        "latency_depth": access.job.queue_depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Value::Object(keys) = &mut whole {
        keys.extend(distribution(access));
        if let Some(syncs) = &access.syncs {
            let times = latency(&syncs.latency, syncs.operations, true);
            keys.insert("sync".into(), json!({ "total_ios": syncs.operations, "lat_ns": times }));
        }
    }
    whole
}

/// Percent of all requests, reads and writes, between fio's bounds; nothing where that was not kept.
fn distribution(access: &AccessResult) -> Map<String, Value> {
    let sides: Vec<&SideResult> = access.reads.iter().chain(&access.writes).collect();
    let all = sides.iter().map(|side| side.operations).sum::<u64>().max(1) as f64;
    if sides.iter().all(|side| side.latency.distribution.is_empty()) {
        return Map::new();
    }
    let percent = |bound_nanos: Option<u64>| {
        let of_side = |side: &&SideResult| {
            let here =
                side.latency.distribution.iter().filter(|one| nanos_of(one.below_seconds) == bound_nanos);
            here.map(|one| super::figure::share(one.share)).sum::<f64>() * side.operations as f64
        };
        json!(sides.iter().map(of_side).sum::<f64>() * 100.0 / all)
    };
    let mut maps = Map::new();
    for (name, unit, bounds) in UNITS {
        let mut map: Map<String, Value> =
            bounds.iter().map(|bound| (bound.to_string(), percent(Some(bound * unit)))).collect();
        if bounds.contains(&2000) {
            map.insert(LONGER.into(), percent(None));
        }
        maps.insert(name.into(), Value::Object(map));
    }
    maps
}

fn nanos_of(seconds: Option<f64>) -> Option<u64> {
    seconds.map(|seconds| (seconds * 1e9).round() as u64)
}

/// Of the samples' rate, what was written.
fn share_of_writes(access: &AccessResult) -> f64 {
    let bytes = |side: &Option<SideResult>| side.as_ref().map_or(0.0, |side| side.bytes_per_second);
    let (read, written) = (bytes(&access.reads), bytes(&access.writes));
    if read + written > 0.0 { written / (read + written) } else { 0.0 }
}

fn side(side: Option<&SideResult>, m: &Measurement, share: f64) -> Value {
    let empty = SideResult::default();
    let done = side.unwrap_or(&empty);
    let moved = done.operations > 0;
    let bytes_per_second = rate(done.bytes_per_second).unwrap_or(0.0);
    let operations_per_second = rate(done.operations_per_second).unwrap_or(0.0);
    let size = if done.operations > 0 { done.bytes as f64 / done.operations as f64 } else { 1.0 };
    let samples: Vec<f64> =
        if moved { m.samples.iter().filter_map(|sample| rate(sample * share)).collect() } else { Vec::new() };
    let least = samples.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let most = samples.iter().copied().reduce(f64::max).unwrap_or(0.0);
    let mean = mean(&samples);
    let spread = deviation(&samples);
    let whole = if bytes_per_second > 0.0 { (mean / bytes_per_second).min(1.0) } else { 0.0 };
    json!({
        "io_bytes": done.bytes,
        "io_kbytes": done.bytes / 1024,
        "bw_bytes": bytes_per_second as u64,
        "bw": (bytes_per_second / 1024.0) as u64,
        "iops": operations_per_second,
        "runtime": if moved { (m.seconds.max(0.0) * 1e3) as u64 } else { 0 },
        "total_ios": done.operations,
        "clat_ns": latency(&done.latency, done.operations, true),
        "lat_ns": latency(&done.latency, done.operations, false),
        "bw_min": (least / 1024.0) as u64,
        "bw_max": (most / 1024.0) as u64,
        // Of all jobs of its group, and each is a group of its own.
        "bw_agg": whole * 100.0,
        "bw_mean": mean / 1024.0,
        "bw_dev": spread / 1024.0,
        "bw_samples": samples.len(),
        "iops_min": (least / size) as u64,
        "iops_max": (most / size) as u64,
        "iops_mean": mean / size,
        "iops_stddev": spread / size,
        "iops_samples": samples.len(),
    })
}

/// 0 of none.
fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// The standard deviation of a sample, as fio has it; 0 of fewer than two.
fn deviation(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// From submission to completion; in an open loop from the intended start. One time stands for both of fio's.
fn latency(latency: &Latency, operations: u64, percentiles: bool) -> Value {
    let nanos = |seconds: f64| (rate(seconds).unwrap_or(0.0) * 1e9).round() as u64;
    let mut map = Map::new();
    map.insert("min".into(), json!(nanos(latency.minimum)));
    map.insert("max".into(), json!(nanos(latency.maximum)));
    map.insert("mean".into(), json!(rate(latency.mean).unwrap_or(0.0) * 1e9));
    if let Some(deviation) = latency.standard_deviation.or((operations == 0).then_some(0.0)) {
        map.insert("stddev".into(), json!(rate(deviation).unwrap_or(0.0) * 1e9));
    }
    map.insert("N".into(), json!(operations));
    if percentiles && operations > 0 {
        let shown = [
            (0.5, latency.p50),
            (0.9, latency.p90),
            (0.95, latency.p95),
            (0.99, latency.p99),
            (0.999, latency.p99_9),
            (0.9999, latency.p99_99),
        ];
        let more = latency.quantiles.iter().map(|one| (one.quantile, one.seconds));
        let mut fields: Vec<(f64, f64)> = shown.into_iter().chain(more).collect();
        fields.sort_by(|one, other| one.0.total_cmp(&other.0));
        let fields =
            fields.iter().map(|(share, seconds)| (format!("{:.6}", share * 100.0), json!(nanos(*seconds))));
        map.insert("percentile".into(), Value::Object(fields.collect()));
    }
    Value::Object(map)
}

/// Percent of a core for each worker, as fio tells it, parted into user and system as the cores of the
/// machine were at that time.
fn cpu_percent(m: &Measurement, access: &AccessResult) -> (f64, f64) {
    let total =
        m.cpu_seconds_per_gb * m.bytes_per_second / 1e9 * 100.0 / f64::from(access.job.workers.max(1));
    let total = rate(total).unwrap_or(0.0);
    let sum = |of: fn(&CoreUse) -> f64| m.cpu_by_core.iter().map(of).sum::<f64>();
    let (user, system) = (sum(|core| core.user + core.nice), sum(|core| core.system));
    let share = if user + system > 0.0 { user / (user + system) } else { 0.5 };
    (total * share, total * (1.0 - share))
}

/// The job in fio's words, as far as it has them.
fn options(job: &AccessJob) -> Value {
    let access = match (job.order, job.access) {
        (AccessOrder::Sequential, Access::Read) => "read",
        (AccessOrder::Sequential, Access::Write) => "write",
        (AccessOrder::Sequential, Access::Mixed { .. }) => "rw",
        (_, Access::Read) => "randread",
        (_, Access::Write) => "randwrite",
        (_, Access::Mixed { .. }) => "randrw",
    };
    let engine = match job.engine {
        Engine::IoUring => "io_uring",
        Engine::Psync => "psync",
        Engine::Mmap => "mmap",
    };
    let mut map = Map::new();
    let mut add = |key: &str, value: String| map.insert(key.into(), Value::String(value));
    add("rw", access.into());
    add("bs", job.transfer_bytes.to_string());
    add("size", job.block_bytes.saturating_mul(job.segments).to_string());
    add("numjobs", job.workers.to_string());
    add("iodepth", job.queue_depth.to_string());
    add("ioengine", engine.into());
    add("direct", u8::from(job.direct).to_string());
    let sources: Vec<String> = job.sources.iter().map(|path| path.display().to_string()).collect();
    add("directory", sources.join(":"));
    if let Access::Mixed { read_share } = job.access {
        add("rwmixread", format!("{:.0}", read_share * 100.0));
    }
    if let Some(seconds) = job.seconds {
        add("runtime", seconds.to_string());
    }
    if job.fsync {
        add("end_fsync", "1".into());
    }
    match job.sync {
        Some(WriteSync { method: SyncMethod::Data, every }) => add("fdatasync", every.to_string()),
        Some(WriteSync { method: SyncMethod::Full, every }) => add("fsync", every.to_string()),
        Some(WriteSync { method: SyncMethod::Direct, .. }) => add("sync", "dsync".into()),
        None => None,
    };
    Value::Object(map)
}

/// The devices, each with the most that a measurement made of it.
fn devices(accesses: &[(&Measurement, &AccessResult)]) -> Vec<Value> {
    let mut most: Vec<&DeviceUse> = Vec::new();
    for device in accesses.iter().flat_map(|(_, access)| &access.devices) {
        match most.iter_mut().find(|other| other.name == device.name) {
            Some(other) if other.utilisation < device.utilisation => *other = device,
            Some(_) => {}
            None => most.push(device),
        }
    }
    let percent = |share: f64| super::figure::share(share) * 100.0;
    most.iter().map(|device| json!({ "name": device.name, "util": percent(device.utilisation) })).collect()
}
