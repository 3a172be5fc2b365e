use super::super::wire::Probe;
use super::*;
use std::collections::VecDeque;

/// A path that serves `rate` bytes a millisecond behind a queue of `queue` bytes; 10 s of it.
fn drive(rate: u64, queue: u64) -> (f64, f64) {
    let mut window = SendWindow::new(8 << 20, Duration::from_micros(100));
    let (mut waiting, mut received, mut lost) = (0u64, 0u64, 0u64);
    for _ in 0..10_000u64 {
        let burst = window.room();
        window.sent(burst);
        let taken = burst.min(queue + rate - waiting.min(queue + rate));
        lost += burst - taken;
        waiting += taken;
        let served = waiting.min(rate);
        waiting -= served;
        received += served;
        let trip = Duration::from_micros(100 + 1000 * waiting / rate);
        let probe = Probe { sent_bytes: window.sent_bytes() - waiting, nanos: 0 };
        let feedback = Feedback { probe, received_bytes: probe.sent_bytes - lost, ..Feedback::default() };
        window.hear(&feedback, trip);
    }
    (received as f64 / (rate * 10_000) as f64, lost as f64 / (received + lost) as f64)
}

#[test]
fn fills_a_shaped_link_without_loss() {
    // 1 Gb/s and 10 Gb/s behind a queue of 10 ms: as deep as a shallow switch or the lab's tbf.
    for rate in [125_000u64, 1_250_000] {
        let (used, lost) = drive(rate, rate * 10);
        assert!(used > 0.97, "{rate}: used {used}");
        assert!(lost < 0.001, "{rate}: lost {lost}");
    }
}

#[test]
fn a_path_with_hardly_a_queue_loses_little() {
    let (used, lost) = drive(125_000, 200_000);
    assert!(used > 0.85, "used {used}");
    assert!(lost < 0.02, "lost {lost}");
}

/// Flows that share a path of `rate` bytes a tenth of a millisecond behind a queue of `queue` bytes; each has
/// `burst` bytes more to send every 100 ms. Shares of the possible rate and of what was sent that was lost,
/// and the latter after the first third of `ticks`.
fn share(flows: usize, rate: u64, queue: u64, burst: u64, ticks: u64) -> (f64, f64, f64) {
    /// A piece on the way, with what its flow had sent by then where it is a probe.
    type Piece = (usize, u64, Option<u64>, u64);
    const PROCESSOR: u64 = 400_000; // bytes that a sender can hand over in a tenth of a millisecond
    let mut windows: Vec<_> =
        (0..flows).map(|_| SendWindow::new(8 << 20, Duration::from_micros(100))).collect();
    let (mut left, mut received) = (vec![0u64; flows], vec![0u64; flows]);
    let (mut unprobed, mut way) = (vec![0u64; flows], VecDeque::<Piece>::new());
    let (mut waiting, mut sent) = (0u64, 0u64);
    let mut by_then = (0, 0);
    for tick in 0..ticks {
        if tick == ticks / 3 {
            by_then = (sent, received.iter().sum::<u64>());
        }
        for flow in 0..flows {
            let window = &mut windows[flow];
            left[flow] += if tick % 1000 == 0 { burst } else { 0 };
            let mut may = window.room().min(left[flow]).min(PROCESSOR);
            while may >= 9000 {
                let train = may.min(64 * 8972);
                (may, left[flow], sent) = (may - train, left[flow] - train, sent + train);
                window.sent(train);
                unprobed[flow] += train;
                if waiting + train <= queue {
                    waiting += train;
                    way.push_back((flow, train, None, tick));
                }
                if unprobed[flow] >= window.probe_every_bytes() {
                    unprobed[flow] = 0;
                    way.push_back((flow, 0, Some(window.sent_bytes()), tick));
                }
            }
            if unprobed[flow] > 0 && tick % 20 == 0 {
                unprobed[flow] = 0;
                way.push_back((flow, 0, Some(window.sent_bytes()), tick));
            }
        }
        let mut can = rate;
        while let Some((flow, bytes, probe, at)) = way.pop_front() {
            let now = bytes.min(can);
            (can, waiting) = (can - now, waiting - now);
            received[flow] += now;
            if now < bytes {
                way.push_front((flow, bytes - now, probe, at));
                break;
            }
            let Some(sent_bytes) = probe else { continue };
            let probe = Probe { sent_bytes, nanos: 0 };
            let feedback = Feedback { probe, received_bytes: received[flow], ..Feedback::default() };
            windows[flow].hear(&feedback, Duration::from_micros(100 * (tick - at + 1)));
        }
    }
    let arrived = received.iter().sum::<u64>() as f64;
    let possible = (rate * ticks).min(burst * flows as u64 * ticks / 1000) as f64;
    let later = 1.0 - (arrived - by_then.1 as f64) / (sent - by_then.0) as f64;
    (arrived / possible, 1.0 - arrived / sent as f64, later)
}

