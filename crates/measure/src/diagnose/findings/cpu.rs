//! Findings about the CPU: one core full while others idle, a hypervisor that takes time away.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::diagnose::figures::{flagged, held_by_cpu};
use crate::measure::{LimitedBy, Measurement, WorkerResult};
use linerate_model::verdict;
use linerate_model::verdict::thresholds::{CPU_IDLE, CPU_WANTED, STOLEN};
use serde_json::json;
use std::collections::BTreeSet;

/// `one-core-saturated`: a worker's core is full on the path while other cores have time.
pub(super) fn one_core_saturated(context: &Context) -> Vec<Finding> {
    let Some(path) = context.path() else { return Vec::new() };
    if path.held_by == Some(LimitedBy::Quota) || flagged(path, "quota") {
        return Vec::new();
    }
    let full: BTreeSet<u32> = context
        .plan
        .workers
        .iter()
        .map(|worker| worker.core)
        .filter(|core| is_full(context, path, *core))
        .collect();
    let allowed =
        |core: u32| context.machine.cpu.allowed.known().is_none_or(|allowed| allowed.contains(&core));
    let idle: Vec<u32> = path
        .cpu_by_core
        .iter()
        .filter(|core| core.idle + core.iowait > 0.0 && core.busy() < CPU_IDLE && allowed(core.core))
        .map(|core| core.core)
        .collect();
    if full.is_empty() || idle.is_empty() {
        return Vec::new();
    }
    let binds = context.binds("cpu") || held_by_cpu(path);
    let gain = if binds { context.headline().model.gain(&["cpu"]).unwrap_or(0.0) } else { 0.0 };
    vec![
        Finding::new(
            if binds { Severity::Slow } else { Severity::Note },
            "one-core-saturated",
            format!(
                "{} {} full while {} of {} cores had half of their time free",
                if full.len() == 1 { "core" } else { "cores" },
                full.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
                    + if full.len() == 1 {
                        " \
                was"
                    } else {
                        " were"
                    },
                idle.len(),
                path.cpu_by_core.len()
            ),
        )
        .evidence(json!({ "full": full, "idle": idle, "measurement": path.name }))
        .remedy(
            "spread the work over more cores: more sources or paths make more workers; move the NIC's \
                 interrupts away from the workers' cores (`linerate tune measure --setting irq-affinity` \
                 tries a core for each queue)",
        )
        .gain(gain),
    ]
}

/// The core did nothing but work: by `/proc/stat`, or by the CPU time of the workers on it.
fn is_full(context: &Context, path: &Measurement, core: u32) -> bool {
    let by_stat = path.cpu_by_core.iter().any(|other| other.core == core && verdict::is_full(other));
    let planned = |worker: usize| context.plan.workers.get(worker).map(|worker| worker.core);
    let of_core = |worker: &&WorkerResult| worker.core.or_else(|| planned(worker.worker)) == Some(core);
    let by_workers: f64 = path.workers.iter().filter(of_core).map(|worker| worker.cpu_share).sum();
    // A core that others fill is their affair, unless our workers want a good part of it.
    by_stat && by_workers >= CPU_WANTED || verdict::is_full_thread(by_workers)
}

/// `steal`: the hypervisor ran others on our cores.
pub(super) fn steal(context: &Context) -> Vec<Finding> {
    let share = |figure: &Measurement| figure.cpu_by_core.iter().map(|core| core.steal).fold(0.0, f64::max);
    let touched =
        context.figures.all.iter().filter(|figure| share(figure) >= STOLEN || flagged(figure, "steal"));
    let touched: Vec<&Measurement> = touched.collect();
    let Some(worst) = touched.iter().max_by(|a, b| share(a).total_cmp(&share(b))) else { return Vec::new() };
    vec![Finding::slow("steal", format!(
            "the hypervisor took up to {:.0} % of a core away (in “{}”): {} of the figures are lower than \
             the machine's own",
            share(worst) * 100.0,
            worst.name,
            touched.len()
        )).evidence(json!({ "largest_share": share(worst), "measurement": worst.name, "measurements": touched.len() })).remedy("run again when the host is quiet, or on dedicated cores")]
}
