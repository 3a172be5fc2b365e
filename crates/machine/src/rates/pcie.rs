//! PCI Express: what a link carries per direction, after its encoding and after the headers of its transaction
//! packets.
//!
//! Gen 1 and 2 use 8b/10b, gen 3 to 5 128b/130b, gen 6 and 7 PAM4 with 256-byte FLITs (PCIe base
//! specification; the same shares are in the kernel's `PCIE_SPEED2MBS_ENC`, `include/linux/pci.h`). A packet
//! of up to `MaxPayload` bytes pays 8 bytes of framing, sequence number and LCRC, and a header: 16 bytes for a
//! memory write to a 64-bit address, 12 for a completion. In FLIT mode the framing is part of the FLIT: 236 of
//! its 256 bytes carry packets.
//!
//! Acknowledge and flow-control packets take a further 2–3 % of real links, by a share that depends on the
//! credits of both ends. No register reports it, so it is not deducted: an effective figure is what a link can
//! at most carry.
//!
//! PCI and PCI-X came before it: parallel buses, shared by all devices on them and by both directions.
//!
//! They carry width × clock. What arbitration, wait states and the address phases leave depends on the burst
//! length that the devices agree on; no figure of the bus reports it.

/// The smallest MaxPayload that the specification allows.
pub const SMALLEST_MAX_PAYLOAD_BYTES: u32 = 128;
/// The largest that processors of today take (AMD EPYC 512, Intel Xeon 256).
const BEST_MAX_PAYLOAD_BYTES: u32 = 512;
/// The least that a packet of data has around its payload: a header of 12 bytes and 8 of framing.
const LEAST_OVERHEAD_BYTES: f64 = 20.0;
/// Of that framing, sequence number and LCRC.
const FRAMING_BYTES: f64 = 8.0;
/// From this speed on, generation 3, ports of servers take 256 bytes (Intel Xeon E5, “Datasheet, volume two”:
/// Max_Payload_Size Supported); before it mostly 128.
const GENERATION_3_GT_PER_SECOND: f64 = 8.0;

/// MaxPayload that is usual, where it could not be read.
pub fn usual_max_payload_bytes(gt_per_second: f64) -> u32 {
    if gt_per_second < GENERATION_3_GT_PER_SECOND { SMALLEST_MAX_PAYLOAD_BYTES } else { 256 }
}

/// The most that a link can carry: MaxPayload as it was read, or 512; addresses of 32 bits, since which ones a
/// device uses cannot be read. None as with `payload_bytes_per_second`.
pub fn best_payload_bytes_per_second(
    gt_per_second: f64,
    width: u32,
    max_payload_bytes: Option<u32>,
) -> Option<f64> {
    let (transfers, coding) = lanes(gt_per_second, width)?;
    let payload = f64::from(max_payload_bytes.unwrap_or(BEST_MAX_PAYLOAD_BYTES).max(1));
    let around = LEAST_OVERHEAD_BYTES - FRAMING_BYTES + f64::from(coding.framing_bytes);
    Some(transfers * coding.packets / 8.0 * payload / (payload + around))
}

/// Which way the payload crosses the link, seen from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadDirection {
    /// The device writes to memory: a disk that reads its medium, a NIC that receives. Memory writes with
    /// 64-bit addresses.
    ToMemory,
    /// The device reads from memory: a NIC that sends. The payload comes as completions.
    FromMemory,
}

/// A generation of the specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generation {
    /// 1 to 7.
    pub number: u32,
    /// `3.0/3.1`.
    pub version: &'static str,
    /// Year of the first.
    pub year: u32,
    /// Giga-transfers per second and lane.
    pub gt_per_second: f64,
    /// Code of the line.
    pub coding: &'static str,
}

/// All generations, oldest first.
pub const GENERATIONS: [Generation; 7] = [
    generation(1, "1.0/1.1", 2003, 2.5, "8b/10b"),
    generation(2, "2.0/2.1", 2007, 5.0, "8b/10b"),
    generation(3, "3.0/3.1", 2010, 8.0, "128b/130b"),
    generation(4, "4.0", 2017, 16.0, "128b/130b"),
    generation(5, "5.0", 2019, 32.0, "128b/130b"),
    generation(6, "6.x", 2022, 64.0, "PAM4, FLIT"),
    generation(7, "7.0", 2025, 128.0, "PAM4, FLIT"),
];

