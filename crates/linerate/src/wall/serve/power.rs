//! What the server draws, where it has a meter that we may read.

use crate::sysroot::Sysroot;
use std::path::{Path, PathBuf};

/// RAPL: counters of energy of the processors' packages (Documentation/power/powercap/powercap.rst).
const POWERCAP: &str = "/sys/class/powercap";
/// hwmon: a meter of the whole machine is ACPI's (Documentation/hwmon/acpi_power_meter.rst).
const HWMON: &str = "/sys/class/hwmon";

/// One reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Watts, now.
    Power(f64),
    /// Microjoules of each package, and where the counter begins again.
    Energy(Vec<(u64, u64)>),
    /// Why there is none.
    Unknown(String),
}

/// Reads the best meter there is: of the whole machine, else of the processors.
pub fn read(sysroot: &Sysroot) -> Reading {
    for chip in sysroot.list(HWMON) {
        let place = Path::new(HWMON).join(chip);
        if sysroot.text(place.join("name")).is_ok_and(|name| name == "power_meter") {
            let microwatts = ["power1_average", "power1_input"]
                .iter()
                .find_map(|name| sysroot.parse::<u64>(place.join(name)).known().copied());
            if let Some(microwatts) = microwatts {
                return Reading::Power(microwatts as f64 / 1e6);
            }
        }
    }
    let packages: Vec<PathBuf> = sysroot
        .list(POWERCAP)
        .into_iter()
        .map(|name| Path::new(POWERCAP).join(name))
        .filter(|place| sysroot.text(place.join("name")).is_ok_and(|name| name.starts_with("package-")))
        .collect();
    if packages.is_empty() {
        return Reading::Unknown(
            "this machine has neither a power meter (hwmon) nor energy counters (RAPL)".into(),
        );
    }
    let counter = |place: &PathBuf| -> Option<(u64, u64)> {
        let energy = sysroot.parse(place.join("energy_uj")).known().copied()?;
        Some((energy, sysroot.parse(place.join("max_energy_range_uj")).known().copied().unwrap_or(0)))
    };
    match packages.iter().map(counter).collect() {
        Some(counters) => Reading::Energy(counters),
        None => {
            Reading::Unknown("the energy counters (RAPL) are root's alone; run as root to see them".into())
        }
    }
}

/// Watts between two readings; the sentence says why there are none.
pub fn watts(earlier: &Reading, later: &Reading, seconds: f64) -> Result<f64, String> {
    match (earlier, later) {
        (_, Reading::Power(watts)) => Ok(*watts),
        (_, Reading::Unknown(why)) => Err(why.clone()),
        (Reading::Energy(earlier), Reading::Energy(later))
            if seconds > 0.0 && earlier.len() == later.len() =>
        {
            let used =
                |((before, _), (now, wraps)): (&(u64, u64), &(u64, u64))| match now.checked_sub(*before) {
                    Some(used) => used,
                    None => (wraps.saturating_sub(*before)).saturating_add(*now),
                };
            let microjoules: u64 = earlier.iter().zip(later).map(used).sum();
            Ok(microjoules as f64 / 1e6 / seconds)
        }
        _ => Err("the energy counters were read only once so far".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_meters() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let put = |path: &str, text: &str| {
            let place = root.path().join(path);
            std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
            std::fs::write(place, text).expect("a file");
        };
        put("proc/version", "x");
        let sysroot = Sysroot::recorded(root.path());
        assert!(matches!(read(&sysroot), Reading::Unknown(_)));
        put("sys/class/powercap/intel-rapl:0/name", "package-0\n");
        put("sys/class/powercap/intel-rapl:0/energy_uj", "1000000");
        put("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "5000000");
        let before = read(&sysroot);
        put("sys/class/powercap/intel-rapl:0/energy_uj", "500000");
        // It began again: 4 J to the end and half a joule since.
        assert_eq!(watts(&before, &read(&sysroot), 0.5), Ok(9.0));
        put("sys/class/hwmon/hwmon3/name", "power_meter");
        put("sys/class/hwmon/hwmon3/power1_average", "250000000");
        assert_eq!(watts(&before, &read(&sysroot), 0.5), Ok(250.0));
    }
}
