//! Tables of networks: Ethernet's physical layers, what each rate carries, the optical transport network; and
//! the goodput of one link.

use super::{Cell, Table, TableRow, bits, gigabits, gigabytes, number, percent, plain, text, wide};
use crate::rates::ethernet::{self, Goodput, Stack, most_frames_per_second};
use crate::rates::otn;
use crate::rates::phy::{self, Phy};

const PHY_SOURCE: &str = "IEEE 802.3 and its amendments; the rate follows from lanes, symbols and code";
const FRAME_SOURCE: &str = "IEEE 802.3: 38 bytes a frame beside the MTU, 4 more for each VLAN tag; headers \
                            by RFC 791, 8200, 768, 9293, 7323";

/// Physical layers with their medium.
pub(super) fn phys() -> Table {
    let row = |phy: &Phy| TableRow {
        cells: vec![
            text(phy.name),
            text(phy.standard),
            sold_as(phy.mac_bytes_per_second()),
            gigabits(phy.line_bytes_per_second(), 4),
            text(format!("{} × {} {}", phy.lanes, phy.gigabaud, phy.modulation.name())),
            text(phy.coding.name()),
            text(phy.medium),
        ],
        source: PHY_SOURCE,
    };
    Table {
        name: "ethernet",
        title: "Ethernet: rated Gb/s of the MAC, lanes × GBd, medium and reach (MMF, OM3, OM4: multimode, \
                SMF: single mode)"
            .into(),
        columns: vec![
            plain("phy", "PHY"),
            wide("standard", "standard"),
            plain("rated_bytes_per_second", "rated"),
            wide("line_bytes_per_second", "line"),
            plain("lanes", "lanes × GBd"),
            wide("coding", "code"),
            plain("medium", "medium"),
        ],
        rows: phy::all().iter().map(row).collect(),
    }
}

/// Each rate that a PHY has, once, with its goodput.
pub(super) fn rates() -> Table {
    let mut rates: Vec<f64> = phy::all().iter().map(Phy::mac_bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup_by(|a, b| (*a - *b).abs() < 1.0);
    let row = |rate: &f64| {
        let of = |mtu, stack| ethernet::goodput(*rate, mtu, stack, 0);
        let share =
            |mtu, stack| of(mtu, stack).map_or(Cell::Nothing, |seen| gigabits(seen.bytes_per_second, 3));
        let packets =
            |mtu| of(mtu, Stack::Udp4).map_or(Cell::Nothing, |seen| millions(seen.packets_per_second));
        TableRow {
            cells: vec![
                sold_as(*rate),
                share(1500, Stack::Tcp4Timestamps),
                share(1500, Stack::Udp4),
                share(9000, Stack::Tcp4Timestamps),
                share(9000, Stack::Udp4),
                millions(most_frames_per_second(*rate)),
                packets(1500),
                packets(9000),
            ],
            source: FRAME_SOURCE,
        }
    };
    Table {
        name: "ethernet-goodput",
        title: "Ethernet, effective: Gb/s of payload over IPv4 (TCP with timestamps) and million frames a \
                second; \
                other packets: `linerate plan rates goodput`"
            .into(),
        columns: vec![
            plain("rated_bytes_per_second", "rated"),
            plain("effective_tcp_mtu1500_bytes_per_second", "TCP 1500"),
            plain("effective_udp_mtu1500_bytes_per_second", "UDP 1500"),
            plain("effective_tcp_mtu9000_bytes_per_second", "TCP 9000"),
            plain("effective_udp_mtu9000_bytes_per_second", "UDP 9000"),
            plain("frames_per_second_smallest", "M/s of 64 B"),
            plain("frames_per_second_mtu1500", "of 1500"),
            plain("frames_per_second_mtu9000", "of 9000"),
        ],
        rows: rates.iter().map(row).collect(),
    }
}

/// The rate of a MAC in Gb/s, as short as it is sold: 2.5, 100; 9.294 of 10GBASE-W.
fn sold_as(bytes_per_second: f64) -> Cell {
    let gigabits = linerate_facts::units::bits_per_second(bytes_per_second) / 1e9;
    Cell::Figure(bytes_per_second, ((gigabits * 1e3).round() / 1e3).to_string())
}

fn millions(per_second: f64) -> Cell {
    Cell::Figure(per_second, format!("{:.3}", per_second / 1e6))
}

/// G.709 and SDH.
pub(super) fn otn() -> Table {
    let signals = otn::signals();
    let rows = signals.iter().map(|signal| {
        let rate = |formula: otn::Formula| gigabits(formula.bytes_per_second(), 4);
        TableRow {
            cells: vec![
                text(signal.name),
                rate(signal.line),
                text(signal.line.to_string()),
                signal.odu.map_or(Cell::Nothing, rate),
                signal.opu.map_or(Cell::Nothing, rate),
                number(f64::from(signal.tolerance_ppm), 0),
                text(signal.note),
            ],
            source: signal.source,
        }
    });
    Table {
        name: "otn",
        title: "Optical transport network and SDH: Gb/s. The line is rated, the OPU is effective: what the \
                client has"
            .into(),
        columns: vec![
            plain("signal", "signal"),
            plain("rated_bytes_per_second", "rated"),
            wide("formula_megabits_per_second", "Mb/s by formula"),
            plain("odu_bytes_per_second", "ODU"),
            plain("effective_bytes_per_second", "effective"),
            plain("tolerance_ppm", "ppm"),
            plain("note", "for"),
        ],
        rows: rows.collect(),
    }
}

/// A link and its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct GoodputQuery {
    /// Rate of the MAC, bytes per second.
    pub link_bytes_per_second: f64,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// VLAN tags before each packet.
    pub tags: u32,
    /// What is in the packets.
    pub stacks: Vec<Stack>,
}

