//! `linerate plan rates`.

use super::values::{Choices, bytes, one_of, rate};
use clap::{Args, Subcommand};
use linerate_machine::rates::table::TableKind;

/// The largest IP packet without jumbograms (RFC 791).
const LARGEST_MTU: u32 = 65_535;

/// `linerate plan rates`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RatesArgs {
    #[command(subcommand)]
    pub what: Option<RatesWhat>,
    /// What to show the rates of [default: everything]
    #[arg(value_parser = one_of(TABLES), value_name = "TABLE")]
    pub table: Option<TableKind>,
    /// Print the tables as JSON, bytes per second unless a field says otherwise
    #[arg(long)]
    pub json: bool,
}

/// What else `linerate plan rates` computes.
#[derive(Debug, Subcommand)]
pub enum RatesWhat {
    /// What a network link carries of payload, and how many packets a second, by MTU, VLAN tags and protocol
    Goodput(GoodputArgs),
}

/// `linerate plan rates goodput`.
#[derive(Debug, Args)]
pub struct GoodputArgs {
    /// Rate of the link, such as 100G or 12.5GB/s
    #[arg(long, value_name = "RATE", value_parser = rate(1e3..=1.25e14))]
    pub link: f64,
    /// Largest IP packet, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = bytes(1..=LARGEST_MTU))]
    pub mtu: u32,
    /// VLAN tags in each frame: 1 for 802.1Q, 2 for 802.1ad
    #[arg(long, value_name = "TAGS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
    pub vlan_tags: u32,
    /// Print the table as JSON
    #[arg(long)]
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
