//! Links between a host and its disks: SATA, SAS, NVMe over PCIe, Fibre Channel, parallel SCSI, InfiniBand,
//! USB.
//!
//! Rated is what the line carries after its code; effective is that less the framing that the standard fixes.
//! Where a protocol's overhead depends on what is asked (SATA, SCSI, USB), there is no effective figure: a
//! measurement tells it.

use super::coding::Coding;
use super::pcie::{self, PayloadDirection};

/// A link of a standard, with all its lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StorageLink {
    /// `SATA`, `Fibre Channel` …
    pub bus: &'static str,
    /// `SATA 6`, `16GFC` …
    pub version: &'static str,
    /// Lanes (phys) per direction.
    pub lanes: u32,
    /// Bits per second and lane, giga; for parallel buses bits of all wires.
    pub gigabits_per_lane: f64,
    /// What the line code leaves.
    pub coding: Coding,
    /// What framing leaves of that.
    pub framing: Framing,
    /// A figure that the maker of the standard publishes where it differs from the formula, bytes per second.
    pub published_bytes_per_second: Option<f64>,
    /// What is to be known.
    pub note: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
}

/// How payload is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By no fixed rule.
    Open,
    /// Frames of SSP: 1024 bytes of data, header 24, CRC, start and end 4 each (T10 SPL).
    Sas,
    /// 16/17 of the line: the rates that the FCIA gives (100 MB/s of 106.25).
    FibreChannel,
    /// Packets of PCI Express to memory, MaxPayload 128, headers of 24 bytes.
    Pcie,
    /// Packets of 4096 bytes, headers and checks of 26: LRH 8, BTH 12, ICRC 4, VCRC 2.
    InfiniBand,
}

impl StorageLink {
    /// Bytes per second and direction on the line.
    pub(crate) fn line_bytes_per_second(&self) -> f64 {
        f64::from(self.lanes) * self.gigabits_per_lane * 1e9 / 8.0
    }

    /// Bytes per second and direction after the line code.
    pub fn rated_bytes_per_second(&self) -> f64 {
        self.line_bytes_per_second() * self.coding.share()
    }

    /// Bytes of payload per second and direction; none where no rule of the standard tells it.
    pub(crate) fn effective_bytes_per_second(&self) -> Option<f64> {
        let rated = self.rated_bytes_per_second();
        self.published_bytes_per_second.or(match self.framing {
            Framing::Open => None,
            Framing::Sas => Some(rated * 1024.0 / (1024.0 + 24.0 + 12.0)),
            Framing::FibreChannel => Some(rated * 16.0 / 17.0),
            Framing::InfiniBand => Some(rated * 4096.0 / (4096.0 + 26.0)),
            Framing::Pcie => pcie::payload_bytes_per_second(
                self.gigabits_per_lane,
                self.lanes,
                None,
                PayloadDirection::ToMemory,
            ),
        })
    }
}

/// A kind of disk as a whole, by what such disks sustain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskClass {
    pub name: &'static str,
    /// Sequential, MiB per second.
    pub read_mib_per_second: f64,
    pub write_mib_per_second: f64,
    /// One random access, milliseconds; the longest where a source has a range.
    pub read_ms: f64,
    pub write_ms: f64,
}

const fn class(name: &'static str, sequential: [f64; 2], random: [f64; 2]) -> DiskClass {
    let [read_mib_per_second, write_mib_per_second] = sequential;
    let [read_ms, write_ms] = random;
    DiskClass { name, read_mib_per_second, write_mib_per_second, read_ms, write_ms }
}

/// SARA, D1.3 (2010), table 6: typical sustained speed and random access time.
pub const CLASSES_SOURCE: &str =
    "SARA D1.3 (2010), table 6; flash that must erase a block first writes in 20 ms";
pub const DISK_CLASSES: [DiskClass; 5] = [
    class("hard disk, high capacity", [70.0, 70.0], [11.0, 6.0]),
    class("hard disk, high performance", [120.0, 120.0], [6.0, 5.0]),
    class("SSD, multi-level cells", [250.0, 70.0], [0.2, 20.0]),
    class("SSD, single-level cells", [250.0, 70.0], [0.2, 20.0]),
    class("SSD of DRAM", [500.0, 300.0], [0.03, 0.1]),
];

