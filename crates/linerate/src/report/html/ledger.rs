//! The ledgers of a network benchmark as tables: a row a layer, what it dropped, and the cure.

use super::text::{escape, section as card};
use crate::diagnose::ledger::{Drop, LedgerLine, MeasuredLedger};
use crate::measure::streams::Direction;
use crate::report::figure::count;
use crate::report::ledger_words::{cured, dropped, others, place, reasons, result, unit};
use crate::run::StageRun;

/// Shown at once; what is more is in run.json.
const MOST: usize = 60;

/// The card; empty where no host told its counters.
pub(super) fn section(run: &StageRun) -> String {
    if run.ledgers.is_empty() {
        return String::new();
    }
    let body: String = run.ledgers.iter().take(MOST).map(one).collect();
    let intro = "From the sending program to the receiving one. With segmentation the kernel counts trains of datagrams; \
                 what a counter counts stands beside it.";
    card("ledger", "Where every packet went", intro, &body)
}

/// Open where something is missing.
fn one(measured: &MeasuredLedger) -> String {
    let ledger = &measured.ledger;
    let open =
        ledger.lost_datagrams != 0 || ledger.unaccounted_datagrams != 0 || ledger.unaccounted_bytes != 0;
    let arrow = if measured.direction == Direction::Receive { "←" } else { "→" };
    let notes = [reasons(ledger), others(ledger)];
    let notes: String =
        notes.iter().filter(|note| !note.is_empty()).map(|note| format!("<p>{}</p>", escape(note))).collect();
    format!(
        "<details{}><summary>{} {arrow}: {}</summary><div class=\"scroll\"><table class=\"stages\"><thead><tr>\
         <th scope=\"col\">where</th><th scope=\"col\" class=\"r\">datagrams</th><th scope=\"col\" class=\"r\">payload bytes</th>\
         <th scope=\"col\" class=\"r\">dropped</th><th scope=\"col\">counter</th><th scope=\"col\">what it says; cure</th></tr></thead>\
         <tbody>{}</tbody></table></div>{notes}</details>",
        if open { " open" } else { "" },
        escape(&measured.measurement),
        escape(&result(ledger)),
        ledger.lines.iter().map(row).collect::<String>()
    )
}

fn row(line: &LedgerLine) -> String {
    let number =
        |value: Option<u64>| format!("<td class=\"r num\">{}</td>", value.map_or_else(String::new, count));
    let counter = match line.counter.as_str() {
        "" => String::new(),
        counter => format!("{} ({})", escape(counter), unit(line.unit)),
    };
    let says: Vec<String> = line.drops.iter().map(|drop| says(drop, line)).collect();
    format!(
        "<tr><th scope=\"row\">{}</th>{}{}{}<td>{counter}</td><td class=\"how\">{}</td></tr>",
        escape(&place(line)),
        number(line.datagrams),
        number(line.bytes),
        number(Some(line.dropped).filter(|dropped| *dropped > 0)),
        says.join("<br>")
    )
}

fn says(drop: &Drop, line: &LedgerLine) -> String {
    let cure = if cured(drop, line) { format!(" <b>{}</b>", escape(&drop.cure)) } else { String::new() };
    escape(&dropped(drop)) + &cure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::ledger::{End, Received, Sent, Streams, ledger};
    use crate::plan::Protocol;

    #[test]
    fn names_from_outside_are_no_markup_and_a_loss_is_open() {
        let streams = Streams {
            protocol: Protocol::Udp,
            ipv6: false,
            datagram_bytes: 1472,
            seconds: 1.0,
            sent: Sent { bytes: 14_720, datagrams: 10, ..Sent::default() },
            received: Received { bytes: 1472, datagrams: 1, ..Received::default() },
        };
        let host = End { host: "<b>&".into(), ..End::default() };
        let of = |ledger| MeasuredLedger { measurement: "<i>udp".into(), direction: Direction::Send, ledger };
        let lossy = one(&of(ledger(&host, &host, &streams)));
        assert!(
            lossy.starts_with("<details open><summary>&lt;i&gt;udp →: 9 datagrams lost, 9 unaccounted"),
            "{lossy}"
        );
        assert!(
            lossy.contains("&lt;b&gt;&amp; (sender) application") && !lossy.contains("<b>&amp;"),
            "{lossy}"
        );
        let none =
            Streams { received: Received { bytes: 14_720, datagrams: 10, ..streams.received }, ..streams };
        assert!(one(&of(ledger(&host, &host, &none))).starts_with("<details><summary>"));
    }
}
