//! The rates as tables that can be shown: columns, rows, and for each row where its figures come from.
//!
//! A figure is held twice, as a number in the column's unit and as it is to be read. How a table is laid out
//! is the report's.
//! The table of what accelerators of a benchmark read.
//! Tables of memory: the grades of DIMMs, and the processors that they go with.

mod links;
mod network;

use super::memory::{self, GRADES, NEHALEM_SOURCE, Platform, SOURCE};
use super::published::{InstanceRate, all_instances, all_loads};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// All kinds, from the cores outwards.
pub const KINDS: [TableKind; 8] = [
    TableKind::Memory,
    TableKind::Interconnect,
    TableKind::Pcie,
    TableKind::Storage,
    TableKind::Ethernet,
    TableKind::Otn,
    TableKind::Loads,
    TableKind::Instances,
];

/// What there are tables of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// PCI Express, PCI, PCI-X.
    Pcie,
    /// DIMMs, and the processors that they go with.
    Memory,
    /// Between sockets, dies and the chipset.
    Interconnect,
    /// Physical layers and goodput.
    Ethernet,
    /// The optical transport network, SDH.
    Otn,
    /// Between a host and its disks.
    Storage,
    /// What accelerators of a benchmark read.
    Loads,
    /// What a cloud promises of its instances.
    Instances,
}

/// The tables of a kind: the rated one first.
pub fn tables(kind: TableKind) -> Vec<Table> {
    match kind {
        TableKind::Pcie => vec![links::pcie(), links::pcie_payload(), links::pci()],
        TableKind::Memory => vec![memory_grades(), memory_platforms()],
        TableKind::Interconnect => vec![links::interconnect()],
        TableKind::Ethernet => vec![network::phys(), network::rates()],
        TableKind::Otn => vec![network::otn()],
        TableKind::Storage => vec![links::storage(), links::disks()],
        TableKind::Loads => vec![loads()],
        TableKind::Instances => vec![instances()],
    }
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What machines know it by.
    pub name: &'static str,
    /// What it shows, and in which unit.
    pub title: String,
    /// From left to right; the last may hold a sentence.
    pub columns: Vec<TableColumn>,
    /// From top to bottom, each with as many cells as there are columns.
    pub rows: Vec<TableRow>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the field, unit last.
    pub key: &'static str,
    /// Head on the screen.
    pub head: &'static str,
    /// How it gives way.
    pub look: ColumnStyle,
}

/// How a column behaves on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnStyle {
    /// Always shown.
    Plain,
    /// Shown where it differs from the row above.
    Once,
    /// Left out where the screen is narrow.
    Wide,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Where its figures come from.
    pub source: &'static str,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number in the unit of the column's key, and as it is shown.
    Figure(f64, String),
    /// There is none.
    Nothing,
}

fn plain(key: &'static str, head: &'static str) -> TableColumn {
    TableColumn { key, head, look: ColumnStyle::Plain }
}

fn once(key: &'static str, head: &'static str) -> TableColumn {
    TableColumn { key, head, look: ColumnStyle::Once }
}

fn wide(key: &'static str, head: &'static str) -> TableColumn {
    TableColumn { key, head, look: ColumnStyle::Wide }
}

fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

/// A number shown with this many decimals.
fn number(value: f64, decimals: usize) -> Cell {
    Cell::Figure(value, format!("{value:.decimals$}"))
}

/// A number as short as it goes: 2.5, 8, 10.3125.
fn short(value: f64) -> Cell {
    Cell::Figure(value, value.to_string())
}

/// Bytes per second, shown as Gb/s.
fn gigabits(bytes_per_second: f64, decimals: usize) -> Cell {
    let shown = linerate_facts::units::bits_per_second(bytes_per_second) / 1e9;
    Cell::Figure(bytes_per_second, format!("{shown:.decimals$}"))
}

/// Bytes per second, held in bits per second and shown as Gb/s, for a table that has both.
fn bits(bytes_per_second: f64, decimals: usize) -> Cell {
    let bits = linerate_facts::units::bits_per_second(bytes_per_second);
    Cell::Figure(bits, format!("{:.decimals$}", bits / 1e9))
}

