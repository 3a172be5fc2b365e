//! Tables of the links inside a server: PCI Express, PCI, between sockets, to disks.

use super::{
    Cell, Table, TableColumn, TableRow, gigabits, megabytes, number, once, percent, plain, short, text, wide,
};
use crate::rates::interconnect;
use crate::rates::pcie::{self, BUSES, GENERATIONS, PayloadDirection};
use crate::rates::storage::{self, CLASSES_SOURCE, DISK_CLASSES};

const PCIE: &str = "PCI-SIG, PCI Express base specification: 8b/10b, 128b/130b, FLITs of 242 in 256 bytes";
const PCIE_PACKETS: &str = "PCI-SIG, PCI Express base specification: 16 bytes of header for a write to \
                            64-bit addresses, 12 for a completion, 8 of framing to 5.0, FLITs of 236 in 256 \
                            bytes from 6.0; less 2 to 3 % of acknowledge and flow-control packets, which no \
                            register reports";

/// A field for each width, with its head.
const RATED_WIDTHS: [(u32, &str, &str); 5] = [
    (1, "rated_bytes_per_second_x1", "x1"),
    (2, "rated_bytes_per_second_x2", "x2"),
    (4, "rated_bytes_per_second_x4", "x4"),
    (8, "rated_bytes_per_second_x8", "x8"),
    (16, "rated_bytes_per_second_x16", "x16"),
];
const IN_WIDTHS: [(u32, &str, &str); 3] = [
    (4, "effective_to_memory_bytes_per_second_x4", "x4"),
    (8, "effective_to_memory_bytes_per_second_x8", "x8"),
    (16, "effective_to_memory_bytes_per_second_x16", "x16"),
];
const OUT_WIDTHS: [(u32, &str, &str); 3] = [
    (4, "effective_from_memory_bytes_per_second_x4", "x4"),
    (8, "effective_from_memory_bytes_per_second_x8", "x8"),
    (16, "effective_from_memory_bytes_per_second_x16", "x16"),
];
/// MaxPayload of servers, bytes.
const MAX_PAYLOADS: [u32; 3] = [128, 256, 512];

fn columns_of(widths: &[(u32, &'static str, &'static str)]) -> Vec<TableColumn> {
    widths.iter().map(|(_, key, head)| plain(key, head)).collect()
}

/// Rated: after the line code.
pub(super) fn pcie() -> Table {
    let row = |generation: &pcie::Generation| {
        let mut cells = vec![
            text(generation.version),
            number(f64::from(generation.year), 0),
            short(generation.gt_per_second),
            text(generation.coding),
        ];
        cells.extend(RATED_WIDTHS.iter().map(|(width, ..)| {
            pcie::raw_bytes_per_second(generation.gt_per_second, *width)
                .map_or(Cell::Nothing, |rate| gigabits(rate, 1))
        }));
        TableRow { cells, source: PCIE }
    };
    let mut columns = vec![
        plain("version", "version"),
        plain("year", "year"),
        plain("gt_per_second", "GT/s"),
        plain("coding", "coding"),
    ];
    columns.extend(columns_of(&RATED_WIDTHS));
    Table {
        name: "pcie",
        title: "PCI Express, rated: Gb/s per direction after the line code".into(),
        columns,
        rows: GENERATIONS.iter().map(row).collect(),
    }
}

/// Effective: payload of full packets.
pub(super) fn pcie_payload() -> Table {
    let mut columns = vec![
        once("version", "version"),
        plain("max_payload_bytes", "MaxPayload"),
        plain("to_memory_share", "in, %"),
    ];
    columns.extend(columns_of(&IN_WIDTHS));
    columns.push(plain("from_memory_share", "out, %"));
    columns.extend(columns_of(&OUT_WIDTHS));
    let rows = GENERATIONS
        .iter()
        .flat_map(|generation| MAX_PAYLOADS.map(|payload| payload_row(generation, payload)));
    Table {
        name: "pcie-payload",
        title:
            "PCI Express, effective: Gb/s of payload in full packets. In: to memory, a disk that is read, \
                a NIC that receives; \
             out: from memory, a NIC that sends"
                .into(),
        columns,
        rows: rows.collect(),
    }
}

