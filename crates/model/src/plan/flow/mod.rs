//! A flow over the parts of a machine: `plan_flow(&Parts, &Flow) -> FlowPlan`. Nothing is measured and
//! nothing is opened.

mod ends;
pub(super) mod figures;
mod graph;
mod placement;
pub(super) mod product;
mod sentence;
mod short_ways;

use super::capacity::Model;
use super::parts::MachineParts;
use super::{Bound, Origin, ResourceKind, cpu_cost, overruled, pool};
pub use ends::{FlowEndError, ends};
pub(super) use figures::{USUAL_MTU, best_of_rated, device as device_figure};
pub(super) use graph::resources as graph_resources;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_machine::rates::published::CpuCost;
pub use product::*;
pub use sentence::BOTTLENECK_IS;
pub(super) use sentence::open_ends;
use short_ways::GpuDirect;

/// The ceiling of a flow and its cut; what is likely, with its cut, what binds next, what each change gains, who
/// feeds whom. Both are the same graph, solved with the best and with the usual case of what is not known. Where the
/// answer depends on an end of unknown rate, nothing is likely.
pub fn plan_flow(parts: &MachineParts, flow: &Flow) -> FlowPlan {
    let mut resources = flow_resources(parts, flow);
    let model = Model::new(&resources);
    let solution = model.solve();
    let ends = sentence::open_ends(&resources, solution.bytes_per_second.known().copied());
    if !ends.is_empty() {
        let writes = flow.to.iter().any(|end| end.is("disk:"));
        let missing = sentence::missing_rates(parts, &ends, writes, solution.bound());
        return unknown_plan(parts, flow, resources, missing);
    }
    let mut split = placement::split(&resources, &solution);
    if let Some(rate) = solution.bytes_per_second.known() {
        let advice = placement::best_move(parts, flow, &split, *rate);
        split.placement.advice.extend(advice);
    }
    for resource in resources.iter_mut().filter(|resource| resource.capacity > 0.0) {
        let through = split.through.get(&resource.id).copied().unwrap_or(0.0);
        resource.utilisation = (through / resource.capacity).clamp(0.0, 1.0);
    }
    let likely = solution.bound();
    let ceiling = Model::best(&resources).solve().bound().with_likely(&likely);
    let next = (!likely.cut.is_empty()).then(|| model.solve_without(&likely.cut).bound());
    let now = solution.bytes_per_second.known().copied();
    let gain = |id: &String| Gain {
        resource: id.clone(),
        bytes_per_second: now.zip(model.largest_without(&[id])).map(|(now, lifted)| (lifted - now).max(0.0)),
    };
    let gains = likely.cut.iter().map(gain).collect();
    FlowPlan {
        machine: parts.name.clone(),
        flow: flow.words(parts),
        sentence: sentence::sentence(parts, &resources, &likely, next.as_ref(), flow.unit()),
        missing: None,
        default_cost: default_cost(parts, flow, &resources),
        ceiling,
        likely,
        next,
        gains,
        data_plane: pool::data_plane(parts, flow, &split.through, figures::touches(flow, parts)),
        shares: split.shares,
        placement: split.placement,
        resources,
    }
}

/// The likely rate of a flow alone, for those who try many machines; none where it depends on what is not known.
pub fn likely_rate(parts: &MachineParts, flow: &Flow) -> Option<f64> {
    let resources = flow_resources(parts, flow);
    let rate = Model::new(&resources).solve().bytes_per_second.known().copied();
    rate.filter(|_| sentence::open_ends(&resources, rate).is_empty())
}

/// The plan of a flow that depends on what is missing.
fn unknown_plan(
    parts: &MachineParts,
    flow: &Flow,
    resources: Vec<super::Resource>,
    missing: MissingRates,
) -> FlowPlan {
    let likely = Bound::unknown(format!("{} must be known first", missing.words()));
    FlowPlan {
        machine: parts.name.clone(),
        flow: flow.words(parts),
        sentence: sentence::of_missing(&missing, flow.unit()),
        missing: Some(missing),
        default_cost: default_cost(parts, flow, &resources),
        ceiling: Model::best(&resources).solve().bound(),
        likely,
        next: None,
        gains: Vec::new(),
        data_plane: None,
        shares: Vec::new(),
        placement: Placement::default(),
        resources,
    }
}

