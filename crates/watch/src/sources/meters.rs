//! Meters of power of the kernel's. A sensor on a slow bus takes milliseconds; some management controllers
//! take a second.

use linerate_facts::counters::meters::{Meter, MeterError, energy_counters, power_sensors};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::time::Instant;

/// Machines get meters while they run (a driver is loaded): looked for again after so many readings.
const LOOK_AGAIN: u32 = 60;

/// One meter's.
#[derive(Clone, Debug, PartialEq)]
pub struct MeterReading {
    pub meter: Meter,
    pub at: Instant,
    /// Microjoules or microwatts.
    pub read: Result<u64, MeterError>,
}

/// All meters of one kind.
pub(crate) type MetersReading = Vec<MeterReading>;

pub(crate) fn rapl(sysroot: &Sysroot) -> impl FnMut() -> MetersReading + Send + 'static {
    all(sysroot, energy_counters)
}

pub(crate) fn hwmon(sysroot: &Sysroot) -> impl FnMut() -> MetersReading + Send + 'static {
    all(sysroot, power_sensors)
}

fn all(
    sysroot: &Sysroot,
    find: fn(&Sysroot) -> Vec<Meter>,
) -> impl FnMut() -> MetersReading + Send + 'static {
    let sysroot = sysroot.clone();
    let (mut found, mut left): (Vec<Meter>, u32) = (Vec::new(), 0);
    move || {
        if left == 0 {
            (found, left) = (find(&sysroot), LOOK_AGAIN);
        }
        left -= 1;
        let one = |meter: &Meter| {
            let read = meter.read(&sysroot);
            MeterReading { meter: meter.clone(), at: clock::now(), read }
        };
        found.iter().map(one).collect()
    }
}
