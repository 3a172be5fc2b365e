//! Explains a program that is not linerate's: what it moves, what its threads wait for, what limits that, by the one judge
//! (`model::verdict`), and what to change in its own words. It only reads `/proc`, `/sys` and the kernel's lists of
//! sockets, and changes nothing; its grade is *observed*, so its sentence begins with "Probably". Where the user agrees, an
//! experiment takes a little of what the program uses, and what that costs it is *measured*.

#![forbid(unsafe_code)]

mod activity;
mod connections;
mod descriptors;
mod experiment;
mod findings;
mod flow;
mod observe;
mod pace;
mod processes;
mod product;
mod remedies;
mod sentences;
mod target;
mod threads;

pub use activity::{Activity, ActivityShares};
pub use connections::{ConnectionUse, ConnectionsUse};
pub use descriptors::FileUse;
pub use experiment::{NoExperiment, ProgramExperiment};
use flow::ProgramFlow;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_machine::probe::Machine;
use linerate_measure::measure::experiment::NicAgent;
use linerate_system::stop::Stop;
use linerate_transport::agent::Peer;
use observe::Observation;
pub use observe::{GroupUse, MappedFile};
pub use processes::ExplainedProcess;
pub use product::{
    CpuSummary, EvidenceSource, ExplainedDisk, ExplainedFile, ExplainedProgram, Explanation, ProgramRates,
    ThreadsSummary,
};
use remedies::Remedies;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
pub use target::{ExplainTarget, TargetError};
pub use threads::ThreadUse;

#[cfg(test)]
mod tests;

/// Threads and files that the result lists one by one.
const MOST_THREADS: usize = 16;
const MOST_FILES: usize = 32;

/// Which program, and for how long.
pub struct ExplainSpec {
    pub target: ExplainTarget,
    pub time: Duration,
    /// What earlier runs of this host have measured of its parts, by id (`disk:vda`), bytes per second.
    pub measured: BTreeMap<String, f64>,
    /// Something is to be taken of what it uses.
    pub experiment: bool,
    /// An agent behind the NIC over which it sends, to take of that, too.
    pub peer: Option<Peer>,
}

/// What was observed, and what may be taken; or why nothing.
pub type Explained = (Explanation, Result<ProgramExperiment, NoExperiment>);

/// Observes a program for that time, or until it ends or the user stops it.
pub fn explain(
    sysroot: &Sysroot,
    machine: &Machine,
    spec: &ExplainSpec,
    stop: &Stop,
) -> Result<Explained, TargetError> {
    let roots = target::roots(sysroot, &spec.target)?;
    let observed = observe::observe(sysroot, &roots, spec.time, stop);
    let flow = ProgramFlow::of(sysroot, machine, &observed);
    let found = explanation(&flow, &spec.measured);
    let experiment = match spec.experiment {
        true => {
            // From the network namespace of the program, in which this thread is by now.
            let agent = spec.peer.as_ref().map(NicAgent::ask);
            ProgramExperiment::of(sysroot, machine, &flow, &found.bottleneck, agent)
        }
        false => Err(NoExperiment::NotWanted),
    };
    Ok((found, experiment))
}

fn explanation(flow: &ProgramFlow<'_>, measured: &BTreeMap<String, f64>) -> Explanation {
    let observed = flow.observed;
    let names = observed.processes.iter().flat_map(|one| observed.known_as(&one.name));
    let findings = findings::findings(flow, measured, &Remedies::of_programs(names));
    let statement = sentences::statement(flow, &findings);
    let (evidence, root_would_add) = sentences::sources(observed);
    Explanation {
        program: ExplainedProgram {
            name: observed.name.clone(),
            pids: observed.pids.clone(),
            ended: observed.ended,
            cpus: observed.total.cpus,
            user_cpus: observed.total.user_cpus,
            tls_library: observed.tls().cloned(),
        },
        seconds: observed.seconds,
        rates: flow.rates,
        processes: observed.processes.clone(),
        threads: ThreadsSummary {
            count: observed.threads_read.count,
            rounds: observed.threads_read.rounds,
            workers: flow.workers.len(),
            of_workers: flow.shares(),
            busiest: busiest_threads(flow),
        },
        files: files(flow),
        mapped: observed.mapped.clone(),
        connections: observed.connections.clone(),
        disks: disks(flow, measured),
        links: observed
            .host
            .links
            .iter()
            .filter(|link| flow.devices.interfaces.contains(&link.name))
            .cloned()
            .collect(),
        control_group: observed.group,
        cpus: cpus(observed),
        verdict: statement.grade,
        bottleneck: statement.bottleneck,
        rule: statement.rule,
        shares: Vec::new(),
        findings,
        evidence,
        unknown: sentences::unknown(flow),
        root_would_add,
    }
}

