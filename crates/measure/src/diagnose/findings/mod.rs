//! What is wrong or worth changing: one file a group, one function a finding. To add one: a function
//! `fn(&Context) -> Vec<Finding>` (or `Option`), its line in [`all`], its name in `ids.txt`, and a test with the
//! figures that make it speak and those that do not.

mod access;
mod host;
pub(crate) mod map;
mod network;
mod pipeline;
mod streams;
#[cfg(test)]
mod tests;
mod trust;
mod twins;

use super::figures::Figures;
use super::others::MISLEADING_BESIDE_OTHERS;
pub(crate) use super::others::others_findings;
use super::predict::Prediction;
use super::product::Finding;
use crate::measure::Measurement;
pub use access::disk_findings;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, Plan};
pub(crate) use pipeline::load_findings;
pub(crate) use streams::stream_findings;
pub(crate) use trust::burst_of_network;
pub use twins::TwinComparison;
pub(in crate::diagnose) use twins::{SlowTwin, compared_twins, slow_twins};
pub(crate) use twins::{compared_nodes, compared_paths, slow_nodes, slow_paths};

/// The names of all findings, so that a rule that names one is known to be right before anything is measured.
const IDS: &str = include_str!("ids.txt");

/// Everything a finding may look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub machine: &'a Machine,
    pub goal: &'a Goal,
    pub plan: &'a Plan,
    pub figures: &'a Figures,
    /// The headline protocol's first; never empty.
    pub predictions: &'a [Prediction],
}

impl Context<'_> {
    fn headline(&self) -> &Prediction {
        &self.predictions[0]
    }

    /// The whole path over the headline protocol.
    fn path(&self) -> Option<&Measurement> {
        self.figures.path(self.headline().protocol)
    }

    /// A resource of this id is in the headline's minimum cut.
    fn binds(&self, id: &str) -> bool {
        self.headline().solution.cut.iter().any(|other| other == id)
    }

    fn predicted(&self) -> f64 {
        self.headline().solution.bytes_per_second.known().copied().unwrap_or(0.0)
    }

    /// The most that anything can bring: all of the cut raised, less what the path does now.
    fn headroom(&self) -> f64 {
        let headline = self.headline();
        let lifted = headline.raised(self.figures);
        let now = self.path().map_or_else(|| self.predicted(), |path| path.bytes_per_second);
        lifted.bytes_per_second.known().map_or(0.0, |most| (most - now).max(0.0))
    }

    /// Bytes per second that the prediction gains where a resource has another capacity.
    fn gain_with(&self, id: &str, capacity: f64) -> f64 {
        let mut resources = self.headline().resources.clone();
        resources
            .iter_mut()
            .filter(|resource| resource.id == id)
            .for_each(|resource| resource.capacity = capacity);
        let raised = linerate_model::plan::capacity::Model::new(&resources).solve();
        raised.bytes_per_second.known().map_or(0.0, |rate| (rate - self.predicted()).max(0.0))
    }
}

/// All findings, worst first.
pub(super) fn all(context: &Context) -> Vec<Finding> {
    let groups: [fn(&Context) -> Vec<Finding>; 23] = [
        twins::straggler,
        trust::page_cache,
        trust::burst,
        pipeline::queue_too_deep,
        pipeline::stalled,
        pipeline::not_seen,
        network::receive_buffer,
        network::loss,
        network::mtu_mismatch,
        network::loss_over_time,
        network::nic_down,
        network::congestion_control,
        |context| network::tcp_window(context).into_iter().collect(),
        host::memlock,
        host::io_uring_off,
        host::no_huge_pages,
        host::one_core_saturated,
        host::steal,
        trust::drift,
        trust::read_again,
        trust::below_prediction,
        trust::above_prediction,
        trust::above_rated,
    ];
    let mut findings: Vec<Finding> = groups.iter().flat_map(|find| find(context)).collect();
    if context.path().is_some_and(|path| path.evidence().others_explain()) {
        findings.retain(|finding| !MISLEADING_BESIDE_OTHERS.contains(&finding.id.as_str()));
    }
    findings.extend(others_findings(&context.figures.all));
    findings.extend(map::of_run(context));
    let headroom = context.headroom();
    findings.iter_mut().for_each(|finding| finding.gain = finding.gain.min(headroom));
    sort(&mut findings);
    findings
}

/// Worst first; a gain that is not a number is none.
fn sort(findings: &mut [Finding]) {
    for finding in &mut *findings {
        if !finding.gain.is_finite() {
            finding.gain = 0.0;
        }
    }
    findings.sort_by(|a, b| {
        a.severity.cmp(&b.severity).then(b.gain.total_cmp(&a.gain)).then_with(|| a.id.cmp(&b.id))
    });
}

/// The finding of this name.
pub fn finding_id(name: &str) -> Option<&'static str> {
    IDS.lines().find(|id| *id == name)
}
