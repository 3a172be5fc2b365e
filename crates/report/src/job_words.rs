//! A job in words: what the rows of a table and the lines of a chart are called, and by which two runs' rows
//! are told to be the same.

use super::figure::percent;
use linerate_facts::units;
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{
    Access, AccessJob, AccessOrder, Engine, FileLayout, MemoryPoint, show_transfer,
};

/// What is done to the file, in words: `sequential read`, `random 70 % read`.
pub(super) fn pattern(job: &AccessJob) -> String {
    let access = match job.access {
        Access::Read => "read".to_string(),
        Access::Write => "write".to_string(),
        Access::Mixed { read_share } => format!("{} read, else write", percent(read_share)),
    };
    match job.order {
        AccessOrder::Sequential => format!("sequential {access}"),
        AccessOrder::Random => format!("random {access}"),
        AccessOrder::Zipf { theta } => format!("Zipf {theta} {access}"),
        AccessOrder::Hot { share, hits } => {
            format!("{} of it hit {}, {access}", percent(share), percent(hits))
        }
    }
}

/// `1 worker`, `4 workers`.
pub(super) fn workers(job: &AccessJob) -> String {
    counted(job.workers, "worker")
}

/// Bytes a request.
pub(super) fn transfer(job: &AccessJob) -> String {
    show_transfer(job)
}

/// How it is done, where that is not the usual: depth, layout, engine, page cache, pace.
pub(super) fn method(job: &AccessJob) -> Vec<String> {
    let mut words = Vec::new();
    if job.queue_depth != 1 {
        words.push(format!("depth {}", job.queue_depth));
    }
    match job.layout {
        FileLayout::FilePerWorker => {}
        FileLayout::Strided => words.push("one file, strided".into()),
        FileLayout::Segmented => words.push("one file, segmented".into()),
    }
    match job.engine {
        Engine::IoUring => {}
        Engine::Psync => words.push("psync".into()),
        Engine::Mmap => words.push("mmap".into()),
    }
    if !job.direct && job.engine != Engine::Mmap {
        words.push("buffered".into());
    }
    words.extend(job.sync.map(|sync| sync.to_string()));
    words.extend(pace(job));
    let flags = [(job.fsync, "fsync"), (job.reorder, "reordered"), (job.verify, "verified")];
    words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, word)| word.to_string()));
    words
}

fn pace(job: &AccessJob) -> Option<String> {
    let rate = |rate: f64| super::figure::rate(rate).unwrap_or(0.0);
    match (job.requests_per_second, job.limit_bytes_per_second) {
        (Some(requests), _) => Some(format!("{:.0} requests/s", rate(requests))),
        (None, Some(limit)) => Some(format!("at most {}", units::show_bytes_rate(rate(limit)))),
        (None, None) => None,
    }
}

/// The whole job in one line; the same words mean the same job wherever its files lie.
pub(super) fn job(job: &AccessJob) -> String {
    let mut words = vec![pattern(job), workers(job), transfer(job)];
    words.extend(method(job));
    words.join(", ")
}

/// A point of the memory benchmark in one line.
pub(super) fn memory(point: &MemoryPoint) -> String {
    let mut words = vec![kernel(point)];
    words.push(format!("{} stride", units::show_size(point.stride_bytes)));
    words.push(format!("{} in {}", units::show_size(point.working_set_bytes), point.level));
    words.push(cores(point));
    words.extend(nodes(point));
    words.join(", ")
}

/// `copy`, `copy, streaming stores`.
pub(super) fn kernel(point: &MemoryPoint) -> String {
    let kernel = &point.kernel;
    point.store.as_ref().map_or_else(|| kernel.clone(), |store| format!("{kernel}, {store} stores"))
}

/// `1 core`, `8 cores`.
pub(super) fn cores(point: &MemoryPoint) -> String {
    counted(point.cores, "core")
}

/// Which node's cores use which node's memory, where that was chosen.
pub(super) fn nodes(point: &MemoryPoint) -> Option<String> {
    match (point.node_of_cores, point.node_of_memory) {
        (Some(cores), Some(memory)) => Some(format!("node {cores} in memory of {memory}")),
        _ => None,
    }
}
