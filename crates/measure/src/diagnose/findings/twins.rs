//! Findings about parts that do less than others of their kind: a NIC, a disk, a CPU or a memory node.

use super::super::figures::Figures;
use super::super::predict::Prediction;
use super::super::product::Finding;
use super::Context;
use crate::measure::access::MemoryPoint;
use crate::measure::statistics::Interval;
use crate::measure::streams::{PathFigure, StreamDirection, StreamFigure, StreamsResult};
use crate::measure::{LimitedBy, Measurement, WorkerResult};
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_bytes_rate};
use linerate_facts::usage::CoreUse;
use linerate_facts::wording::capitalised;
use linerate_machine::probe::Machine;
use linerate_model::alike::{AlikeFigure, Slower, median, slower};
use linerate_model::plan::wording::listed;
use linerate_model::plan::{Origin, Plan, Resource, ResourceKind};
use linerate_model::verdict::is_full_thread;
use linerate_model::verdict::thresholds::WINDOW_CLOSED;
use serde_json::json;

/// A part below this share of its like is named.
const TWIN_RATIO: f64 = 0.8;
/// A CPU with this share of its time in interrupts has less for its worker.
const INTERRUPTS: f64 = 0.1;
/// A share this near to one of `a half` to `a tenth` is called so.
const NEAR_FRACTION: f64 = 0.06;
const FRACTIONS: [&str; 9] =
    ["half", "a third", "a quarter", "a fifth", "a sixth", "a seventh", "an eighth", "a ninth", "a tenth"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum PartKind {
    Nic,
    Disk,
    Cpu,
    MemoryNode,
}

/// One part that was measured, with what makes it comparable.
struct Part {
    kind: PartKind,
    /// `a1`; what it is called as a resource is `nic:a1`.
    name: String,
    /// Parts of one key are alike, because of `sameness`: `same driver, same MTU`.
    key: String,
    sameness: String,
    figure: AlikeFigure,
    /// The rate of a NIC's link as its driver reports it, bytes per second.
    link: Option<f64>,
}

/// Parts that have others like them, and those that do less.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TwinComparison {
    /// How many were compared.
    pub alike: usize,
    /// Their evidence has `bytes_per_second`, its `interval` and `others_median_bytes_per_second`.
    pub slow: Vec<Finding>,
    /// Names of those that did less, of which nobody knows whether they can do more.
    pub unclear: Vec<String>,
}

impl TwinComparison {
    fn of(parts: &[Part], ratio: f64) -> Self {
        let has_twin = |part: &&Part| parts.iter().filter(|other| other.key == part.key).count() > 1;
        let slow = judged(parts, ratio);
        let did_less = |part: &&Part| {
            let others = parts.iter().filter(|other| other.key == part.key && other.name != part.name);
            let usual = median(others.map(|other| other.figure.bytes_per_second));
            usual.is_some_and(|usual| part.figure.bytes_per_second < ratio * usual)
        };
        let is_slow = |part: &&Part| slow.iter().any(|slow| slow.id.ends_with(&format!(":{}", part.name)));
        let unclear =
            parts.iter().filter(did_less).filter(|part| !is_slow(part)).map(|part| part.name.clone());
        TwinComparison {
            alike: parts.iter().filter(has_twin).count(),
            unclear: unclear.collect(),
            slow: slow.into_iter().map(|twin| twin.finding).collect(),
        }
    }

    /// Each part once.
    fn join(mut self, other: TwinComparison) -> Self {
        for finding in other.slow {
            if self.slow.iter().all(|known| known.evidence["resource"] != finding.evidence["resource"]) {
                self.slow.push(finding);
            }
        }
        self.unclear.extend(other.unclear);
        TwinComparison { alike: self.alike.max(other.alike), ..self }
    }
}

/// One that does less than its like.
pub(in crate::diagnose) struct SlowTwin {
    /// Its resource.
    pub id: String,
    /// What its like does, bytes per second.
    pub usual: f64,
    pub finding: Finding,
}

impl SlowTwin {
    /// What it is and what to look at, for the sentence of a verdict.
    pub(in crate::diagnose) fn sentence(&self) -> String {
        let Finding { text, remedy, .. } = &self.finding;
        format!("{text}. {}.", capitalised(remedy))
    }
}

