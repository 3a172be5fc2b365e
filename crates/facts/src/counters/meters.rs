//! Meters of power that can be read again and again: RAPL's counters of energy
//! (Documentation/power/powercap/powercap.rst) and hwmon's sensors (Documentation/hwmon/sysfs-interface.rst).
//! Who watches a machine keeps the list and reads the meters.

use super::rates::Elapsed;
use crate::natural_order::in_order;
use crate::sysroot::{Sysroot, UnreadReason, Unreadable};
use std::path::{Path, PathBuf};

pub const POWERCAP: &str = "/sys/class/powercap";
pub const HWMON: &str = "/sys/class/hwmon";
/// 64 packages have 320 domains; a server has some 40 sensors.
const MOST: usize = 1024;

/// One meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// `package-0`, `package-0/dram`; of hwmon the chip and its sensor: `power_meter power1`.
    pub name: String,
    pub kind: MeterKind,
    /// The file with its figure.
    pub file: PathBuf,
}

/// Why a meter gives no figure, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// The counters tell other users' secrets: since Linux 5.10 only root reads them.
    #[error("only root may read it (CVE-2020-8694)")]
    RootOnly,
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("{}: no number", .0.display())]
    NoNumber(PathBuf),
}

impl From<Unreadable> for MeterError {
    fn from(why: Unreadable) -> Self {
        match why.reason {
            UnreadReason::NotPermitted => MeterError::RootOnly,
            _ => MeterError::Unreadable(why),
        }
    }
}

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterKind {
    /// A counter of microjoules, and where it begins again at 0; 0 where that is not known.
    Energy { wraps_at: u64 },
    /// Microwatts.
    Power,
}

impl Meter {
    /// It measures the whole machine: ACPI's power meter (Documentation/hwmon/acpi_power_meter.rst).
    pub fn is_whole_machine(&self) -> bool {
        self.kind == MeterKind::Power && self.name.starts_with("power_meter ")
    }

    /// A part of a package that the package has in it. `psys` and `dram` may be apart from it; they are shown,
    /// and not added up.
    pub fn is_part(&self) -> bool {
        matches!(self.kind, MeterKind::Energy { .. }) && !self.name.starts_with("package-")
            || self.name.contains('/')
    }

    /// Microjoules or microwatts, now.
    pub fn read(&self, sysroot: &Sysroot) -> Result<u64, MeterError> {
        let text = sysroot.text(&self.file)?;
        text.trim().parse().map_err(|_| MeterError::NoNumber(self.file.clone()))
    }
}

/// Microjoules used between two readings of a counter that begins again at `wraps_at`; none where it went
/// back otherwise.
pub fn used(before: u64, now: u64, wraps_at: u64) -> Option<u64> {
    match now.checked_sub(before) {
        Some(used) => Some(used),
        None if wraps_at >= before => Some((wraps_at - before).saturating_add(now)),
        None => None,
    }
}

/// Watts between two readings; none where the counter began again otherwise.
pub fn watts(before: u64, now: u64, wraps_at: u64, span: Elapsed) -> Option<f64> {
    Some(used(before, now, wraps_at)? as f64 / 1e6 / span.seconds())
}

/// The counters of energy, a part behind its package. `intel-rapl-mmio` is a second view of the same package;
/// AMD's come under this name.
pub fn energy_counters(sysroot: &Sysroot) -> Vec<Meter> {
    let mut zones = sysroot.list(POWERCAP);
    zones.retain(|zone| zone.starts_with("intel-rapl:"));
    zones.sort_by(|a, b| in_order(a, b));
    let name = |zone: &str| sysroot.text(Path::new(POWERCAP).join(zone).join("name")).ok();
    let one = |zone: &String| {
        let own = name(zone)?;
        let (parent, _) = zone.rsplit_once(':')?;
        let folder = Path::new(POWERCAP).join(zone);
        let wraps_at = sysroot.parse(folder.join("max_energy_range_uj")).known().copied().unwrap_or(0);
        Some(Meter {
            name: name(parent).map_or(own.clone(), |package| format!("{package}/{own}")),
            kind: MeterKind::Energy { wraps_at },
            file: folder.join("energy_uj"),
        })
    };
    zones.iter().take(MOST).filter_map(one).collect()
}