/// The default of the flow, where a CPU has it.
fn default_cost(parts: &MachineParts, flow: &Flow, resources: &[super::Resource]) -> Option<CpuCost> {
    let taken = |cpu: &super::Resource| cpu.kind == ResourceKind::Cpu && cpu.origin == Origin::Rated;
    cpu_cost::default_of(parts, flow).filter(|_| resources.iter().any(taken))
}

/// How often one byte of a flow crosses the memory bus.
pub(crate) fn memory_touches_of(parts: &MachineParts, flow: &Flow) -> f64 {
    figures::touches(flow, parts)
}

/// The resources of a flow, for those who solve it themselves.
fn flow_resources(parts: &MachineParts, flow: &Flow) -> Vec<super::Resource> {
    let touches = figures::touches(flow, parts);
    let mut resources = graph::resources(parts, flow, touches);
    cpu_cost::fill(&mut resources, parts, flow);
    overruled::overrule(&mut resources, parts, flow, touches);
    resources
}

impl Flow {
    /// A rate of this flow as the field shows it: bits where a NIC is an end, else bytes.
    pub fn unit(&self) -> fn(f64) -> String {
        if self.in_bits() { show_bits_rate } else { show_bytes_rate }
    }

    /// A NIC is an end.
    pub fn in_bits(&self) -> bool {
        self.has("nic:")
    }

    pub(in crate::plan) fn comes_from(&self, kind: &str) -> bool {
        self.from.iter().any(|end| end.is(kind))
    }

    pub(in crate::plan) fn has(&self, kind: &str) -> bool {
        self.from.iter().chain(&self.to).any(|end| end.is(kind))
    }

    /// `6 disks to 3 NICs, UDP, each byte crosses the memory bus 4 times`.
    fn words(&self, parts: &MachineParts) -> String {
        let mut words = format!("{} to {}", count(&self.from), count(&self.to));
        if self.has("nic:") {
            words.push_str(&format!(", {}", self.transport()));
        }
        if !self.volumes.is_empty() {
            let several = if self.volumes.len() > 1 { "s" } else { "" };
            words.push_str(&format!(", through the volume{several} {}", self.volumes.join(", ")));
        }
        let touches = figures::touches(self, parts);
        let direct = GpuDirect::new(parts, self);
        match (direct.of_all_nics(), direct.of_some()) {
            (true, _) => format!("{words}, GPUDirect below the switches: no memory crossing"),
            (_, true) => {
                format!("{words}, {touches} memory crossings a byte, none where GPUDirect passes a switch")
            }
            _ => format!("{words}, {touches} memory crossings a byte"),
        }
    }

    /// What carries the bytes over the network.
    fn transport(&self) -> String {
        let protocol = self.protocol.to_string().to_uppercase();
        match self.method {
            Method::Rdma => "RDMA".into(),
            Method::Tls => format!("TLS over {protocol}"),
            Method::TlsOffload => format!("TLS of the NIC over {protocol}"),
            Method::Direct | Method::Zerocopy | Method::Cached => protocol,
        }
    }
}

fn count(flow_ends: &[FlowEnd]) -> String {
    let of = |kind: &str| flow_ends.iter().filter(|end| end.is(kind)).count();
    let words: Vec<String> = [("disk:", "disk"), ("nic:", "NIC"), ("gpu:", "GPU")]
        .into_iter()
        .filter_map(|(prefix, word)| match of(prefix) {
            0 => None,
            1 => Some(format!("1 {word}")),
            many => Some(format!("{many} {word}s")),
        })
        .collect();
    if words.is_empty() { "memory".into() } else { words.join(" and ") }
}

#[cfg(test)]
mod tests;
