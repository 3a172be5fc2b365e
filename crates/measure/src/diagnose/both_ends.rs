//! What limited a transfer of which both hosts showed what they did: the one that waited for the other is not the limit,
//! and where both waited for the network, neither is.

use crate::measure::{Measurement, Measurements, Stage};
use linerate_model::verdict::{Judgement, Limit, LimitKind};

/// The two measurements of one transfer: that of this host, then that of the other one; none where there is only one.
pub(super) fn both_ends(measurements: &Measurements) -> Option<(&Measurement, &Measurement)> {
    let [own, other] = &measurements[..] else { return None };
    let stages = (own.stage, other.stage);
    matches!(stages, (Stage::Get, Stage::Put) | (Stage::Put, Stage::Get)).then_some((own, other))
}

/// What limited it: its kind, what of this host, and a sentence. `judge` and `resources` are those of one end.
pub(super) fn limit_of_both(
    own: &Measurement,
    other: &Measurement,
    judge: impl Fn(&Measurement) -> Judgement,
    resources: impl Fn(&Limit) -> Vec<String>,
) -> (LimitKind, Vec<String>, String) {
    let is_received_here = own.stage == Stage::Get;
    let (receiver, sender) = if is_received_here { (own, other) } else { (other, own) };
    let (received, sent) = (judge(receiver), judge(sender));
    let (measured, judged) = match (names_a_part(&received), names_a_part(&sent)) {
        (true, _) => (receiver, received),
        (false, true) => (sender, sent),
        (false, false) => return of_no_end(&received, &sent),
    };
    let is_own = std::ptr::eq(measured, own);
    let resources = judged.limit().filter(|_| is_own).map(resources).unwrap_or_default();
    (judged.kind().unwrap_or(LimitKind::Unknown), resources, sentence(&judged, measured, is_own))
}

/// Something of this end, and not that it waited for the other one.
fn names_a_part(judged: &Judgement) -> bool {
    judged.kind().is_some_and(|kind| {
        !matches!(kind, LimitKind::Sender | LimitKind::Receiver | LimitKind::Unknown)
            // The other end asked for nothing, which is its own limit.
            && !matches!(judged.limit(), Some(Limit::NoRequests { .. }))
    })
}

fn of_no_end(received: &Judgement, sent: &Judgement) -> (LimitKind, Vec<String>, String) {
    let waits = |judged: &Judgement, kind| judged.kind() == Some(kind);
    if waits(received, LimitKind::Sender) && waits(sent, LimitKind::Receiver) {
        let sentence = "Probably the network between the hosts limits it: each waited for it, and no disk, link or CPU \
                        of either was full.";
        return (LimitKind::Unknown, Vec::new(), sentence.into());
    }
    let missing = received.missing.as_ref().or(sent.missing.as_ref());
    let why = missing.map_or("no part of either host was at its limit".into(), ToString::to_string);
    (LimitKind::Unknown, Vec::new(), format!("What limited it is unknown: {why}."))
}

