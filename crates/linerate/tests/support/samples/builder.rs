//! Builds a whole run from the few figures that make it what it is. The only place that writes the products'
//! literals.

use super::machine::machine;
use linerate::fact::Fact;
use linerate::plan::{
    Bound, Goal, Origin, PathPlan, Plan, Resource, ResourceKind, Schedule, SourcePlan, WorkerPlan,
};
use linerate::protocol::Protocol;
use linerate::run::Run;

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
    /// What the path carried, bytes per second.
    pub tcp: f64,
    pub udp: f64,
    /// Of UDP, dropped at the receiver's socket.
    pub udp_loss: f64,
    /// What the workers wait for.
    pub kind: ResourceKind,
    /// What limits the plan's ceiling.
    pub cut: Vec<String>,
    /// Share of the busy time that the hypervisor takes.
    pub steal: f64,
    pub peer_mtu: u32,
    /// Device and flag.
    pub flagged: Vec<(&'static str, &'static str)>,
    /// Devices whose figures are lower bounds.
    pub held_by_cpu: Vec<&'static str>,
}

/// Rounds of what runs at once, as many as a verdict needs.
pub const ROUNDS: u32 = 6;

/// Three decimals, so that a share is written and read back as the same number.
pub fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Six digits, for the same reason.
fn shorten(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if number.is_f64() => {
            let short: f64 = format!("{:.5e}", number.as_f64().unwrap_or(0.0)).parse().expect("a number");
            *value = serde_json::json!(short);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(shorten),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
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
            tcp: 0.0,
            udp: 0.0,
            udp_loss: 0.0,
            kind,
            cut: cut.iter().map(|id| id.to_string()).collect(),
            steal: 0.05,
            peer_mtu: 9000,
            flagged: Vec::new(),
            held_by_cpu: Vec::new(),
        }
    }

    pub fn receiver(&self) -> &'static str {
        if self.loopback { "loopback" } else { "lab-peer" }
    }

    pub fn build(&self) -> Run {
        let plan = self.plan();
        let measurements = self.measurements(&plan);
        let mut run = Run {
            version: "0.1.0".into(),
            started: "2026-03-01T09:30:00Z".into(),
            host: self.host.clone(),
            plan: Some(plan),
            measurements,
            changes: vec![format!("made and removed {} scratch files of 1 GiB", self.disks.len())],
            ..Run::begin(machine(self), self.goal())
        };
        let mut diagnosis = serde_json::to_value(run.diagnose()).expect("JSON");
        shorten(&mut diagnosis);
        run.diagnosis = serde_json::from_value(diagnosis).expect("a diagnosis");
        run
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
            repeats: ROUNDS,
            budget_seconds: 55.0,
            block_bytes: None,
            queue_depth: None,
            workers: None,
            datagram_bytes: None,
            congestion_control: None,
            zero_copy: None,
            verify: false,
            rate_limit: None,
            idle: false,
            flow: Default::default(),
            sinks: Vec::new(),
        }
    }

    /// Disks → memory → CPU → NICs → receiver, by their data sheets.
    fn resources(&self) -> Vec<Resource> {
        let one = |id: String, kind, rated: Option<f64>, next: Vec<String>| {
            let effective = rated.map(|rate| (rate * 0.993).round());
            let unknown = Resource::unknown(id.clone(), kind, "a virtual machine shows no data sheet");
            let known =
                |capacity| Resource { capacity, origin: Origin::Effective, why: None, ..unknown.clone() };
            Resource { rated, effective, next, ..effective.map_or_else(|| unknown.clone(), known) }
        };
        let nics: Vec<String> = self.nics.iter().map(|nic| format!("nic:{}", nic.name)).collect();
        let receiver = format!("receiver:{}", self.receiver());
        let disks = self.disks.iter().map(|disk| {
            one(format!("disk:{}", disk.name), ResourceKind::Disk, disk.rated, vec!["memory".into()])
        });
        let mut resources: Vec<Resource> = disks.collect();
        let memory = self.memory_bytes_per_second;
        resources.push(one("memory".into(), ResourceKind::Memory, memory, vec!["cpu".into()]));
        resources.push(one("cpu".into(), ResourceKind::Cpu, None, nics));
        resources.extend(self.nics.iter().map(|nic| {
            let rated = nic.bits.map(|bits| bits as f64 / 8.0);
            one(format!("nic:{}", nic.name), ResourceKind::Nic, rated, vec![receiver.clone()])
        }));
        resources.push(one(receiver.clone(), ResourceKind::Receiver, None, Vec::new()));
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
            resources: self.resources(),
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
                repeats: ROUNDS,
                rounds: ROUNDS,
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
            received_by_tcp: false,
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
            peer_mtu: Fact::Known(if self.loopback { 65536 } else { self.peer_mtu }),
            rate: Fact::from_option(
                nic.bits.map(|bits| (bits as f64 / 8.0 * 0.9906).round()),
                "loopback has no link",
            ),
            worker_cost: None,
        }
    }
}
