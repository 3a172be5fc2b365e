//! The table of what a cloud promises of its instances.

use super::{Cell, Table, TableRow, gigabits, megabytes, plain, text, wide};
use crate::rates::instances::{InstanceRate, all};

/// One type of instance a row.
pub(super) fn instances() -> Table {
    let cells =
        |of: InstanceRate, show: fn(f64) -> Cell| [show(of.always), of.burst.map_or(Cell::Nothing, show)];
    let rows = all().into_iter().map(|row| {
        let network = cells(row.network, |rate| gigabits(rate, 3));
        let volumes = cells(row.volumes, megabytes);
        TableRow {
            cells: [text(row.name)].into_iter().chain(network).chain(volumes).collect(),
            source: row.source,
        }
    });
    Table {
        name: "instances",
        title: "Instances of clouds: Gb/s of all interfaces and MB/s of all volumes, one way; a burst lasts as long \
                as its credits"
            .into(),
        columns: vec![
            plain("instance", "instance"),
            plain("network_bytes_per_second", "network"),
            plain("network_burst_bytes_per_second", "burst"),
            plain("volumes_bytes_per_second", "volumes"),
            wide("volumes_burst_bytes_per_second", "burst"),
        ],
        rows: rows.collect(),
    }
}
