//! What a cloud promises of its instances: the network of all interfaces together, and all volumes together, each way.

use super::rows;
use linerate_facts::units::bytes_per_second;

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

/// All that are known.
pub fn all() -> Vec<Instance> {
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
pub fn named(name: &str) -> Option<Instance> {
    all().into_iter().find(|instance| instance.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::units::show_bits_rate;

    #[test]
    fn rows_are_those_of_the_page() {
        let all = all();
        assert!(all.len() <= 60 && all.iter().all(|row| row.source.starts_with("https://")));
        for row in &all {
            for allowance in [row.network, row.volumes] {
                assert!(allowance.burst.is_none_or(|burst| burst > allowance.always), "{row:?}");
            }
        }
        let large = named("m5.large").expect("a row");
        assert_eq!(large.network.steady(), None);
        let words = large.network.words(show_bits_rate);
        assert_eq!(words, "750 Mb/s always, up to 10.0 Gb/s while credits last");
        let whole = named("m5.24xlarge").expect("a row");
        assert_eq!((whole.network.steady(), whole.volumes.steady()), (Some(25e9 / 8.0), Some(19e9 / 8.0)));
        assert_eq!(named("m5.25xlarge"), None);
    }
}
