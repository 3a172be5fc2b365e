//! The table of what accelerators of a benchmark read.

use super::{Table, TableRow, gigabytes, number, percent, plain, short, text, wide};
use crate::rates::loads::all;

/// One accelerator by model and maker's name.
pub(super) fn loads() -> Table {
    let rows = all().into_iter().map(|load| TableRow {
        cells: vec![
            text(load.name),
            gigabytes(load.bytes_per_second(), 3),
            number(load.samples, 0),
            short(load.sample_bytes),
            short(load.seconds),
            percent(load.busy),
        ],
        source: load.source,
    });
    Table {
        name: "loads",
        title: "Loads: what one emulated accelerator of MLPerf Storage reads that never waits, GB/s \
                (`linerate plan --each NAME`)"
            .into(),
        columns: vec![
            plain("load", "load"),
            plain("bytes_per_second", "GB/s"),
            wide("samples", "samples a batch"),
            wide("sample_bytes", "bytes a sample"),
            wide("seconds", "seconds a batch"),
            plain("busy", "busy at least, %"),
        ],
        rows: rows.collect(),
    }
}