const SATA: StorageLink = StorageLink {
    bus: "SATA",
    version: "",
    lanes: 1,
    gigabits_per_lane: 0.0,
    coding: Coding::B8b10,
    framing: Framing::Open,
    published_bytes_per_second: None,
    note: "",
    source: "SATA-IO, Serial ATA 3.x: one direction at a time",
};
const SAS: StorageLink = StorageLink {
    bus: "SAS",
    framing: Framing::Sas,
    source: "INCITS T10, SAS and SPL: both directions at once",
    ..SATA
};
const NVME: StorageLink = StorageLink {
    bus: "NVMe over PCIe",
    framing: Framing::Pcie,
    source: "PCI Express base specification; a disk that is read, MaxPayload 128",
    ..SATA
};
const SCSI: StorageLink = StorageLink {
    bus: "Parallel SCSI",
    coding: Coding::None,
    note: "shared by all targets, one direction at a time",
    source: "INCITS T10, SPI-3 to SPI-5: 16 bits, double data rate",
    ..SATA
};
const FC: StorageLink = StorageLink {
    bus: "Fibre Channel",
    framing: Framing::FibreChannel,
    source: "INCITS T11, FC-PI; FCIA roadmap (throughput per direction)",
    ..SATA
};
const IB: StorageLink = StorageLink {
    bus: "InfiniBand",
    lanes: 4,
    framing: Framing::InfiniBand,
    source: "IBTA, InfiniBand Architecture, volumes 1 and 2; packets of 4096 bytes",
    ..SATA
};
const USB: StorageLink =
    StorageLink { bus: "USB", source: "USB-IF, USB 3.2", note: "external disks", ..SATA };

const fn link(kind: StorageLink, version: &'static str, lanes: u32, gigabits: f64) -> StorageLink {
    StorageLink { version, lanes, gigabits_per_lane: gigabits, ..kind }
}

const fn coded(coding: Coding, link: StorageLink) -> StorageLink {
    StorageLink { coding, ..link }
}

const fn noted(note: &'static str, link: StorageLink) -> StorageLink {
    StorageLink { note, ..link }
}

use Coding::{B64b66, B128b130, B128b132, B128b150, Rs528, Rs544};

