//! Findings about the host: one core full while others idle, a hypervisor that takes time away, and what the kernel
//! allows of locked memory, io_uring and huge pages.

use super::super::product::{Finding, Severity};
use super::Context;
use crate::diagnose::figures::{flagged, held_by_cpu};
use crate::measure::{LimitedBy, Measurement, Stage, WorkerResult};
use linerate_facts::units::show_size;
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

/// `memlock`: RLIMIT_MEMLOCK made the buffer pool smaller than wished, or kept it from being registered.
pub(super) fn memlock(context: &Context) -> Vec<Finding> {
    let need = context.plan.pool_wished_bytes;
    let Some(have) = context.machine.kernel.memlock_bytes.known().copied().filter(|have| *have < need) else {
        return Vec::new();
    };
    let effect = if context.plan.registered {
        format!("the buffer pool shrank to {}", show_size(context.plan.pool_bytes))
    } else {
        "the buffers could not be registered with the kernel".into()
    };
    let kibibytes = need.div_ceil(1024);
    // A somewhat smaller pool costs little; buffers that are not registered cost on every read.
    vec![Finding::new(if context.plan.registered { Severity::Note } else { Severity::Slow }, "memlock", format!(
            "RLIMIT_MEMLOCK allows {} of locked memory and {} are needed: {effect}",
            show_size(have),
            show_size(need)
        )).evidence(json!({
            "need_bytes": need, "have_bytes": have, "pool_bytes": context.plan.pool_bytes, "registered": context.plan.registered,
        })).remedy(format!(
            "`ulimit -l {kibibytes}` in the shell that starts linerate, or “memlock” in \
             /etc/security/limits.conf"
        ))]
}

/// `io-uring-off`: the disks were read without io_uring.
pub(super) fn io_uring_off(context: &Context) -> Vec<Finding> {
    let methods: Vec<&str> = context
        .figures
        .all
        .iter()
        .filter(|figure| figure.stage == Stage::Disk && figure.sink.is_none() && !figure.incoming)
        .map(|figure| figure.method.as_str())
        .filter(|method| !method.is_empty())
        .collect();
    let without = |method: &str| {
        let method = method.to_ascii_lowercase();
        // “(no io_uring)” alone is what the user asked for.
        !method.contains("io_uring")
            || ["fallback", "without io_uring", "io_uring was refused"]
                .iter()
                .any(|word| method.contains(word))
    };
    let setting = context.machine.kernel.io_uring_disabled.known().copied().unwrap_or(0);
    let without_it = methods.iter().copied().find(|method| without(method));
    if without_it.is_none() && (setting == 0 || !methods.is_empty()) {
        return Vec::new();
    }
    let (text, remedy) = if setting == 0 {
        (
            "io_uring was refused to this process".to_string(),
            "a container's seccomp profile refuses it: allow io_uring_setup, io_uring_enter and \
             io_uring_register",
        )
    } else {
        let who = if setting == 1 { "for all but one group" } else { "for all" };
        (
            format!("io_uring is switched off {who} (kernel.io_uring_disabled={setting})"),
            "`linerate tune apply --finding io-uring-off` (or `sysctl -w kernel.io_uring_disabled=0`), if \
             the person who switched it off agrees",
        )
    };
    vec![
        Finding::slow(
            "io-uring-off",
            format!("{text}: each read in flight takes a thread and a system call of its own"),
        )
        .evidence(
            json!({ "io_uring_disabled": context.machine.kernel.io_uring_disabled.known(), "method": without_it }),
        )
        .remedy(remedy),
    ]
}

/// `no-huge-pages`: the buffers lie on pages of 4 KiB, each of which is pinned, mapped and looked up by itself. On
/// a virtual machine a read past the page cache cost 0.021 CPU seconds per GB so, and 0.006 on huge pages.
pub(super) fn no_huge_pages(context: &Context) -> Vec<Finding> {
    let never = context.machine.kernel.transparent_huge_pages.known().is_some_and(|mode| mode == "never");
    let reads =
        |figure: &Measurement| figure.stage == Stage::Disk && figure.sink.is_none() && !figure.incoming;
    let read = context.figures.all.iter().any(reads);
    if !never || !read {
        return Vec::new();
    }
    let text = "transparent huge pages are off (never): the buffers lie on small pages, and each read pins and maps \
                hundreds of them";
    vec![Finding::slow("no-huge-pages", text).evidence(json!({ "transparent_huge_pages": "never" })).remedy(
        "`linerate tune apply --finding no-huge-pages` (or “madvise” in \
         /sys/kernel/mm/transparent_hugepage/enabled), which only programs that ask for them notice",
    )]
}
