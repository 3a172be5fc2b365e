//! Pinned and not pinned side by side, and the use of each core in the eight classes of `/proc/stat` (SARA's
//! tables 2 to 4).

use crate::grid::{Column, name, number, styled, text};
use crate::style::Style;
use linerate_facts::printable::printable;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_measure::measure::{CoreUse, Measurement};
use linerate_model::plan::Pin;

const CORES: [Column; 11] = [
    name(""),
    text("host", 1),
    number("core", 0),
    number("user", 0),
    number("nice", 2),
    number("system", 0),
    number("idle", 1),
    number("iowait", 2),
    number("irq", 2),
    number("softirq", 0),
    number("steal", 2),
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
    let mut screen = vec![String::new(), style.bold("use of the cores, percent")];
    screen.extend(styled(&CORES, &rows, width, style, |_| false));
    if idle > 0 {
        screen.push(style.dim(&format!(
            "and {} that did less than {:.0} %",
            counted(idle, "core"),
            BUSY * 100.0
        )));
    }
    screen
}

fn row(name: String, host: &str, core: &CoreUse) -> Vec<String> {
    let shares =
        [core.user, core.nice, core.system, core.idle, core.iowait, core.irq, core.softirq, core.steal];
    let mut row = vec![name, host.to_string(), core.core.to_string()];
    row.extend(shares.map(|share| format!("{:.0}", share * 100.0)));
    row
}
