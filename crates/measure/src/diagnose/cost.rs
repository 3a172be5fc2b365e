//! What a byte costs the CPU, and the flow that the CPU allows.
//!
//! Two estimates of the cost of one byte from disk to peer: measured at once (network with a cached file behind
//! it), or the sum of the disks unread and the network from as many blocks as the path has. The first pays a copy
//! out of the page cache that O_DIRECT spares, the second may poll and wake at a low rate: the cheaper of the two
//! is nearer to what a byte costs. A stage that the CPU did not hold also shows that the CPU carries at least
//! that much; one that a CPU full of interrupts held shows what that CPU takes, for no other does its work.

use super::figures::{Figures, held_by_cpu};
use crate::measure::{CoreUse, LimitedBy, Measurement};
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::{cores, counted};
use linerate_machine::probe::Machine;
use linerate_model::plan::Plan;
use linerate_model::verdict::thresholds::CPU_OF_OTHERS;
use linerate_model::verdict::{full_of_interrupts, is_full_thread};
use std::collections::BTreeSet;

/// An estimate this close to a flow that the CPU carried without being the limit tells only a lower bound.
const NEAR: f64 = 1.1;

/// A cost so small that more would follow from it is none that can be measured.
const LARGEST_BYTES_PER_SECOND: f64 = 1e15;

/// What bounds the CPU's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Granted {
    /// The cores that workers are pinned to.
    WorkerCores(usize),
    /// All cores that we may run on, for all that the host does on them for the flow: our threads, interrupts, kernel
    /// threads, and a receiver that runs here.
    AllCores(f64),
    /// The core that takes the interrupts of the network, whichever others are idle.
    InterruptCore(u32),
    /// The control group's quota, in cores.
    Quota(f64),
}

/// The CPU as a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CpuCapacity {
    pub bytes_per_second: f64,
    pub granted: Granted,
    /// CPU seconds per 10⁹ bytes, with the receiver's where it runs here.
    pub seconds_per_gb: f64,
    /// Which figures the cost comes from.
    pub from: &'static str,
    /// The CPU carried about this much without being the limit.
    pub lower_bound: bool,
    /// Share of these cores that the hypervisor gave to others while the cost was measured.
    pub stolen: f64,
    /// Share of all CPUs that other programs used while the cost was measured.
    pub others: f64,
    /// Bytes per second that the other bounds allow, where one core of interrupts is the tightest: such work can move.
    pub of_others: Option<f64>,
}

impl CpuCapacity {
    /// The quota grants less than the cores.
    pub(crate) fn is_quota(&self) -> bool {
        matches!(self.granted, Granted::Quota(_))
    }

    /// The hypervisor takes so much of them that it, and no work of this host, fills them.
    pub(crate) fn is_stolen(&self) -> bool {
        !self.is_quota() && self.stolen >= CPU_OF_OTHERS
    }

    /// Other programs have so much of all CPUs that they, and not the flow's work alone, fill them.
    pub(crate) fn is_of_others(&self) -> bool {
        matches!(self.granted, Granted::AllCores(_)) && self.others >= CPU_OF_OTHERS
    }
}

impl Granted {
    /// `0.40 cores of quota`, for a resource's `why`.
    pub(crate) fn words(self) -> String {
        match self {
            Granted::WorkerCores(cores) => counted(cores, "core"),
            Granted::AllCores(count) => {
                format!("{} with interrupts and kernel threads", cores((count * 100.0).round() / 100.0))
            }
            Granted::InterruptCore(core) => format!("1 core (CPU {core}, which takes the interrupts)"),
            Granted::Quota(cores) => format!("a quota of {cores:.2} cores"),
        }
    }
}