/// Bytes per second, shown as GB/s.
fn gigabytes(bytes_per_second: f64, decimals: usize) -> Cell {
    Cell::Figure(bytes_per_second, format!("{:.decimals$}", bytes_per_second / 1e9))
}

/// Bytes per second, shown as MB/s.
fn megabytes(bytes_per_second: f64) -> Cell {
    Cell::Figure(bytes_per_second, format!("{:.0}", bytes_per_second / 1e6))
}

/// A share of 1, shown as per cent.
fn percent(share: f64) -> Cell {
    Cell::Figure(share, format!("{:.2}", share * 100.0))
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(words) => to.serialize_str(words),
            // 54 bytes are not 54.0.
            Cell::Figure(value, _) if value.fract() == 0.0 && value.abs() < 9e15 => {
                to.serialize_i64(*value as i64)
            }
            Cell::Figure(value, _) => to.serialize_f64(*value),
            Cell::Nothing => to.serialize_none(),
        }
    }
}

/// `{ "table", "title", "rows": [ { KEY: number or words, …, "source" } ] }`.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct Fields<'a>(&'a [TableColumn], &'a TableRow);
        impl Serialize for Fields<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                for (column, cell) in self.0.iter().zip(&self.1.cells) {
                    map.serialize_entry(column.key, cell)?;
                }
                map.serialize_entry("source", self.1.source)?;
                map.end()
            }
        }
        let rows: Vec<Fields> = self.rows.iter().map(|row| Fields(&self.columns, row)).collect();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("table", self.name)?;
        map.serialize_entry("title", &self.title)?;
        map.serialize_entry("rows", &rows)?;
        map.end()
    }
}

/// One type of instance a row.
fn instances() -> Table {
    let cells =
        |of: InstanceRate, show: fn(f64) -> Cell| [show(of.always), of.burst.map_or(Cell::Nothing, show)];
    let rows = all_instances().into_iter().map(|row| {
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

/// One accelerator by model and maker's name.
fn loads() -> Table {
    let rows = all_loads().into_iter().map(|load| TableRow {
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

/// One channel by the grade of its DIMMs.
fn memory_grades() -> Table {
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
fn memory_platforms() -> Table {
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
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_whole_and_says_where_it_comes_from() {
        let mut names = BTreeSet::new();
        for table in KINDS.into_iter().flat_map(tables) {
            assert!(names.insert(table.name), "{} twice", table.name);
            let keys: BTreeSet<&str> = table.columns.iter().map(|column| column.key).collect();
            assert_eq!(keys.len(), table.columns.len(), "{}: a key twice", table.name);
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.columns.len(), "{} {row:?}", table.name);
                assert!(!row.source.is_empty(), "{} {row:?}", table.name);
                for cell in &row.cells {
                    assert!(!matches!(cell, Cell::Figure(value, _) if !value.is_finite()), "{row:?}");
                }
            }
        }
        assert!(names.len() >= 9, "{names:?}");
    }

    #[test]
    fn a_table_as_json_keeps_its_order_and_its_numbers() {
        let json = serde_json::to_string(&tables(TableKind::Memory)[0]).expect("JSON");
        let first = json.split("\"rows\":[").nth(1).expect("rows");
        assert!(
            first.starts_with(r#"{"family":"DDR","mt_per_second":200,"module":"PC-1600","rated_bytes_per_second":1600000000"#),
            "{first:.200}"
        );
        assert_eq!(serde_json::to_string(&Cell::Nothing).expect("JSON"), "null");
        assert_eq!(serde_json::to_string(&number(2.5, 1)).expect("JSON"), "2.5");
    }

    #[test]
    fn the_peak_of_a_channel_in_both_units() {
        let table = memory_grades();
        let row = table.rows.iter().find(|row| row.cells[2] == text("PC3-10600")).expect("a row");
        assert_eq!(row.cells[3], Cell::Figure(64e9 / 6.0, "10.67".into()));
        let Cell::Figure(bits, shown) = &row.cells[4] else { panic!("no figure") };
        assert_eq!((bits.round(), shown.as_str()), (85_333_333_333.0, "85.3"));
    }
}
