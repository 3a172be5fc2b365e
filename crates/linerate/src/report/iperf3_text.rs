//! A test with an iperf3 peer on the screen: each direction as both ends counted it, each stream where there are several.

use super::printable::printable;
use crate::iperf3::{Outcome, StreamFigures};
use crate::units::show_bits_rate;
use std::fmt::Write;

/// The screen of one test, its warnings and its error at the end.
pub fn iperf3_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some((_, peer)) = outcome.addresses {
        let _ = writeln!(
            text,
            "iperf3 {} {peer}, {}",
            if outcome.client { "server" } else { "client" },
            outcome.test.protocol
        );
    }
    for (sends, way) in [(true, "sent"), (false, "received")] {
        let streams: Vec<&StreamFigures> = outcome.local.iter().filter(|s| s.sender == sends).collect();
        if streams.is_empty() {
            continue;
        }
        if streams.len() > 1 {
            for ours in &streams {
                let _ = writeln!(text, "  stream {:<3} {}", ours.id, row(outcome, &[ours]));
            }
        }
        let _ = writeln!(text, "  {way:<10} {}", row(outcome, &streams));
    }
    let cpu = |percent: f64| format!("{percent:.0} %");
    let theirs = outcome.cpu_remote.map_or("unknown: it did not tell".into(), |used| cpu(used.total));
    let _ = writeln!(text, "  CPU        here {}, there {theirs}", cpu(outcome.cpu_local.total));
    if let Some(ours) = &outcome.congestion_local {
        let theirs = outcome.congestion_remote.as_deref().unwrap_or("unknown");
        let _ = writeln!(text, "  congestion control: here {}, there {}", printable(ours), printable(theirs));
    }
    for line in outcome.warnings.iter().chain(&outcome.error) {
        let _ = writeln!(text, "  ! {}", printable(line));
    }
    text
}

/// Figures of one direction: rates of both ends, and what went wrong in between.
fn row(outcome: &Outcome, ours: &[&StreamFigures]) -> String {
    let rate =
        |streams: &[&StreamFigures]| show_bits_rate(streams.iter().map(|s| s.bits_per_second() / 8.0).sum());
    let theirs: Vec<&StreamFigures> = ours.iter().filter_map(|ours| outcome.remote_of(ours.id)).collect();
    let there = if theirs.is_empty() { "unknown".into() } else { rate(&theirs) };
    let mut row = format!("{:>11} here, {there:>11} there", rate(ours));
    let both = || ours.iter().chain(&theirs);
    let sum = |figure: fn(&StreamFigures) -> Option<u64>| {
        both().filter_map(|stream| figure(stream)).reduce(u64::saturating_add)
    };
    if let Some(count) = sum(|stream| stream.retransmits) {
        let _ = write!(row, ", {count} retransmits");
    }
    if let Some(lost) = sum(|stream| stream.lost) {
        // Those of the receiving end: what it expected.
        let expected = sum(|stream| stream.lost.and(stream.packets)).unwrap_or(0);
        let percent = if expected > 0 { lost as f64 * 100.0 / expected as f64 } else { 0.0 };
        let _ = write!(row, ", {lost} of {expected} datagrams lost ({percent:.2} %)");
    }
    let jitter = both()
        .filter_map(|stream| stream.jitter_seconds)
        .fold(None, |most: Option<f64>, jitter| Some(most.map_or(jitter, |most| most.max(jitter))));
    if let Some(jitter) = jitter {
        let _ = write!(row, ", jitter {:.3} ms", jitter * 1e3);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_both_directions_stand_there() {
        let stream =
            |id, sender, bytes| StreamFigures { id, sender, bytes, seconds: 1.0, ..Default::default() };
        let mut outcome = Outcome {
            local: vec![stream(1, true, 125_000_000), stream(3, false, 250_000_000)],
            remote: vec![stream(1, false, 124_000_000), stream(3, true, 250_000_000)],
            error: Some("gone\u{1b}[2J".into()),
            ..Outcome::default()
        };
        (outcome.remote[0].lost, outcome.remote[0].packets) = (Some(10), Some(1000));
        let text = iperf3_text(&outcome);
        for expected in [
            "1.00 Gb/s here",
            "992 Mb/s there",
            "10 of 1000 datagrams lost (1.00 %)",
            "2.00 Gb/s here",
            "! gone",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
        outcome.remote.clear();
        assert!(iperf3_text(&outcome).contains("unknown there"));
    }
}
