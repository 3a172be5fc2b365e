//! `linerate memory`: read, write, copy and triad by store, stride, working set, cores and nodes, and latency
//! by pointer chase.
//!
//! Bytes are counted as STREAM does (McCalpin 1995): those that the program names, 8 a word read and 8 a word
//! written. A plain store to a line in no cache reads it first, so more than that crosses the bus;
//! [`bus_factor`] tells how much. The workers stay on their cores and go round their share of the arrays;
//! windows of time are taken over them as everywhere in linerate (`window`).

mod points;
mod worker;

use super::statistics::median;
use super::window::{OwnMeter, Watch, WindowObservation, WindowSpec};
use super::{Measurement, MemoryPoint, Stage, StageFigures, trust};
use crate::event::{Event, Listener};
use linerate_facts::host::HostSampler;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_machine::probe::Machine;
pub use linerate_system::memory::Store;
use linerate_system::stop::Stop;
use linerate_system::{clock, memory};
use linerate_transport::flow::counters::WorkerCounters;
pub use points::{CacheLevel, Cores, MemorySpec, Point, WorkingSet, levels, points};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use strum::VariantArray;
use worker::{Arenas, SweepWork};

/// Windows in which nothing was completed are taken again, so many times as long.
const WINDOWS_LONGER: [u32; 3] = [1, 4, 16];

/// What is done with the words.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum MemoryKernel {
    Read,
    Write,
    Copy,
    Triad,
    /// One access after the other, each to the line that the last one named.
    Latency,
}

impl MemoryKernel {
    /// As in `MemoryPoint::kernel` and on the command line.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Arrays that it works on.
    pub fn arrays(self) -> u64 {
        match self {
            MemoryKernel::Read | MemoryKernel::Write | MemoryKernel::Latency => 1,
            MemoryKernel::Copy => 2,
            MemoryKernel::Triad => 3,
        }
    }

    /// It writes into one of them.
    pub fn stores(self) -> bool {
        matches!(self, MemoryKernel::Write | MemoryKernel::Copy | MemoryKernel::Triad)
    }
}

/// Arrays of a kernel by its word; 1 for a word that names no kernel.
pub fn arrays_of(kernel: &str) -> u64 {
    let known = MemoryKernel::VARIANTS.iter().find(|known| known.word() == kernel);
    known.map_or(1, |known| known.arrays())
}

/// Bytes that cross the bus for each one counted, where nothing is in a cache: with plain stores the line
/// written is read first (write-allocate). Some processors leave that out for whole lines under load (Intel's
/// SpecI2M), so it is what crosses at most.
pub fn bus_factor(kernel: &str, store: Option<&str>) -> f64 {
    match (kernel, store) {
        ("write", Some("plain")) => 2.0,
        ("copy", Some("plain")) => 1.5,
        ("triad", Some("plain")) => 4.0 / 3.0,
        _ => 1.0,
    }
}

/// What is measured on, and who hears of it.
pub struct Sweep<'a> {
    pub machine: &'a Machine,
    pub sysroot: &'a Sysroot,
    /// Set by Ctrl-C: what was measured so far is kept.
    pub stop: &'a Stop,
    pub listener: &'a mut dyn Listener,
    /// Called after each figure with all so far, to save them.
    pub save: &'a mut dyn FnMut(&[Measurement]),
}

/// Measures all points in order.
pub fn sweep(mut sweep: Sweep<'_>, spec: &MemorySpec, points: &[Point]) -> StageFigures {
    let mut done = StageFigures::default();
    let mut arenas = Arenas::for_points(points);
    let windows = spec.windows(points.len());
    for point in points {
        if sweep.stop.is_ended() {
            break;
        }
        let name = point.name();
        let seconds = windows.total().as_secs_f64();
        sweep.listener.hear(&Event::Started { stage: Stage::Memory, name: name.clone(), seconds });
        match measure_awake(&mut sweep, &mut arenas, point, windows) {
            Ok(measurement) if measurement.samples.is_empty() => {} // Ctrl-C before the first sample
            Ok(measurement) => {
                sweep.listener.hear(&Event::Measured(Box::new(measurement.clone())));
                done.measurements.push(measurement);
                (sweep.save)(&done.measurements);
            }
            Err(why) => {
                let error = format!("memory, {name}: {why}");
                sweep.listener.hear(&Event::Failed(error.clone()));
                done.errors.push(error);
            }
        }
    }
    done.notes = arenas.notes;
    done
}

