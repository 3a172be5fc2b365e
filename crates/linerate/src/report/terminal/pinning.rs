//! Pinned and not pinned side by side, and the use of each core in the eight classes of `/proc/stat` (SARA's tables 2 to 4).

use super::Style;
use super::grid::{Column, column, lines};
use crate::measure::{CoreUse, Measurement};
use crate::plan::Pin;
use crate::report::printable::printable;
use crate::units::show_bits_rate;

const CORES: [Column; 11] = [
    column("", true, 0),
    column("host", true, 1),
    column("core", false, 0),
    column("user", false, 0),
    column("nice", false, 2),
    column("system", false, 0),
    column("idle", false, 1),
    column("iowait", false, 2),
    column("irq", false, 2),
    column("softirq", false, 0),
    column("steal", false, 2),
];
/// Cores less busy than this are counted, not listed.
const BUSY: f64 = 0.02;

/// Nothing where no figure was taken both ways.
pub(super) fn table(measurements: &[Measurement], width: usize, style: Style) -> Vec<String> {
    let pin = |m: &Measurement| m.streams.as_ref().map(|result| result.job.pin.clone());
    let pinned = |m: &Measurement| pin(m).is_some_and(|pin| pin != Pin::None);
    if !measurements.iter().any(|m| pin(m) == Some(Pin::None)) || !measurements.iter().any(pinned) {
        return Vec::new();
    }
    let mut rows = Vec::new();
    let mut idle = 0;
    for measurement in measurements {
        let mut name =
            format!("{}: {}", printable(&measurement.name), show_bits_rate(measurement.bytes_per_second));
        let there = measurement.receiver.as_ref().map_or(&[][..], |peer| &peer.cpu_by_core[..]);
        for (host, cores) in [("here", &measurement.cpu_by_core[..]), ("peer", there)] {
            for core in cores {
                if core.busy() < BUSY {
                    idle += 1;
                    continue;
                }
                rows.push(row(std::mem::take(&mut name), host, core));
            }
        }
    }
    let table = lines(&CORES, &rows, width);
    let mut text = vec![String::new(), style.bold("use of the cores, percent")];
    text.push(style.dim(&table[0]));
    text.extend_from_slice(&table[1..]);
    if idle > 0 {
        text.push(style.dim(&format!("and {idle} cores that did less than {:.0} %", BUSY * 100.0)));
    }
    text
}

fn row(name: String, host: &str, core: &CoreUse) -> Vec<String> {
    let shares =
        [core.user, core.nice, core.system, core.idle, core.iowait, core.irq, core.softirq, core.steal];
    let mut row = vec![name, host.to_string(), core.core.to_string()];
    row.extend(shares.map(|share| format!("{:.0}", share * 100.0)));
    row
}
