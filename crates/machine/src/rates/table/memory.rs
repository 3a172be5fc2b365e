//! Tables of memory: the grades of DIMMs, and the processors that they go with.

use super::{Cell, Table, TableRow, bits, gigabytes, number, once, plain, text, wide};
use crate::rates::memory::{self, GRADES, NEHALEM_SOURCE, Platform, SOURCE};

/// One channel by the grade of its DIMMs.
pub(super) fn grades() -> Table {
    let rows = GRADES.iter().map(|grade| TableRow {
        cells: vec![
            text(grade.family),
            number(f64::from(grade.mt_per_second), 0),
            text(grade.module),
            gigabytes(grade.bytes_per_second(), 2),
            bits(grade.bytes_per_second(), 1),
            Cell::Nothing,
        ],
        source: grade.source,
    });
    Table {
        name: "memory",
        title: "Memory: one channel of 64 bits. What is effective depends on the order of the accesses: \
                measure it"
            .into(),
        columns: vec![
            once("family", "family"),
            plain("mt_per_second", "MT/s"),
            plain("module", "module"),
            plain("rated_bytes_per_second", "rated, GB/s"),
            plain("rated_bits_per_second", "Gb/s"),
            plain("effective_bytes_per_second", "effective"),
        ],
        rows: rows.collect(),
    }
}

/// A socket by its processor.
pub(super) fn platforms() -> Table {
    let row = |platform: &Platform| {
        let rate =
            |dimms| platform.mt_per_second(dimms).map_or(Cell::Nothing, |rate| number(f64::from(rate), 0));
        let channels =
            if platform.channels > 0 { number(f64::from(platform.channels), 0) } else { Cell::Nothing };
        TableRow {
            cells: vec![
                text(platform.name),
                number(f64::from(platform.year), 0),
                channels,
                text(platform.family),
                rate(1),
                rate(2),
                rate(3),
                gigabytes(platform.bytes_per_second(), 1),
                text(platform.note),
            ],
            source: if platform.name.contains("Nehalem") { NEHALEM_SOURCE } else { SOURCE },
        }
    };
    Table {
        name: "memory-platforms",
        title: "Processors: channels of a socket, MT/s with 1, 2 or 3 DIMMs on each channel, and the rated \
                GB/s of a socket with 1. \
                What the firmware says that the DIMMs run at (`linerate probe`) goes before"
            .into(),
        columns: vec![
            plain("platform", "processor"),
            wide("year", "year"),
            plain("channels", "channels"),
            wide("family", "DIMMs"),
            plain("mt_per_second_1_dimm", "1"),
            plain("mt_per_second_2_dimms", "2"),
            plain("mt_per_second_3_dimms", "3"),
            plain("rated_bytes_per_second", "rated"),
            plain("note", "notes"),
        ],
        rows: memory::all_platforms().iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_channel_in_both_units() {
        let table = grades();
        let row = table.rows.iter().find(|row| row.cells[2] == text("PC3-10600")).expect("a row");
        assert_eq!(row.cells[3], Cell::Figure(64e9 / 6.0, "10.67".into()));
        let Cell::Figure(bits, shown) = &row.cells[4] else { panic!("no figure") };
        assert_eq!((bits.round(), shown.as_str()), (85_333_333_333.0, "85.3"));
    }
}
