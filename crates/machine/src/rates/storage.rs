//! Links between a host and its disks: SATA, SAS, NVMe over PCIe, Fibre Channel, parallel SCSI, InfiniBand,
//! USB.
//!
//! Rated is what the line carries after its code; effective is that less the framing that the standard fixes.
//! Where a protocol's overhead depends on what is asked (SATA, SCSI, USB), there is no effective figure: a
//! measurement shows it.

use super::overhead::Coding;
use super::pcie::{self, PayloadDirection};
use super::rows;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
pub enum Framing {
    /// By no fixed rule.
    #[strum(serialize = "open")]
    Open,
    /// Frames of SSP: 1024 bytes of data, header 24, CRC, start and end 4 each (T10 SPL).
    #[strum(serialize = "SAS")]
    Sas,
    /// 16/17 of the line: the rates that the FCIA gives (100 MB/s of 106.25).
    #[strum(serialize = "Fibre Channel")]
    FibreChannel,
    /// Packets of PCI Express to memory, MaxPayload 128, headers of 24 bytes.
    #[strum(serialize = "PCIe")]
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

    /// Bytes of payload per second and direction; none where no rule of the standard gives it.
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

/// By bus, slowest first.
pub fn links() -> Vec<StorageLink> {
    rows(
        include_str!("storage.txt"),
        |[bus, version, lanes, gigabits, coding, framing, published, note], source| {
            Some(StorageLink {
                bus,
                version,
                lanes: lanes.parse().ok()?,
                gigabits_per_lane: gigabits.parse().ok()?,
                coding: coding.parse().ok()?,
                framing: framing.parse().ok()?,
                published_bytes_per_second: published.parse().ok(),
                note,
                source,
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn literal_figures_of_the_standards() {
        let links = links();
        let find = |version: &str| links.iter().find(|link| link.version == version).expect("a link");
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
        let links = links();
        assert_eq!(rows.len(), links.len());
        for (row, link) in rows.iter().zip(&links) {
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
        for (row, link) in rows.iter().zip(&links()).filter(|(_, link)| link.framing == Framing::Pcie) {
            let figure =
                row["notes"].rsplit_once("with MPS 128: ").and_then(|(_, rest)| rest.split(' ').next());
            let expected: f64 = figure.expect("a note").parse().expect("a number");
            let ours = link.effective_bytes_per_second().expect("a rate") / 1e6;
            assert!((ours - expected).abs() <= 0.51, "{row:?} {ours}");
        }
    }
}
