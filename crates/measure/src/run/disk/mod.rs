//! `linerate disk`: the cells of a grid, each measured several times in an order that favours none; or ever
//! more devices at once. Named block devices, and nothing else, may be preconditioned before: their content discarded,
//! then written whole.

mod blame;
mod grid;
mod scaling;
mod time;
mod together;

use super::{Run, RunContext, Save};
use crate::event::Event;
use crate::measure::access::{
    AccessBench, AccessJob, MOST_ROUNDS, Permissions, Prepared, WARM_UP_SECONDS, WINDOW_ROUNDS, conduct,
    merged, steady, title,
};
use crate::measure::{Measurement, Stage};
pub use grid::{DiskGrid, WorkerParts};
use linerate_facts::failure::Failure;
use linerate_model::plan::Goal;
use linerate_system::clock;
pub use scaling::BestAlone;
use std::time::{Duration, Instant};
pub use time::GridTime;

/// A disk that is slow gets shorter files rather than a longer wait, where their size was not asked for.
const WRITING_SECONDS: u64 = 8;
/// Of the time that goes by, saving takes at most one part of this.
const SAVING_APART: u32 = 20;

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// What the user calls it; none: the first source.
    pub name: Option<String>,
    pub grid: DiskGrid,
    /// Grids of one cell each that run at the same time as this one.
    pub beside: Vec<DiskGrid>,
    pub permissions: Permissions,
    /// Visits of each cell.
    pub repeats: u32,
    /// Passes of a job that writes an amount; the last counts.
    pub rounds: u32,
    /// Rounds until SNIA's steady state, whose window then counts.
    pub steady_state: bool,
    /// 1, 2, 3 … all sources in each cell of the grid.
    pub scaling: bool,
    /// The best that one source reached alone before, where that shall count in place of what is measured now.
    pub best_alone: Vec<BestAlone>,
    pub prepare: Vec<Preparation>,
    /// io_uring may be used.
    pub io_uring: bool,
    /// Workers take only what nobody else wants of CPUs and disks.
    pub idle: bool,
}

/// Does all of it. A `Failure` means that nothing was measured; what fails later is in `Run::errors`.
pub fn conduct_disk(mut context: RunContext<'_>, spec: &DiskSpec) -> Result<Run, Failure> {
    spec.time()?;
    if !spec.beside.is_empty() {
        return together::conduct_together(context, spec);
    }
    let machine = context.probe();
    let mut permissions = spec.permissions.clone();
    if spec.grid.sizes_itself() {
        permissions.shorten_after = Some(Duration::from_secs(WRITING_SECONDS));
    }
    let mut cells = spec.grid.cells()?;
    let name = spec.name.clone().unwrap_or_else(|| name_of(&spec.grid));
    let mut run = Run::begin_stage(Stage::Disk, name, machine.clone(), goal(spec));
    let bench = AccessBench::new(context.sysroot, &machine, context.stop, &mut *context.listener);
    let mut bench = AccessBench { io_uring: spec.io_uring, idle: spec.idle, ..bench };
    let mut prepared = Prepared::new(&bench, &spec.grid.alike.sources, permissions)?;
    cells.iter_mut().for_each(|job| prepared.fit_to_sectors(job));
    let cells = match make_ready(&mut bench, spec, cells, &mut prepared, &mut run.errors) {
        Ok(cells) => cells,
        Err(failure) => {
            prepared.remove();
            return Err(failure);
        }
    };
    run.changes = changes(spec, &prepared);
    (context.save)(&run)?;
    let mut session = DiskCommand {
        bench,
        spec,
        prepared,
        run: &mut run,
        save: &mut *context.save,
        visits: Vec::new(),
        next_save: clock::now(),
    };
    let failed = match spec.scaling {
        true => scaling::measure(&mut session, &cells),
        false => session.measure(&cells),
    };
    session.collect();
    let kept_files = session.prepared.kept_files();
    drop(session);
    run.changes.extend(kept_files.into_iter().map(|path| format!("made {path}, which was to be kept")));
    if let Err(failure) = failed {
        if run.measurements.is_empty() {
            return Err(failure);
        }
        run.errors.push(failure.to_string());
    }
    context.finish(run)
}

/// What was asked for, as far as a whole run has words for it; each job is in its measurement.
fn goal(spec: &DiskSpec) -> Goal {
    Goal {
        sources: spec.grid.alike.sources.clone(),
        seconds: spec.grid.alike.seconds,
        repeats: spec.repeats,
        verify: spec.grid.alike.verify,
        rate_limit: spec.grid.alike.limit_bytes_per_second,
        idle: spec.idle,
        ..Goal::default()
    }
}

