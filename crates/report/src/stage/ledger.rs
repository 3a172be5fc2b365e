//! Where every packet went: a row a layer, from the sending program to the receiving one; with a layer what it dropped, and
//! the cure.

use crate::document::{Block, Media, Part, Table, TableRow, bold, dim, facts, plain};
use crate::figure::count;
use crate::grid::{Column, name, number, text};
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::counted;
use linerate_measure::diagnose::ledger::{Drop, Ledger, LedgerLine, MeasuredLedger, Unit};
use linerate_measure::measure::streams::StreamDirection;

const COLUMNS: [Column; 6] = [
    name("where"),
    number("datagrams", 0),
    number("payload bytes", 2),
    number("dropped", 0),
    text("counter", 1),
    text("counts", 3),
];
const INTRO: &str = "From the sending program to the receiving one. With segmentation the kernel counts trains of datagrams; what \
     a counter counts is beside it.";

/// Ledgers in which something is missing whole; of the others a line, and on the page what is behind it.
pub(super) fn part(ledgers: &[MeasuredLedger]) -> Part<'static> {
    let udp = |one: &&MeasuredLedger| one.ledger.protocol == Protocol::Udp;
    let closed = ledgers.iter().filter(udp).filter(|one| !is_open(&one.ledger)).count();
    let all = || format!("every datagram of {} arrived", counted(closed, "UDP figure"));
    let mut blocks: Vec<Block> = (closed > 0).then(|| facts([("ledger", all())])).into_iter().collect();
    blocks.extend(ledgers.iter().map(fold));
    Part { id: "ledger", title: "Where every packet went", intro: INTRO.into(), blocks, ..Part::default() }
}

/// Something is missing.
fn is_open(ledger: &Ledger) -> bool {
    ledger.until_nic || ledger.lost_datagrams != 0 || ledger.unaccounted_datagrams != 0
}

fn fold(measured: &MeasuredLedger) -> Block<'static> {
    let MeasuredLedger { measurement, direction, ledger } = measured;
    let arrow = if *direction == StreamDirection::Receive { "←" } else { "→" };
    let is_udp = ledger.protocol == Protocol::Udp;
    let fold = Block::Fold {
        heading: format!("ledger of {measurement} {arrow}"),
        result: result(ledger),
        open: is_open(ledger) || !is_udp && ledger.unaccounted_bytes != 0,
        blocks: blocks(ledger),
    };
    // TCP brings its bytes again: what is under way at the end is not loss.
    if is_udp { fold } else { Block::On(Media::Page, vec![fold]) }
}

/// The ledger itself.
fn blocks(ledger: &Ledger) -> Vec<Block<'static>> {
    vec![
        Block::Table(Table::new(COLUMNS, ledger.lines.iter().map(row))),
        Block::Text(bold(result(ledger)).on(Media::Terminal)),
        Block::Text(dim(reasons(ledger))),
        Block::Text(dim(others(ledger))),
    ]
}

fn row(line: &LedgerLine) -> TableRow {
    let number = |value: Option<u64>| value.map_or_else(String::new, count);
    let counts = if line.counter.is_empty() { String::new() } else { unit(line.unit) };
    let dropped = if line.dropped > 0 { count(line.dropped) } else { "–".into() };
    let cells = [
        counter_name(line),
        number(line.datagrams),
        number(line.bytes),
        dropped,
        line.counter.clone(),
        counts,
    ];
    let notes = line.drops.iter().map(|drop| plain(note(drop, line))).collect();
    TableRow::of(cells).marked(line.dropped > 0).with_notes(notes)
}

/// What a counter reports, and the cure where something of our own was lost by it.
fn note(drop: &Drop, line: &LedgerLine) -> String {
    let cure = if cured(drop, line) { format!(". Cure: {}", drop.cure) } else { String::new() };
    format!("{}{cure}", dropped(drop))
}

/// Host, layer, interface.
fn counter_name(line: &LedgerLine) -> String {
    let name = match &line.interface {
        Some(interface) => format!("{} {} {}", line.host, line.layer, interface),
        None => format!("{} {}", line.host, line.layer),
    };
    name.trim().to_string()
}

/// What a counter counts.
fn unit(unit: Unit) -> String {
    match unit {
        Unit::Trains { datagrams_each } => format!("trains of {datagrams_each:.1}"),
        other => <&str>::from(other).to_string(),
    }
}

