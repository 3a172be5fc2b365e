//! Builds a whole run from the few figures that make it what it is. The only place that writes the products'
//! literals.

use super::machine::machine;
use linerate::diagnose::{Achieved, Bottleneck, Diagnosis, Finding, ProtocolDiagnosis, Severity};
use linerate::fact::Fact;
use linerate::plan::{
    Bound, Goal, Origin, PathPlan, Plan, Resource, ResourceKind, Schedule, SourcePlan, WorkerPlan,
};
use linerate::protocol::Protocol;
use linerate::run::Run;
use linerate::verdict::Verdict;

/// One disk.
pub struct SampleDisk {
    pub name: String,
    pub rated: Option<f64>,
    pub measured: f64,
    pub node: Option<u32>,
    pub pci: Option<String>,
}

/// One NIC.
pub struct NicSpec {
    pub name: String,
    pub bits: Option<u64>,
    pub measured: f64,
    pub node: Option<u32>,
    pub pci: Option<String>,
}

/// The figures that make a run what it is.
pub struct Spec {
    pub host: String,
    pub loopback: bool,
    pub cores: u32,
    /// 0: no NUMA nodes to be seen (a virtual machine).
    pub nodes: u32,
    pub memory_bytes_per_second: Option<f64>,
    pub disks: Vec<SampleDisk>,
    pub nics: Vec<NicSpec>,
    /// Predicted and achieved, bytes per second.
    pub tcp: (f64, f64),
    pub udp: (f64, f64),
    pub udp_loss: f64,
    pub kind: ResourceKind,
    pub cut: Vec<String>,
    pub sentence: String,
    pub gain: f64,
    /// Device and flag.
    pub flagged: Vec<(&'static str, &'static str)>,
    /// Devices whose figures are lower bounds.
    pub held_by_cpu: Vec<&'static str>,
    pub findings: Vec<Finding>,
}

