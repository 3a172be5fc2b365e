//! A lab server written down: its plan, and the figures that its stages would measure.

use crate::diagnose::{Diagnosis, diagnose};
use crate::measure::{LimitedBy, Measurement, Measurements, QuotaUse, ReceiverResult, Stage, WorkerResult};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Disk, DiskKind, Machine};
use linerate_model::plan::{Goal, Origin, Plan, ResourceKind, plan};
use linerate_testing::{goal, machine, paths, sources};

/// A lab server: what its parts truly do, in MB/s.
#[derive(Clone, Debug)]
pub(in crate::diagnose) struct Lab {
    pub disks: Vec<f64>,
    pub nics: Vec<f64>,
    /// Rate that the data sheet of each NIC claims after overhead; none for veth.
    pub claimed: Option<f64>,
    pub quota_cores: f64,
    /// What the receiver takes.
    pub receiver: f64,
    /// CPU seconds per GB of disk and of network.
    pub cost: (f64, f64),
}

pub(in crate::diagnose) struct Case {
    pub machine: Machine,
    pub goal: Goal,
    pub plan: Plan,
    pub measurements: Measurements,
}

impl Case {
    pub(crate) fn diagnose(&self) -> Diagnosis {
        diagnose(&self.machine, &self.goal, &self.plan, &self.measurements)
    }
}

pub(in crate::diagnose) fn figure(stage: Stage, name: &str, resource: &str, megabytes: f64) -> Measurement {
    Measurement {
        stage,
        name: name.into(),
        resource: resource.into(),
        bytes_per_second: megabytes * 1e6,
        samples: vec![megabytes * 1e6; 6],
        interval: Some([megabytes * 1e6; 2]),
        method: "io_uring READ_FIXED, O_DIRECT, 1 MiB x 8".into(),
        seconds: 3.0,
        ..Measurement::default()
    }
}

impl Default for Lab {
    fn default() -> Self {
        let cost = (0.08, 0.25);
        Lab { disks: vec![], nics: vec![], claimed: None, quota_cores: 0.0, receiver: 5000.0, cost }
    }
}

impl Lab {
    /// Plan and measurements of this server, as its stages would measure them.
    pub(crate) fn measured(&self) -> Case {
        let mut machine = machine(2);
        machine.cpu.quota_cores = Fact::Known(self.quota_cores);
        machine.disks = (0..self.disks.len()).map(|n| loop_disk(&format!("loop{n}"))).collect();
        let goal = goal();
        let mut plan = plan(&machine, &goal, sources(self.disks.len()), paths(self.nics.len()), false);
        if let Some(claimed) = self.claimed {
            for nic in plan.resources.iter_mut().filter(|resource| resource.kind == ResourceKind::Nic) {
                (nic.capacity, nic.origin, nic.effective) =
                    (claimed * 1e6, Origin::Effective, Some(claimed * 1e6));
            }
        }
        let mut measurements = self.disk_stage();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            measurements.extend(self.network_stage(protocol));
            measurements.push(self.path(protocol));
        }
        Case { machine, goal, plan, measurements }
    }

    /// Rate of a stage whose parts do `parts`, under the quota at a cost per GB; and what held it.
    fn under_quota(&self, parts: f64, cost: f64) -> (f64, Option<LimitedBy>) {
        let cpu = if self.quota_cores > 0.0 { self.quota_cores / cost * 1000.0 } else { f64::INFINITY };
        if cpu < parts { (cpu, Some(LimitedBy::Quota)) } else { (parts, None) }
    }

    fn put(&self, mut figure: Measurement, parts: f64, cost: f64) -> Measurement {
        let (rate, held_by) = self.under_quota(parts, cost);
        figure.bytes_per_second = rate * 1e6;
        (figure.samples, figure.interval) = (vec![rate * 1e6; 6], Some([rate * 1e6; 2]));
        figure.cpu_seconds_per_gb = cost;
        figure.lower_bound = held_by.is_some();
        figure.held_by = held_by;
        if held_by == Some(LimitedBy::Quota) {
            figure.flags.push("quota".into());
            figure.quota = Some(QuotaUse { cores: self.quota_cores, throttled: 0.9, used: 0.98 });
        }
        figure
    }

    fn disk_stage(&self) -> Measurements {
        let alone = self.disks.iter().enumerate().map(|(n, rate)| {
            let id = format!("disk:loop{n}");
            self.put(figure(Stage::Disk, &format!("loop{n} alone"), &id, 0.0), *rate, self.cost.0)
        });
        let mut together = figure(Stage::Disk, "all disks", "all", 0.0);
        together.together = true;
        alone.chain([self.put(together, self.disks.iter().sum(), self.cost.0)]).collect()
    }

    fn network_stage(&self, protocol: Protocol) -> Measurements {
        let mut stage = Vec::new();
        for with_file in [false, true] {
            let disks: f64 = if with_file { self.disks.iter().sum() } else { f64::INFINITY };
            let cost = self.cost.1 + if with_file { self.cost.0 } else { 0.0 };
            let mut add = |name: &str, resource: &str, nics: f64, together: bool| {
                let mut figure = figure(Stage::Network, name, resource, 0.0);
                (figure.protocol, figure.with_file, figure.together) = (Some(protocol), with_file, together);
                let mut figure = self.put(figure, nics.min(disks).min(self.receiver), cost);
                if figure.held_by.is_none() && self.receiver < nics.min(disks) {
                    (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Peer), true);
                }
                let throttled = if self.receiver < nics { 0.9 } else { 0.0 };
                let quota_cores = if throttled > 0.0 { 0.1 } else { 0.0 };
                figure.receiver = Some(ReceiverResult {
                    host: "peer".into(),
                    throttled,
                    quota_cores,
                    ..Default::default()
                });
                stage.push(figure);
            };
            for (n, rate) in self.nics.iter().enumerate() {
                add(&format!("eth{n} {protocol} alone"), &format!("nic:eth{n}"), *rate, false);
            }
            if self.nics.len() > 1 {
                add(&format!("all {protocol}"), "all", self.nics.iter().sum(), true);
            }
        }
        stage
    }

    fn path(&self, protocol: Protocol) -> Measurement {
        let (disks, nics) = (self.disks.iter().sum::<f64>(), self.nics.iter().sum::<f64>());
        let parts = disks.min(nics).min(self.receiver);
        let mut path = figure(Stage::Path, &protocol.to_string(), "all", 0.0);
        (path.protocol, path.together) = (Some(protocol), true);
        let mut path = self.put(path, parts, self.cost.0 + self.cost.1);
        path.bytes_per_second *= 0.99;
        path.samples.iter_mut().chain(path.interval.iter_mut().flatten()).for_each(|rate| *rate *= 0.99);
        // What limits is what its workers wait for.
        let (waiting_source, waiting_sink) = if parts >= disks { (0.9, 0.05) } else { (0.05, 0.9) };
        path.workers =
            vec![WorkerResult { cpu_share: 0.05, waiting_source, waiting_sink, ..Default::default() }];
        let throttled = if parts < disks && parts < nics { 0.9 } else { 0.0 };
        let quota_cores = if throttled > 0.0 { 0.1 } else { 0.0 };
        path.receiver = Some(ReceiverResult { throttled, quota_cores, ..Default::default() });
        path
    }
}

fn loop_disk(name: &str) -> Disk {
    Disk { name: name.into(), kind: DiskKind::Loop, ..Disk::default() }
}