/// The flow that the CPU allows; why it cannot be said, where it cannot.
pub(super) fn cpu_capacity(
    machine: &Machine,
    plan: &Plan,
    figures: &Figures,
    protocol: Protocol,
) -> Result<CpuCapacity, &'static str> {
    let allowed = machine.cpu.allowed.known().map_or(&[][..], Vec::as_slice);
    let (cost, from) =
        cheaper(figures, plan.loopback, protocol, allowed).ok_or("no stage reported its CPU cost")?;
    let measured = figures.whole_network(protocol, false).or(figures.whole_network(protocol, true));
    let stolen = |cores: &BTreeSet<u32>| measured.map_or(0.0, |figure| stolen(figure, cores));
    // Flows over TCP may have other workers than the plan's (`stream_trials`).
    let moved: Option<BTreeSet<u32>> =
        measured.and_then(|figure| figure.workers.iter().map(|worker| worker.core).collect());
    let planned = || plan.workers.iter().map(|worker| worker.core).collect();
    let workers: BTreeSet<u32> = moved.filter(|cores| !cores.is_empty()).unwrap_or_else(planned);
    let tightest = tightest(machine, &workers, plan.loopback, &cost, stolen(&workers));
    let of_interrupts =
        measured.filter(|_| !plan.loopback).and_then(|figure| interrupt_core(figure, &workers));
    let of_interrupts = of_interrupts.filter(|grant| flow(grant) * NEAR < flow(&tightest));
    let from = if of_interrupts.is_some() { "network" } else { from };
    let of_others = of_interrupts.and(measured).map(|figure| {
        let of_all = figure.cpu_by_core.len() as f64 / busy_per_gb(figure);
        (flow(&tightest).min(of_all) * 1e9).min(LARGEST_BYTES_PER_SECOND)
    });
    let (granted, seconds, per_gb) = of_interrupts.unwrap_or(tightest);
    let stolen = match granted {
        Granted::WorkerCores(_) => stolen(&workers),
        Granted::InterruptCore(core) => stolen(&BTreeSet::from([core])),
        _ => stolen(&BTreeSet::new()),
    };
    let bytes_per_second = (seconds / per_gb * 1e9).min(LARGEST_BYTES_PER_SECOND);
    let carried = figures.whole_network(protocol, true).filter(|figure| !held_by_cpu(figure));
    // What one core was seen to take is not an estimate, unless more was carried.
    let times = if of_interrupts.is_some() { 1.0 / NEAR } else { NEAR };
    let lower_bound = carried.is_some_and(|figure| bytes_per_second < figure.bytes_per_second * times);
    Ok(CpuCapacity {
        bytes_per_second,
        granted,
        seconds_per_gb: per_gb,
        from,
        lower_bound,
        stolen,
        others: measured.map_or(0.0, |figure| figure.cpu_share.others),
        of_others,
    })
}

/// What bounds, the CPU seconds per second that it grants, and those that 10⁹ bytes cost of it.
type Grant = (Granted, f64, f64);

fn flow((_, seconds, per_gb): &Grant) -> f64 {
    seconds / per_gb
}

/// The core whose interrupts held the network alone, by what it did for a byte then. No worker runs on it, or has a
/// full core of its own.
fn interrupt_core(figure: &Measurement, workers: &BTreeSet<u32>) -> Option<Grant> {
    let full_worker = figure.workers.iter().any(|worker| is_full_thread(worker.cpu_share));
    let is_cpu_limited = figure.held_by == Some(LimitedBy::Cpu) && !full_worker;
    let (core, busy) = full_of_interrupts(&figure.cpu_by_core).filter(|_| is_cpu_limited)?;
    let moved = figure.bytes_per_second / 1e9;
    (!workers.contains(&core)).then_some((Granted::InterruptCore(core), 1.0, busy / moved))
}

/// CPU seconds that all CPUs were busy for 10⁹ bytes of a figure.
fn busy_per_gb(figure: &Measurement) -> f64 {
    let busy: f64 = figure.cpu_by_core.iter().map(CoreUse::busy).sum();
    busy / (figure.bytes_per_second / 1e9)
}

/// Share of these cores, or of all, that the hypervisor gave to others.
fn stolen(figure: &Measurement, cores: &BTreeSet<u32>) -> f64 {
    let own = figure.cpu_by_core.iter().filter(|core| cores.is_empty() || cores.contains(&core.core));
    let shares: Vec<f64> = own.map(|core| core.steal).collect();
    (shares.iter().sum::<f64>() / shares.len().max(1) as f64).clamp(0.0, 1.0)
}

/// CPU seconds per 10⁹ bytes of the sender, of a receiver that shares its machine, and of the whole host.
#[derive(Clone, Copy, Debug)]
struct Cost {
    sender: f64,
    receiver: f64,
    /// Of the CPUs that we may run on; 0 where it is not known.
    host: f64,
    /// CPUs of those that others had meanwhile.
    others: f64,
}

