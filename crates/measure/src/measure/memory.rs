//! The memory stage: read and copy bandwidth, one core and all, over buffers well beyond the caches.

use super::Stages;
use super::product::{Measurement, Stage};
use super::running::started;
use super::window::{OwnMeter, WindowSpec};
use linerate_system::clock;
use linerate_system::{affinity, memory};
use linerate_transport::flow::counters::WorkerCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The largest buffer of one core; more than any last-level cache's share of it.
const LARGEST_BUFFER_BYTES: u64 = 128 << 20;
/// The smallest that is of use.
const SMALLEST_BUFFER_BYTES: u64 = 8 << 20;
/// Words between two looks at the clock and at `stop`.
const CHUNK_WORDS: usize = (2 << 20) / 8;
/// One word of each page is written to have it.
const PAGE_WORDS: usize = 4096 / 8;

/// What the workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Read,
    Copy,
}

/// Measures memory; stops early when told to.
pub(crate) fn measure(stages: &mut Stages<'_>) {
    let cores = stages.machine.cpu.usable();
    let schedule = stages.plan.schedule;
    let windows = WindowSpec {
        warm_up: Duration::from_millis(60),
        window: Duration::from_secs_f64(schedule.alone_seconds.min(0.1)),
        repeats: schedule.repeats.max(1),
    };
    for kernel in [Kernel::Read, Kernel::Copy] {
        for all in [false, true] {
            if all && cores.len() < 2 {
                continue;
            }
            let used = if all { &cores[..] } else { &cores[..1] };
            let verb = if kernel == Kernel::Read { "read" } else { "copy" };
            let name = format!("{verb} {}", if all { "all cores" } else { "one core" });
            stages.started(Stage::Memory, &name, windows);
            match run(stages, kernel, used, windows, all, name) {
                Ok(measurement) => stages.measured(measurement),
                Err(why) => stages.failed(format!("memory: {why}")),
            }
            if stages.stopped() {
                return;
            }
        }
    }
}

fn buffer_bytes(stages: &Stages<'_>, workers: usize) -> u64 {
    let available = stages.machine.memory.available_bytes.known().copied().unwrap_or(1 << 30);
    // An eighth of what is available for all buffers together; a copy has two.
    (available / 8 / workers as u64 / 2).clamp(SMALLEST_BUFFER_BYTES, LARGEST_BUFFER_BYTES)
}

fn run(
    stages: &mut Stages<'_>,
    kernel: Kernel,
    cores: &[u32],
    windows: WindowSpec,
    together: bool,
    name: String,
) -> Result<Measurement, String> {
    let bytes = buffer_bytes(stages, cores.len());
    let start = clock::now();
    let workers: Vec<Arc<WorkerCounters>> =
        cores.iter().map(|_| Arc::new(WorkerCounters::new(start))).collect();
    let end = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(AtomicUsize::new(0));
    let (mut threads, mut refused) = (Vec::new(), None);
    for (core, counters) in cores.iter().zip(&workers) {
        let (core, counters, end, ready) =
            (*core, Arc::clone(counters), Arc::clone(&end), Arc::clone(&ready));
        let body = move || work(kernel, core, bytes, &counters, &end, &ready);
        match started(stages.goal.idle, || std::thread::Builder::new().name("memory".into()).spawn(body)) {
            Ok(thread) => threads.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    if let Some(error) = refused {
        end.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        return Err(format!(
            "no thread for each core: {error}; raise the limit of processes or of memory (`ulimit -u`, \
             `ulimit -v`)"
        ));
    }
    // Memory that is touched for the first time would be part of the figure.
    while ready.load(Ordering::Relaxed) < threads.len() {
        end.fetch_or(stages.stopped(), Ordering::Relaxed);
        clock::sleep(Duration::from_micros(200));
    }
    let Ok(watched) = stages.watch_for(windows).observe(&mut OwnMeter(workers), &mut |_| true);
    end.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let mut measurement = Measurement::of(Stage::Memory, name, "memory".into(), &watched);
    measurement.together = together;
    measurement.method = match kernel {
        Kernel::Read => format!("vector loads over {} MiB a core", bytes >> 20),
        Kernel::Copy => format!("memcpy over 2 × {} MiB a core, bytes copied", bytes >> 20),
    };
    super::trust::flag(&mut measurement, &watched, &[]);
    // Memory workers saturate their cores by design: that is not a reason to distrust the figure.
    measurement.flags.retain(|flag| flag != "core-saturated");
    Ok(measurement)
}

fn work(
    kernel: Kernel,
    core: u32,
    bytes: u64,
    counters: &WorkerCounters,
    end: &AtomicBool,
    ready: &AtomicUsize,
) {
    let _ = affinity::pin_to(core);
    let words = (bytes / 8) as usize;
    let from = touched(words, end);
    let mut to = touched(if kernel == Kernel::Copy { words } else { 0 }, end);
    ready.fetch_add(1, Ordering::Relaxed);
    let mut sum = 0u64;
    while !end.load(Ordering::Relaxed) {
        for start in (0..words).step_by(CHUNK_WORDS) {
            let chunk = start..words.min(start + CHUNK_WORDS);
            let moved = chunk.len() as u64 * 8;
            match kernel {
                Kernel::Read => sum = sum.wrapping_add(memory::read_all(&from[chunk])),
                Kernel::Copy => memory::copy_all(&from[chunk.clone()], &mut to[chunk]),
            }
            counters.progress.add(moved);
            if end.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    std::hint::black_box((sum, to));
}

/// So many words, whose pages are there unless `end` came first.
fn touched(words: usize, end: &AtomicBool) -> Vec<u64> {
    let mut memory = vec![0; words];
    memory.chunks_mut(PAGE_WORDS).take_while(|_| !end.load(Ordering::Relaxed)).for_each(|page| page[0] = 1);
    memory
}