/// Why a link of that MTU has no goodput.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoodputError {
    #[error("an MTU of {mtu} is too small: {version} needs at least {least} bytes ({rfc})")]
    MtuTooSmall { mtu: u32, least: u32, version: &'static str, rfc: &'static str },
    #[error("the MTU holds no payload")]
    NoPayload,
}

/// The goodput of a link for each stack.
pub fn goodput(ask: &GoodputQuery) -> Result<Table, GoodputError> {
    let mut rows = Vec::new();
    for stack in &ask.stacks {
        let least = stack.least_mtu();
        if ask.mtu < least {
            let (version, rfc) = if least > 68 { ("IPv6", "RFC 8200") } else { ("IPv4", "RFC 791") };
            return Err(GoodputError::MtuTooSmall { mtu: ask.mtu, least, version, rfc });
        }
        let seen = ethernet::goodput(ask.link_bytes_per_second, ask.mtu, *stack, ask.tags);
        rows.push(goodput_row(stack.name(), &seen.ok_or(GoodputError::NoPayload)?));
    }
    let smallest = most_frames_per_second(ask.link_bytes_per_second);
    let mut cells = vec![text("smallest frames"), Cell::Nothing, number(84.0, 0), number(smallest, 0)];
    cells.extend([const { Cell::Nothing }; 3]);
    rows.push(TableRow { cells, source: FRAME_SOURCE });
    let tags = match ask.tags {
        0 => "no VLAN tag".to_string(),
        1 => "1 VLAN tag".to_string(),
        more => format!("{more} VLAN tags"),
    };
    Ok(Table {
        name: "goodput",
        title: format!(
            "{} Ethernet, MTU {}, {tags}: full packets back to back, at most",
            linerate_facts::units::show_bits_rate(ask.link_bytes_per_second),
            ask.mtu
        ),
        columns: vec![
            plain("packets", "packets"),
            plain("payload_bytes", "payload, B"),
            plain("wire_bytes", "wire, B"),
            plain("frames_per_second", "frames/s"),
            plain("effective_bits_per_second", "Gb/s"),
            plain("effective_bytes_per_second", "GB/s"),
            plain("share", "%"),
        ],
        rows,
    })
}

fn goodput_row(name: &'static str, seen: &Goodput) -> TableRow {
    let cells = vec![
        text(name),
        number(f64::from(seen.payload_bytes), 0),
        number(seen.wire_bytes, 0),
        number(seen.packets_per_second, 0),
        bits(seen.bytes_per_second, 3),
        gigabytes(seen.bytes_per_second, 4),
        percent(seen.share),
    ];
    TableRow { cells, source: FRAME_SOURCE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(mtu: u32, tags: u32, stacks: &[Stack]) -> GoodputQuery {
        GoodputQuery { link_bytes_per_second: 100e9 / 8.0, mtu, tags, stacks: stacks.to_vec() }
    }

    #[test]
    fn goodput_of_a_hundred_gigabit_link() {
        let table = goodput(&ask(9000, 1, &[Stack::Tcp4Timestamps])).expect("a table");
        let shown: Vec<&str> = table.rows[0]
            .cells
            .iter()
            .filter_map(|cell| match cell {
                Cell::Text(words) => Some(words.as_str()),
                Cell::Figure(_, shown) => Some(shown),
                Cell::Nothing => None,
            })
            .collect();
        assert_eq!(
            shown,
            ["TCP over IPv4, timestamps", "8948", "9042", "1382438", "98.960", "12.3701", "98.96"]
        );
        assert_eq!(
            table.title,
            "100 Gb/s Ethernet, MTU 9000, 1 VLAN tag: full packets back to back, at most"
        );
    }

    #[test]
    fn an_mtu_that_ip_does_not_allow_is_named() {
        let complaint = goodput(&ask(67, 0, &[Stack::Udp4])).expect_err("too small").to_string();
        assert_eq!(complaint, "an MTU of 67 is too small: IPv4 needs at least 68 bytes (RFC 791)");
        let complaint =
            goodput(&ask(1279, 0, &[Stack::Udp4, Stack::Tcp6])).expect_err("too small").to_string();
        assert!(complaint.contains("1280"), "{complaint}");
        assert!(goodput(&ask(1280, 2, &[Stack::Tcp6Timestamps])).is_ok());
        assert!(goodput(&ask(u32::MAX, u32::MAX, &[Stack::Udp4])).is_ok());
    }

    #[test]
    fn each_rate_is_once() {
        let table = rates();
        let gigabits: Vec<f64> = table
            .rows
            .iter()
            .map(|row| match &row.cells[0] {
                Cell::Figure(rate, _) => (rate * 8.0 / 1e6).round() / 1e3,
                _ => 0.0,
            })
            .collect();
        assert_eq!(gigabits, [1.0, 2.5, 5.0, 9.294, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0]);
    }
}