/// `straggler`: NICs, disks and CPUs of a run.
pub(super) fn straggler(context: &Context) -> Vec<Finding> {
    let twins = slow_twins(context.machine, context.plan, context.figures, context.headline());
    let parts = twins.into_iter().map(|twin| twin.finding.gain(context.gain_with(&twin.id, twin.usual)));
    let path = context.figures.path(context.headline().protocol);
    let cpus = path.map(|path| judged(&full_cpus(context.machine, path), TWIN_RATIO)).unwrap_or_default();
    parts.chain(cpus.into_iter().map(|twin| twin.finding)).collect()
}

/// CPUs that workers of a kind filled, by what they moved in a second of CPU time; not those that serve interrupts,
/// too.
fn full_cpus(machine: &Machine, path: &Measurement) -> Vec<Part> {
    let serves = |one: &CoreUse| one.irq + one.softirq >= INTERRUPTS;
    let part = |worker: &WorkerResult| {
        let id = worker.core.filter(|_| is_full_thread(worker.cpu_share))?;
        let cpu = machine.cpu.logical.iter().find(|cpu| cpu.id == id)?;
        let serves_interrupts = path.cpu_by_core.iter().any(|one| one.core == id && serves(one));
        let source = worker.source.split(':').next().unwrap_or_default();
        (!serves_interrupts).then(|| Part {
            kind: PartKind::Cpu,
            name: format!("CPU {id}"),
            key: format!("{:?} {source} {:?} {}", cpu.node, worker.path, worker.block_bytes),
            sameness: "the same work in a second of CPU time, same memory node".into(),
            figure: AlikeFigure {
                bytes_per_second: worker.bytes_per_second / worker.cpu_share,
                interval: None,
                is_own: true,
            },
            link: None,
        })
    };
    path.workers.iter().filter_map(part).collect()
}

/// Those of the parts that a prediction is made of.
pub(in crate::diagnose) fn slow_twins(
    machine: &Machine,
    plan: &Plan,
    figures: &Figures,
    prediction: &Prediction,
) -> Vec<SlowTwin> {
    judged(&parts_of(machine, plan, figures, prediction), TWIN_RATIO)
}

/// The same with another ratio, for who asks.
pub(in crate::diagnose) fn compared_twins(
    machine: &Machine,
    plan: &Plan,
    figures: &Figures,
    prediction: &Prediction,
    ratio: f64,
) -> TwinComparison {
    TwinComparison::of(&parts_of(machine, plan, figures, prediction), ratio)
}

fn parts_of(machine: &Machine, plan: &Plan, figures: &Figures, prediction: &Prediction) -> Vec<Part> {
    let part = |resource: &Resource| part_of(resource, machine, plan, figures, prediction);
    prediction.resources.iter().filter_map(part).collect()
}

fn part_of(
    resource: &Resource,
    machine: &Machine,
    plan: &Plan,
    figures: &Figures,
    prediction: &Prediction,
) -> Option<Part> {
    let name = resource.id.split_once(':')?.1;
    let measured = resource.measured?;
    let (kind, alone, (key, sameness)) = match resource.kind {
        ResourceKind::Nic if !plan.loopback => {
            let path = plan.paths.iter().find(|path| path.resource == resource.id)?;
            let (key, sameness) = nic_likeness(machine, path.nic.as_deref().unwrap_or(name))?;
            // What another host takes may be the other host's.
            let alone = figures.network_alone(&resource.id, prediction.protocol, false);
            (PartKind::Nic, alone, (format!("{key} {}", path.receiver), sameness))
        }
        ResourceKind::Disk => {
            (PartKind::Disk, figures.disk_alone(&resource.id), disk_likeness(machine, name)?)
        }
        _ => return None,
    };
    let is_own = resource.origin == Origin::Measured && !resource.lower_bound;
    let lasting = is_own && resource.capacity < measured;
    let figure = match alone.filter(|_| !lasting) {
        Some(alone) => {
            AlikeFigure { bytes_per_second: alone.bytes_per_second, interval: alone.interval, is_own }
        }
        None => AlikeFigure {
            bytes_per_second: if is_own { resource.capacity } else { measured },
            interval: resource.interval,
            is_own,
        },
    };
    let link = machine.nics.iter().find(|nic| kind == PartKind::Nic && nic.name == name);
    let link = link.and_then(|nic| nic.speed_bits_per_second.known().map(|bits| bytes_per_second(*bits)));
    Some(Part { kind, name: name.into(), key, sameness, figure, link })
}

