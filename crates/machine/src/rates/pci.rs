//! PCI and PCI-X: parallel buses, shared by all devices on them and by both directions.
//!
//! Width × clock. What arbitration, wait states and the address phases leave depends on the burst length that
//! the devices agree on; no figure of the bus reports it.

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
    use super::*;

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