/// The sensors of power. An average counts where a chip has both. Before Linux 3.13 the attributes lay at the
/// chip's device.
pub fn power_sensors(sysroot: &Sysroot) -> Vec<Meter> {
    let mut chips = sysroot.list(HWMON);
    chips.sort_by(|a, b| in_order(a, b));
    chips.iter().flat_map(|chip| of_chip(sysroot, &Path::new(HWMON).join(chip))).take(MOST).collect()
}

fn of_chip(sysroot: &Sysroot, chip: &Path) -> Vec<Meter> {
    let mut found: Vec<Meter> = Vec::new();
    for folder in [chip.to_path_buf(), chip.join("device")] {
        let files = sysroot.list(&folder);
        let mut sensors: Vec<&str> = files.iter().filter_map(|file| sensor(file)).collect();
        sensors.sort_by(|a, b| in_order(a, b));
        sensors.dedup();
        if sensors.is_empty() {
            continue;
        }
        let chip_name = sysroot.text(chip.join("name")).or_else(|_| sysroot.text(folder.join("name")));
        let chip_name = chip_name.unwrap_or_else(|_| "sensor".into());
        for sensor in sensors {
            let average = format!("{sensor}_average");
            let file = if files.contains(&average) { average } else { format!("{sensor}_input") };
            let name = format!("{chip_name} {sensor}");
            found.push(Meter { name, kind: MeterKind::Power, file: folder.join(file) });
        }
        break;
    }
    found
}

/// `power1` of `power1_input` and `power1_average`; none of limits and intervals.
fn sensor(file: &str) -> Option<&str> {
    let (sensor, what) = file.split_once('_')?;
    let number = sensor.strip_prefix("power")?;
    let counted = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (counted && matches!(what, "input" | "average")).then_some(sensor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn counters_and_sensors_in_order() {
        let tree = Tree::new(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "240\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon10/name", "pmbus\n"),
            ("sys/class/hwmon/hwmon10/power1_input", "7000000\n"),
            ("sys/class/hwmon/hwmon10/power1_average", "6000000\n"),
            ("sys/class/hwmon/hwmon10/power1_average_interval", "1\n"),
            ("sys/class/hwmon/hwmon2/device/name", "power_meter\n"),
            ("sys/class/hwmon/hwmon2/device/power1_average", "250000000\n"),
        ]);
        let sysroot = Sysroot::recorded(tree.path());
        let counters = energy_counters(&sysroot);
        let names: Vec<&str> = counters.iter().map(|meter| meter.name.as_str()).collect();
        assert_eq!(names, ["package-0", "package-0/dram"]);
        assert_eq!(counters[0].kind, MeterKind::Energy { wraps_at: 1000 });
        assert_eq!(counters[0].read(&sysroot), Ok(240));
        assert!(counters[1].read(&sysroot).is_err() && counters[1].is_part() && !counters[0].is_part());
        let sensors = power_sensors(&sysroot);
        let read: Vec<_> = sensors.iter().map(|meter| (meter.name.as_str(), meter.read(&sysroot))).collect();
        assert_eq!(read, [("power_meter power1", Ok(250_000_000)), ("pmbus power1", Ok(6_000_000))]);
        assert!(sensors[0].is_whole_machine() && !sensors[1].is_whole_machine());
    }

    proptest! {
        #[test]
        fn any_name_is_a_sensor_or_not(name in "power[0-9_a-zé]{0,12}") {
            let reading = name.ends_with("_input") || name.ends_with("_average");
            prop_assert!(sensor(&name).is_none() || reading);
        }

        #[test]
        fn what_was_used_is_never_more_than_the_range(
            before in 0u64..2000, now in 0u64..1000, wraps_at in 0u64..1500,
        ) {
            match used(before, now, wraps_at) {
                Some(used) => prop_assert!(used <= now.max(wraps_at.saturating_add(now))),
                None => prop_assert!(now < before && wraps_at < before),
            }
        }
    }
}
