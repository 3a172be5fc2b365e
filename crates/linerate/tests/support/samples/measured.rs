//! The measurements of a sample run.

use super::builder::{ROUNDS, Spec, short};
use linerate::measure::interval::Interval;
use linerate::measure::{CoreUse, LimitedBy, Measurement, Measurements, ReceiverResult, Stage, WorkerResult};
use linerate::plan::{Plan, ResourceKind};
use linerate::protocol::Protocol;

/// Noise that is the same every time: −1 to 1 from a position.
fn noise(seed: usize) -> f64 {
    let mixed =
        (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

impl Spec {
    /// Every stage as `linerate run` would have measured it.
    pub fn measurements(&self, plan: &Plan) -> Measurements {
        let memory = self.memory_bytes_per_second.unwrap_or(18.0e9);
        let mut all = Vec::new();
        for (name, rate) in [
            ("read one core", 0.55),
            ("read all cores", 0.8),
            ("copy one core", 0.24),
            ("copy all cores", 0.36),
        ] {
            let one = if name.ends_with("one core") && self.nodes > 0 { 0.03 } else { 1.0 };
            let mut m = self.one(Stage::Memory, name, "memory", memory * rate * one, all.len());
            m.method = "streaming loads, 256 MiB a core".into();
            m.together = name.ends_with("all cores");
            all.push(m);
        }
        for disk in &self.disks {
            all.push(self.one(
                Stage::Disk,
                &format!("{} alone", disk.name),
                &format!("disk:{}", disk.name),
                disk.measured,
                all.len(),
            ));
        }
        if self.disks.len() > 1 {
            let total: f64 = self.disks.iter().map(|disk| disk.measured).sum();
            let mut m = self.one(Stage::Disk, "all disks", "all", total * 0.998, all.len());
            m.together = true;
            all.push(m);
        }
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for file in [false, true] {
                self.network(protocol, file, &mut all);
            }
        }
        for (protocol, achieved) in [(Protocol::Tcp, self.tcp), (Protocol::Udp, self.udp)] {
            let mut m = self.one(Stage::Path, &protocol.to_string(), "all", achieved, all.len());
            self.receive(&mut m, protocol);
            m.together = true;
            m.workers = self.workers(plan, achieved);
            all.push(m);
        }
        if self.cores > 16 {
            // Keeps the fixture small: the cores are kept where everything ran at once.
            for m in all.iter_mut().filter(|m| !m.together || m.with_file) {
                m.cpu_by_core.clear();
                m.receiver.iter_mut().for_each(|receiver| receiver.cpu_by_core.clear());
            }
        }
        all
    }

    fn network(&self, protocol: Protocol, file: bool, all: &mut Measurements) {
        let suffix = if file { " with file" } else { "" };
        let factor = if file { 0.98 } else { 1.0 } * if protocol == Protocol::Udp { 0.97 } else { 1.0 };
        for nic in &self.nics {
            let name = format!("{} {protocol}{suffix} alone", nic.name);
            let mut m = self.one(
                Stage::Network,
                &name,
                &format!("nic:{}", nic.name),
                nic.measured * factor,
                all.len(),
            );
            self.receive(&mut m, protocol);
            m.with_file = file;
            all.push(m);
        }
        if self.nics.len() > 1 {
            let total: f64 = self.nics.iter().map(|nic| nic.measured).sum();
            let mut m = self.one(
                Stage::Network,
                &format!("all paths {protocol}{suffix}"),
                "all",
                total * factor,
                all.len(),
            );
            self.receive(&mut m, protocol);
            m.with_file = file;
            m.together = true;
            all.push(m);
        }
    }

    fn one(&self, stage: Stage, name: &str, resource: &str, rate: f64, seed: usize) -> Measurement {
        let mut samples: Vec<f64> =
            (0..ROUNDS as usize).map(|n| (rate * (1.0 + 0.012 * noise(seed * 7 + n))).round()).collect();
        // Their median is the rate.
        (samples[1], samples[2]) = (rate.round(), rate.round());
        let high = samples.iter().copied().fold(0.0, f64::max);
        let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let device = resource.split_once(':').map_or(resource, |(_, name)| name);
        let held = stage == Stage::Network && self.held_by_cpu.contains(&device);
        Measurement {
            stage,
            name: name.into(),
            resource: resource.into(),
            bytes_per_second: rate.round(),
            interval: Interval::of(&samples).map(|found| [found.low, found.high]),
            samples,
            spread: short((high - low) / rate),
            cpu_seconds_per_gb: match stage {
                Stage::Memory => 0.0,
                Stage::Disk | Stage::Load | Stage::Get | Stage::Put => 0.031,
                Stage::Network => 0.214,
                Stage::Path => 0.268,
            },
            cpu_by_core: cores(self, seed, if stage == Stage::Disk { 0.25 } else { 0.8 }),
            method: match stage {
                Stage::Disk => "io_uring READ_FIXED, O_DIRECT, 1 MiB x 8".into(),
                _ => "io_uring SEND_ZC, 1 MiB".into(),
            },
            flags: self
                .flagged
                .iter()
                .filter(|(name, _)| *name == device)
                .map(|(_, flag)| flag.to_string())
                .collect(),
            lower_bound: held,
            held_by: held.then_some(LimitedBy::Cpu),
            seconds: 1.5,
            ..Measurement::default()
        }
    }

    fn receive(&self, m: &mut Measurement, protocol: Protocol) {
        m.protocol = Some(protocol);
        m.method = match protocol {
            Protocol::Tcp => "sendmsg MSG_ZEROCOPY, 1 MiB".into(),
            Protocol::Udp => "sendmmsg UDP_SEGMENT 64 x 1472, GRO".into(),
        };
        if protocol == Protocol::Udp {
            m.loss = self.udp_loss;
        }
        m.receiver = Some(ReceiverResult {
            host: self.receiver().into(),
            cpu_seconds_per_gb: 0.312,
            busiest_thread: 0.71,
            cpu_by_core: cores(self, 91, 0.6),
            datagrams: if protocol == Protocol::Udp { 524_288 } else { 0 },
            socket_drops: if m.loss > 0.0 { 4211 } else { 0 },
            receive_buffer_bytes: 425_984,
            ..ReceiverResult::default()
        });
    }

    fn workers(&self, plan: &Plan, achieved: f64) -> Vec<WorkerResult> {
        let disks_hold = self.kind == ResourceKind::Disk;
        let count = plan.workers.len() as f64;
        plan.workers
            .iter()
            .map(|worker| {
                let idle = 0.62 + 0.05 * noise(worker.index);
                WorkerResult {
                    worker: worker.index,
                    source: plan.sources[worker.source].resource.clone(),
                    path: Some(plan.paths[worker.path].resource.clone()),
                    bytes_per_second: (achieved / count * (1.0 + 0.02 * noise(worker.index + 7))).round(),
                    cpu_share: short(0.3 + 0.05 * noise(worker.index + 3)),
                    waiting_source: short(if disks_hold { idle } else { 0.08 }),
                    waiting_sink: short(if disks_hold { 0.05 } else { idle }),
                    retransmits: worker.index as u64 * 3,
                    core: Some(worker.core),
                    segment_bytes: if self.peer_mtu < 9000 { 1448 } else { 8948 },
                    ..WorkerResult::default()
                }
            })
            .collect()
    }
}

/// CPU use that adds up to 1 a core; every fourth core takes the interrupts.
fn cores(spec: &Spec, seed: usize, load: f64) -> Vec<CoreUse> {
    (0..spec.cores)
        .map(|core| {
            let busy = (load * (0.8 + 0.25 * noise(seed + core as usize))).clamp(0.02, 0.97);
            let soft = if core % 4 == 0 { 0.35 } else { 0.08 };
            let (user, softirq, irq, steal) =
                (short(busy * 0.2), short(busy * soft), short(busy * 0.04), short(busy * spec.steal));
            let (system, iowait) = (short(busy * (0.76 - spec.steal - soft)), short((1.0 - busy) * 0.2));
            let idle = short(1.0 - user - softirq - irq - steal - system - iowait);
            CoreUse { core, user, nice: 0.0, system, idle, iowait, irq, softirq, steal }
        })
        .collect()
}