fn payload_row(generation: &pcie::Generation, payload: u32) -> TableRow {
    let speed = generation.gt_per_second;
    let mut cells = vec![text(generation.version), number(f64::from(payload), 0)];
    for (direction, widths) in
        [(PayloadDirection::ToMemory, IN_WIDTHS), (PayloadDirection::FromMemory, OUT_WIDTHS)]
    {
        cells.push(pcie::payload_share(speed, Some(payload), direction).map_or(Cell::Nothing, percent));
        cells.extend(widths.iter().map(|(width, ..)| {
            pcie::payload_bytes_per_second(speed, *width, Some(payload), direction)
                .map_or(Cell::Nothing, |rate| gigabits(rate, 1))
        }));
    }
    TableRow { cells, source: PCIE_PACKETS }
}

/// Parallel buses.
pub(super) fn pci() -> Table {
    let row = |bus: &crate::rates::pcie::ParallelBusStandard| TableRow {
        cells: vec![
            text(bus.name),
            number(f64::from(bus.bits), 0),
            number(bus.mega_transfers.floor(), 0),
            megabytes(bus.bytes_per_second()),
            Cell::Nothing,
            text(bus.slots),
        ],
        source: bus.source,
    };
    Table {
        name: "pci",
        title: "PCI and PCI-X: MB/s of the whole bus, shared by all cards on it and both directions".into(),
        columns: vec![
            once("bus", "bus"),
            plain("bits", "bits"),
            plain("mt_per_second", "MT/s"),
            plain("rated_bytes_per_second", "rated"),
            plain("effective_bytes_per_second", "effective"),
            plain("slots", "slots"),
        ],
        rows: BUSES.iter().map(row).collect(),
    }
}

/// Between sockets, dies and the chipset.
pub(super) fn interconnect() -> Table {
    let links = interconnect::links();
    let rows = links.iter().map(|link| TableRow {
        cells: vec![
            text(link.name),
            short(link.gt_per_second),
            number(f64::from(link.bits), 0),
            gigabits(link.raw_bytes_per_second(), 1),
            gigabits(link.coded_bytes_per_second(), 1),
            gigabits(link.payload_bytes_per_second(), 1),
            number(link.payload_bytes_per_second() / 1e9, 1),
            text(format!("{:?}", link.confidence).to_lowercase()),
            text(link.note),
        ],
        source: link.source,
    });
    Table {
        name: "interconnect",
        title: "Links between sockets, dies and the chipset: Gb/s per direction and link".into(),
        columns: vec![
            once("link", "link"),
            plain("gt_per_second", "GT/s"),
            plain("bits", "bits"),
            plain("rated_bytes_per_second", "rated"),
            wide("coded_bytes_per_second", "coded"),
            plain("effective_bytes_per_second", "effective"),
            wide("effective_gigabytes_per_second", "GB/s"),
            plain("confidence", "sure"),
            once("note", "in"),
        ],
        rows: rows.collect(),
    }
}

/// Between a host and its disks.
pub(super) fn storage() -> Table {
    let links = storage::links();
    let rows = links.iter().map(|link| TableRow {
        cells: vec![
            text(link.bus),
            text(link.version),
            number(f64::from(link.lanes), 0),
            short((link.gigabits_per_lane * 1e6).round() / 1e6),
            text(link.coding.name()),
            megabytes(link.rated_bytes_per_second()),
            link.effective_bytes_per_second().map_or(Cell::Nothing, megabytes),
            text(link.note),
        ],
        source: link.source,
    });
    Table {
        name: "storage",
        title: "Links to disks: MB/s per direction; rated after the line code, effective less the frames \
                that the standard fixes"
            .into(),
        columns: vec![
            once("bus", "bus"),
            plain("version", "version"),
            wide("lanes", "lanes"),
            plain("gigabits_per_second_and_lane", "Gb/s a lane"),
            wide("coding", "coding"),
            plain("rated_bytes_per_second", "rated"),
            plain("effective_bytes_per_second", "effective"),
            once("note", "notes"),
        ],
        rows: rows.collect(),
    }
}

/// Kinds of disks.
pub(super) fn disks() -> Table {
    const MIB: f64 = 1_048_576.0;
    let rows = DISK_CLASSES.iter().map(|class| TableRow {
        cells: vec![
            text(class.name),
            megabytes(class.read_mib_per_second * MIB),
            megabytes(class.write_mib_per_second * MIB),
            short(class.read_ms),
            short(class.write_ms),
        ],
        source: CLASSES_SOURCE,
    });
    Table {
        name: "disks",
        title: "Disks of 2010: MB/s in sequence, milliseconds for one random access".into(),
        columns: vec![
            plain("disk", "disk"),
            plain("read_bytes_per_second", "read"),
            plain("write_bytes_per_second", "write"),
            plain("random_read_ms", "random read"),
            plain("random_write_ms", "random write"),
        ],
        rows: rows.collect(),
    }
}