#[test]
fn workers_that_share_a_link_lose_little_whether_bursty_or_full() {
    // 10 Gb/s behind 5 ms, as the lab shapes it; four disks of 50 MB/s that are let through in slices of 100
    // ms.
    const LONG: u64 = 40_000;
    let (used, lost, _) = share(4, 125_000, 6_250_000, 5_200_000, LONG);
    assert!(used > 0.98 && lost < 0.005, "bursts: used {used}, lost {lost}");
    let (used, lost, _) = share(4, 125_000, 6_250_000, 50_000_000, LONG);
    assert!(used > 0.97 && lost < 0.015, "full: used {used}, lost {lost}");
    let (used, lost, _) = share(4, 12_500, 1_000_000, 5_000_000, LONG);
    assert!(used > 0.97 && lost < 0.005, "1 Gb/s: used {used}, lost {lost}");
    // A turn of a run: 0.35 s that do not count, and 0.7 s that do.
    let (_, _, lost) = share(4, 125_000, 6_250_000, 5_200_000, 10_500);
    assert!(lost < 0.005, "bursts in a turn: lost {lost}");
}

/// A datagram or a probe before the link: its bytes, what had been sent by then where it is a probe, and
/// when.
type Waiting = (u64, Option<u64>, u64);

/// A flow of datagrams of 1,472 bytes over a long path.
#[derive(Clone, Copy, Default)]
struct FarWay {
    /// Of the link, bytes a millisecond, and what may wait before it.
    rate: u64,
    queue: u64,
    trip_ms: u64,
    /// Each datagram is lost whose number this divides; 0: none.
    lost_every: u64,
    /// Answers come by so much later at most, by chance, and in order.
    jitter_ms: u64,
    /// The link stands still for so long, every so often; 0: never.
    pause_ms: u64,
    pause_every_ms: u64,
}

/// Shares of what the link carries, and of what was sent that was lost, of the last 7 of 10 s; and how long it took
/// until nine tenths of the link were used for a whole round trip, milliseconds.
struct FarFlow {
    used: f64,
    lost: f64,
    full_after_ms: Option<u64>,
}

fn drive_far(far: FarWay) -> FarFlow {
    const DATAGRAM: u64 = 1472;
    let FarWay { rate, queue, trip_ms, lost_every, .. } = far;
    let mut window = SendWindow::new(16 << 20, Duration::from_millis(trip_ms));
    let (mut waiting, mut answers) = (VecDeque::<Waiting>::new(), VecDeque::new());
    let (mut queued, mut received, mut number, mut unprobed) = (0, 0, 0u64, 0);
    let (mut credit, mut can, mut by_then) = (0.0, 0, (0, 0));
    let (mut arrived, mut full_after_ms) = (Vec::new(), None);
    let mut chance = 1u64;
    for now in 0..10_000u64 {
        if now == 3_000 {
            by_then = (number * DATAGRAM, received);
        }
        credit += window.pace().expect("a long way") / 1e3;
        while window.room() >= DATAGRAM && credit >= DATAGRAM as f64 {
            (credit, number, unprobed) = (credit - DATAGRAM as f64, number + 1, unprobed + DATAGRAM);
            window.sent(DATAGRAM);
            if !(lost_every > 0 && number.is_multiple_of(lost_every)) && queued + DATAGRAM <= queue {
                queued += DATAGRAM;
                waiting.push_back((DATAGRAM, None, now));
            }
            if unprobed >= window.probe_every_bytes() {
                unprobed = 0;
                waiting.push_back((0, Some(window.sent_bytes()), now));
            }
        }
        credit = credit.min(DATAGRAM as f64);
        let stands_still =
            far.pause_ms > 0 && (now + far.pause_every_ms / 2) % far.pause_every_ms < far.pause_ms;
        can += if stands_still { 0 } else { rate };
        while let Some((bytes, probe, since)) =
            waiting.pop_front_if(|(bytes, ..)| !stands_still && *bytes <= can)
        {
            (can, queued, received) = (can - bytes, queued - bytes, received + bytes);
            if let Some(sent_bytes) = probe {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let late = (chance >> 33) % (far.jitter_ms + 1);
                answers.push_back((now + trip_ms + late, sent_bytes, received, trip_ms + late + now - since));
            }
        }
        can = can.min(rate);
        while let Some((_, sent_bytes, received_bytes, trip)) = answers.pop_front_if(|(due, ..)| *due <= now)
        {
            let probe = Probe { sent_bytes, nanos: 0 };
            let feedback = Feedback { probe, received_bytes, ..Feedback::default() };
            window.hear(&feedback, Duration::from_millis(trip));
        }
        arrived.push(received);
        let before = arrived.len().checked_sub(trip_ms as usize + 1).map(|at| arrived[at]);
        if full_after_ms.is_none() && before.is_some_and(|then| 10 * (received - then) > 9 * rate * trip_ms) {
            full_after_ms = Some(now);
        }
    }
    let arrived = (received - by_then.1) as f64;
    let lost = 1.0 - arrived / (number * DATAGRAM - by_then.0) as f64;
    FarFlow { used: arrived / (rate * 7_000) as f64, lost, full_after_ms }
}