/// What makes NICs comparable; none of loopback and of what does not say what it is.
fn nic_likeness(machine: &Machine, name: &str) -> Option<(String, String)> {
    let nic = machine.nic(name).filter(|nic| !nic.loopback)?;
    let (driver, mtu) = (nic.driver.known()?, nic.mtu.known()?);
    let function = nic.pci.as_ref().and_then(|pci| machine.pci.iter().find(|one| one.address == *pci));
    let model = function.and_then(|pci| Some((*pci.vendor.known()?, *pci.device.known()?)));
    let sameness =
        if model.is_some() { "same model, same driver, same MTU" } else { "same driver, same MTU" };
    Some((format!("{driver} {mtu} {model:?}"), sameness.into()))
}

/// The same of disks.
fn disk_likeness(machine: &Machine, name: &str) -> Option<(String, String)> {
    let disk = machine.disk(name)?;
    let model = disk.model.known();
    let sameness = if model.is_some() { "same model" } else { "same kind of device" };
    Some((format!("{:?} {:?} {model:?}", disk.kind, disk.rotational.known()), sameness.into()))
}

/// Those of all parts that do less than `ratio` of their like.
fn judged(parts: &[Part], ratio: f64) -> Vec<SlowTwin> {
    let mut found = Vec::new();
    let mut keys: Vec<&str> = parts.iter().map(|part| part.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let alike: Vec<&Part> = parts.iter().filter(|part| part.key == key).collect();
        let figures: Vec<AlikeFigure> = alike.iter().map(|part| part.figure).collect();
        let slow = slower(&figures, ratio);
        found.extend(slow.iter().map(|one| twin(&alike, one, &slow)));
    }
    found
}

fn twin(alike: &[&Part], one: &Slower, slow: &[Slower]) -> SlowTwin {
    let part = alike[one.index];
    let is_slow = |index: usize| slow.iter().any(|slow| slow.index == index);
    let others: Vec<&Part> =
        (0..alike.len()).filter(|index| !is_slow(*index)).map(|index| alike[index]).collect();
    let (prefix, verb, show): (_, _, fn(f64) -> String) = match part.kind {
        PartKind::Nic => ("nic", "carries", show_bits_rate),
        PartKind::Disk => ("disk", "reads", show_bytes_rate),
        PartKind::Cpu => ("cpu", "moves", show_bytes_rate),
        PartKind::MemoryNode => ("memory", "reads", show_bytes_rate),
    };
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    let (own, usual) = (show(part.figure.bytes_per_second), show(one.usual));
    let each = if others.len() > 1 { " each" } else { "" };
    let mut text = format!(
        "{} {verb} {} {} ({own} against {usual}{each}): {}",
        part.name,
        share_in_words(one.ratio),
        listed(&names, 4),
        part.sameness
    );
    if let (Some(link), Some(usual_link)) = (part.link, others.first().and_then(|other| other.link))
        && link != usual_link
    {
        text += &format!("; its link is {}, theirs {}", show_bits_rate(link), show_bits_rate(usual_link));
    }
    let rate = |index: usize| if is_slow(index) { one.usual } else { alike[index].figure.bytes_per_second };
    let together = show((0..alike.len()).map(rate).sum());
    SlowTwin {
        id: format!("{prefix}:{}", part.name),
        usual: one.usual,
        finding: Finding::slow("straggler", text)
            .evidence(json!({
                "resource": format!("{prefix}:{}", part.name),
                "bytes_per_second": part.figure.bytes_per_second,
                "interval": part.figure.interval,
                "others_median_bytes_per_second": one.usual,
            }))
            .remedy(remedy(part, &together)),
    }
}

fn remedy(part: &Part, together: &str) -> String {
    let name = &part.name;
    match part.kind {
        PartKind::Nic => format!(
            "look at its link (`ethtool {name}`: speed), cable and switch port; \
             without that the NICs carry {together}"
        ),
        PartKind::Disk => format!(
            "look at its slot, its link and for errors (`dmesg | grep {name}`, `smartctl -a /dev/{name}`), and for a \
             throttle of it; without that the disks read {together}"
        ),
        PartKind::Cpu => format!(
            "look at its frequency and heat (`linerate watch`, `turbostat`), at what else runs on it or on the other \
             thread of its core, and whether {name} is one of the slower kind"
        ),
        PartKind::MemoryNode => "look at its DIMMs: how many channels have one, and at which rate they run \
                                 (`linerate probe`, `dmidecode -t memory`)"
            .into(),
    }
}

/// `a tenth of`, `62 % of`.
fn share_in_words(ratio: f64) -> String {
    let near = |(index, _): &(usize, &&str)| (ratio * (index + 2) as f64 - 1.0).abs() <= NEAR_FRACTION;
    let fraction = FRACTIONS.iter().enumerate().find(near).map(|(_, name)| name.to_string());
    fraction.unwrap_or_else(|| format!("{:.0} %", ratio * 100.0)) + " of"
}

