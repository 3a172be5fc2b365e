//! What limited a transfer of which both hosts showed what they did: the one that waited for the other is not the limit,
//! and where both waited for the network, neither is.

use crate::measure::{Measurement, Measurements, Stage, WorkerResult};
use linerate_facts::units::show_size;
use linerate_model::verdict::thresholds::{FULL_WINDOW_CLOSED, WINDOW_OF_BUFFER};
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
        (false, false) => return of_no_end(&received, (sender, &sent), is_received_here),
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

fn of_no_end(
    received: &Judgement,
    (sender, sent): (&Measurement, &Judgement),
    is_received_here: bool,
) -> (LimitKind, Vec<String>, String) {
    let waits = |judged: &Judgement, kind| judged.kind() == Some(kind);
    if waits(received, LimitKind::Sender) && waits(sent, LimitKind::Receiver) {
        if let Some(window) = full_window(sender) {
            return (LimitKind::Window, Vec::new(), window.sentence(is_received_here));
        }
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
    if let Limit::Window { receiver: true, share, bytes, round_trip_seconds, .. } = *limit {
        // The sender sees it, and it is the other end's.
        return ReceiveWindow { share, bytes, round_trip_seconds }.sentence(!is_own);
    }
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

/// A window of the receiver that limited the sender.
struct ReceiveWindow {
    /// Of the time with something to send.
    share: f64,
    /// What it lets through in a round trip.
    bytes: Option<f64>,
    round_trip_seconds: f64,
}

/// The receiver's window, where that is full: TCP counts only a part of the time in which it held a small one, for both
/// ends are woken at each refill of it. What is under way in the mean is most of what the window allows at its largest: the
/// receiver's program empties the buffer in bursts. The same thresholds as for a receiver that reports its buffer.
fn full_window(sender: &Measurement) -> Option<ReceiveWindow> {
    let tcp = sender.evidence().tcp;
    let share = tcp.receive_window_share.filter(|share| *share >= FULL_WINDOW_CLOSED)?;
    // Without the queue of a slower link, which fills any window.
    let round_trip_seconds = tcp.least_round_trip_seconds?;
    let sum = |of: fn(&WorkerResult) -> f64| sender.workers.iter().map(of).sum::<f64>();
    let moved = sum(|worker| worker.bytes_per_second) * sender.seconds;
    let bytes = moved / sum(|worker| worker.sending_seconds) * round_trip_seconds;
    let window = sender.workers.iter().map(|worker| worker.send_window_bytes).max()? as f64;
    let is_full = window > 0.0 && bytes.is_finite() && bytes >= WINDOW_OF_BUFFER * window;
    is_full.then_some(ReceiveWindow { share, bytes: Some(bytes), round_trip_seconds })
}

impl ReceiveWindow {
    /// `is_own`: this host receives.
    fn sentence(&self, is_own: bool) -> String {
        let (host, place) = if is_own { ("This host", "here") } else { ("The other host", "there") };
        let lets = |bytes| format!(" lets {} through in a round trip of", show_size(bytes as u64));
        format!(
            "{host} limits it: its receive window{} {:.1} ms, and was full {:.0} % of the time; raise the third figure of \
             net.ipv4.tcp_rmem {place}, or use more --streams.",
            self.bytes.map_or(" is small for a round trip of".into(), lets),
            self.round_trip_seconds * 1e3,
            self.share * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::transfer::tests::moved;
    use super::super::transfer::{judge_transfer, resources};
    use super::*;
    use crate::measure::LinkUse;
    use crate::measure::access::DeviceUse;
    use linerate_facts::protocol::Protocol;

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

    /// By a lab's receive buffers of 128 KiB over 40 ms, where TCP counted 42 to 46 % of the time.
    #[test]
    fn a_small_window_is_that_of_the_host_that_receives() {
        let sent = |receiver_limited, send_window_bytes| {
            let mut sent = Measurement {
                protocol: Some(Protocol::Tcp),
                bytes_per_second: 5.5e6,
                ..moved(Stage::Put, 0.0, 0.95)
            };
            for worker in &mut sent.workers {
                (worker.bytes_per_second, worker.sending_seconds) = (1.375e6, 4.0);
                (worker.round_trip_seconds, worker.least_round_trip_seconds) = (0.046, 0.0401);
                (worker.receiver_limited, worker.segment_bytes) = (receiver_limited, 8948);
                worker.send_window_bytes = send_window_bytes;
            }
            sent
        };
        let received = moved(Stage::Get, 0.96, 0.0);
        let (kind, resources, sentence) = limit(&sent(0.46, 98_688), &received, None);
        assert_eq!((kind, resources.len()), (LimitKind::Window, 0), "{sentence}");
        assert_eq!(
            sentence,
            "The other host limits it: its receive window lets 67.3 KiB through in a round trip of 40.1 ms, and was full \
             46 % of the time; raise the third figure of net.ipv4.tcp_rmem there, or use more --streams."
        );
        let (_, _, sentence) = limit(&received, &sent(0.46, 98_688), None);
        assert!(sentence.starts_with("This host limits it: its receive window lets "), "{sentence}");
        assert!(sentence.contains("net.ipv4.tcp_rmem here"), "{sentence}");
        // As TCP alone has it.
        let (kind, _, sentence) = limit(&sent(0.97, 0), &received, None);
        assert_eq!(kind, LimitKind::Window);
        assert!(sentence.starts_with("The other host limits it: its receive window lets "), "{sentence}");
        // A slower link between them: there is room in the window, or TCP was not held by it, or nobody knows how large it is.
        for (limited, window) in [(0.46, 6_000_000), (0.1, 98_688), (0.46, 0)] {
            let (_, _, sentence) = limit(&sent(limited, window), &received, None);
            assert!(sentence.starts_with("Probably the network between the hosts"), "{sentence}");
        }
        // A receiver whose disk is slow closes its window, too.
        let slow = with_disk(moved(Stage::Get, 0.1, 0.8));
        assert!(limit(&sent(0.46, 98_688), &slow, None).2.starts_with("The other host's disk vdb"));
    }

    #[test]
    fn one_measurement_is_one_end() {
        assert!(both_ends(&vec![moved(Stage::Get, 0.5, 0.5)]).is_none());
        assert!(both_ends(&vec![moved(Stage::Get, 0.5, 0.5); 2]).is_none());
        assert!(both_ends(&vec![moved(Stage::Put, 0.5, 0.5), moved(Stage::Get, 0.5, 0.5)]).is_some());
    }
}
