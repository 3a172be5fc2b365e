//! What the server draws, where it has a meter that we may read.

use linerate_facts::counters::meters::{self, Meter, MeterKind, energy_counters, power_sensors};
use linerate_facts::counters::rates::Elapsed;
use linerate_facts::sysroot::Sysroot;

/// One reading.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// Watts, now.
    Power(f64),
    /// Microjoules of each package, and where the counter begins again.
    Energy(Vec<(u64, u64)>),
    /// Why there is none.
    Unknown(String),
}

/// Reads the best meter there is: of the whole machine, else of the processors.
pub(crate) fn read(sysroot: &Sysroot) -> Reading {
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
pub(crate) fn watts(earlier: &Reading, later: &Reading, seconds: f64) -> Result<f64, String> {
    let (earlier, later) = match (earlier, later) {
        (_, Reading::Power(watts)) => return Ok(*watts),
        (_, Reading::Unknown(why)) => return Err(why.clone()),
        (Reading::Energy(earlier), Reading::Energy(later)) if earlier.len() == later.len() => {
            (earlier, later)
        }
        _ => return Err("the energy counters were read only once so far".into()),
    };
    let span = Elapsed::of_seconds(seconds).ok_or("the energy counters were read only once so far")?;
    let both = earlier.iter().zip(later);
    // As `watch` has it: a package whose counter began again is unknown, and so is the sum.
    both.map(|((before, _), (now, wraps))| meters::watts(*before, *now, *wraps, span))
        .sum::<Option<f64>>()
        .ok_or("an energy counter began again".into())
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
        let reading = |microjoules| Reading::Energy(vec![(microjoules, 0), (microjoules, 9)]);
        let began_again = watts(&reading(10), &reading(5), 1.0);
        assert_eq!(began_again, Err("an energy counter began again".into()), "and not 0 W of that package");
        // It wrapped: 4 J to the end and half a joule since.
        assert_eq!(watts(&before, &read(&sysroot), 0.5), Ok(9.0));
        put("sys/class/hwmon/hwmon3/name", "power_meter");
        put("sys/class/hwmon/hwmon3/power1_average", "250000000");
        assert_eq!(watts(&before, &read(&sysroot), 0.5), Ok(250.0));
    }
}