fn sentence(judged: &Judgement, measured: &Measurement, is_own: bool) -> String {
    let host = if is_own { "This host" } else { "The other host" };
    let Some(limit) = judged.limit() else { return String::new() };
    let waited = match limit {
        Limit::Source { share, disk, .. } | Limit::Written { share, disk, .. } => Some((share, disk)),
        _ => None,
    };
    if let Some((share, disk)) = waited {
        // Of several disks below the files the busiest is the one that was waited for.
        let named = disk.as_ref().map(|disk| disk.name.as_str());
        let only = measured.devices.first().filter(|_| measured.devices.len() == 1);
        let share = (share * 100.0).round();
        return match named.or(only.map(|disk| disk.name.as_str())) {
            Some(name) => {
                format!("{host}'s disk {name} limits it (it waited for it {share:.0} % of the time).")
            }
            None => format!("{host}'s disks limit it (it waited for them {share:.0} % of the time)."),
        };
    }
    match limit {
        Limit::Demand { .. } => format!("The rate limit limits it: {limit}."),
        Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. } => {
            format!("{host} limits it: {part}.")
        }
        limit => format!("{host} limits it: {limit}."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::transfer::{judge_transfer, resources};
    use super::*;
    use crate::measure::access::DeviceUse;
    use crate::measure::{LinkUse, WorkerResult};

    fn moved(stage: Stage, waiting_source: f64, waiting_sink: f64) -> Measurement {
        let worker =
            WorkerResult { waiting_source, waiting_sink, cpu_share: 0.05, ..WorkerResult::default() };
        Measurement {
            stage,
            bytes_per_second: 1e8,
            seconds: 5.0,
            workers: vec![worker; 4],
            ..Measurement::default()
        }
    }

    fn limit(own: &Measurement, other: &Measurement, rate: Option<f64>) -> (LimitKind, Vec<String>, String) {
        limit_of_both(own, other, |one| judge_transfer(one, rate), resources)
    }

    fn with_disk(measured: Measurement) -> Measurement {
        let disk =
            DeviceUse { name: "vdb".into(), utilisation: 1.0, queue_depth: 8.0, ..DeviceUse::default() };
        Measurement { devices: vec![disk], ..measured }
    }

    #[test]
    fn the_end_that_did_not_wait_for_the_other_is_named() {
        let limited = |own, other| limit(&own, &other, None);
        let slow_source = with_disk(moved(Stage::Put, 0.94, 0.0));
        let slow_target = with_disk(moved(Stage::Get, 0.1, 0.8));
        let of_disk = |whose: &str, share| {
            format!("{whose}'s disk vdb limits it (it waited for it {share} % of the time).")
        };
        let (kind, resources, sentence) = limited(moved(Stage::Get, 0.9, 0.0), slow_source.clone());
        assert_eq!((kind, resources, sentence), (LimitKind::Disk, vec![], of_disk("The other host", 94)));
        let (_, resources, sentence) = limited(slow_source, moved(Stage::Get, 0.9, 0.0));
        assert_eq!((resources, sentence), (vec!["disk:vdb".into()], of_disk("This host", 94)));
        let (_, resources, sentence) = limited(slow_target.clone(), moved(Stage::Put, 0.0, 0.9));
        assert_eq!((resources, sentence), (vec!["disk:vdb".into()], of_disk("This host", 80)));
        let (_, resources, sentence) = limited(moved(Stage::Put, 0.0, 0.9), slow_target);
        assert_eq!((resources, sentence), (vec![], of_disk("The other host", 80)));
    }

    #[test]
    fn a_shaper_of_either_end_is_named_and_the_network_where_neither_is_full() {
        let shaper = Some(("tbf".to_string(), 500.0));
        let link =
            LinkUse { name: "eth0".into(), sends: true, bytes_per_second: 1e8, shaper, ..LinkUse::default() };
        let shaped = Measurement { links: vec![link], ..moved(Stage::Put, 0.0, 0.9) };
        let (kind, _, sentence) = limit(&moved(Stage::Get, 0.9, 0.0), &shaped, None);
        assert_eq!(kind, LimitKind::Nic, "{sentence}");
        assert!(sentence.starts_with("The other host limits it: the shaper tbf of eth0"), "{sentence}");
        let (kind, _, sentence) = limit(&moved(Stage::Get, 0.9, 0.0), &moved(Stage::Put, 0.0, 0.9), None);
        assert_eq!(kind, LimitKind::Unknown);
        assert!(sentence.starts_with("Probably the network between the hosts limits it"), "{sentence}");
        let short = Measurement { seconds: 0.1, ..moved(Stage::Get, 0.9, 0.0) };
        let (_, _, sentence) = limit(&short, &Measurement { seconds: 0.1, ..shaped }, None);
        assert_eq!(sentence, "What limited it is unknown: it was too short to tell what limited it.");
        let rate = Some(1.01e8);
        let (kind, _, sentence) = limit(&moved(Stage::Get, 0.9, 0.0), &moved(Stage::Put, 0.0, 0.1), rate);
        assert_eq!(kind, LimitKind::Demand, "{sentence}");
        assert!(sentence.starts_with("The rate limit limits it: "), "{sentence}");
    }

    #[test]
    fn one_measurement_is_one_end() {
        assert!(both_ends(&vec![moved(Stage::Get, 0.5, 0.5)]).is_none());
        assert!(both_ends(&vec![moved(Stage::Get, 0.5, 0.5); 2]).is_none());
        assert!(both_ends(&vec![moved(Stage::Put, 0.5, 0.5), moved(Stage::Get, 0.5, 0.5)]).is_some());
    }
}
