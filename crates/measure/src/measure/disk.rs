//! The disk stage: each source alone, then all together, read as the path will read them, into nothing.

use super::Stages;
use super::product::{Measurement, Stage};
use super::running::{RunningWorkers, worker_results};
use super::window::{OwnMeter, WindowSpec};
use linerate_facts::units::show_size;
use linerate_model::plan::SourcePlan;
use linerate_model::plan::schedule::alone_disks;
use linerate_system::file;
use linerate_transport::flow::source::{Cursor, Source};
use linerate_transport::flow::start::{Destination, WorkerStart};
use std::sync::Arc;
use std::time::Duration;

/// Measures every device alone (as many as the schedule allows), then all at once. Files on one device are
/// one device.
pub(crate) fn measure(stages: &mut Stages<'_>) {
    let schedule = stages.plan.schedule;
    let sources = &stages.plan.sources;
    let windows = |seconds: f64| WindowSpec {
        warm_up: Duration::from_secs_f64(schedule.warm_up_seconds),
        window: Duration::from_secs_f64(seconds),
        repeats: schedule.repeats.max(1),
    };
    let several = sources.iter().any(|source| source.resource != sources[0].resource);
    if several {
        for resource in alone_disks(stages.plan) {
            let own: Vec<usize> =
                (0..sources.len()).filter(|index| sources[*index].resource == resource).collect();
            let name = format!("{} alone", stages.short_name(&resource));
            if !stages.has_time_for(windows(schedule.alone_seconds)) {
                stages.leave_out(&format!("disk {name}"));
                continue;
            }
            one(stages, &own, name, windows(schedule.alone_seconds));
            if stages.stopped() {
                return;
            }
        }
    }
    let all: Vec<usize> = (0..sources.len()).collect();
    let name = if several { "all disks".to_string() } else { stages.short_name(&sources[0].resource) };
    one(stages, &all, name, windows(schedule.together_seconds));
}

fn one(stages: &mut Stages<'_>, sources: &[usize], name: String, windows: WindowSpec) {
    stages.started(Stage::Disk, &name, windows);
    match run(stages, sources, name, windows) {
        Ok(measurement) => stages.measured(measurement),
        Err(why) => stages.failed(format!("disk: {why}")),
    }
}

fn run(
    stages: &mut Stages<'_>,
    sources: &[usize],
    name: String,
    windows: WindowSpec,
) -> Result<Measurement, String> {
    let mut running = RunningWorkers::new(stages.stop);
    let mut cursors = Vec::new();
    let mut flags = Vec::new();
    let mut cores = Vec::new();
    for (position, index) in sources.iter().enumerate() {
        let plan = &stages.plan.sources[*index];
        let (source, cursor) = open(plan, &mut flags)?;
        let core = stages.core_for(position, *index);
        cores.extend(core);
        let worker = WorkerStart {
            core,
            source,
            destination: Destination::Null,
            block_bytes: plan.block_bytes as usize,
            depth: plan.queue_depth as usize,
            extra_blocks: 0,
            verify: false,
            patience: stages.patience(),
            io_uring: stages.io_uring,
        };
        running.start(worker).map_err(|error| format!("{}: {error}", plan.path.display()))?;
        cursors.push((plan, cursor));
    }
    let engine = running.method();
    let mut meter = OwnMeter(running.counters.clone());
    let seen = stages.watch(&mut running, &mut meter, windows, Stage::Disk)?;
    let errors = running.finish();
    let mut resources: Vec<&str> =
        sources.iter().map(|index| stages.plan.sources[*index].resource.as_str()).collect();
    resources.dedup();
    let resource = if let [one] = resources[..] { one.to_string() } else { "all".to_string() };
    let mut measurement = Measurement::of(Stage::Disk, name, resource, &seen);
    measurement.together = sources.len() == stages.plan.sources.len();
    measurement.workers =
        worker_results(&seen, |position| (stages.plan.sources[sources[position]].resource.clone(), None));
    let first = &stages.plan.sources[sources[0]];
    measurement.method = format!(
        "sequential reads, {}, {} × {}, {engine}",
        if first.direct { "O_DIRECT" } else { "buffered (no O_DIRECT here)" },
        show_size(first.block_bytes),
        first.queue_depth,
    );
    measurement.held_by = super::trust::held_by(&seen, None, None);
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.flags.extend(flags);
    for ((plan, _), worker) in cursors.iter().zip(&seen.workers) {
        // A file that is read through in half a second may be answered by caches below O_DIRECT.
        if worker.bytes_per_second > 2.0 * plan.length_bytes as f64
            && !measurement.flags.iter().any(|f| f == "short-file")
        {
            measurement.flags.push("short-file".into());
        }
    }
    super::trust::flag(&mut measurement, &seen, &cores);
    for (position, error) in errors {
        stages.failed(format!("disk {}: {error}", stages.plan.sources[sources[position]].resource));
    }
    Ok(measurement)
}

/// Opens a source as its plan says and gives the cursor that deals out its blocks.
pub(crate) fn open(plan: &SourcePlan, flags: &mut Vec<String>) -> Result<(Source, Arc<Cursor>), String> {
    let cursor = Arc::new(Cursor::new(plan.length_bytes, plan.block_bytes));
    Ok((open_with(plan, flags, &cursor)?, cursor))
}

/// Opens a source again for another worker that shares the cursor.
pub(crate) fn open_with(
    plan: &SourcePlan,
    flags: &mut Vec<String>,
    cursor: &Arc<Cursor>,
) -> Result<Source, String> {
    tracing::debug!(path = ?plan.path, direct = plan.direct, "source opened");
    let opened = file::open_to_read(&plan.path, plan.direct)
        .map_err(|error| format!("{}: {error}", plan.path.display()))?;
    if !plan.direct {
        // Without O_DIRECT the page cache answers: drop what it holds of this file, and say so if it stays.
        let _ = file::drop_pages(&opened);
        let cached = file::cached_share(&opened, plan.length_bytes).unwrap_or(0.0);
        if cached > 0.05 && !flags.iter().any(|flag| flag == "page-cache") {
            flags.push("page-cache".into());
        }
    }
    Ok(Source::File { file: opened, cursor: Arc::clone(cursor), label: plan.path.display().to_string() })
}
