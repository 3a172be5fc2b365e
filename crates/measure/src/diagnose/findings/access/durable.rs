//! `durable-writes`: what a sync takes, and for the log of which program that is enough by its own documents.

use super::Cell;
use crate::diagnose::product::Finding;
use linerate_machine::probe::Machine;
use serde_json::json;

/// The syncs of one figure, seconds.
struct Syncs {
    p99: f64,
    longest: f64,
    /// Syncs a second of one writer, one after the other; none: several wrote at once.
    of_one_writer: Option<f64>,
}

/// What a program asks of the disk below its log.
struct Requirement {
    /// The program, and what it asks for.
    program: &'static str,
    is_met: fn(&Syncs) -> bool,
    source: &'static str,
}

const REQUIREMENTS: [Requirement; 3] = [
    // "wal_fsync_duration_seconds (p99 duration should be less than 10ms)".
    Requirement {
        program: "etcd (p99 below 10 ms)",
        is_met: |syncs| syncs.p99 < 0.01,
        source: "https://etcd.io/docs/v3.5/faq/",
    },
    // "For heavily loaded clusters, 500 sequential IOPS".
    Requirement {
        program: "etcd under heavy load (500/s of one writer)",
        is_met: |syncs| syncs.of_one_writer.is_none_or(|per_second| per_second >= 500.0),
        source: "https://etcd.io/docs/v3.5/op-guide/hardware/",
    },
    // `fsync.warningthresholdms` is 1000 where it is not set.
    Requirement {
        program: "ZooKeeper (warns from 1 s on)",
        is_met: |syncs| syncs.longest < 1.0,
        source: "https://zookeeper.apache.org/doc/current/zookeeperAdmin.html",
    },
];

/// Of the cell whose syncs take longest; of files in memory nothing is said.
pub(super) fn durable_writes(_: &Machine, cells: &[Cell]) -> Vec<Finding> {
    let synced = cells.iter().filter(|cell| !cell.figure.flags.iter().any(|flag| flag == "in-memory"));
    let synced = synced.filter_map(|cell| Some((cell, cell.access.job.sync?, cell.access.sync_latency()?)));
    let Some((cell, sync, latency)) = synced.max_by(|one, other| one.2.p99.total_cmp(&other.2.p99)) else {
        return Vec::new();
    };
    let per_second = cell.access.syncs.as_ref().map(|syncs| syncs.operations_per_second);
    let per_second = per_second.unwrap_or_else(|| cell.operations_per_second());
    let one_writer = cell.access.checks.asked_depth <= 1.0;
    let syncs =
        Syncs { p99: latency.p99, longest: latency.maximum, of_one_writer: one_writer.then_some(per_second) };
    let (met, missed): (Vec<&Requirement>, Vec<&Requirement>) =
        REQUIREMENTS.iter().partition(|required| (required.is_met)(&syncs));
    let listed = |what: &str, programs: &[&Requirement]| match programs {
        [] => String::new(),
        programs => {
            let names: Vec<&str> = programs.iter().map(|required| required.program).collect();
            format!("; {what} for {}", names.join(", "))
        }
    };
    let text = format!(
        "{sync} in “{}” took {:.2} ms on the median, p99 {:.2} ms, {:.1} ms at most, {per_second:.0} a second{}{}",
        cell.figure.name,
        latency.p50 * 1e3,
        latency.p99 * 1e3,
        latency.maximum * 1e3,
        listed("enough", &met),
        listed("too slow", &missed)
    );
    let finding = if missed.is_empty() { Finding::note } else { Finding::slow };
    let remedy = match missed[..] {
        [] => "",
        _ => "a disk whose cache survives a loss of power, or one that nothing else writes to; ",
    };
    let sources = REQUIREMENTS.map(|required| required.source);
    vec![
        finding("durable-writes", text)
            .evidence(json!({
                "measurement": cell.figure.name, "p50_seconds": latency.p50, "p99_seconds": latency.p99,
                "maximum_seconds": latency.maximum, "syncs_per_second": per_second, "sources": sources,
                "too_slow_for": missed.iter().map(|required| required.program).collect::<Vec<_>>(),
            }))
            .remedy(format!("{remedy}these limits are from {}", sources.join(", "))),
    ]
}
