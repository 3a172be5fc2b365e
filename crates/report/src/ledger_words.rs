//! The ledger in words, for the screen and the page.

use super::figure::count;
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_measure::diagnose::ledger::{Drop, Ledger, LedgerLine, Unit};

/// Host, layer, interface.
pub(super) fn place(line: &LedgerLine) -> String {
    let place = match &line.interface {
        Some(interface) => format!("{} {} {}", line.host, line.layer, interface),
        None => format!("{} {}", line.host, line.layer),
    };
    place.trim().to_string()
}

/// What a counter counts.
pub(super) fn unit(unit: Unit) -> String {
    match unit {
        Unit::Trains { datagrams_each } => format!("trains of {datagrams_each:.1}"),
        other => <&str>::from(other).to_string(),
    }
}

/// What a counter of drops says.
pub(super) fn dropped(drop: &Drop) -> String {
    let counted = match drop.unit {
        Unit::Trains { datagrams_each } => {
            format!("{} trains of {datagrams_each:.1}", count(drop.counted))
        }
        _ => count(drop.counted),
    };
    format!("{}: {counted}: {}", drop.counter, drop.meaning)
}

/// Something of our own was lost by it: then its cure is worth a word.
pub(super) fn cured(drop: &Drop, line: &LedgerLine) -> bool {
    line.dropped > 0 && (drop.datagrams > 0 || line.datagrams.is_none())
}

/// The sum, in a sentence.
pub(super) fn result(ledger: &Ledger) -> String {
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
pub(super) fn others(ledger: &Ledger) -> String {
    let all = ledger.others.iter().map(|one| {
        format!("{} in {} of {}", count(one.counted), printable(&one.counter), printable(&one.host))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() { String::new() } else { format!("not of these streams: {}", all.join("; ")) }
}

/// The kernel's own reasons, of all traffic of the hosts.
pub(super) fn reasons(ledger: &Ledger) -> String {
    let all = ledger.reasons.iter().map(|one| {
        format!("{} × {} on {}", count(one.counted), printable(&one.reason), printable(&one.host))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("the kernel's reasons for all drops: {}", all.join("; "))
    }
}

fn signed(value: i64) -> String {
    format!("{}{}", if value < 0 { "−" } else { "" }, count(value.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_reported() {
        let mut ledger = Ledger {
            protocol: Protocol::Udp,
            until_nic: false,
            lines: Vec::new(),
            lost_datagrams: 36_688,
            lost_bytes: 0,
            unaccounted_datagrams: -7,
            unaccounted_bytes: 0,
            others: Vec::new(),
            reasons: Vec::new(),
            findings: Vec::new(),
        };
        assert_eq!(result(&ledger), "36,688 datagrams lost, −7 unaccounted");
        ledger.until_nic = true;
        assert!(result(&ledger).starts_with("36,688 datagrams did not leave by the NIC, −7 of them"));
        (ledger.lost_datagrams, ledger.unaccounted_datagrams) = (0, 0);
        assert!(result(&ledger).starts_with("every datagram left by the NIC; what became"));
        ledger.protocol = Protocol::Tcp;
        assert_eq!(result(&ledger), "every byte arrived");
    }
}
