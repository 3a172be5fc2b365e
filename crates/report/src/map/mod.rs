//! The server as a block diagram, like the figures of SARA's D1.3: nodes with their CPUs and memory side by side, below
//! each its PCIe roots, switches, cards, and at the end ports and disks; the edges say what the links carry. A flow laid over
//! it shows how much of each part is in use, and the bottleneck.
//!
//! Four steps: [`picture`] says what is drawn, [`usage`] lays the flow over it, [`layout`] says where, [`draw`] how. A tree lies
//! on its side: a root or a switch is a bar as tall as all that hangs on it, so that each link is one straight line with its
//! rates on it, and nothing crosses.

mod described;
mod draw;
mod layout;
mod leaf;
mod machine;
mod parts;
mod picture;
mod tree;
mod usage;

use crate::markup::{Markup, finished};
use crate::verdict::{RunVerdict, resources};
pub(super) use draw::SHEET;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_machine::probe::Machine;
use linerate_measure::run::Run;
use linerate_model::plan::Resource;
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::parts::MachineParts;
use linerate_model::plan::wording::in_words;
use std::collections::BTreeSet;

/// The machine as a block diagram in SVG that needs nothing else: nodes side by side, what hangs on them over which links,
/// with rates on the edges. Light or dark as the reader prefers; no script.
pub fn svg(machine: &Machine) -> String {
    let picture = picture::picture(machine);
    finished(draw::draw(&picture, &layout::layout(&picture), Some(&draw::sheet_of_a_file()))) + "\n"
}

/// The parts of a machine as a plan has them, with its flow: how much of each link, port and disk it uses, and what
/// limits it.
pub fn plan_svg(parts: &MachineParts, plan: &FlowPlan) -> String {
    let resources: Vec<&Resource> = plan.resources.iter().collect();
    let cut: BTreeSet<String> = plan.likely.cut.iter().cloned().collect();
    let mut picture = described::picture(parts);
    picture.about = parts::joined([Some(picture.about), Some(plan.flow.clone())]);
    let ids: Vec<&str> = plan.likely.cut.iter().map(String::as_str).collect();
    picture.limit = plan.ceiling.likely_bytes_per_second.filter(|_| !ids.is_empty()).map(|rate| {
        format!("Likely {} ({}), limited by {}.", show_bits_rate(rate), show_bytes_rate(rate), in_words(&ids))
    });
    let picture = usage::overlaid(picture, usage::Flow::planned(&resources, &cut));
    finished(draw::draw(&picture, &layout::layout(&picture), Some(&draw::sheet_of_a_file()))) + "\n"
}

/// The picture of a run's machine with its flow, within a page that has [`SHEET`].
pub(super) fn of_run(run: &Run, verdict: &RunVerdict) -> Markup {
    let flow = usage::Flow::new(&resources(run), verdict);
    let picture = usage::overlaid(picture::picture(&run.machine), flow);
    draw::draw(&picture, &layout::layout(&picture), None)
}

/// The rate of the link above a function as it is drawn, and whether it is drawn as too slow.
#[cfg(test)]
pub(super) fn link_of_picture(tree: &linerate_machine::topology::Topology, address: &str) -> (f64, bool) {
    fn find(branch: &parts::Branch, address: &str) -> Option<(f64, bool)> {
        let is_here = branch.addresses.iter().any(|one| one == address);
        let here = is_here.then_some((branch.edge.rate, branch.edge.look == parts::EdgeStyle::Below));
        here.or_else(|| branch.below.iter().find_map(|below| find(below, address)))
    }
    let drawn = picture::picture(tree.machine);
    drawn.nodes.iter().flat_map(|node| &node.roots).find_map(|root| find(root, address)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
