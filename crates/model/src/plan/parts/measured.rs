//! What a run has measured of the parts, for flows over them: it comes before data sheets.

use super::{ByteDevice, Joint, MachineParts};
use crate::plan::WorkerCost;
use std::collections::BTreeMap;

/// Figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredParts {
    /// Disks that were read, by their ids.
    pub disks: Vec<MeasuredDevice>,
    /// NICs that sent, with the protocol that is planned for.
    pub nics: Vec<MeasuredDevice>,
    /// All of those disks at once, bytes per second.
    pub disks_together: Option<f64>,
    /// All of those NICs at once.
    pub nics_together: Option<f64>,
    /// The memory bus of all nodes, bytes per second.
    pub memory_bytes_per_second: Option<f64>,
    /// CPU time of one gigabyte from disk to network, seconds.
    pub cpu_seconds_per_gb: Option<f64>,
    /// What a worker cost, by the id of the NIC that it sent through.
    pub workers: BTreeMap<String, WorkerCost>,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredDevice {
    /// `disk:nvme0n1`, `nic:eth0`.
    pub id: String,
    pub bytes_per_second: f64,
    /// Something else was the limit: it can do this and maybe more.
    pub at_least: bool,
}

impl MeasuredParts {
    /// The middle of several runs, the newest first: of each part, and of what several reached together. Where some
    /// only say what a part can do at least, the others count.
    pub fn median(runs: Vec<MeasuredParts>) -> Self {
        let all = |of: fn(&MeasuredParts) -> Option<f64>| middle(runs.iter().filter_map(of).collect());
        MeasuredParts {
            disks: devices(&runs, |run| &run.disks),
            nics: devices(&runs, |run| &run.nics),
            disks_together: all(|run| run.disks_together),
            nics_together: all(|run| run.nics_together),
            memory_bytes_per_second: all(|run| run.memory_bytes_per_second),
            cpu_seconds_per_gb: all(|run| run.cpu_seconds_per_gb),
            workers: runs
                .iter()
                .map(|run| run.workers.clone())
                .find(|workers| !workers.is_empty())
                .unwrap_or_default(),
        }
    }
}

/// The devices of all runs, each once.
fn devices(runs: &[MeasuredParts], of: fn(&MeasuredParts) -> &Vec<MeasuredDevice>) -> Vec<MeasuredDevice> {
    let all = || runs.iter().flat_map(of);
    let mut ids: Vec<&String> = all().map(|device| &device.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let one = |id: &String| {
        let here = || all().filter(|device| device.id == *id);
        let at_least = here().all(|device| device.at_least);
        let rates =
            here().filter(|device| at_least || !device.at_least).map(|device| device.bytes_per_second);
        // A part that can do something at least can do the most of it.
        let rate = if at_least { rates.reduce(f64::max) } else { middle(rates.collect()) };
        Some(MeasuredDevice { id: id.clone(), bytes_per_second: rate?, at_least })
    };
    ids.into_iter().filter_map(one).collect()
}

/// The median; of two the lower.
fn middle(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len().checked_sub(1)? / 2).copied()
}

impl MachineParts {
    /// Takes a run's figures in.
    pub fn with_measured(mut self, measured: MeasuredParts) -> Self {
        if let Some(cost) = measured.cpu_seconds_per_gb {
            self.cpu_seconds_per_gb = linerate_facts::fact::Fact::Known(cost);
        }
        self.measured = measured;
        self
    }

    /// What was measured of a part says nothing about what a change has made of it since `before`.
    pub fn forget_changed(&mut self, before: &MachineParts) {
        let path_of = |parts: &MachineParts, id: &str| -> Option<(ByteDevice, Vec<Joint>)> {
            let device = parts.devices.iter().find(|device| device.id() == id)?;
            Some((device.clone(), parts.above(&device.place).into_iter().cloned().collect()))
        };
        let mut measured = std::mem::take(&mut self.measured);
        let same = |device: &MeasuredDevice| path_of(self, &device.id) == path_of(before, &device.id);
        let count = (measured.disks.len(), measured.nics.len());
        measured.disks.retain(same);
        measured.nics.retain(same);
        measured.disks_together = measured.disks_together.filter(|_| measured.disks.len() == count.0);
        measured.nics_together = measured.nics_together.filter(|_| measured.nics.len() == count.1);
        let bus = |parts: &MachineParts| -> Vec<_> {
            parts.nodes.iter().map(|node| (node.id, node.memory_bytes_per_second.clone())).collect()
        };
        measured.memory_bytes_per_second =
            measured.memory_bytes_per_second.filter(|_| bus(self) == bus(before));
        let same_cost = self.cpu_seconds_per_gb == before.cpu_seconds_per_gb;
        measured.cpu_seconds_per_gb = measured.cpu_seconds_per_gb.filter(|_| same_cost);
        measured.workers.retain(|nic, _| same_cost && path_of(self, nic) == path_of(before, nic));
        self.measured = measured;
    }
}
