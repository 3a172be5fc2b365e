//! The third step: memory, disk, network, then the whole path. `measure(…) -> Measurements`.

pub mod access;
mod cached;
mod disk;
pub mod interval;
pub mod load;
mod memory;
pub mod memory_sweep;
mod network;
mod peers;
mod product;
mod running;
pub mod statistics;
pub mod streams;
mod transfer;
mod trust;
mod window;

pub use access::{AccessResult, LoadCurve, MemoryPoint, Scaling};
pub use peers::Peers;
pub use product::*;

use crate::event::{Event, Listener};
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, Plan};
use running::RunningWorkers;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub(crate) use trust::receiver_evidence;
pub use window::WindowSpec;
use window::{Meter, WindowObservation, WorkerWatch, watch};

/// Opening, connecting and stopping of one measurement on a slow machine, seconds.
const STARTING_SECONDS: f64 = 0.5;
/// The budget may be passed by this much, seconds, before devices alone are left out.
const GRACE_SECONDS: f64 = 4.0;

/// What is measured, on what, and who hears of it.
pub struct Stages<'a> {
    pub machine: &'a Machine,
    pub goal: &'a Goal,
    pub plan: &'a Plan,
    pub sysroot: &'a Sysroot,
    /// Set by Ctrl-C: what was measured so far is kept.
    pub stop: &'a AtomicBool,
    pub listener: &'a mut dyn Listener,
    /// io_uring may be used.
    pub io_uring: bool,
    /// Called after each figure with all so far, to save them.
    pub save: &'a mut dyn FnMut(&Measurements),
    done: Measurements,
    errors: Vec<String>,
    notes: Vec<String>,
    begin: Instant,
}

