//! The ledger on a screen: a line a layer, from the sending program to the receiving one; below a layer what it dropped, and the cure.

use super::grid::{Column, column};
use super::style::Style;
use super::{grid, printable, wrapped};
use crate::diagnose::ledger::{Drop, Ledger, LedgerLine, Unit};
use crate::plan::Protocol;

const COLUMNS: [Column; 6] = [
    column("where", true, 0),
    column("datagrams", false, 0),
    column("payload bytes", false, 2),
    column("dropped", false, 0),
    column("counter", true, 1),
    column("counts", true, 3),
];

/// The screen; ends with a newline.
pub(super) fn screen(ledger: &Ledger, width: usize, style: Style) -> String {
    let width = width.clamp(60, 110);
    let rows: Vec<Vec<String>> = ledger.lines.iter().map(row).collect();
    let mut table = grid::lines(&COLUMNS, &rows, width).into_iter();
    let mut lines: Vec<String> = table.next().map(|head| style.dim(&head)).into_iter().collect();
    for (line, text) in ledger.lines.iter().zip(table) {
        lines.push(if line.dropped > 0 { style.cut(&text) } else { text });
        lines.extend(line.drops.iter().flat_map(|drop| told(drop, line, width)));
    }
    lines.extend(wrapped(&result(ledger), width).iter().map(|line| style.bold(line)));
    lines.extend(wrapped(&reasons(ledger), width).iter().map(|line| style.dim(line)));
    lines.extend(wrapped(&others(ledger), width).iter().map(|line| style.dim(line)));
    lines.join("\n") + "\n"
}

fn row(line: &LedgerLine) -> Vec<String> {
    let place = match &line.interface {
        Some(interface) => format!("{} {} {}", line.host, line.layer, interface),
        None => format!("{} {}", line.host, line.layer),
    };
    let number = |value: Option<u64>| value.map_or_else(String::new, grouped);
    vec![
        printable(place.trim()),
        number(line.datagrams),
        number(line.bytes),
        if line.dropped > 0 { grouped(line.dropped) } else { "–".into() },
        printable(&line.counter),
        if line.counter.is_empty() { String::new() } else { unit(line.unit) },
    ]
}

fn unit(unit: Unit) -> String {
    match unit {
        Unit::Datagrams => "datagrams".into(),
        Unit::Trains { datagrams_each } => format!("trains of {datagrams_each:.1}"),
        Unit::Packets => "packets".into(),
        Unit::Fragments => "fragments".into(),
        Unit::Bytes => "bytes".into(),
    }
}

/// What a counter says, and the cure where something of ours was lost by it.
fn told(drop: &Drop, line: &LedgerLine, width: usize) -> Vec<String> {
    let counted = match drop.unit {
        Unit::Trains { datagrams_each } => {
            format!("{} trains of {datagrams_each:.1}", grouped(drop.counted))
        }
        _ => grouped(drop.counted),
    };
    let mut text = format!("{}: {counted}: {}", drop.counter, drop.meaning);
    if line.dropped > 0 && (drop.datagrams > 0 || line.datagrams.is_none()) {
        text += &format!(". Cure: {}", drop.cure);
    }
    let indented = wrapped(&printable(&text), width.saturating_sub(4));
    indented.into_iter().map(|line| format!("    {line}")).collect()
}

fn result(ledger: &Ledger) -> String {
    if ledger.protocol == Protocol::Tcp {
        return match ledger.unaccounted_bytes {
            0 => "every byte arrived".into(),
            bytes => format!("{bytes} bytes were sent and not taken by the end"),
        };
    }
    match (ledger.lost_datagrams, ledger.unaccounted_datagrams) {
        (0, 0) => "nothing is lost".into(),
        (lost, 0) => format!("{} datagrams lost, all of them accounted for", signed(lost)),
        (lost, unaccounted) => {
            format!("{} datagrams lost, {} unaccounted", signed(lost), signed(unaccounted))
        }
    }
}

fn others(ledger: &Ledger) -> String {
    let all = ledger.others.iter().map(|one| {
        format!("{} in {} of {}", grouped(one.counted), printable(&one.counter), printable(&one.host))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() { String::new() } else { format!("not of these streams: {}", all.join("; ")) }
}

/// The kernel's own reasons, of all traffic of the hosts.
fn reasons(ledger: &Ledger) -> String {
    let all = ledger.reasons.iter().map(|one| {
        format!("{} × {} on {}", grouped(one.counted), printable(&one.reason), printable(&one.host))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("the kernel's reasons for all drops: {}", all.join("; "))
    }
}

fn signed(value: i64) -> String {
    format!("{}{}", if value < 0 { "−" } else { "" }, grouped(value.unsigned_abs()))
}

/// With a comma after each three digits.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::ledger::{Layer, Others, Reason};

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
        insta::assert_snapshot!(screen(&ledger(), 100, Style { colour: false }), @r"
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
            for line in screen(&ledger, width, Style { colour: false }).lines() {
                assert!(line.chars().count() <= width, "{line}");
                assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}'), "{line}");
            }
        }
    }

    #[test]
    fn what_is_left_is_told() {
        let mut ledger = ledger();
        ledger.unaccounted_datagrams = -7;
        assert!(result(&ledger).ends_with("−7 unaccounted"));
        ledger.protocol = Protocol::Tcp;
        ledger.unaccounted_bytes = 0;
        assert_eq!(result(&ledger), "every byte arrived");
        assert_eq!(grouped(1_000), "1,000");
    }
}
