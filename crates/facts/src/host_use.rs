//! What a host did in some time: its CPUs, disks, links and processes.

use crate::counters::rates::{Elapsed, Width};
use crate::counters::{DiskCounters, ProcessesUse};
use crate::usage::CoreUse;
use serde::{Deserialize, Serialize};

/// All of it, or as much as was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostUse {
    pub seconds: f64,
    /// CPU time of the process that took the samples, seconds.
    pub cpu_seconds: f64,
    pub cpus: Vec<CoreUse>,
    pub disks: Vec<DeviceUse>,
    /// Both directions of each interface.
    pub links: Vec<LinkUse>,
    /// Share of the periods in which the CPU quota held the process's control group, and the quota in CPUs (0: none).
    pub throttled: f64,
    pub quota_cores: f64,
    /// As far as they were read: seconds of their own.
    pub processes: ProcessesUse,
}

/// One block device in some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    pub name: String,
    /// Share of the time with at least one request in flight.
    pub utilisation: f64,
    /// Mean requests in flight.
    pub queue_depth: f64,
    pub read_bytes_per_second: f64,
    pub written_bytes_per_second: f64,
    pub operations_per_second: f64,
}

/// One direction of an interface in some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUse {
    pub name: String,
    /// What it sends; else what it receives.
    pub sends: bool,
    pub bytes_per_second: f64,
    /// Of the link's rate, with what each packet costs on the wire; 0: the rate is not known.
    pub utilisation: f64,
    /// The link's rate; 0: not known.
    pub bits_per_second: f64,
    /// The queueing discipline at its root, where that holds packets back (`tbf`), and how often it did so a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<(String, f64)>,
}

impl HostUse {
    /// CPUs that were busy with any work: a mean over the time.
    pub fn busy_cpus(&self) -> f64 {
        self.cpus.iter().map(CoreUse::busy).sum()
    }

    /// Another time: means by their lengths. A device that is not in both keeps what it has.
    pub fn join(&mut self, later: HostUse) {
        let (now, then) = (self.seconds, later.seconds);
        if now <= 0.0 {
            *self = later;
            return;
        }
        let mean = |a: f64, b: f64| (a * now + b * then) / (now + then);
        self.seconds += then;
        self.cpu_seconds += later.cpu_seconds;
        self.throttled = mean(self.throttled, later.throttled);
        self.quota_cores = later.quota_cores;
        self.processes.join(later.processes);
        for cpu in &mut self.cpus {
            let Some(other) = later.cpus.iter().find(|other| other.core == cpu.core) else { continue };
            *cpu = cpu.mean(now, other, then);
        }
        for disk in &mut self.disks {
            let Some(other) = later.disks.iter().find(|other| other.name == disk.name) else { continue };
            *disk = disk.mean(now, other, then);
        }
        for link in &mut self.links {
            let same = |other: &&LinkUse| other.name == link.name && other.sends == link.sends;
            let Some(other) = later.links.iter().find(same) else { continue };
            link.bytes_per_second = mean(link.bytes_per_second, other.bytes_per_second);
            link.utilisation = mean(link.utilisation, other.utilisation);
            // None: it held nothing back.
            match (&mut link.shaper, &other.shaper) {
                (Some((_, held)), later) => {
                    *held = mean(*held, later.as_ref().map_or(0.0, |(_, held)| *held))
                }
                (None, Some((kind, held))) => link.shaper = Some((kind.clone(), mean(0.0, *held))),
                (None, None) => {}
            }
        }
    }
}

impl DeviceUse {
    /// Read and written.
    pub fn bytes_per_second(&self) -> f64 {
        self.read_bytes_per_second + self.written_bytes_per_second
    }

    /// What a device did between two readings; none where its counters began again: it is another device of this name.
    pub fn between(before: &DiskCounters, now: &DiskCounters, span: Elapsed) -> Option<Self> {
        let per_second = |count: fn(&DiskCounters) -> u64, width| {
            Some(span.counted(count(before), count(now), width)? as f64 / span.seconds())
        };
        let (bits64, milliseconds) = (Width::Bits64, Width::Bits32);
        Some(DeviceUse {
            name: now.name.clone(),
            utilisation: (per_second(|disk| disk.busy_ms, milliseconds)? / 1000.0).min(1.0),
            queue_depth: per_second(|disk| disk.weighted_ms, milliseconds)? / 1000.0,
            read_bytes_per_second: per_second(|disk| disk.read_bytes, bits64)?,
            written_bytes_per_second: per_second(|disk| disk.written_bytes, bits64)?,
            operations_per_second: per_second(|disk| disk.reads, bits64)?
                + per_second(|disk| disk.writes, bits64)?,
        })
    }

    /// The mean of two looks at the same device, by their lengths.
    pub fn mean(&self, length: f64, other: &DeviceUse, other_length: f64) -> DeviceUse {
        let of = |a: f64, b: f64| (a * length + b * other_length) / (length + other_length);
        DeviceUse {
            name: self.name.clone(),
            utilisation: of(self.utilisation, other.utilisation),
            queue_depth: of(self.queue_depth, other.queue_depth),
            read_bytes_per_second: of(self.read_bytes_per_second, other.read_bytes_per_second),
            written_bytes_per_second: of(self.written_bytes_per_second, other.written_bytes_per_second),
            operations_per_second: of(self.operations_per_second, other.operations_per_second),
        }
    }

    /// Mean time of a request, by Little's law.
    pub fn latency_seconds(&self) -> Option<f64> {
        (self.operations_per_second > 0.0).then(|| self.queue_depth / self.operations_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_join_by_their_lengths() {
        let used = |seconds, busy: f64, bytes_per_second| HostUse {
            seconds,
            cpu_seconds: 1.0,
            cpus: vec![CoreUse { system: busy, idle: 1.0 - busy, ..CoreUse::default() }],
            disks: vec![DeviceUse { name: "vda".into(), queue_depth: 4.0 * busy, ..DeviceUse::default() }],
            links: vec![LinkUse { sends: true, bytes_per_second, ..LinkUse::default() }],
            throttled: busy,
            ..HostUse::default()
        };
        let mut all = HostUse::default();
        all.join(used(1.0, 1.0, 100.0));
        all.join(used(3.0, 0.2, 20.0));
        assert!((all.seconds, all.cpu_seconds) == (4.0, 2.0), "{all:?}");
        assert!((all.busy_cpus() - 0.4).abs() < 1e-9 && (all.throttled - 0.4).abs() < 1e-9, "{all:?}");
        assert!((all.disks[0].queue_depth - 1.6).abs() < 1e-9, "{all:?}");
        assert!((all.links[0].bytes_per_second - 40.0).abs() < 1e-9, "{all:?}");
        let held = |shaper| {
            let mut later = used(4.0, 0.0, 0.0);
            later.links[0].shaper = shaper;
            later
        };
        all.join(held(Some(("tbf".into(), 8.0))));
        assert_eq!(all.links[0].shaper, Some(("tbf".into(), 4.0)), "it held nothing back before");
        all.join(held(None));
        assert!(
            all.links[0].shaper.as_ref().is_some_and(|(_, held)| (held - 8.0 / 3.0).abs() < 1e-9),
            "{all:?}"
        );
    }
}
