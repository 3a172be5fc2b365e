//! The ledger on a screen: a line a layer, from the sending program to the receiving one; below a layer what
//! it dropped, and the cure.

use crate::figure::count;
use crate::grid::{Column, name, number, styled, text};
use crate::ledger_words::{cured, dropped, others, place, reasons, result, unit};
use crate::style::Style;
use linerate_facts::printable::{hanging, printable, wrapped};
use linerate_measure::diagnose::ledger::{Drop, Ledger, LedgerLine};

const COLUMNS: [Column; 6] = [
    name("where"),
    number("datagrams", 0),
    number("payload bytes", 2),
    number("dropped", 0),
    text("counter", 1),
    text("counts", 3),
];

/// The screen; ends with a newline.
pub(super) fn screen(ledger: &Ledger, width: usize, style: Style) -> String {
    let width = width.clamp(60, 110);
    let rows: Vec<Vec<String>> = ledger.lines.iter().map(row).collect();
    let mut table = styled(&COLUMNS, &rows, width, style, |row| ledger.lines[row].dropped > 0).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    for (line, text) in ledger.lines.iter().zip(table) {
        lines.push(text);
        lines.extend(line.drops.iter().flat_map(|drop| told(drop, line, width)));
    }
    lines.extend(wrapped(&result(ledger), width).iter().map(|line| style.bold(line)));
    lines.extend(wrapped(&reasons(ledger), width).iter().map(|line| style.dim(line)));
    lines.extend(wrapped(&others(ledger), width).iter().map(|line| style.dim(line)));
    lines.join("\n") + "\n"
}

fn row(line: &LedgerLine) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(String::new, count);
    vec![
        place(line),
        number(line.datagrams),
        number(line.bytes),
        if line.dropped > 0 { count(line.dropped) } else { "–".into() },
        line.counter.clone(),
        if line.counter.is_empty() { String::new() } else { unit(line.unit) },
    ]
}

/// What a counter says, and the cure where something of our own was lost by it.
fn told(drop: &Drop, line: &LedgerLine, width: usize) -> Vec<String> {
    let cure = if cured(drop, line) { format!(". Cure: {}", drop.cure) } else { String::new() };
    let text = printable(&format!("{}{cure}", dropped(drop)));
    hanging("    ", &text, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::protocol::Protocol;
    use linerate_measure::diagnose::ledger::{Layer, Others, Reason, Unit};

    fn line(layer: Layer, interface: Option<&str>, datagrams: Option<u64>) -> LedgerLine {
        LedgerLine {
            host: "alpha".into(),
            interface: interface.map(String::from),
            layer,
            counter: format!("{layer} counter"),
            datagrams,
            bytes: datagrams.map(|count| count * 1472),
            unit: Unit::Datagrams,
            dropped: 0,
            drops: Vec::new(),
            cure: None,
        }
    }

    fn ledger() -> Ledger {
        let mut queue = line(Layer::Qdisc, Some("eth0"), Some(3_312));
        queue.dropped = 36_688;
        queue.drops = vec![Drop {
            counter: "tbf 8001: drops".into(),
            counted: 834,
            datagrams: 36_688,
            unit: Unit::Trains { datagrams_each: 43.99 },
            meaning: "the queue of tbf was full".into(),
            cure: "a longer queue".into(),
        }];
        Ledger {
            protocol: Protocol::Udp,
            until_nic: false,
            lines: vec![line(Layer::Application, None, Some(40_000)), line(Layer::Udp, None, None), queue],
            lost_datagrams: 36_688,
            lost_bytes: 54_004_736,
            unaccounted_datagrams: 0,
            unaccounted_bytes: 0,
            others: vec![Others {
                host: "alpha".into(),
                counter: "Udp OutDatagrams".into(),
                counted: 1_234_567,
            }],
            reasons: vec![Reason { host: "alpha".into(), reason: "QDISC_DROP".into(), counted: 834 }],
            findings: Vec::new(),
        }
    }

    #[test]
    fn a_line_a_layer_with_the_drops_below() {
        insta::assert_snapshot!(screen(&ledger(), 100, Style::of(100, false)), @r"
        where              datagrams  payload bytes  dropped  counter              counts
        alpha application     40,000     58,880,000        –  application counter  datagrams
        alpha UDP                                          –  UDP counter          datagrams
        alpha qdisc eth0       3,312      4,875,264   36,688  qdisc counter        datagrams
            tbf 8001: drops: 834 trains of 44.0: the queue of tbf was full. Cure: a longer queue
        36,688 datagrams lost, all of them accounted for
        the kernel's reasons for all drops: 834 × QDISC_DROP on alpha
        not of these streams: 1,234,567 in Udp OutDatagrams of alpha
        ");
    }

    #[test]
    fn no_line_is_wider_than_the_screen_and_no_name_acts_on_it() {
        let mut ledger = ledger();
        ledger.lines[2].drops[0].counter = "\u{1b}[2J\u{202e}x".repeat(20);
        ledger.lines[2].host = "h".repeat(200);
        for width in [60, 80, 110] {
            for line in screen(&ledger, width, Style::of(100, false)).lines() {
                assert!(line.chars().count() <= width, "{line}");
                assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}'), "{line}");
            }
        }
    }
}