/// The cells that can be measured. One that the machine has no room for is shown by name and takes nothing
/// from the others; where there is no other, it ends all.
fn make_ready(
    bench: &mut AccessBench<'_>,
    spec: &DiskSpec,
    cells: Vec<AccessJob>,
    prepared: &mut Prepared,
    errors: &mut Vec<String>,
) -> Result<Vec<AccessJob>, Failure> {
    cells.iter().try_for_each(|job| job.check().map_err(Failure::usage))?;
    precondition(bench, spec, &cells, prepared)?;
    let mut ready = Vec::new();
    let mut refused = None;
    for job in cells {
        match prepared.ready_for(bench, &job) {
            Ok(()) => ready.push(job),
            Err(Failure::Lacks(why)) => {
                let what = format!("{}: {why}", title(&job));
                bench.listener.hear(&Event::Failed(what.clone()));
                errors.push(what);
                refused.get_or_insert(Failure::Lacks(why));
            }
            Err(failure) => return Err(failure),
        }
    }
    match refused {
        Some(failure) if ready.is_empty() => Err(failure),
        _ => Ok(ready),
    }
}

fn name_of(grid: &DiskGrid) -> String {
    grid.alike.sources.first().map_or_else(String::new, |path| path.display().to_string())
}

/// One command at work.
struct DiskCommand<'a, 'b> {
    bench: AccessBench<'b>,
    spec: &'a DiskSpec,
    prepared: Prepared,
    run: &'a mut Run,
    save: Save<'a>,
    /// Of each cell, in the order of the cells.
    visits: Vec<Vec<Measurement>>,
    /// Not before, lest a grid of thousands be saved all the time.
    next_save: Instant,
}

impl DiskCommand<'_, '_> {
    /// All cells, `repeats` times, each time in another order.
    fn measure(&mut self, cells: &[AccessJob]) -> Result<(), Failure> {
        self.visits = vec![Vec::new(); cells.len()];
        let total = cells.len() * self.spec.repeats as usize;
        let begin = clock::now();
        let mut done = 0;
        for repeat in 0..self.spec.repeats {
            for cell in grid::shuffled(cells.len(), self.spec.grid.alike.seed.wrapping_add(u64::from(repeat)))
            {
                if self.bench.stopped() {
                    return Ok(());
                }
                self.tell_remaining(cells, done, total, begin);
                self.visit_and_keep(cell, &cells[cell], repeat, |visit| visit)?;
                done += 1;
            }
        }
        Ok(())
    }

    /// One visit of a cell. One that cannot be is told, and takes nothing from the others; before there is
    /// any figure it ends all.
    fn visit_and_keep(
        &mut self,
        cell: usize,
        job: &AccessJob,
        repeat: u32,
        named: impl FnOnce(Measurement) -> Measurement,
    ) -> Result<(), Failure> {
        match self.visit(job, repeat) {
            Ok(visit) => self.keep(cell, named(visit), repeat + 1 == self.spec.repeats),
            Err(Failure::Interrupted) => Ok(()),
            Err(failure) if self.visits.iter().all(Vec::is_empty) => Err(failure),
            Err(failure) => {
                self.failed(failure.to_string());
                Ok(())
            }
        }
    }

    fn failed(&mut self, what: String) {
        if !self.run.errors.contains(&what) {
            self.bench.listener.hear(&Event::Failed(what.clone()));
            self.run.errors.push(what);
        }
    }

    /// One visit: in steady state as many rounds as that takes.
    fn visit(&mut self, job: &AccessJob, repeat: u32) -> Result<Measurement, Failure> {
        if self.spec.steady_state {
            return self.until_steady(job);
        }
        let writes_once = job.seconds.is_none() && job.writes() && !job.is_log();
        if writes_once && repeat == 0 {
            for _ in 1..self.spec.rounds {
                self.once(job)?;
            }
        }
        self.once(job)
    }

    fn until_steady(&mut self, job: &AccessJob) -> Result<Measurement, Failure> {
        let mut rounds: Vec<Measurement> = Vec::new();
        loop {
            rounds.push(self.once(job)?);
            let rates: Vec<f64> = rounds.iter().map(|round| round.bytes_per_second).collect();
            let state = steady(&rates);
            if state.reached || state.rounds >= MOST_ROUNDS || self.bench.stopped() {
                let from = rounds.len().saturating_sub(WINDOW_ROUNDS);
                let mut whole = merged(&rounds[from..]).ok_or(Failure::Interrupted)?;
                if !state.reached {
                    whole.flags.push("not-steady".into());
                }
                if let Some(access) = &mut whole.access {
                    access.steady = Some(state);
                }
                return Ok(whole);
            }
        }
    }