const fn generation(
    number: u32,
    version: &'static str,
    year: u32,
    gt_per_second: f64,
    coding: &'static str,
) -> Generation {
    Generation { number, version, year, gt_per_second, coding }
}

/// How a generation puts bytes on the wire.
#[derive(Clone, Copy, Debug)]
struct Coding {
    /// Share of the transfers that is packet and link data (`raw`).
    raw: f64,
    /// Share that is transaction packets.
    packets: f64,
    /// Bytes of a packet besides payload and header.
    framing_bytes: u32,
}

/// Bytes per second and direction after the encoding; `None` where no generation has this speed or the width
/// is 0.
///
/// `gt_per_second` is in giga-transfers per second per lane as sysfs shows it, `width` in lanes.
pub fn raw_bytes_per_second(gt_per_second: f64, width: u32) -> Option<f64> {
    lanes(gt_per_second, width).map(|(transfers, coding)| transfers * coding.raw / 8.0)
}

/// Payload bytes per second and direction, with every packet filled to `max_payload_bytes` (`None`: 128, the
/// smallest allowed).
pub fn payload_bytes_per_second(
    gt_per_second: f64,
    width: u32,
    max_payload_bytes: Option<u32>,
    direction: PayloadDirection,
) -> Option<f64> {
    let (transfers, coding) = lanes(gt_per_second, width)?;
    let share = payload_share(gt_per_second, max_payload_bytes, direction)?;
    Some(transfers * coding.packets / 8.0 * share)
}

/// Payload ÷ (payload + overhead) of one full packet: `MaxPayload / (MaxPayload + 24)` for writes up to gen
/// 5.
pub fn payload_share(
    gt_per_second: f64,
    max_payload_bytes: Option<u32>,
    direction: PayloadDirection,
) -> Option<f64> {
    let coding = coding(gt_per_second)?;
    let payload = f64::from(max_payload_bytes.unwrap_or(SMALLEST_MAX_PAYLOAD_BYTES).max(1));
    let header_bytes = match direction {
        PayloadDirection::ToMemory => 16,
        PayloadDirection::FromMemory => 12,
    };
    Some(payload / (payload + f64::from(coding.framing_bytes + header_bytes)))
}

/// Transfers per second of all lanes, and their coding.
fn lanes(gt_per_second: f64, width: u32) -> Option<(f64, Coding)> {
    let coding = coding(gt_per_second)?;
    (1..=32).contains(&width).then(|| (gt_per_second * 1e9 * f64::from(width), coding))
}

fn coding(gt_per_second: f64) -> Option<Coding> {
    let known = |speeds: &[f64]| speeds.iter().any(|speed| (speed - gt_per_second).abs() < 1e-6);
    if known(&[2.5, 5.0]) {
        Some(Coding { raw: 0.8, packets: 0.8, framing_bytes: 8 })
    } else if known(&[8.0, 16.0, 32.0]) {
        Some(Coding { raw: 128.0 / 130.0, packets: 128.0 / 130.0, framing_bytes: 8 })
    } else if known(&[64.0, 128.0]) {
        Some(Coding { raw: 242.0 / 256.0, packets: 236.0 / 256.0, framing_bytes: 0 })
    } else {
        None
    }
}

/// A bus as its specification names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelBusStandard {
    /// `PCI`, `PCI-X`.
    pub name: &'static str,
    /// Data bits.
    pub bits: u32,
    /// Transfers per second, mega: the clock, or a multiple of it (PCI-X 2.0).
    pub mega_transfers: f64,
    /// Devices that may share a bus at this clock.
    pub slots: &'static str,
    /// Where the figure comes from.
    pub source: &'static str,
}

impl ParallelBusStandard {
    /// Bytes per second of the whole bus.
    pub fn bytes_per_second(&self) -> f64 {
        bytes_per_second(self.bits, self.mega_transfers)
    }
}

/// Bytes per second of a parallel bus: `bits` of data, this many million transfers a second.
pub fn bytes_per_second(bits: u32, mega_transfers: f64) -> f64 {
    f64::from(bits) / 8.0 * mega_transfers * 1e6
}