/// What a counter of drops says.
fn dropped(drop: &Drop) -> String {
    let counted = match drop.unit {
        Unit::Trains { datagrams_each } => {
            format!("{} trains of {datagrams_each:.1}", count(drop.counted))
        }
        _ => count(drop.counted),
    };
    format!("{}: {counted}: {}", drop.counter, drop.meaning)
}

/// Something of our own was lost by it: then its cure is worth a word.
fn cured(drop: &Drop, line: &LedgerLine) -> bool {
    line.dropped > 0 && (drop.datagrams > 0 || line.datagrams.is_none())
}

/// The sum, in a sentence.
fn result(ledger: &Ledger) -> String {
    if ledger.protocol == Protocol::Tcp {
        return match ledger.unaccounted_bytes {
            0 => "every byte arrived".into(),
            bytes => format!("{bytes} bytes were sent and not taken by the end"),
        };
    }
    if ledger.until_nic {
        return until_nic(ledger);
    }
    match (ledger.lost_datagrams, ledger.unaccounted_datagrams) {
        (0, 0) => "nothing is lost".into(),
        (lost, 0) => format!("{} datagrams lost, all of them accounted for", signed(lost)),
        (lost, unaccounted) => {
            format!("{} datagrams lost, {} unaccounted", signed(lost), signed(unaccounted))
        }
    }
}

/// Where nobody receives.
fn until_nic(ledger: &Ledger) -> String {
    let nobody = "what became of them beyond it nobody counts";
    match (ledger.lost_datagrams, ledger.unaccounted_datagrams) {
        (0, _) => format!("every datagram left by the NIC; {nobody}"),
        (lost, 0) => format!("{} datagrams did not leave by the NIC; {nobody}", signed(lost)),
        (lost, unaccounted) => format!(
            "{} datagrams did not leave by the NIC, {} of them unaccounted; {nobody}",
            signed(lost),
            signed(unaccounted)
        ),
    }
}

/// Traffic in the same counters that is not of these streams; empty where there is none.
fn others(ledger: &Ledger) -> String {
    let all = ledger.others.iter();
    sum(
        "not of these streams",
        all.map(|one| format!("{} in {} of {}", count(one.counted), one.counter, one.host)),
    )
}

/// The kernel's own reasons, of all traffic of the hosts.
fn reasons(ledger: &Ledger) -> String {
    let all = ledger.reasons.iter();
    let all = all.map(|one| format!("{} × {} on {}", count(one.counted), one.reason, one.host));
    sum("the kernel's reasons for all drops", all)
}

fn sum(what: &str, all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { String::new() } else { format!("{what}: {}", all.join("; ")) }
}

fn signed(value: i64) -> String {
    format!("{}{}", if value < 0 { "−" } else { "" }, count(value.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::lines;
    use crate::grid::Style;
    use linerate_measure::diagnose::ledger::{Layer, Others, Reason};

    fn shown(ledger: &Ledger, width: usize) -> String {
        lines(&blocks(ledger), width, Style::of(width, false)).join("\n") + "\n"
    }

    fn card(ledger: MeasuredLedger) -> String {
        part(&[ledger]).card().into_string()
    }

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

    fn sample() -> Ledger {
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
        insta::assert_snapshot!(shown(&sample(), 100), @r"
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
    fn a_loss_is_open_and_a_name_from_outside_is_no_markup() {
        let of = |ledger| MeasuredLedger {
            measurement: "<i>udp".into(),
            direction: StreamDirection::Send,
            ledger,
        };
        let lossy = card(of(sample()));
        assert!(
            lossy.contains("<details open><summary>ledger of &lt;i&gt;udp →: 36,688 datagrams lost"),
            "{lossy}"
        );
        assert!(card(of(Ledger { lost_datagrams: 0, ..sample() })).contains("<details><summary>"));
    }

    #[test]
    fn what_is_left_is_reported() {
        let mut ledger = Ledger { unaccounted_datagrams: -7, ..sample() };
        assert_eq!(result(&ledger), "36,688 datagrams lost, −7 unaccounted");
        ledger.until_nic = true;
        assert!(result(&ledger).starts_with("36,688 datagrams did not leave by the NIC, −7 of them"));
        (ledger.lost_datagrams, ledger.unaccounted_datagrams) = (0, 0);
        assert!(result(&ledger).starts_with("every datagram left by the NIC; what became"));
        ledger.protocol = Protocol::Tcp;
        assert_eq!(result(&ledger), "every byte arrived");
    }
}
