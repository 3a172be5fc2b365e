//! `linerate disk --scaling`: each source alone, then 1, 2, 3 … of them at once, and who is to blame where
//! the curve levels off.

use super::{DiskCommand, grid};
use crate::event::Event;
use crate::measure::access::{AccessJob, Reached, numbers, scaling};
use crate::measure::statistics::median;
use crate::measure::{LimitedBy, Measurement};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::source::devices_behind;
use linerate_machine::probe::{DiskKind, Machine};
use linerate_machine::topology::Topology;
use linerate_model::verdict::thresholds::{DISK_IDLE, OWN_CPU_FULL};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Measures the curve of the first cell. The figures are those of a grid whose cells are sets of sources.
pub(crate) fn measure(session: &mut DiskCommand<'_, '_>, cells: &[AccessJob]) -> Result<(), Failure> {
    let Some(job) = cells.first() else { return Ok(()) };
    let sources = job.sources.len() as u32;
    let workers = (job.workers / sources.max(1)).max(1);
    let of = |from: u32, count: u32| AccessJob {
        sources: job.sources[from as usize..(from + count) as usize].to_vec(),
        workers: workers * count,
        ..job.clone()
    };
    let alone: Vec<AccessJob> = (0..sources).map(|source| of(source, 1)).collect();
    let steps = numbers(sources);
    let together: Vec<AccessJob> = steps.iter().filter(|step| **step > 1).map(|step| of(0, *step)).collect();
    let jobs: Vec<AccessJob> = alone.iter().chain(&together).cloned().collect();
    session.visits = vec![Vec::new(); jobs.len()];
    let total = jobs.len() * session.order.repeats as usize;
    let begin = Instant::now();
    let mut done = 0;
    for repeat in 0..session.order.repeats {
        for at in grid::shuffled(jobs.len(), session.order.grid.seed.wrapping_add(u64::from(repeat))) {
            if session.bench.stopped() {
                return Ok(());
            }
            session.tell_remaining(&jobs, done, total, begin);
            let job = &jobs[at];
            session.visit_and_keep(at, job, repeat, |visit| named(visit, job))?;
            done += 1;
        }
        conclude(session, &alone, &steps);
    }
    Ok(())
}

/// The name tells how many sources took part: all else is the same in every step.
fn named(mut visit: Measurement, job: &AccessJob) -> Measurement {
    let who = match &job.sources[..] {
        [one] => format!("{} alone", one.display()),
        several => format!("{} sources", several.len()),
    };
    visit.name = format!("{who}, {}", visit.name);
    visit
}

fn conclude(session: &mut DiskCommand<'_, '_>, alone: &[AccessJob], steps: &[u32]) {
    let samples =
        |at: usize| -> Vec<f64> { session.visits[at].iter().map(|visit| visit.bytes_per_second).collect() };
    let rates: Vec<f64> = (0..alone.len()).map(|at| median(&samples(at))).collect();
    // The first step is the first source alone; those together follow behind all that are alone.
    let at = |step: usize| if step == 0 { 0 } else { alone.len() + step - 1 };
    let reached: Vec<Reached> = steps
        .iter()
        .enumerate()
        .map(|(step, devices)| Reached { devices: *devices, samples: samples(at(step)) })
        .filter(|reached| !reached.samples.is_empty())
        .collect();
    let mut curve = scaling(&rates, &reached);
    if let Some(level) = curve.levels_off_at
        && let Some(last) = session.visits.iter().rev().find_map(|visits| visits.last())
    {
        let rate =
            curve.steps.iter().find(|step| step.devices == level).map_or(0.0, |step| step.bytes_per_second);
        let who = blamed(session.bench.sysroot, session.bench.machine, last);
        let sentence = format!("{}: {who}", show_bytes_rate(rate));
        session.bench.listener.hear(&Event::Note(format!("levels off at {level} sources, {sentence}")));
        curve.held_by = Some(sentence);
    }
    session.run.scaling = Some(curve);
}

/// What all sources share and what may hold them there, by what was seen with the most of them.
fn blamed(sysroot: &Sysroot, machine: &Machine, most: &Measurement) -> String {
    match most.held_by {
        Some(LimitedBy::Cpu | LimitedBy::Generator) => {
            return "a core of linerate's own had no time left".into();
        }
        Some(LimitedBy::Quota) => return "the CPU quota of the control group holds linerate itself".into(),
        _ => {}
    }
    let Some(access) = &most.access else { return "what limits them is unknown".into() };
    let names: Vec<String> = access.devices.iter().map(|device| device.name.clone()).collect();
    if let Some(below) = common_below(sysroot, machine, &names) {
        return format!("{below}, which all of them lie on");
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(shared) = Topology::new(machine).shared_by(&all, &[]) {
        return format!("{shared}, which all of them hang on");
    }
    if access.checks.generator_cpu >= OWN_CPU_FULL {
        return "the processors: linerate itself used most of their time".into();
    }
    let busiest = access.devices.iter().map(|device| device.utilisation).fold(0.0, f64::max);
    let idle = if busiest < DISK_IDLE {
        format!("the devices themselves had time left (at most {:.0} % in use)", busiest * 100.0)
    } else {
        "each of them is in use all the time".into()
    };
    format!("something that they share and that /sys does not show; {idle}")
}

/// The one block device at the bottom of all of them, where it is none of themselves: what the files behind
/// loop devices lie on.
fn common_below(sysroot: &Sysroot, machine: &Machine, names: &[String]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let disk = machine.disks.iter().find(|disk| disk.name == *name)?;
        if disk.kind != DiskKind::Loop {
            return None;
        }
        let file = disk.backing_file.as_deref()?;
        for below in behind(sysroot, machine, file) {
            *counts.entry(below).or_default() += 1;
        }
    }
    let all = |(_, count): &(String, usize)| *count == names.len() && names.len() > 1;
    counts.into_iter().find(all).map(|(name, _)| name)
}

fn behind(sysroot: &Sysroot, machine: &Machine, file: &Path) -> Vec<String> {
    devices_behind(sysroot, machine, file).known().map(|behind| behind.leaves.clone()).unwrap_or_default()
}