#[test]
fn a_long_way_is_filled_whatever_the_receivers_buffer() {
    // From 300 Mb/s to 10 Gb/s, behind a queue of one round trip, and of a twentieth.
    for (rate, trip_ms) in [(37_500u64, 20), (37_500, 200), (125_000, 50), (125_000, 100), (1_250_000, 50)] {
        let limits = [(trip_ms, 0.95, 0.005), (trip_ms / 20 + 2, 0.65, 0.025)];
        for (queue_ms, least_used, most_lost) in limits {
            let way = FarWay { rate, queue: rate * queue_ms, trip_ms, ..FarWay::default() };
            let FarFlow { used, lost, .. } = drive_far(way);
            let case = format!("{rate} bytes/ms over {trip_ms} ms, queue of {queue_ms} ms");
            assert!(used > least_used && lost < most_lost, "{case}: used {used}, lost {lost}");
        }
    }
}

#[test]
fn single_losses_of_a_long_way_do_not_slow_it_down() {
    for lost_every in [10_000, 1_000] {
        let way = FarWay { rate: 37_500, queue: 37_500 * 50, trip_ms: 50, lost_every, ..FarWay::default() };
        let FarFlow { used, lost, .. } = drive_far(way);
        assert!(used > 0.95, "one in {lost_every}: used {used}");
        assert!(lost < 1.0 / lost_every as f64 + 0.002, "one in {lost_every}: lost {lost}");
    }
}

/// 300 Mb/s over 20 to 200 ms. A link that stands still for 30 ms now and then looks full to a small window, but is
/// not; from 128 KiB to 3.75 MB are nine round trips of growth by half.
#[test]
fn a_pause_while_a_long_way_fills_costs_some_round_trips_only() {
    for trip_ms in [20, 50, 100, 200] {
        for pause_every_ms in [400, 700, 1_100] {
            let way = FarWay { rate: 37_500, queue: 37_500 * trip_ms.max(30), trip_ms, ..FarWay::default() };
            let plain = drive_far(way).full_after_ms.expect("it fills the way");
            let paused = drive_far(FarWay { pause_ms: 30, pause_every_ms, ..way });
            let case = format!("{trip_ms} ms, a pause every {pause_every_ms} ms");
            let full = paused.full_after_ms.expect("it fills the way");
            assert!(full < plain + 16 * trip_ms, "{case}: full after {full} ms, {plain} without");
            let most = 1.0 - 30.0 / pause_every_ms as f64;
            assert!(paused.used > 0.9 * most, "{case}: used {}", paused.used);
            assert!(paused.lost < 0.01, "{case}: lost {}", paused.lost);
        }
    }
}

#[test]
fn answers_that_come_at_different_times_do_not_slow_a_long_way_down() {
    for trip_ms in [20, 50, 100, 200] {
        for lost_every in [0, 10_000, 1_000] {
            let (rate, jitter_ms) = (37_500, trip_ms / 10);
            let way = FarWay {
                rate,
                queue: rate * trip_ms.max(30),
                trip_ms,
                lost_every,
                jitter_ms,
                ..FarWay::default()
            };
            let FarFlow { used, lost, .. } = drive_far(way);
            let own = if lost_every > 0 { 1.0 / lost_every as f64 } else { 0.0 };
            let case = format!("{trip_ms} ms ± {jitter_ms} ms, one in {lost_every} lost");
            assert!(used > 0.95, "{case}: used {used}");
            assert!(lost < own + 0.003, "{case}: lost {lost}");
        }
    }
}

#[test]
fn forged_feedback_is_not_believed() {
    let mut window = SendWindow::new(8 << 20, Duration::from_micros(100));
    window.sent(100_000);
    let room = window.room();
    let probe = Probe { sent_bytes: 1 << 40, nanos: 0 };
    window.hear(&Feedback { probe, received_bytes: 1 << 40, ..Feedback::default() }, Duration::ZERO);
    assert_eq!(window.room(), room);
}
