//! What others published and no probe can read, each a table in a text file beside this one: the rates of a cloud's
//! instances, what the accelerators of MLPerf Storage read, and the CPU time that a gigabyte over a NIC takes.
//!
//! Instances: a cloud promises a rate for all interfaces of an instance together, and one for all its volumes together.
//! Each holds for each of the two directions.
//!
//! Loads: what an emulated accelerator reads follows from the benchmark's own configurations. It reads a batch of samples,
//! then is busy with it for as long as a real one of its kind. `dlrm` is left out: it reads some columns of its files, and
//! how many bytes those are is in no configuration.
//!
//! CPU cost: the kind of its memory stands for the age of a server. How the rows follow from what was published:
//! - SARA D1.1: 1.079 and 1.075 CPUs were busy at 25.21 and 26.77 Gb/s. The busy times of its table 4 are counted, as the
//!   idle time of CPU 1 lacks a digit there: 9.8 %, where the other columns leave 59.7.
//! - SARA's slides: 70 % of eight cores at 32.5 Gb/s, with all else that the host did.
//! - TCP: a flow may use two cores, so that a cost from the 30 Gb/s of one flow is the least that it can be.
//! - The rule of 2003: its range is that of processors from 3.6 to 2 GHz.

use super::rows;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::bytes_per_second;
use serde::Serialize;

/// One type of instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    /// As the firmware has it: `m5.24xlarge`.
    pub name: &'static str,
    /// Network, one way.
    pub network: InstanceRate,
    /// Volumes (EBS), read and written.
    pub volumes: InstanceRate,
    /// Page, and where its text was read.
    pub source: &'static str,
}

/// A rate with credits, or without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceRate {
    /// What there always is, bytes per second.
    pub always: f64,
    /// “Up to” this while credits last, bytes per second.
    pub burst: Option<f64>,
}

impl InstanceRate {
    /// The rate, where it is the same at all times.
    pub fn steady(&self) -> Option<f64> {
        self.burst.is_none().then_some(self.always)
    }

    /// Why the rate is not one: `750 Mb/s always, up to 10.0 Gb/s while credits last`.
    pub fn words(&self, show: fn(f64) -> String) -> String {
        let always = show(self.always);
        match self.burst {
            Some(burst) => format!("{always} always, up to {} while credits last", show(burst)),
            None => always,
        }
    }
}

/// All types of instances that are known.
pub fn all_instances() -> Vec<Instance> {
    let rate =
        |number: &str, unit: f64| Some(bytes_per_second((number.parse::<f64>().ok()? * unit).round() as u64));
    let instance_rate = |always: &str, most: &str, unit: f64| {
        let burst = if most.is_empty() { None } else { Some(rate(most, unit)?) };
        Some(InstanceRate { always: rate(always, unit)?, burst })
    };
    rows(include_str!("instances.txt"), |[name, always, most, volumes, volumes_most], source| {
        Some(Instance {
            name,
            network: instance_rate(always, most, 1e9)?,
            volumes: instance_rate(volumes, volumes_most, 1e6)?,
            source,
        })
    })
}

/// The instance of this type.
pub fn instance_named(name: &str) -> Option<Instance> {
    all_instances().into_iter().find(|instance| instance.name == name)
}

/// One emulated accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Model and accelerator: `unet3d/h100`.
    pub name: &'static str,
    /// Samples of a batch: `reader.batch_size`.
    pub samples: f64,
    /// Mean length of a sample: `dataset.record_length_bytes`, of flux `record_length`.
    pub sample_bytes: f64,
    /// How long it works on a batch: `train.computation_time`.
    pub seconds: f64,
    /// The share of the time that it must be busy for a run to count: `metric.au`.
    pub busy: f64,
    /// Repository, revision and file.
    pub source: &'static str,
}

impl Load {
    /// What one that never waits reads, bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.samples * self.sample_bytes / self.seconds
    }
}

/// All loads that are known.
pub fn all_loads() -> Vec<Load> {
    rows(include_str!("loads.txt"), |[name, samples, sample_bytes, seconds, busy], source| {
        Some(Load {
            name,
            samples: samples.parse().ok()?,
            sample_bytes: sample_bytes.parse().ok()?,
            seconds: seconds.parse().ok()?,
            busy: busy.parse().ok()?,
            source,
        })
    })
}

/// The load of this name.
pub fn load_named(name: &str) -> Option<Load> {
    all_loads().into_iter().find(|load| load.name == name)
}

/// CPU time of a gigabyte over a NIC: a copy into the socket or out of it, and all that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuCost {
    pub seconds_per_gb: f64,
    /// The lowest and the highest that fits such servers.
    pub range: [f64; 2],
    pub source: &'static str,
}

/// The cost of a server with this kind of memory (empty: unknown). Where disks are read, a row that counts their reads, too,
/// goes before others.
pub fn cpu_cost(memory: &str, reads_disks: bool, protocol: Protocol) -> Option<CpuCost> {
    let all = rows(include_str!("cpu_cost.txt"), |[of, from, over, usual, least, most], source| {
        let fits = |cell: &str, word: &str| cell.is_empty() || cell.eq_ignore_ascii_case(word);
        let fits = fits(of, memory.trim()) && fits(over, &protocol.to_string());
        let number = |cell: &str| cell.parse().ok();
        let cost = CpuCost { seconds_per_gb: number(usual)?, range: [number(least)?, number(most)?], source };
        Some((fits && (from.is_empty() || reads_disks), cost))
    });
    all.into_iter().find_map(|(fits, cost)| fits.then_some(cost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::units::show_bits_rate;

    #[test]
    fn rows_are_those_of_the_page() {
        let all = all_instances();
        assert!(all.len() <= 60 && all.iter().all(|row| row.source.starts_with("https://")));
        for row in &all {
            for allowance in [row.network, row.volumes] {
                assert!(allowance.burst.is_none_or(|burst| burst > allowance.always), "{row:?}");
            }
        }
        let large = instance_named("m5.large").expect("a row");
        assert_eq!(large.network.steady(), None);
        let words = large.network.words(show_bits_rate);
        assert_eq!(words, "750 Mb/s always, up to 10.0 Gb/s while credits last");
        let whole = instance_named("m5.24xlarge").expect("a row");
        assert_eq!((whole.network.steady(), whole.volumes.steady()), (Some(25e9 / 8.0), Some(19e9 / 8.0)));
        assert_eq!(instance_named("m5.25xlarge"), None);
    }

    #[test]
    fn an_older_server_costs_what_was_published_of_its_generation() {
        let cost = |memory, reads_disks, protocol| {
            cpu_cost(memory, reads_disks, protocol).map(|cost| cost.seconds_per_gb)
        };
        assert_eq!(cost("ddr3", true, Protocol::Udp), Some(1.38));
        assert_eq!(cost("DDR3", false, Protocol::Udp), Some(0.33));
        assert_eq!(cost("DDR3", true, Protocol::Tcp), Some(0.267));
        assert_eq!(cost("DDR2", false, Protocol::Udp), Some(2.67));
        // 42 Gb/s a core, whatever the memory; of UDP nobody published one.
        assert_eq!((cost("DDR5", false, Protocol::Tcp), cost("", true, Protocol::Udp)), (Some(0.1905), None));
        for memory in ["DDR", "DDR2", "DDR3", "DDR4"] {
            let cost = cpu_cost(memory, true, Protocol::Tcp).expect("a row");
            let [least, most] = cost.range;
            assert!((least..=most).contains(&cost.seconds_per_gb) && !cost.source.is_empty(), "{cost:?}");
        }
    }
}