/// Three decimals, so that a share is written and read back as the same number.
pub fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl Spec {
    pub fn new(host: &str, kind: ResourceKind, cut: &[&str]) -> Self {
        Spec {
            host: host.into(),
            loopback: false,
            cores: 2,
            nodes: 0,
            memory_bytes_per_second: None,
            disks: Vec::new(),
            nics: Vec::new(),
            tcp: (0.0, 0.0),
            udp: (0.0, 0.0),
            udp_loss: 0.0,
            kind,
            cut: cut.iter().map(|id| id.to_string()).collect(),
            sentence: String::new(),
            gain: 0.0,
            flagged: Vec::new(),
            held_by_cpu: Vec::new(),
            findings: Vec::new(),
        }
    }

    pub fn finding(
        &mut self,
        id: &str,
        severity: Severity,
        text: &str,
        remedy: &str,
        gain: f64,
        evidence: serde_json::Value,
    ) {
        self.findings.push(Finding {
            id: id.into(),
            severity,
            text: text.into(),
            evidence,
            remedy: remedy.into(),
            gain,
        });
    }

    pub fn receiver(&self) -> &'static str {
        if self.loopback { "loopback" } else { "lab-peer" }
    }

    pub fn build(&self) -> Run {
        let plan = self.plan();
        let measurements = self.measurements(&plan);
        Run {
            version: "0.1.0".into(),
            started: "2026-03-01T09:30:00Z".into(),
            host: self.host.clone(),
            diagnosis: Some(self.diagnosis(&plan)),
            plan: Some(plan),
            measurements,
            changes: vec![format!("made and removed {} scratch files of 1 GiB", self.disks.len())],
            ..Run::begin(machine(self), self.goal())
        }
    }

    fn goal(&self) -> Goal {
        Goal {
            sources: self
                .disks
                .iter()
                .filter(|_| !self.loopback)
                .map(|d| format!("/data/{}", d.name).into())
                .collect(),
            peers: self
                .nics
                .iter()
                .enumerate()
                .filter(|_| !self.loopback)
                .map(|(n, _)| format!("10.77.{n}.2"))
                .collect(),
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            seconds: None,
            repeats: 3,
            budget_seconds: 55.0,
            block_bytes: None,
            queue_depth: None,
            datagram_bytes: None,
            congestion_control: None,
            verify: false,
            rate_limit: None,
            idle: false,
        }
    }

    /// Disks → memory → CPU → NICs → receiver, with the use that the achieved rate makes of each.
    fn resources(&self, flow: f64, measured: bool) -> Vec<Resource> {
        let nics: Vec<String> = self.nics.iter().map(|nic| format!("nic:{}", nic.name)).collect();
        let disk_total: f64 = self.disks.iter().map(|disk| disk.measured).sum();
        let nic_total: f64 = self.nics.iter().map(|nic| nic.measured).sum();
        let one =
            |id: String, kind, rated: Option<f64>, tested: Option<f64>, usage: f64, next: Vec<String>| {
                let tested = tested.filter(|_| measured);
                let effective = rated.map(|rate| (rate * 0.993).round());
                let (capacity, origin) = match (tested, effective) {
                    (Some(rate), _) => (rate, Origin::Measured),
                    (None, Some(rate)) => (rate, Origin::Effective),
                    (None, None) => (0.0, Origin::Unknown),
                };
                let why =
                    (origin == Origin::Unknown).then(|| "a virtual machine shows no data sheet".to_string());
                let lower_bound = self.held_by_cpu.iter().any(|name| id.ends_with(name));
                let utilisation = if origin == Origin::Unknown { 0.0 } else { short(usage) };
                Resource {
                    id,
                    kind,
                    capacity,
                    origin,
                    utilisation,
                    lower_bound,
                    why,
                    next,
                    rated,
                    effective,
                    best: None,
                    measured: tested,
                    interval: None,
                }
            };
        let memory_rate = self.memory_bytes_per_second.unwrap_or(18.0e9) * 0.8;
        let mut resources: Vec<Resource> = self
            .disks
            .iter()
            .map(|disk| {
                let id = format!("disk:{}", disk.name);
                one(
                    id,
                    ResourceKind::Disk,
                    disk.rated,
                    Some(disk.measured),
                    flow / disk_total,
                    vec!["memory".into()],
                )
            })
            .collect();
        let memory = Some(memory_rate / 2.0);
        resources.push(one(
            "memory".into(),
            ResourceKind::Memory,
            self.memory_bytes_per_second,
            memory,
            flow / memory_rate * 2.0,
            vec!["cpu:lanes".into()],
        ));
        resources.push(one(
            "cpu:lanes".into(),
            ResourceKind::Cpu,
            None,
            Some(self.tcp.0 * 1.25),
            flow / self.tcp.0 / 1.25,
            nics,
        ));
        let receiver = format!("receiver:{}", self.receiver());
        for nic in &self.nics {
            let rated = nic.bits.map(|bits| bits as f64 / 8.0);
            resources.push(one(
                format!("nic:{}", nic.name),
                ResourceKind::Nic,
                rated,
                Some(nic.measured),
                flow / nic_total,
                vec![receiver.clone()],
            ));
        }
        resources.push(one(
            receiver,
            ResourceKind::Receiver,
            None,
            Some(nic_total * 1.4),
            flow / nic_total / 1.4,
            Vec::new(),
        ));
        resources
    }

    fn plan(&self) -> Plan {
        let rated: Option<f64> = self.disks.iter().map(|d| d.rated).sum::<Option<f64>>();
        let bits: Option<f64> =
            self.nics.iter().map(|n| n.bits.map(|b| b as f64 / 8.0 * 0.9906)).sum::<Option<f64>>();
        let ceiling = rated.zip(bits).map(|(a, b)| a.min(b).round());
        let paths = self.nics.len();
        let workers: Vec<WorkerPlan> = (0..self.disks.len().max(paths))
            .map(|index| WorkerPlan {
                index,
                source: index % self.disks.len(),
                path: index % paths,
                core: index as u32 % self.cores,
                node: Fact::from_option(self.disks[index % self.disks.len()].node, "one node only"),
                block_bytes: 1 << 20,
                queue_depth: 8,
                share: short(1.0 / paths as f64),
            })
            .collect();
        Plan {
            ceiling: Bound {
                bytes_per_second: Fact::from_option(
                    ceiling,
                    "a virtual machine shows no data sheet of its disk",
                ),
                likely_bytes_per_second: None,
                interval: None,
                cut: if ceiling.is_some() { self.cut.clone() } else { Vec::new() },
            },
            resources: self.resources(0.0, false),
            sources: self.disks.iter().map(|disk| self.source(disk)).collect(),
            paths: self.nics.iter().enumerate().map(|(index, nic)| self.path(nic, index)).collect(),
            pool_bytes: workers.len() as u64 * (8 << 20),
            pool_wished_bytes: workers.len() as u64 * (8 << 20),
            registered: true,
            workers,
            schedule: Schedule {
                warm_up_seconds: 0.3,
                alone_seconds: 0.5,
                together_seconds: 1.0,
                path_seconds: 2.0,
                repeats: 3,
                rounds: 0,
                alone_limit: 0,
            },
            loopback: self.loopback,
            notes: if self.loopback {
                vec!["The pool is 16 MiB, not 64 MiB: locked memory is limited to 64 KiB.".into()]
            } else {
                Vec::new()
            },
        }
    }

    fn source(&self, disk: &SampleDisk) -> SourcePlan {
        SourcePlan {
            path: format!("/data/{}/linerate-scratch", disk.name).into(),
            resource: format!("disk:{}", disk.name),
            node: Fact::from_option(disk.node, "unknown"),
            length_bytes: 1 << 30,
            block_bytes: 1 << 20,
            queue_depth: 8,
            direct: true,
            scratch: true,
            writing: None,
        }
    }

    fn path(&self, nic: &NicSpec, index: usize) -> PathPlan {
        let (peer, local) = if self.loopback {
            ("127.0.0.1:40001".to_string(), "127.0.0.1".to_string())
        } else {
            (format!("10.77.{index}.2:7411"), format!("10.77.{index}.1"))
        };
        PathPlan {
            name: nic.name.clone(),
            peer: peer.parse().expect("an address"),
            local: local.parse().expect("an address"),
            nic: Some(nic.name.clone()),
            resource: format!("nic:{}", nic.name),
            receiver: format!("receiver:{}", self.receiver()),
            node: Fact::from_option(nic.node, "no PCI device behind it"),
            mtu: Fact::Known(if self.loopback { 65536 } else { 9000 }),
            peer_mtu: Fact::Known(if self.loopback { 65536 } else { 9000 }),
            rate: Fact::from_option(
                nic.bits.map(|bits| (bits as f64 / 8.0 * 0.9906).round()),
                "loopback has no link",
            ),
        }
    }

    fn diagnosis(&self, plan: &Plan) -> Diagnosis {
        let one = |(predicted, achieved): (f64, f64), protocol| ProtocolDiagnosis {
            protocol,
            predicted: Bound {
                bytes_per_second: Fact::Known(predicted),
                likely_bytes_per_second: None,
                interval: None,
                cut: self.cut.clone(),
            },
            achieved: Achieved {
                bytes_per_second: achieved,
                of_predicted: short(achieved / predicted),
                ..Achieved::default()
            },
            verdict: Verdict::default(),
            evidence: Vec::new(),
            bottleneck: Bottleneck {
                kind: self.kind.into(),
                resources: self.cut.clone(),
                sentence: self.sentence.clone(),
                gain: self.gain,
            },
            resources: self.resources(achieved, true),
        };
        let headline = one(self.tcp, Protocol::Tcp);
        Diagnosis {
            ceiling: Some(plan.ceiling.clone()),
            predicted: Some(headline.predicted.clone()),
            achieved: Some(headline.achieved),
            verdict: None,
            evidence: Vec::new(),
            bottleneck: Some(headline.bottleneck.clone()),
            resources: headline.resources.clone(),
            findings: self.findings.clone(),
            by_protocol: vec![headline, one(self.udp, Protocol::Udp)],
        }
    }
}
