//! Loss on the way: the limit, or what a full link does.

use super::*;
use crate::measure::StreamTrial;
use linerate_facts::protocol::Protocol;

fn of_tcp(case: &Case) -> (LimitKind, Verdict, String) {
    let tcp = case.diagnose().by_protocol.remove(0);
    (tcp.bottleneck.kind, tcp.verdict, tcp.bottleneck.sentence)
}

fn trial(streams: u32, megabytes: f64, chosen: bool) -> StreamTrial {
    StreamTrial { streams, bytes_per_second: megabytes * 1e6, chosen, ..StreamTrial::default() }
}

/// Over TCP through a NIC that claims this rate and moves 123.7 MB/s, whose network stage loss holds; each figure of it as
/// `change` leaves it.
fn lossy(claimed: Option<f64>, change: impl Fn(&mut Measurement)) -> (LimitKind, Verdict, String) {
    let mut case = Lab { claimed, disks: vec![200.0; 4], nics: vec![123.7], ..Lab::default() }.measured();
    for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
        if figure.stage == Stage::Network {
            (figure.held_by, figure.lower_bound, figure.together) = (Some(LimitedBy::Loss), true, true);
            figure.workers = vec![idle_worker()];
        }
        change(figure);
    }
    of_tcp(&case)
}

/// Loss on a network that carries 124 MB/s: its cause where the link can more, its effect where it is full, and
/// nobody knows where the link's rate is not known.
#[test]
fn loss_limits_only_links_that_are_known_not_to_be_full() {
    let of = |claimed: Option<f64>, round_trip_us: f64| {
        lossy(claimed, |figure| {
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share) = (5000, 0.01);
                worker.round_trip_seconds = round_trip_us * 1e-6;
                worker.least_round_trip_seconds = if round_trip_us > 0.0 { 8e-6 } else { 0.0 };
            }
        })
    };
    let (kind, verdict, sentence) = of(Some(1237.5), 0.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of(Some(124.0), 0.0);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of(None, 0.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{sentence}");
    assert!(sentence.contains("a full link loses packets"), "{sentence}");
    // … unless the queue before it says it.
    let (kind, verdict, sentence) = of(None, 150.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{sentence}");
}

/// Over 50 ms a queue that overflows loses many packets at a time: more than so much random loss would let through.
/// What it carries then is its own where that is the same in each round; what random loss leaves wanders.
#[test]
fn a_link_of_unknown_rate_that_loses_many_at_a_time_is_the_limit_where_it_keeps_its_rate() {
    let of = |interval: [f64; 2]| {
        lossy(None, |figure| {
            figure.interval = Some(interval.map(|share| share * figure.bytes_per_second));
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share, worker.segment_bytes) = (5000, 0.01, 8948);
                (worker.round_trip_seconds, worker.least_round_trip_seconds) = (0.057, 0.05);
            }
        })
    };
    let (kind, verdict, sentence) = of([0.98, 1.03]);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of([0.85, 1.2]);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Unexplained), "{sentence}");
    let (kind, verdict, sentence) = of([0.4, 1.8]);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{sentence}");
}

/// Over 20 ms, with few losses: a flow that keeps its rate, and whose round trips are longer than the shortest, has a full
/// link; round trips of the shortest say that no queue is there, so that the losses are by chance.
#[test]
fn a_far_link_that_keeps_its_rate_with_a_queue_before_it_is_full() {
    let of = |round_trip_seconds: f64, interval: [f64; 2]| {
        lossy(None, |figure| {
            figure.interval = Some(interval.map(|share| share * figure.bytes_per_second));
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share, worker.segment_bytes) = (5, 0.0002, 8948);
                (worker.round_trip_seconds, worker.least_round_trip_seconds) = (round_trip_seconds, 0.02);
            }
        })
    };
    let (kind, verdict, sentence) = of(0.0295, [0.95, 1.0]);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, _, sentence) = of(0.0295, [0.8, 1.2]);
    assert_eq!(kind, LimitKind::Loss, "it wanders: {sentence}");
    let (kind, _, sentence) = of(0.0205, [0.95, 1.0]);
    assert_eq!(kind, LimitKind::Loss, "no queue stands: {sentence}");
}

/// Over 50 ms, without a loss that counts: a flow that fills its link has a queue before it, or the same rate in each
/// round. One that has neither is held by something else now and then, a window after each rare loss for instance.
#[test]
fn a_link_of_unknown_rate_is_not_confirmed_by_a_far_flow_that_leaves_room_in_it() {
    let of = |round_trip_seconds: f64, interval: [f64; 2]| {
        let mut case =
            Lab { claimed: None, disks: vec![200.0; 4], nics: vec![123.7], ..Lab::default() }.measured();
        for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
            figure.interval = Some(interval.map(|share| share * figure.bytes_per_second));
            for worker in &mut figure.workers {
                (worker.round_trip_seconds, worker.least_round_trip_seconds) = (round_trip_seconds, 0.05);
            }
        }
        of_tcp(&case)
    };
    for (round_trip_seconds, interval, wanted) in [
        (0.051, [0.7, 1.3], Verdict::Unexplained),
        (0.051, [0.98, 1.03], Verdict::Confirmed),
        (0.08, [0.7, 1.3], Verdict::Confirmed),
    ] {
        let (kind, verdict, sentence) = of(round_trip_seconds, interval);
        assert_eq!(
            (kind, verdict),
            (LimitKind::Nic, wanted),
            "{round_trip_seconds} {interval:?}: {sentence}"
        );
    }
}