/// Those that move the bytes, then those that run most.
fn busiest_threads(flow: &ProgramFlow<'_>) -> Vec<ThreadUse> {
    let mut busiest = flow.observed.threads.clone();
    busiest.sort_by(|a, b| {
        let runs = |thread: &ThreadUse| thread.shares.of(Activity::Running);
        let is_worker = |thread: &ThreadUse| flow.workers.iter().any(|worker| worker.thread == thread.thread);
        is_worker(b).cmp(&is_worker(a)).then(runs(b).total_cmp(&runs(a)))
    });
    busiest.truncate(MOST_THREADS);
    busiest
}

/// Those that moved, of all processes together; where none did, those that are open.
fn files(flow: &ProgramFlow<'_>) -> Vec<ExplainedFile> {
    let mut all: BTreeMap<(PathBuf, bool), (FileUse, BTreeSet<u32>)> = BTreeMap::new();
    for file in flow::files_used(flow.observed) {
        let known = all.entry((file.path.clone(), file.writes)).or_insert_with(|| {
            let nothing = FileUse { bytes_per_second: 0.0, again_bytes_per_second: 0.0, ..file.clone() };
            (nothing, BTreeSet::new())
        });
        known.0.bytes_per_second += file.bytes_per_second;
        known.0.again_bytes_per_second += file.again_bytes_per_second;
        known.1.insert(file.pid);
    }
    let of = |(used, pids): (FileUse, BTreeSet<u32>)| ExplainedFile {
        disks: flow.disks_of.get(&used.path).cloned().unwrap_or_default(),
        processes: pids.len(),
        used,
    };
    let mut files: Vec<ExplainedFile> = all.into_values().map(of).collect();
    files.sort_by(|a, b| b.used.bytes_per_second.total_cmp(&a.used.bytes_per_second));
    files.truncate(MOST_FILES);
    files
}

fn disks(flow: &ProgramFlow<'_>, measured: &BTreeMap<String, f64>) -> Vec<ExplainedDisk> {
    let others = findings::other_programs(flow);
    let of = |disk: &linerate_model::verdict::DiskEvidence| ExplainedDisk {
        name: disk.name.clone(),
        bytes_per_second: disk.bytes_per_second,
        busy: disk.busy,
        queue_depth: disk.queue_depth,
        latency_seconds: disk.latency_seconds,
        others_bytes_per_second: disk.others_bytes_per_second,
        others: others.clone(),
        measured_bytes_per_second: measured.get(&format!("disk:{}", disk.name)).copied(),
    };
    flow.disks.iter().map(of).collect()
}

/// Of the CPUs that it may use; of all where that is not known.
fn cpus(observed: &Observation) -> CpuSummary {
    let allowed =
        |cpu: &&CoreUse| observed.allowed_cpus.is_empty() || observed.allowed_cpus.contains(&cpu.core);
    let own: Vec<&CoreUse> = observed.host.cpus.iter().filter(allowed).collect();
    let most = |of: fn(&CoreUse) -> f64| own.iter().map(|cpu| of(cpu)).fold(0.0, f64::max);
    CpuSummary {
        count: own.len(),
        busy: own.iter().map(|cpu| cpu.busy()).sum::<f64>() / own.len().max(1) as f64,
        interrupts: most(|cpu| cpu.irq + cpu.softirq),
        steal: most(|cpu| cpu.steal),
    }
}