impl Cost {
    fn of(figure: &Measurement, loopback: bool, allowed: &[u32]) -> Self {
        let other = figure.receiver.as_ref().or(figure.sender.as_ref());
        let receiver = other.map_or(0.0, |other| other.cpu_seconds_per_gb);
        let others = figure.cpu_share.others * figure.cpu_by_core.len() as f64;
        // Busy CPUs that we may not run on: with others' work as far as there is any, else with the flow's.
        let is_outside = |core: &&CoreUse| !allowed.is_empty() && !allowed.contains(&core.core);
        let outside: f64 = figure.cpu_by_core.iter().filter(is_outside).map(CoreUse::busy).sum();
        let of_flow = (outside - others).max(0.0) / (figure.bytes_per_second / 1e9);
        Cost {
            sender: figure.cpu_seconds_per_gb,
            receiver: if loopback { receiver } else { 0.0 },
            host: (figure.busy_seconds_per_gb - of_flow).max(0.0),
            others: (others - outside).max(0.0),
        }
    }

    fn total(self) -> f64 {
        self.sender + self.receiver
    }

    /// With that of a sink which writes alone, on the same host; the receiver's in it does that.
    fn with_sink(self, sink: Cost) -> Self {
        let both = self.host > 0.0 && sink.host > 0.0;
        let host = if both { self.host + sink.host } else { 0.0 };
        Cost { receiver: self.receiver + sink.receiver, host, ..self }
    }
}

/// The cheaper of the two estimates, and which figures it comes from.
fn cheaper(
    figures: &Figures,
    loopback: bool,
    protocol: Protocol,
    allowed: &[u32],
) -> Option<(Cost, &'static str)> {
    // Where the peer is this host, its sink writes with these CPUs, too: no figure of the network has that.
    let stored = figures.sink_alone().filter(|_| loopback).map(|figure| Cost::of(figure, true, allowed));
    let with_sink = |cost: Cost| stored.map_or(cost, |stored| cost.with_sink(stored));
    let known = |cost: &Cost| cost.sender > 0.0;
    let at_once = figures.whole_network(protocol, true).map(|figure| Cost::of(figure, loopback, allowed));
    let at_once = at_once.map(with_sink).filter(known).map(|cost| (cost, "network with a file behind it"));
    let summed = sum_of_stages(figures, loopback, protocol, allowed);
    let summed = summed.map(with_sink).filter(known).map(|cost| (cost, "disk and network"));
    match (at_once, summed) {
        (Some(at_once), Some(summed)) if summed.0.total() < at_once.0.total() => Some(summed),
        (at_once, summed) => at_once.or(summed),
    }
}

fn sum_of_stages(figures: &Figures, loopback: bool, protocol: Protocol, allowed: &[u32]) -> Option<Cost> {
    let figure = figures.whole_network(protocol, false)?;
    let network = Cost::of(figure, loopback, allowed);
    // What comes in, where it is thrown away.
    if figure.incoming && figures.whole_disk().is_none() {
        return Some(network);
    }
    // A send reads what was read: once is enough.
    let disk = figures.unread_disks().or(figures.whole_disk())?;
    let disk = Cost::of(disk, loopback, allowed);
    let host = if network.host > 0.0 && disk.host > 0.0 { network.host + disk.host } else { 0.0 };
    Some(Cost { sender: network.sender + disk.sender, host, ..network })
}