    /// The job, once, with caches dropped before where that was asked for.
    fn once(&mut self, job: &AccessJob) -> Result<Measurement, Failure> {
        if self.spec.prepare.contains(&Preparation::DropCaches) {
            linerate_system::storage::drop_caches().map_err(not_dropped)?;
        }
        self.prepared.ready_for(&mut self.bench, job)?;
        let measurement = conduct(&mut self.bench, job, &self.prepared)?;
        if measurement.access.as_ref().is_some_and(|access| access.errors.is_empty()) && !self.bench.stopped()
        {
            self.prepared.wrote(job);
        }
        Ok(measurement)
    }

    /// One more visit of a cell: the run holds the figure of all so far.
    fn keep(&mut self, cell: usize, visit: Measurement, last: bool) -> Result<(), Failure> {
        if visit.samples.is_empty() && self.bench.stopped() {
            return Ok(());
        }
        visit.access.iter().flat_map(|access| access.failures()).for_each(|what| self.failed(what));
        self.visits[cell].push(visit);
        if last && let Some(whole) = merged(&self.visits[cell]) {
            self.bench.listener.hear(&Event::Measured(Box::new(whole)));
        }
        self.save_when_due()
    }

    /// After each figure, as long as saving takes next to nothing of the time.
    fn save_when_due(&mut self) -> Result<(), Failure> {
        let begin = clock::now();
        if begin < self.next_save {
            return Ok(());
        }
        self.collect();
        let saved = (self.save)(self.run);
        self.next_save = clock::now() + clock::since(begin) * SAVING_APART;
        saved
    }

    /// The figures of all visits so far.
    fn collect(&mut self) {
        self.run.measurements = self.visits.iter().filter_map(|visits| merged(visits)).collect();
    }

    fn tell_remaining(&mut self, cells: &[AccessJob], done: usize, total: usize, begin: Instant) {
        let timed: f64 = cells.iter().filter_map(|job| job.seconds).sum::<f64>() / cells.len().max(1) as f64;
        let each =
            if done > 0 { clock::since(begin).as_secs_f64() / done as f64 } else { timed + WARM_UP_SECONDS };
        self.bench.listener.hear(&Event::Remaining { seconds: each * (total - done) as f64 });
    }
}

/// What is done before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// All data of the named block devices is discarded.
    Discard,
    /// They are written whole, after that.
    Fill,
    /// The page cache of the machine is emptied, before each visit.
    DropCaches,
}

/// Discards and fills the devices that are named, where that was asked for; and looks whether caches may be
/// dropped.
fn precondition(
    bench: &mut AccessBench<'_>,
    spec: &DiskSpec,
    cells: &[AccessJob],
    prepared: &mut Prepared,
) -> Result<(), Failure> {
    let wants = |what| spec.prepare.contains(&what);
    if wants(Preparation::DropCaches) {
        linerate_system::storage::drop_caches().map_err(not_dropped)?;
    }
    let (discard, fill) = (wants(Preparation::Discard), wants(Preparation::Fill));
    if !discard && !fill {
        return Ok(());
    }
    let Some(job) = cells.first() else { return Ok(()) };
    prepared.hold_devices(bench, job)?;
    if prepared.held_devices().next().is_none() {
        return Err(Failure::Usage(
            "--prepare discard and fill: for block devices named by --source and --destroy-data only; name one"
                .into(),
        ));
    }
    if discard {
        for (path, device) in prepared.held_devices() {
            let bytes = linerate_system::file::size_of(device).unwrap_or(0);
            linerate_system::storage::discard(device, bytes).map_err(|error| {
                Failure::Lacks(format!(
                    "--prepare discard: {}: {error}; does the device take discards?",
                    path.display()
                ))
            })?;
        }
    }
    if fill { prepared.fill_devices(bench, job) } else { Ok(()) }
}

/// Why the page cache cannot be emptied.
fn not_dropped(error: std::io::Error) -> Failure {
    Failure::Lacks(format!(
        "--prepare drop-caches: {error}; it empties the page cache of the whole machine, as root only"
    ))
}

/// What was changed on this machine beyond files of our own.
fn changes(spec: &DiskSpec, prepared: &Prepared) -> Vec<String> {
    let mut changes = Vec::new();
    let devices: Vec<String> = prepared.held_devices().map(|(path, _)| path.display().to_string()).collect();
    let wants = |what| spec.prepare.contains(&what);
    let mut on_devices = |done: bool, what: &str| {
        if done {
            changes
                .extend(devices.iter().map(|device| format!("{what} {device}, as --destroy-data allowed")));
        }
    };
    on_devices(wants(Preparation::Discard), "discarded all data of");
    on_devices(wants(Preparation::Fill), "filled");
    on_devices(true, "wrote over data of");
    if wants(Preparation::DropCaches) {
        changes.push("dropped the page cache of the machine before each measurement".into());
    }
    changes
}
