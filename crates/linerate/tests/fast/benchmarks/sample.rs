//! Sample benchmarks of one stage for the tests of charts, comparison and formats: a matrix of jobs, scaling,
//! a load test, memory.

use linerate::measure::access::{
    Access, AccessJob, AccessOrder, AccessResult, Checks, DeviceUse, FileLayout, Latency, LoadCurve,
    LoadPoint, MemoryPoint, Scaling, ScalingCurve, ScalingStep, SideResult,
};
use linerate::measure::{Measurement, Stage};
use linerate::plan::Goal;
use linerate::run::Run;
use std::path::{Path, PathBuf};

/// Every sample by the name of its fixture (`fixtures/stage-NAME.json`).
pub fn stages() -> Vec<(&'static str, Run)> {
    let all = vec![
        ("disk-xfs", disk("xfs", 1.0)),
        ("disk-btrfs", disk("btrfs-raid0", 0.82)),
        ("scaling", scaling()),
        ("load", load("scratch", 2000.0)),
        ("memory", memory()),
    ];
    all.into_iter().map(|(name, run)| (name, short(run))).collect()
}

/// The same with numbers of five digits, which a file gives back as they were.
fn short(run: Run) -> Run {
    fn shorten(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(items) => items.iter_mut().for_each(shorten),
            serde_json::Value::Object(map) => map.values_mut().for_each(shorten),
            serde_json::Value::Number(number) if number.is_f64() => {
                let short = format!("{:.4e}", number.as_f64().unwrap_or(0.0));
                *value = serde_json::Value::from(short.parse::<f64>().expect("a number"));
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(run).expect("a value");
    shorten(&mut value);
    serde_json::from_value(value).expect("a benchmark")
}

/// A place in the folder of samples.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(format!("{name}.json"))
}

/// A whole run: its machine is that of the samples.
pub fn whole() -> Run {
    linerate::report::read(&fixture("run-lab-disks")).expect("a sample run")
}

/// An empty benchmark of a machine with a name of its own.
pub fn begin(stage: Stage, name: &str) -> Run {
    let machine = whole().machine;
    let mut run = Run::begin_stage(stage, name.into(), machine, Goal::default());
    run.started = "2026-03-01T12:00:00Z".into();
    run.diagnosis = Some(linerate::diagnose::Diagnosis::default());
    run
}

/// Noise that is the same every time: −1 to 1 from a position.
pub fn noise(seed: u64) -> f64 {
    let mixed =
        (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A job as `linerate disk` runs it.
pub fn job(access: Access, workers: u32, transfer_bytes: u64) -> AccessJob {
    AccessJob {
        sources: vec![PathBuf::from("/data/a"), PathBuf::from("/data/b")],
        workers,
        transfer_bytes,
        block_bytes: 1 << 30,
        seconds: Some(2.0),
        seed: 1,
        ..AccessJob::plain(access, AccessOrder::Sequential)
    }
}

/// A tail as disks have one, around a mean in seconds.
pub fn latency(mean: f64) -> Latency {
    Latency {
        mean,
        minimum: mean * 0.4,
        maximum: mean * 14.0,
        p50: mean * 0.92,
        p90: mean * 1.5,
        p95: mean * 1.9,
        p99: mean * 3.4,
        p99_9: mean * 7.0,
        p99_99: mean * 12.0,
        ..Latency::default()
    }
}

/// What came of a job: these samples, bytes per second.
pub fn measured(job: AccessJob, samples: &[f64]) -> Measurement {
    let rate = linerate::measure::statistics::median(samples);
    let seconds = job.seconds.unwrap_or(2.0);
    let operations = rate / job.transfer_bytes as f64;
    let depth = f64::from(job.workers * job.queue_depth);
    let side = |share: f64| SideResult {
        operations: (operations * share * seconds) as u64,
        bytes: (operations * share * seconds) as u64 * job.transfer_bytes,
        operations_per_second: operations * share,
        bytes_per_second: rate * share,
        latency: latency(depth / operations),
    };
    let read_share = match job.access {
        Access::Read => 1.0,
        Access::Write => 0.0,
        Access::Mixed { read_share } => read_share,
    };
    let direction = if read_share > 0.0 { "read" } else { "write" };
    let name = format!("sequential {direction}, {} KiB, {} workers", job.transfer_bytes >> 10, job.workers);
    let access = AccessResult {
        reads: (read_share > 0.0).then(|| side(read_share)),
        writes: (read_share < 1.0).then(|| side(1.0 - read_share)),
        first_done_bytes_per_second: rate * 1.01,
        last_done_bytes_per_second: rate * 0.98,
        devices: vec![DeviceUse {
            name: "loop0".into(),
            utilisation: 0.97,
            queue_depth: depth,
            read_bytes_per_second: rate * read_share,
            written_bytes_per_second: rate * (1.0 - read_share),
            operations_per_second: operations,
        }],
        checks: Checks {
            little_depth: depth,
            reached_depth: depth,
            asked_depth: depth,
            generator_cpu: 0.08,
            ..Checks::default()
        },
        ..AccessResult::of(job)
    };
    Measurement { access: Some(Box::new(access)), ..bare(Stage::Disk, &name, samples) }
}

/// A measurement with nothing but its samples.
pub fn bare(stage: Stage, name: &str, samples: &[f64]) -> Measurement {
    let mut one = whole().measurements.remove(0);
    one.stage = stage;
    one.name = name.into();
    one.resource = "all".into();
    one.together = true;
    one.bytes_per_second = linerate::measure::statistics::median(samples);
    one.samples = samples.to_vec();
    one.spread = linerate::measure::statistics::spread(samples);
    one.interval = None;
    one.cpu_seconds_per_gb = 0.031;
    one.method = "io_uring READ_FIXED, O_DIRECT".into();
    one.flags.clear();
    one
}

/// Read and write, 1 to 8 workers, 1 and 4 MiB: this factor slower than the sample of xfs.
pub fn disk(name: &str, factor: f64) -> Run {
    let mut run = begin(Stage::Disk, name);
    let mut seed = (factor * 100.0) as u64 * 1000;
    for access in [Access::Read, Access::Write] {
        for transfer in [1u64 << 20, 4 << 20] {
            for workers in [1u32, 2, 4, 8] {
                let most = if access == Access::Read { 800e6 } else { 620e6 * factor };
                let rate =
                    most * (1.0 - (-f64::from(workers) * if transfer > 1 << 20 { 0.9 } else { 0.55 }).exp());
                let samples: Vec<f64> =
                    (0..5).map(|i| (rate * (1.0 + 0.02 * noise(seed + i))).round()).collect();
                seed += 17;
                run.measurements.push(measured(job(access, workers, transfer), &samples));
            }
        }
    }
    run
}

/// 1 to 8 devices of 100 MB/s behind something that carries 300.
pub fn scaling() -> Run {
    let mut run = begin(Stage::Disk, "lab");
    let steps = (1..=8u32).map(|devices| {
        let sum = f64::from(devices) * 99.4e6;
        let rate = (sum * 0.996).min(301e6) * (1.0 + 0.004 * noise(u64::from(devices)));
        ScalingStep {
            devices,
            bytes_per_second: rate.round(),
            share: (rate / sum * 1e4).round() / 1e4,
            spread: 0.011,
        }
    });
    let first = ScalingCurve {
        cell: String::new(),
        steps: steps.collect(),
        levels_off_at: Some(3),
        held_by: Some("a limit common to all devices: none of them is busy all the time".into()),
    };
    run.scaling = Some(Scaling { first, further: Vec::new() });
    run
}

/// Four devices of 100 MB/s: workers × transfer size × layout. Those that write are behind something that
/// carries 300.
pub fn scaling_grid() -> Run {
    let mut run = begin(Stage::Disk, "grid");
    let mut curves = Vec::new();
    for (access, most) in [(Access::Read, 399e6f64), (Access::Write, 300e6)] {
        for transfer in [1u64 << 20, 4 << 20] {
            for layout in [FileLayout::FilePerWorker, FileLayout::Strided] {
                for workers in [4u32, 8, 16] {
                    let sources: Vec<PathBuf> = (0..4).map(|at| format!("/data/{at}").into()).collect();
                    let cell = AccessJob { sources, layout, ..job(access, workers, transfer) };
                    // Few workers with small requests: 81 %, as in the documents.
                    let one = if workers == 4 && transfer == 1 << 20 { most.min(324e6) } else { most };
                    let devices = [(1u32, 100e6), (2, one.min(200e6)), (4, one)];
                    for (devices, rate) in devices {
                        let sources = cell.sources[..devices as usize].to_vec();
                        let part = AccessJob { sources, workers: workers / 4 * devices, ..cell.clone() };
                        let mut figure = measured(part, &[rate * 0.998, rate, rate * 1.002]);
                        let access = figure.access.as_mut().expect("access");
                        let alone = f64::from(devices) * 100e6;
                        access.baseline_bytes_per_second = (devices > 1).then_some(alone);
                        run.measurements.push(figure);
                    }
                    let step = |(devices, rate): (u32, f64)| ScalingStep {
                        devices,
                        bytes_per_second: rate,
                        share: rate / (f64::from(devices) * 100e6),
                        spread: 0.004,
                    };
                    let level = access == Access::Write;
                    curves.push(ScalingCurve {
                        cell: linerate::measure::access::title(&cell),
                        steps: devices.map(step).to_vec(),
                        levels_off_at: level.then_some(2),
                        held_by: level.then(|| "300 MB/s: the disk vda, which all of them lie on".into()),
                    });
                }
            }
        }
    }
    let further = curves.split_off(1);
    run.scaling = Some(Scaling { first: curves.remove(0), further });
    run
}

/// A closed loop on a disk that does so many requests a second with 16 in flight.
pub fn load(name: &str, most: f64) -> Run {
    let mut run = begin(Stage::Load, name);
    let points = [1u32, 2, 4, 8, 16, 32, 64, 128, 256].map(|workers| {
        let wished = f64::from(workers) * most / 12.0;
        let operations = wished * most / (wished.powi(3) + most.powi(3)).cbrt();
        LoadPoint {
            workers,
            offered: None,
            operations_per_second: operations.round(),
            latency: latency(f64::from(workers) / operations),
            spread: 0.02,
            in_flight: None,
            within_limit: f64::from(workers) / operations < 0.1,
        }
    });
    run.load = Some(LoadCurve {
        points: points.to_vec(),
        knee: Some(4),
        highest: Some(128.0),
        limit: "100 ms mean access time".into(),
        ..LoadCurve::default()
    });
    run
}

/// Strides and working sets of three kernels, and the pointer chase.
pub fn memory() -> Run {
    let mut run = begin(Stage::Memory, "memory");
    let sets =
        [(32u64 << 10, "L1", 90e9), (1 << 20, "L2", 45e9), (16 << 20, "L3", 28e9), (1 << 30, "memory", 12e9)];
    let mut seed = 0;
    let mut add = |point: MemoryPoint, rate: f64| {
        seed += 7;
        let samples: Vec<f64> = (0..3).map(|i| (rate * (1.0 + 0.015 * noise(seed + i))).round()).collect();
        run.measurements.push(Measurement { memory: Some(point), ..bare(Stage::Memory, "memory", &samples) });
    };
    for (working_set_bytes, level, rate) in sets {
        for (kernel, store, share) in
            [("read", None, 1.0), ("copy", Some("plain"), 0.6), ("copy", Some("streaming"), 0.75)]
        {
            for stride_bytes in [8u64, 64, 256, 1024, 4096] {
                let point = MemoryPoint {
                    kernel: kernel.into(),
                    store: store.map(String::from),
                    stride_bytes,
                    working_set_bytes,
                    cores: 2,
                    level: level.into(),
                    ..MemoryPoint::default()
                };
                add(point, rate * share * 8.0 / (stride_bytes as f64).clamp(8.0, 512.0).powf(0.9) * 1.2);
            }
        }
        let seconds = match level {
            "L1" => 1.4e-9,
            "L2" => 4.1e-9,
            "L3" => 17e-9,
            _ => 96e-9,
        };
        let point = MemoryPoint {
            kernel: "latency".into(),
            stride_bytes: 64,
            working_set_bytes,
            cores: 1,
            latency_seconds: Some(seconds),
            level: level.into(),
            ..MemoryPoint::default()
        };
        add(point, 64.0 / seconds);
    }
    run
}