/// Of the cores of the workers, all cores (on loopback) and the quota: the one that allows least, with the
/// CPU seconds per second that it grants and the cost per 10⁹ bytes that it pays for.
///
/// What the hypervisor takes of the workers' cores they cannot spend; the whole host's cost has it in it.
fn tightest(machine: &Machine, workers: &BTreeSet<u32>, loopback: bool, cost: &Cost, stolen: f64) -> Grant {
    let workers = workers.len().max(1);
    let own = (workers as f64 * (1.0 - stolen)).max(0.01);
    let mut grants = vec![(Granted::WorkerCores(workers), own, cost.sender)];
    let online = machine.cpu.online().count();
    let all = machine.cpu.allowed.known().map_or(online, Vec::len).max(workers) as f64;
    if cost.host > 0.0 {
        grants.push((Granted::AllCores(all), (all - cost.others).max(0.1), cost.host.max(cost.total())));
    } else if loopback {
        grants.push((Granted::AllCores(all), all, cost.total()));
    }
    if let Some(quota) = machine.cpu.quota_cores.known().filter(|quota| quota.is_finite() && **quota > 0.0) {
        grants.push((Granted::Quota(*quota), *quota, cost.total()));
    }
    grants.into_iter().min_by(|a, b| flow(a).total_cmp(&flow(b))).unwrap_or((
        Granted::WorkerCores(1),
        1.0,
        cost.sender,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Case, Lab, figure};
    use super::*;
    use crate::measure::{ReceiverResult, SinkResult, Stage, WorkerResult};

    #[test]
    fn a_sink_on_this_host_takes_its_cpus() {
        let mut case =
            Lab { disks: vec![200.0], nics: vec![500.0], quota_cores: 0.4, ..Lab::default() }.measured();
        let cost = |case: &Case| {
            let figures = Figures::new(&case.measurements);
            cpu_capacity(&case.machine, &case.plan, &figures, Protocol::Tcp).expect("a cost").seconds_per_gb
        };
        case.plan.loopback = true;
        let before = cost(&case);
        let mut sink = figure(Stage::Disk, "write sink", "peer/disk:x", 500e6);
        sink.sink = Some(SinkResult::default());
        sink.receiver = Some(ReceiverResult { cpu_seconds_per_gb: 0.5, ..ReceiverResult::default() });
        case.measurements.push(sink);
        assert!((cost(&case) - before - 0.5).abs() < 1e-9, "{} after {before}", cost(&case));
        // On another host it takes that one's.
        case.plan.loopback = false;
        assert!((cost(&case) - before).abs() < 1e-9, "{} after {before}", cost(&case));
    }

    /// What others fill beside the program's CPUs is neither its cost nor taken from what it has; what it fills there
    /// itself, by interrupts, is paid there.
    #[test]
    fn cpus_that_the_program_may_not_run_on_are_not_its_own_to_pay() {
        let cost = |others: f64| {
            let mut one = figure(Stage::Network, "lo tcp", "nic:eth0", 1000.0);
            let core = |core, busy| CoreUse { core, system: busy, idle: 1.0 - busy, ..CoreUse::default() };
            one.cpu_by_core = vec![core(0, 0.5), core(1, 1.0)];
            one.cpu_share.others = others / 2.0;
            one.busy_seconds_per_gb = 1.5 - others;
            let cost = Cost::of(&one, false, &[0]);
            (cost.host, cost.others)
        };
        assert_eq!(cost(1.0), (0.5, 0.0), "all of CPU 1 is others' work");
        assert_eq!(cost(0.0), (0.5, 0.0), "all of it is the flow's");
        assert_eq!(cost(1.25), (0.25, 0.25), "others have some of CPU 0, too");
    }

    /// Over a way with loss TCP may have more workers than the plan, and UDP has the plan's.
    #[test]
    fn the_cores_are_those_of_the_figures_own_workers() {
        let mut case = Lab { disks: vec![200.0], nics: vec![500.0], ..Lab::default() }.measured();
        let cores = |case: &Case, protocol| {
            let figures = Figures::new(&case.measurements);
            cpu_capacity(&case.machine, &case.plan, &figures, protocol).expect("a cost").granted
        };
        let planned = case.plan.workers.iter().map(|worker| worker.core).collect::<BTreeSet<u32>>().len();
        assert_eq!(cores(&case, Protocol::Tcp), Granted::WorkerCores(planned), "no figure has workers");
        for figure in case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Network) {
            let count = if figure.protocol == Some(Protocol::Tcp) { 5 } else { 3 };
            let worker = |core| WorkerResult { core: Some(core), ..WorkerResult::default() };
            figure.workers = (0..count).map(worker).collect();
        }
        assert_eq!(cores(&case, Protocol::Tcp), Granted::WorkerCores(5));
        assert_eq!(cores(&case, Protocol::Udp), Granted::WorkerCores(3));
    }
}
