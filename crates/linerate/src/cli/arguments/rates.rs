//! `linerate plan rates`.

use super::values::{Choices, one_of};
use clap::Args;
use linerate_machine::rates::table::TableKind;

/// `linerate plan rates`.
#[derive(Debug, Args)]
pub struct RatesArgs {
    /// What to show the rates of [default: everything]
    #[arg(value_parser = one_of(TABLES), value_name = "TABLE")]
    pub table: Option<TableKind>,
    #[arg(from_global)]
    pub json: bool,
}

/// `linerate plan rates TABLE`.
const TABLES: Choices<TableKind> = &[
    ("pcie", "PCI Express 1 to 7, PCI, PCI-X", TableKind::Pcie),
    ("memory", "DDR to DDR5, channels and DIMMs of server processors", TableKind::Memory),
    ("interconnect", "QPI, UPI, HyperTransport, xGMI, DMI, CXL", TableKind::Interconnect),
    ("ethernet", "1G to 800G: physical layers, media, reaches, goodput", TableKind::Ethernet),
    ("otn", "G.709 and SDH", TableKind::Otn),
    ("storage", "SATA, SAS, NVMe, SCSI, Fibre Channel, InfiniBand, USB", TableKind::Storage),
    ("loads", "What an accelerator of MLPerf Storage reads: names for plan --each", TableKind::Loads),
    ("instances", "What a cloud promises of its instances: network and volumes", TableKind::Instances),
];