/// Of a way that loses packets, and whose link nobody knows: where sixteen streams carried no more than the six that
/// were taken, and these carry that in the rounds too, the link is the limit.
#[test]
fn a_link_that_more_streams_do_not_carry_more_over_is_full() {
    let of = |sixteen: f64, six: f64| {
        lossy(None, |figure| {
            if figure.stage != Stage::Network {
                figure.stream_trials =
                    vec![trial(1, 30.0, false), trial(16, sixteen, false), trial(6, six, true)];
            }
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share) = (5000, 0.01);
            }
        })
    };
    let (kind, verdict, sentence) = of(124.5, 124.0);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, _, sentence) = of(180.0, 124.0);
    assert_eq!(kind, LimitKind::Loss, "more streams carry more: {sentence}");
    let (kind, _, sentence) = of(180.0, 178.0);
    assert_eq!(kind, LimitKind::Loss, "the rounds carry less than the trials: {sentence}");
}

/// That more streams carried no more may have had another reason than a link whose rate nobody knows.
#[test]
fn a_link_of_unknown_rate_that_trials_call_full_is_not_confirmed_where_the_path_is_held_by_loss() {
    let of = |claimed: Option<f64>, held_by: Option<LimitedBy>| {
        lossy(claimed, |figure| {
            if figure.stage != Stage::Network {
                figure.held_by = held_by;
                figure.stream_trials =
                    vec![trial(1, 30.0, false), trial(16, 124.5, false), trial(6, 124.0, true)];
            }
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share) = (5000, 0.01);
            }
        })
    };
    let (kind, verdict, sentence) = of(None, Some(LimitedBy::Loss));
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Unexplained), "{sentence}");
    assert!(sentence.contains("a full link loses packets"), "{sentence}");
    let (kind, verdict, sentence) = of(Some(124.0), Some(LimitedBy::Loss));
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "its rate is known: {sentence}");
    let (kind, verdict, sentence) = of(None, None);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "nothing was lost: {sentence}");
}

/// A flow over 50 ms that loses one segment in a thousand, of which cubic keeps 6.93 MB/s a stream, over a link that is
/// known to carry much more.
fn far(streams: usize, counted: impl Fn(&mut Measurement)) -> Case {
    let rate = 6.93 * streams as f64;
    let lab = Lab { claimed: Some(1237.5), disks: vec![200.0; 4], nics: vec![rate], ..Lab::default() };
    let mut case = lab.measured();
    case.machine.kernel.tcp_congestion_control = Fact::Known("cubic".into());
    for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
        figure.workers.resize(streams, figure.workers.first().cloned().unwrap_or_else(idle_worker));
        if figure.stage == Stage::Network {
            (figure.held_by, figure.lower_bound, figure.together) = (Some(LimitedBy::Loss), true, true);
        }
        for worker in &mut figure.workers {
            (worker.retransmits, worker.retransmit_share, worker.segment_bytes) = (50, 1e-3, 8948);
            (worker.round_trip_seconds, worker.least_round_trip_seconds) = (0.05, 0.05);
            (worker.losses, worker.loss_segments) = (60, 60_000.0);
        }
        counted(figure);
    }
    case
}

/// What is sent again may be of a queue that the flow itself fills; what was counted loss by loss says whether it is.
#[test]
fn losses_of_a_far_way_limit_only_where_what_was_counted_explains_the_rate() {
    let of = |network: (u64, f64), path: (u64, f64)| {
        of_tcp(&far(1, |figure| {
            let counted = if figure.stage == Stage::Network { network } else { path };
            (figure.workers[0].losses, figure.workers[0].loss_segments) = counted;
        }))
    };
    let enough = (60, 60_000.0);
    let (kind, verdict, sentence) = of(enough, enough);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{sentence}");
    for (what, path) in [("they let more be kept", (1, 60_000.0)), ("too few to tell", (4, 4000.0))] {
        let (kind, verdict, sentence) = of(enough, path);
        assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{what}: {sentence}");
        assert!(sentence.contains("a full link loses packets"), "{what}: {sentence}");
    }
    let (kind, verdict, sentence) = of((0, 0.0), (0, 0.0));
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "nobody counted: {sentence}");
    // Of the network alone: something else held it, and loss is none of its parts.
    let (kind, _, sentence) = of((1, 60_000.0), enough);
    assert_ne!(kind, LimitKind::Loss, "{sentence}");
}

#[test]
fn streams_that_send_nearly_what_their_pace_lets_them_are_not_confirmed_to_be_limited_by_loss() {
    let of = |pace: Option<f64>| {
        of_tcp(&far(2, |figure| {
            let chosen = StreamTrial { pacing_bytes_per_second: pace, ..trial(2, 13.9, true) };
            figure.stream_trials = vec![trial(1, 6.9, false), chosen];
        }))
    };
    let (kind, verdict, sentence) = of(Some(7.5e6));
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{sentence}");
    assert!(sentence.contains("its streams sent nearly what linerate's own pace lets them"), "{sentence}");
    for pace in [Some(9e6), None] {
        let (kind, verdict, sentence) = of(pace);
        assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{pace:?}: {sentence}");
    }
}
