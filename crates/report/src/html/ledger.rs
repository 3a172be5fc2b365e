//! The ledgers of a network benchmark as tables: a row a layer, what it dropped, and the cure.

use super::pieces::{card, heading, table};
use crate::figure::count;
use crate::ledger_words::{cured, dropped, others, place, reasons, result, unit};
use crate::markup::{Markup, html};
use linerate_measure::diagnose::ledger::{LedgerLine, MeasuredLedger};
use linerate_measure::measure::streams::StreamDirection;
use linerate_measure::run::Run;

/// Shown at once; what is more is in run.json.
const MOST: usize = 60;

/// The card; empty where no host gave its counters.
pub(super) fn section(run: &Run) -> Markup {
    if run.ledgers.is_empty() {
        return html! {};
    }
    let intro = html! {
        "From the sending program to the receiving one. With segmentation the kernel counts trains of \
         datagrams; what a counter counts is beside it."
    };
    card(
        "ledger",
        "Where every packet went",
        intro,
        html! { @for ledger in run.ledgers.iter().take(MOST) { (one(ledger)) } },
    )
}

/// The columns; true for numbers.
const HEADS: [(bool, &str); 6] = [
    (false, "where"),
    (true, "datagrams"),
    (true, "payload bytes"),
    (true, "dropped"),
    (false, "counter"),
    (false, "what it says; cure"),
];

/// Open where something is missing.
fn one(measured: &MeasuredLedger) -> Markup {
    let ledger = &measured.ledger;
    let open =
        ledger.lost_datagrams != 0 || ledger.unaccounted_datagrams != 0 || ledger.unaccounted_bytes != 0;
    let arrow = if measured.direction == StreamDirection::Receive { "←" } else { "→" };
    let notes = [reasons(ledger), others(ledger)];
    let head = html! { @for (numbers, name) in HEADS { (heading(numbers, html! { (name) })) } };
    html! {
        details open[open] {
            summary { (measured.measurement) " " (arrow) ": " (result(ledger)) }
            (table("stages", head, html! { tbody { @for line in &ledger.lines { (row(line)) } } }))
            @for note in notes.iter().filter(|note| !note.is_empty()) { p { (note) } }
        }
    }
}

fn row(line: &LedgerLine) -> Markup {
    let number = |value: Option<u64>| html! { td class="r num" { (value.map_or_else(String::new, count)) } };
    html! {
        tr {
            th scope="row" { (place(line)) }
            (number(line.datagrams))
            (number(line.bytes))
            (number(Some(line.dropped).filter(|dropped| *dropped > 0)))
            td { @if !line.counter.is_empty() { (line.counter) " (" (unit(line.unit)) ")" } }
            td class="how" {
                @for (index, drop) in line.drops.iter().enumerate() {
                    @if index > 0 { br; }
                    (dropped(drop)) @if cured(drop, line) { " " b { (drop.cure) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::protocol::Protocol;
    use linerate_measure::diagnose::ledger::{LedgerHost, ReceiverAccount, Sent, Streams, ledger};

    #[test]
    fn names_from_outside_are_no_markup_and_a_loss_is_open() {
        let streams = Streams {
            protocol: Protocol::Udp,
            ipv6: false,
            datagram_bytes: 1472,
            seconds: 1.0,
            sent: Sent { bytes: 14_720, datagrams: 10, ..Sent::default() },
            received: ReceiverAccount { bytes: 1472, datagrams: 1, ..ReceiverAccount::default() },
        };
        let host = LedgerHost { host: "<b>&".into(), ..LedgerHost::default() };
        let of = |ledger| MeasuredLedger {
            measurement: "<i>udp".into(),
            direction: StreamDirection::Send,
            ledger,
        };
        let lossy = one(&of(ledger(&host, &host, &streams))).into_string();
        assert!(
            lossy.starts_with("<details open><summary>&lt;i&gt;udp →: 9 datagrams lost, 9 unaccounted"),
            "{lossy}"
        );
        assert!(
            lossy.contains("&lt;b&gt;&amp; (sender) application") && !lossy.contains("<b>&amp;"),
            "{lossy}"
        );
        let none = Streams {
            received: ReceiverAccount { bytes: 14_720, datagrams: 10, ..streams.received },
            ..streams
        };
        assert!(one(&of(ledger(&host, &host, &none))).into_string().starts_with("<details><summary>"));
    }
}