/// Measures a point; again, over longer windows, where a worker was kept from its core for a whole one.
fn measure_awake(
    sweep: &mut Sweep<'_>,
    arenas: &mut Arenas,
    point: &Point,
    windows: WindowSpec,
) -> Result<Measurement, String> {
    for longer in WINDOWS_LONGER {
        let windows = WindowSpec { window: windows.window * longer, ..windows };
        let measurement = measure_point(sweep, arenas, point, windows)?;
        if measurement.samples.iter().all(|sample| *sample > 0.0) {
            return Ok(measurement);
        }
    }
    Err("no access ended within a sample: other programs take the cores; use longer --seconds".into())
}

fn measure_point(
    sweep: &mut Sweep<'_>,
    arenas: &mut Arenas,
    point: &Point,
    windows: WindowSpec,
) -> Result<Measurement, String> {
    let begin = clock::now();
    let counters: Vec<Arc<WorkerCounters>> =
        point.cores.iter().map(|_| Arc::new(WorkerCounters::new(begin))).collect();
    let (end, ready) = (Stop::new(), AtomicUsize::new(0));
    let mut listener = |rate: f64| {
        sweep.listener.hear(&Event::Progress { stage: Stage::Memory, bytes_per_second: rate });
        true
    };
    let shares = arenas.shares(point)?;
    let work = SweepWork::of(point);
    let watched = std::thread::scope(|scope| -> Result<WindowObservation, String> {
        // Whatever happens below, the workers are told to end: the scope waits for them.
        let ending = end.ends_at_drop();
        for ((core, share), counters) in point.cores.iter().zip(shares).zip(&counters) {
            let (work, end, ready) = (work.clone(), end.flag(), &ready);
            let body = move || worker::run(&work, *core, share, counters, end, ready);
            std::thread::Builder::new().name("memory".into()).spawn_scoped(scope, body).map_err(|error| {
                format!("a thread cannot be started: {error}; measure with fewer --cores")
            })?;
        }
        while ready.load(Ordering::Acquire) < point.cores.len() {
            if sweep.stop.wait(Duration::from_millis(1)) {
                return Ok(WindowObservation { cut_short: true, ..WindowObservation::default() });
            }
        }
        let watch = Watch::new(windows, sweep.stop).beside(HostSampler::of_cpus(sweep.sysroot));
        let Ok(watched) = watch.observe(&mut OwnMeter(counters.clone()), &mut listener);
        drop(ending);
        Ok(watched)
    })?;
    arenas.touched(point);
    Ok(measurement(point, &watched))
}

fn measurement(point: &Point, watched: &WindowObservation) -> Measurement {
    let mut measurement = Measurement::of(Stage::Memory, point.name(), "memory".into(), watched);
    measurement.together = point.cores.len() > 1;
    measurement.method = method(point);
    trust::flag(&mut measurement, watched, &point.cores);
    // Memory workers saturate their cores by design: that is not a reason to distrust the figure.
    measurement.flags.retain(|flag| flag != "core-saturated");
    if point.small_arrays {
        measurement.flags.push("small-arrays".into());
    }
    // Of one core's chain: the cores chase side by side.
    let accesses = median(&watched.samples) / worker::LINK_BYTES as f64 / point.cores.len().max(1) as f64;
    let chased = point.kernel == MemoryKernel::Latency && accesses > 0.0;
    measurement.memory = Some(MemoryPoint {
        kernel: point.kernel.word().into(),
        store: point.store.map(|store| store_word(store).into()),
        stride_bytes: point.stride_bytes,
        working_set_bytes: point.working_set_bytes(),
        cores: point.cores.len() as u32,
        node_of_cores: point.nodes.map(|(cores, _)| cores),
        node_of_memory: point.nodes.map(|(_, memory)| memory),
        latency_seconds: chased.then(|| 1.0 / accesses),
        level: point.level.clone(),
    });
    measurement
}

/// As in `MemoryPoint::store`.
pub(crate) fn store_word(store: Store) -> &'static str {
    match store {
        Store::Plain => "plain",
        Store::Streaming => "streaming",
    }
}

fn method(point: &Point) -> String {
    let arrays = point.kernel.arrays();
    let each = show_size(point.array_bytes);
    let vectors = memory::vectors();
    match point.kernel {
        MemoryKernel::Latency => {
            format!("pointer chase, one random cycle of 64-byte lines over {each} a core")
        }
        _ if point.stride_bytes > points::CONTIGUOUS_BYTES => {
            format!("words of 4 bytes every {} bytes, {arrays} × {each} a core", point.stride_bytes)
        }
        MemoryKernel::Read => format!("{vectors} loads over {each} a core"),
        _ => {
            let store = point.store.map_or("", store_word);
            format!("{vectors}, {store} stores, {arrays} × {each} a core, bytes counted as STREAM does")
        }
    }
}