/// `straggler` of `linerate network`: of NICs that carried streams at the same time one that carried less, though
/// nothing of its streams' own ends held it.
pub(crate) fn slow_paths(machine: &Machine, measurements: &[Measurement]) -> Vec<Finding> {
    compared_paths(machine, measurements, TWIN_RATIO).slow
}

/// The same with another ratio.
pub(crate) fn compared_paths(machine: &Machine, measurements: &[Measurement], ratio: f64) -> TwinComparison {
    let mut all = TwinComparison::default();
    for measurement in measurements.iter().filter(|one| one.burst.is_none()) {
        let Some(result) = measurement.streams.as_deref() else { continue };
        for direction in [StreamDirection::Send, StreamDirection::Receive] {
            let of_it = result.paths.iter().filter(|path| path.direction == direction);
            let parts: Vec<Part> =
                of_it.filter_map(|path| part_of_path(machine, measurement, result, path)).collect();
            all = all.join(TwinComparison::of(&parts, ratio));
        }
    }
    all
}

fn part_of_path(
    machine: &Machine,
    measurement: &Measurement,
    result: &StreamsResult,
    path: &PathFigure,
) -> Option<Part> {
    // Of two peers behind one NIC each is a path of its own.
    let (key, sameness) = nic_likeness(machine, &path.name)?;
    let held = matches!(
        measurement.held_by,
        Some(LimitedBy::Demand | LimitedBy::Others | LimitedBy::Peer | LimitedBy::Quota | LimitedBy::Sender)
    );
    let own = |stream: &&StreamFigure| stream.path == path.name && stream.direction == path.direction;
    let free = result.streams.iter().filter(own).all(|stream| !is_held_by_its_ends(stream));
    let link = machine.nic(&path.name)?;
    Some(Part {
        kind: PartKind::Nic,
        name: path.name.clone(),
        key: format!("{key} {}", path.streams),
        sameness,
        figure: AlikeFigure {
            bytes_per_second: path.bytes_per_second,
            interval: Interval::of(&path.samples).map(|within| [within.low, within.high]),
            is_own: free && !held && result.job.bytes_per_second.is_none(),
        },
        link: link.speed_bits_per_second.known().map(|bits| bytes_per_second(*bits)),
    })
}

/// A thread of it has no time left, or a buffer of either end made TCP wait.
fn is_held_by_its_ends(stream: &StreamFigure) -> bool {
    let tcp = stream.tcp.as_ref().filter(|tcp| tcp.busy_micros > 0);
    let waited = tcp.map_or(0.0, |tcp| {
        (tcp.receiver_limited_micros + tcp.send_buffer_limited_micros) as f64 / tcp.busy_micros as f64
    });
    is_full_thread(stream.sender_cpu_share)
        || is_full_thread(stream.receiver_cpu_share)
        || waited >= WINDOW_CLOSED
}

/// `straggler` of `linerate memory`: a node that reads less of its own memory than the others of theirs.
pub(crate) fn slow_nodes(machine: &Machine, measurements: &[Measurement]) -> Vec<Finding> {
    compared_nodes(machine, measurements, TWIN_RATIO).slow
}

/// The same with another ratio.
pub(crate) fn compared_nodes(machine: &Machine, measurements: &[Measurement], ratio: f64) -> TwinComparison {
    let part = |measurement: &Measurement| {
        let point = measurement.memory.as_ref().filter(|point| point.kernel == "read")?;
        let node = point.node_of_memory.filter(|node| point.node_of_cores == Some(*node))?;
        let memory = machine.memory.nodes.iter().find(|one| one.id == node)?;
        let MemoryPoint { level, working_set_bytes, stride_bytes, cores, .. } = point;
        (level == "memory").then(|| Part {
            kind: PartKind::MemoryNode,
            name: format!("memory node {node}"),
            key: format!("{working_set_bytes} {stride_bytes} {cores} {}", memory.cpus.len()),
            sameness: "as many CPUs read it".into(),
            figure: AlikeFigure {
                bytes_per_second: measurement.bytes_per_second,
                interval: measurement.interval,
                is_own: !measurement.lower_bound,
            },
            link: None,
        })
    };
    let parts: Vec<Part> = measurements.iter().filter_map(part).collect();
    TwinComparison::default().join(TwinComparison::of(&parts, ratio))
}
