//! `linerate rates`: the published rates as tables, and the goodput of a link.

use super::arguments::PROTOCOLS;
use super::arguments::values::{Choices, bytes, one_of, rate};
use super::commands::{colour, print, print_json, width};
use clap::{Args, Subcommand};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::ethernet::Stack;
use linerate_machine::rates::table::{GoodputQuery, KINDS, Table, TableKind, goodput, tables};
use linerate_report as report;

/// Narrower screens wrap the lines themselves.
const LEAST_WIDTH: usize = 80;
/// The largest IP packet without jumbograms (RFC 791).
const LARGEST_MTU: u32 = 65_535;

/// `linerate rates`.
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

/// What else `linerate rates` computes.
#[derive(Debug, Subcommand)]
pub enum RatesWhat {
    /// What a network link carries of payload, and how many packets a second, by MTU, VLAN tags and protocol
    Goodput(GoodputArgs),
}

/// `linerate rates goodput`.
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
    /// What the packets carry
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "both")]
    pub protocol: &'static [Protocol],
    /// IPv6 instead of IPv4
    #[arg(long)]
    pub ipv6: bool,
    /// TCP without timestamps, which Linux sends unless net.ipv4.tcp_timestamps is 0
    #[arg(long)]
    pub no_timestamps: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

/// `linerate rates TABLE`.
const TABLES: Choices<TableKind> = &[
    ("pcie", "PCI Express 1 to 7, PCI, PCI-X", TableKind::Pcie),
    ("memory", "DDR to DDR5, channels and DIMMs of server processors", TableKind::Memory),
    ("interconnect", "QPI, UPI, HyperTransport, xGMI, DMI, CXL", TableKind::Interconnect),
    ("ethernet", "1G to 800G: physical layers, media, reaches, goodput", TableKind::Ethernet),
    ("otn", "G.709 and SDH", TableKind::Otn),
    ("storage", "SATA, SAS, NVMe, SCSI, Fibre Channel, InfiniBand, USB", TableKind::Storage),
];

/// Does `linerate rates`.
pub(super) fn rates(words: &RatesArgs) -> Result<u8, Failure> {
    if let Some(RatesWhat::Goodput(words)) = &words.what {
        let ask = GoodputQuery {
            link_bytes_per_second: words.link,
            mtu: words.mtu,
            tags: words.vlan_tags,
            stacks: words.protocol.iter().map(|protocol| stack(words, *protocol)).collect(),
        };
        let table = goodput(&ask).map_err(|why| Failure::Usage(format!("--mtu: {why}")))?;
        return show(&[table], words.json);
    }
    let kinds = words.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    show(&kinds.into_iter().flat_map(tables).collect::<Vec<_>>(), words.json)
}

fn stack(words: &GoodputArgs, protocol: Protocol) -> Stack {
    match (protocol, words.no_timestamps, words.ipv6) {
        (Protocol::Udp, _, ipv6) => Stack::udp(ipv6),
        (Protocol::Tcp, false, ipv6) => Stack::tcp(ipv6),
        (Protocol::Tcp, true, false) => Stack::Tcp4,
        (Protocol::Tcp, true, true) => Stack::Tcp6,
    }
}

fn show(tables: &[Table], json: bool) -> Result<u8, Failure> {
    if json {
        print_json(tables)?;
    } else {
        print(&report::rates(tables, width().max(LEAST_WIDTH), colour()))?;
    }
    Ok(0)
}
