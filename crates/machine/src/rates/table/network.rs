//! Tables of networks: Ethernet's physical layers, what each rate carries, the optical transport network.

use super::{Cell, Table, TableRow, gigabits, number, plain, text, wide};
use crate::rates::ethernet::{self, Phy, Stack, frame_wire_bytes, goodput_share, most_frames_per_second};
use crate::rates::otn;

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
        rows: ethernet::all_phys().iter().map(row).collect(),
    }
}

/// Each rate that a PHY has, once, with its goodput.
pub(super) fn rates() -> Table {
    let mut rates: Vec<f64> = ethernet::all_phys().iter().map(Phy::mac_bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup_by(|a, b| (*a - *b).abs() < 1.0);
    let row = |rate: &f64| {
        let share = |mtu, stack| {
            goodput_share(mtu, stack, false).map_or(Cell::Nothing, |share| gigabits(rate * share, 3))
        };
        let packets = |mtu| millions(rate / frame_wire_bytes(mtu, 0));
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
                second"
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

#[cfg(test)]
mod tests {
    use super::*;

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
