//! What the server draws, where it has a meter that we may read.

use crate::probe::meters::{Meter, MeterKind, energy_counters, power_sensors, used};
use crate::sysroot::Sysroot;

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
    let whole = power_sensors(sysroot).into_iter().filter(Meter::is_whole_machine);
    if let Some(microwatts) = whole.filter_map(|meter| meter.read(sysroot).ok()).next() {
        return Reading::Power(microwatts as f64 / 1e6);
    }
    let mut packages = energy_counters(sysroot);
    packages.retain(|meter| !meter.is_part());
    if packages.is_empty() {
        return Reading::Unknown(
            "this machine has neither a power meter (hwmon) nor energy counters (RAPL)".into(),
        );
    }
    let counter = |meter: &Meter| {
        let wraps_at = if let MeterKind::Energy { wraps_at } = meter.kind { wraps_at } else { 0 };
        Some((meter.read(sysroot).ok()?, wraps_at))
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
            let between = |((before, _), (now, wraps)): (&(u64, u64), &(u64, u64))| {
                used(*before, *now, *wraps).unwrap_or(0)
            };
            let microjoules: u64 = earlier.iter().zip(later).map(between).sum();
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