/// By bus, slowest first.
pub const LINKS: [StorageLink; 39] = [
    link(SATA, "SATA 1.5", 1, 1.5),
    link(SATA, "SATA 3", 1, 3.0),
    noted("disks reach about 550 MB/s", link(SATA, "SATA 6", 1, 6.0)),
    link(SAS, "SAS-1", 1, 3.0),
    link(SAS, "SAS-2", 1, 6.0),
    link(SAS, "SAS-3", 1, 12.0),
    coded(B128b150, link(SAS, "SAS-4 (24G)", 1, 22.5)),
    noted("usual uplink of an HBA or expander", link(SAS, "SAS-2 x4 wide", 4, 6.0)),
    noted("usual uplink of an HBA or expander", link(SAS, "SAS-3 x4 wide", 4, 12.0)),
    noted("an HBA in PCIe 3.0 x8 has 7.88 GB/s, less", link(SAS, "SAS-3 x8 HBA", 8, 12.0)),
    link(NVME, "gen2 x2", 2, 5.0),
    link(NVME, "gen2 x4", 4, 5.0),
    coded(B128b130, link(NVME, "gen3 x2", 2, 8.0)),
    coded(B128b130, link(NVME, "gen3 x4", 4, 8.0)),
    coded(B128b130, link(NVME, "gen4 x2", 2, 16.0)),
    coded(B128b130, link(NVME, "gen4 x4", 4, 16.0)),
    coded(B128b130, link(NVME, "gen5 x2", 2, 32.0)),
    coded(B128b130, link(NVME, "gen5 x4", 4, 32.0)),
    link(SCSI, "Ultra160", 1, 16.0 * 0.08),
    link(SCSI, "Ultra320", 1, 16.0 * 0.16),
    link(FC, "1GFC", 1, 1.0625),
    link(FC, "2GFC", 1, 2.125),
    link(FC, "4GFC", 1, 4.25),
    link(FC, "8GFC", 1, 8.5),
    coded(B64b66, link(FC, "10GFC", 1, 10.51875)),
    coded(B64b66, link(FC, "16GFC", 1, 14.025)),
    coded(Rs528, link(FC, "32GFC", 1, 28.05)),
    noted("PAM4, 28.9 GBd", coded(Rs544, link(FC, "64GFC", 1, 2.0 * 28.9))),
    noted("4 × 32GFC", coded(Rs528, link(FC, "128GFC parallel (Gen6)", 4, 28.05))),
    StorageLink {
        published_bytes_per_second: Some(12_425e6),
        ..noted("PAM4, 56.1 GBd", coded(Rs544, link(FC, "128GFC serial (Gen8)", 1, 2.0 * 56.1)))
    },
    link(IB, "SDR 4x", 4, 2.5),
    link(IB, "DDR 4x", 4, 5.0),
    link(IB, "QDR 4x", 4, 10.0),
    coded(B64b66, link(IB, "FDR10 4x", 4, 10.3125)),
    coded(B64b66, link(IB, "FDR 4x", 4, 14.0625)),
    coded(B64b66, link(IB, "EDR 4x", 4, 25.78125)),
    noted("PAM4, 26.5625 GBd", coded(Rs544, link(IB, "HDR 4x", 4, 2.0 * 26.5625))),
    noted("PAM4, 53.125 GBd", coded(Rs544, link(IB, "NDR 4x", 4, 2.0 * 53.125))),
    coded(B128b132, link(USB, "USB 3.2 Gen2", 1, 10.0)),
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn literal_figures_of_the_standards() {
        let find = |version: &str| LINKS.iter().find(|link| link.version == version).expect("a link");
        assert_eq!(find("SATA 6").rated_bytes_per_second(), 600e6);
        assert_eq!(find("Ultra320").rated_bytes_per_second(), 320e6);
        assert_eq!(find("SATA 6").effective_bytes_per_second(), None);
        let fibre = |version| find(version).effective_bytes_per_second().expect("a rate") / 1e6;
        assert!((fibre("8GFC") - 800.0).abs() < 1e-6 && (fibre("32GFC") - 3200.0).abs() < 1e-6);
        // A disk of gen 3 x4 writes to memory at 3317 MB/s with MaxPayload 128.
        assert_eq!(fibre("gen3 x4").round(), 3317.0);
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("storage") else { return };
        assert_eq!(rows.len(), LINKS.len());
        for (row, link) in rows.iter().zip(&LINKS) {
            assert_eq!((row["bus"].as_str(), row["version"].as_str()), (link.bus, link.version));
            assert_eq!(tables::number(row, "lanes"), Some(f64::from(link.lanes)));
            // PAM4 rows print symbols, two bits each.
            let symbols = if link.note.starts_with("PAM4") { 2.0 } else { 1.0 };
            if let Some(line) = tables::number(row, "line_gbps_per_lane") {
                assert!((line * symbols - link.gigabits_per_lane).abs() < 1e-9, "{row:?}");
            }
            // The FCIA counts what frames leave; the other rows what the code leaves.
            let usable = match link.framing {
                Framing::FibreChannel => link.effective_bytes_per_second().expect("a rate"),
                _ => link.rated_bytes_per_second(),
            };
            let megabytes = tables::number(row, "usable_MBps").expect("a rate");
            assert!((megabytes - usable / 1e6).abs() < 0.051, "{row:?} {usable}");
            let gigabits = tables::number(row, "usable_gbps (per direction)").expect("a rate");
            assert!((gigabits - usable * 8.0 / 1e9).abs() < 5.1e-5, "{row:?} {usable}");
        }
    }

    #[test]
    fn what_the_table_notes_of_nvme() {
        let Some(rows) = tables::rows("storage") else { return };
        for (row, link) in rows.iter().zip(&LINKS).filter(|(_, link)| link.framing == Framing::Pcie) {
            let figure =
                row["notes"].rsplit_once("with MPS 128: ").and_then(|(_, rest)| rest.split(' ').next());
            let expected: f64 = figure.expect("a note").parse().expect("a number");
            let ours = link.effective_bytes_per_second().expect("a rate") / 1e6;
            assert!((ours - expected).abs() <= 0.51, "{row:?} {ours}");
        }
    }
}