/// Figures, and what failed on the way.
#[derive(Debug, Default)]
pub struct StageFigures {
    pub measurements: Measurements,
    pub errors: Vec<String>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Measures the stages that were asked for, in the order of the path.
pub fn measure(mut stages: Stages<'_>, wanted: &[Stage], peers: &mut Peers) -> StageFigures {
    for stage in [Stage::Memory, Stage::Disk, Stage::Network, Stage::Path] {
        if !wanted.contains(&stage) || stages.stopped() {
            continue;
        }
        peers.keep_alive();
        match stage {
            Stage::Memory => memory::measure(&mut stages),
            Stage::Disk if stages.plan.sources.is_empty() => {}
            Stage::Disk => disk::measure(&mut stages),
            Stage::Network if stages.plan.paths.is_empty() => {}
            Stage::Network => network::measure(&mut stages, peers),
            Stage::Load => {} // a command of its own, no step of the path
            Stage::Path if stages.plan.workers.is_empty() => {}
            Stage::Path => network::measure_path(&mut stages, peers),
        }
    }
    StageFigures { measurements: stages.done, errors: stages.errors, notes: stages.notes }
}

impl<'a> Stages<'a> {
    /// Nothing measured yet.
    #[expect(clippy::too_many_arguments, reason = "each is a product or a listener of its own")]
    pub fn new(
        machine: &'a Machine,
        goal: &'a Goal,
        plan: &'a Plan,
        sysroot: &'a Sysroot,
        stop: &'a AtomicBool,
        listener: &'a mut dyn Listener,
        save: &'a mut dyn FnMut(&Measurements),
        io_uring: bool,
    ) -> Self {
        let (done, errors, notes) = (Vec::new(), Vec::new(), Vec::new());
        let begin = Instant::now();
        Stages { machine, goal, plan, sysroot, stop, listener, io_uring, save, done, errors, notes, begin }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Processors that we may use: those allowed to us, one thread of each core first where the plan pinned
    /// workers so.
    fn cores(&self) -> Vec<u32> {
        match self.machine.cpu.allowed.known() {
            Some(allowed) if !allowed.is_empty() => allowed.clone(),
            _ => self.machine.cpu.logical.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect(),
        }
    }

    /// The core for a reader of this source: its first worker's; sources without a worker are dealt round.
    fn core_for(&self, position: usize, source: usize) -> Option<u32> {
        let worker = self.plan.workers.iter().find(|worker| worker.source == source);
        let cores = self.cores();
        worker.map(|worker| worker.core).or_else(|| cores.get(position % cores.len().max(1)).copied())
    }

    /// How long a worker may make no progress: shorter than a user's patience, longer than any slow disk's
    /// block.
    fn patience(&self) -> Duration {
        Duration::from_secs(4)
    }

    /// A device alone is measured only if what matters more still fits the budget: all together, and the
    /// path.
    ///
    /// The plan has reckoned with the budget; this is for machines on which starting and stopping takes
    /// longer than it thought.
    fn has_time_for(&self, windows: WindowSpec) -> bool {
        let schedule = self.plan.schedule;
        let each = |seconds: f64| {
            schedule.warm_up_seconds + seconds * f64::from(schedule.repeats) + STARTING_SECONDS
        };
        let protocols = self.goal.protocols.len() as f64;
        let reserved = protocols * (each(schedule.path_seconds) + 2.0 * each(schedule.together_seconds));
        let spent = self.begin.elapsed().as_secs_f64() + windows.total().as_secs_f64();
        self.goal.seconds.is_some() || spent + reserved < self.goal.budget_seconds + GRACE_SECONDS
    }

    fn leave_out(&mut self, what: &str) {
        let note = format!("{what}: left out, the time is better spent on the whole path");
        self.listener.hear(&Event::Note(note.clone()));
        self.notes.push(note);
    }

    fn short_name(&self, resource: &str) -> String {
        resource.split_once(':').map_or(resource, |(_, name)| name).to_string()
    }

    fn started(&mut self, stage: Stage, name: &str, windows: WindowSpec) {
        let seconds = windows.total().as_secs_f64();
        self.listener.hear(&Event::Started { stage, name: name.to_string(), seconds });
    }

    fn measured(&mut self, measurement: Measurement) {
        if measurement.samples.is_empty() {
            return; // Ctrl-C before the first sample
        }
        self.listener.hear(&Event::Measured(Box::new(measurement.clone())));
        self.done.push(measurement);
        (self.save)(&self.done);
    }

    fn failed(&mut self, what: String) {
        // Once the user has stopped us, what the stop tears down is no news.
        if !self.stopped() && !self.errors.contains(&what) {
            self.listener.hear(&Event::Failed(what.clone()));
            self.errors.push(what);
        }
    }

    /// Watches running workers and lets the listener see their progress.
    fn watch(
        &mut self,
        running: &mut RunningWorkers<'_>,
        meter: &mut dyn Meter,
        windows: WindowSpec,
        stage: Stage,
    ) -> Result<WindowObservation, String> {
        let listener = &mut *self.listener;
        let counters = running.counters.clone();
        let mut glance = WorkerWatch::new(&counters);
        let mut tick = |_| {
            if let Some((bytes_per_second, shares)) = glance.look(&counters) {
                listener.hear(&Event::Progress { stage, bytes_per_second });
                listener.hear(&Event::Workers(shares));
            }
            running.alive()
        };
        watch(self.sysroot, &counters, meter, windows, self.stop, &mut tick)
    }
}

impl Measurement {
    /// A figure from what was seen; the stage adds its own fields.
    fn of(stage: Stage, name: String, resource: String, seen: &WindowObservation) -> Self {
        let bytes_per_second = statistics::median(&seen.samples);
        Measurement {
            stage,
            name,
            resource,
            together: false,
            bytes_per_second,
            spread: statistics::spread(&seen.samples),
            samples: seen.samples.clone(),
            cpu_seconds_per_gb: if seen.bytes == 0 {
                0.0
            } else {
                seen.cpu_seconds * 1e9 / seen.bytes as f64
            },
            cpu_by_core: seen.cores.clone(),
            method: String::new(),
            flags: Vec::new(),
            lower_bound: false,
            held_by: None,
            protocol: None,
            with_file: false,
            seconds: seen.seconds,
            workers: Vec::new(),
            receiver: None,
            loss: 0.0,
            access: None,
            memory: None,
            congestion_controls: Vec::new(),
            streams: None,
        }
    }
}