const PCI: &str = "PCI-SIG, PCI Local Bus Specification 3.0";
const PCI_X: &str = "PCI-SIG, PCI-X Addendum 1.0b";
const PCI_X_2: &str = "PCI-SIG, PCI-X Protocol Addendum 2.0";

/// 33, 66, 100 and 133 MHz are thirds of 100, 200, 300 and 400 MHz.
const fn bus(
    name: &'static str,
    bits: u32,
    thirds: u32,
    slots: &'static str,
    source: &'static str,
) -> ParallelBusStandard {
    ParallelBusStandard { name, bits, mega_transfers: thirds as f64 * 100.0 / 3.0, slots, source }
}

/// The buses of servers before PCI Express.
pub(crate) const BUSES: [ParallelBusStandard; 10] = [
    bus("PCI", 32, 1, "4 to 5", PCI),
    bus("PCI", 64, 1, "4 to 5", PCI),
    bus("PCI", 32, 2, "2", PCI),
    bus("PCI", 64, 2, "2", PCI),
    bus("PCI-X", 64, 2, "4", PCI_X),
    bus("PCI-X", 32, 4, "1", PCI_X),
    bus("PCI-X", 64, 3, "2", PCI_X),
    bus("PCI-X", 64, 4, "1", PCI_X),
    bus("PCI-X 2.0", 64, 8, "1", PCI_X_2),
    bus("PCI-X 2.0", 64, 16, "1", PCI_X_2),
];

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    /// `expected` is as the table prints it, with that many decimals.
    fn same(ours: f64, expected: f64, decimals: i32) -> bool {
        (ours - expected).abs() <= 0.5 * 10f64.powi(-decimals) + 1e-9
    }

    #[test]
    fn literal_figures_of_the_specification() {
        // Gen 3 x8, 128b/130b: 63.0154 Gb/s; gen 2 x4: 2 GB/s (PCIe base specification, chapter 4).
        assert!(same(raw_bytes_per_second(8.0, 8).expect("gen 3") * 8.0 / 1e9, 63.0154, 4));
        assert!(same(raw_bytes_per_second(5.0, 4).expect("gen 2"), 2e9, 0));
        // 128 / (128 + 24) and 128 / (128 + 20).
        let share = |direction| payload_share(8.0, None, direction).expect("gen 3");
        assert!(same(share(PayloadDirection::ToMemory), 0.84211, 5));
        assert!(same(share(PayloadDirection::FromMemory), 0.86486, 5));
        // Gen 3 x8 with MaxPayload 256 moves 57.6 Gb/s to memory.
        let payload = payload_bytes_per_second(8.0, 8, Some(256), PayloadDirection::ToMemory).expect("gen 3");
        assert!(same(payload * 8.0 / 1e9, 57.614, 3));
    }

    #[test]
    fn sara_table_1_of_d1_1_and_table_5_of_d1_3() {
        let gigabits = |speed, width| raw_bytes_per_second(speed, width).expect("a generation") * 8.0 / 1e9;
        assert_eq!([gigabits(2.5, 4), gigabits(2.5, 8)], [8.0, 16.0]);
        assert_eq!([gigabits(5.0, 4), gigabits(5.0, 8)], [16.0, 32.0]);
        for (speed, printed) in [
            (2.5, ["2.0", "8.0", "16.0", "32.0"]),
            (5.0, ["4.0", "16.0", "32.0", "64.0"]),
            (8.0, ["7.9", "31.5", "63.0", "126.0"]),
        ] {
            assert_eq!([1, 4, 8, 16].map(|width| format!("{:.1}", gigabits(speed, width))), printed);
        }
        // D1.1, section 2: "36 PCI Express 2.0 lanes of 500 MB/s each, for a peak transfer rate of 18 GB/s".
        assert_eq!(36.0 * gigabits(5.0, 1) / 8.0, 18.0);
    }

    #[test]
    fn what_is_no_link_has_no_rate() {
        for (speed, width) in [(0.0, 8), (3.0, 8), (f64::NAN, 8), (8.0, 0), (8.0, 255), (-8.0, 4)] {
            assert_eq!(raw_bytes_per_second(speed, width), None, "{speed} x{width}");
            assert_eq!(payload_bytes_per_second(speed, width, Some(0), PayloadDirection::ToMemory), None);
        }
    }

    #[test]
    fn equal_to_the_reference_table() {
        let Some(rows) = tables::rows("pcie") else { return };
        assert_eq!(rows.len(), 7);
        for (row, generation) in rows.iter().zip(GENERATIONS) {
            let number = |column: &str| tables::number(row, column).expect("a number");
            let speed = number("gt_s_per_lane");
            assert_eq!((speed, row["spec"].as_str()), (generation.gt_per_second, generation.version));
            assert_eq!(number("gen"), f64::from(generation.number));
            assert_eq!(number("year"), f64::from(generation.year));
            let lane = raw_bytes_per_second(speed, 1).expect("a generation") * 8.0 / 1e9;
            assert!(same(lane, number("gbps_per_lane"), 4), "{speed}");
            assert!(same(lane / speed, number("encoding_eff"), 6), "{speed}");
            // The kernel cuts to whole megabits, and does not count the FLIT's checks.
            let kernel = if generation.number < 6 { (lane * 1e3).floor() } else { speed * 1e3 };
            assert_eq!(kernel, number("kernel_PCIE_SPEED2MBS_ENC_mbps_per_lane"));
            for width in [4, 8, 16] {
                let bytes = raw_bytes_per_second(speed, width).expect("a generation") / 1e9;
                assert!(same(bytes, number(&format!("GBps_x{width}")), 4), "{speed} x{width}");
            }
            for width in [1, 2, 4, 8, 16] {
                let ours = raw_bytes_per_second(speed, width).expect("a generation") * 8.0 / 1e9;
                assert!(same(ours, number(&format!("gbps_x{width}")), 4), "{speed} x{width}");
            }
            for payload in [128, 256, 512] {
                let share = |direction| payload_share(speed, Some(payload), direction).expect("a generation");
                let column = |overhead: &str| number(&format!("tlp_eff_mps{payload}_{overhead}"));
                assert!(
                    same(share(PayloadDirection::FromMemory), column("oh20_cpld"), 5),
                    "{speed} {payload}"
                );
                assert!(same(share(PayloadDirection::ToMemory), column("oh24"), 5), "{speed} {payload}");
                // With the optional end-to-end check, 4 bytes more.
                let whole = f64::from(payload) / share(PayloadDirection::ToMemory);
                assert!(same(f64::from(payload) / (whole + 4.0), column("oh28"), 5), "{speed} {payload}");
                for width in [4, 8, 16] {
                    let ours =
                        payload_bytes_per_second(speed, width, Some(payload), PayloadDirection::ToMemory);
                    let theirs = number(&format!("gbps_x{width}_mps{payload}_oh24"));
                    assert!(same(ours.expect("a generation") * 8.0 / 1e9, theirs, 3), "{speed} {payload}");
                }
            }
        }
    }

    #[test]
    fn nvme_links_of_the_storage_table() {
        let Some(rows) = tables::rows("storage") else { return };
        let nvme: Vec<_> = rows.iter().filter(|row| row["bus"] == "NVMe over PCIe").collect();
        assert_eq!(nvme.len(), 8);
        for row in nvme {
            let speed = tables::number(row, "line_gbps_per_lane").expect("a line rate");
            let width = tables::number(row, "lanes").expect("lanes") as u32;
            let ours = raw_bytes_per_second(speed, width).expect("a generation") / 1e6;
            let theirs = tables::number(row, "usable_MBps").expect("a rate");
            assert!(same(ours, theirs, 1), "{} {ours} {theirs}", row["version"]);
        }
    }

    #[test]
    fn a_133_mhz_bus_carries_1_07_gb_a_second() {
        // openBench Labs, I/O, I/O (2003): "bridges that can individually provide 1.07GB per second of peak
        // I/O bandwidth".
        let fastest =
            BUSES.iter().find(|bus| bus.name == "PCI-X" && bus.mega_transfers > 133.0 && bus.bits == 64);
        assert_eq!((fastest.expect("a bus").bytes_per_second() / 1e7).round(), 107.0);
        // A 64-bit 66 MHz PCI bus: 533 MB/s; a 32-bit 33 MHz one: 133.
        assert_eq!((bytes_per_second(64, 200.0 / 3.0) / 1e6).round(), 533.0);
        assert_eq!((bytes_per_second(32, 100.0 / 3.0) / 1e6).round(), 133.0);
    }
}
