//! What TCP, the links and the receiver show of the way that a flow takes.

use super::*;

/// Of a transfer to a program that reports nothing of itself.
fn outgoing(tcp: TcpEvidence) -> Evidence {
    let workers =
        WorkerEvidence { count: 4, busy: 0.1, busiest: 0.1, waiting_sink: 0.9, ..Default::default() };
    Evidence {
        route: Route::DisksToNetwork,
        bytes_per_second: Some(20e6),
        workers: Some(workers),
        tcp: TcpEvidence { connections: 4, round_trip_seconds: Some(200e-6), ..tcp },
        ..Evidence::default()
    }
}

#[test]
fn a_program_that_reads_too_slowly_is_no_window_that_is_too_small() {
    let closed = TcpEvidence { receive_window_share: Some(0.97), ..TcpEvidence::default() };
    let said = judge(&outgoing(closed)).limit().expect("a limit").to_string();
    assert_eq!(
        said,
        "the other program: it takes what comes too slowly, TCP's window to it was closed 97 % of the time"
    );
    // As much as a whole buffer is on its way.
    let far = Evidence { bytes_per_second: Some(2e9), ..outgoing(closed) };
    assert_eq!(kind(&far), Some(LimitKind::Window));
    // An agent says what its program does.
    let agent = Evidence { receiver: Some(ReceiverEvidence::default()), ..outgoing(closed) };
    assert_eq!(kind(&agent), Some(LimitKind::Window));
    assert_eq!(
        kind(&outgoing(TcpEvidence::default())),
        Some(LimitKind::Receiver),
        "the way, or the receiver"
    );
}

#[test]
fn a_shaper_limits_the_flow_that_passes_it() {
    let link = |bytes_per_second, per_second| LinkEvidence {
        nic: "eth0".into(),
        sends: true,
        bytes_per_second,
        shaper: Some(("tbf".into(), per_second)),
        ..LinkEvidence::default()
    };
    let used = |name: &str| FlowDevices { interfaces: [name.to_string()].into(), ..FlowDevices::default() };
    let of = |link, name| Evidence {
        links: vec![link],
        devices: Some(used(name)),
        ..outgoing(TcpEvidence::default())
    };
    let with = |link| of(link, "eth0");
    assert_eq!(kind(&with(link(21e6, 400.0))), Some(LimitKind::Nic));
    let said = judge(&with(link(21e6, 400.0))).limit().expect("a limit").to_string();
    assert!(said.ends_with("the shaper tbf of eth0 held packets back 400 times per second to keep its rate"));
    assert_eq!(kind(&with(link(1e6, 400.0))), Some(LimitKind::Nic), "beside others that are faster");
    assert_eq!(kind(&of(link(21e6, 400.0), "eth1")), Some(LimitKind::Receiver), "another flow passes it");
    assert_eq!(kind(&with(link(21e6, 1.0))), Some(LimitKind::Receiver));
}

/// Figures of the lab, reno: what is lost on a full link of 10 Gb/s with 0.1 and 1 % of loss is its effect; with
/// 5 % the link is far from full, though the round trip is 20 times the shortest.
#[test]
fn loss_before_a_standing_queue_is_the_effect_of_a_full_link() {
    let of = |megabytes: f64, round_trip_us: f64, share: f64| {
        let tcp = TcpEvidence {
            retransmits_per_second: Some(1000.0),
            retransmit_share: Some(share),
            round_trip_seconds: Some(round_trip_us * 1e-6),
            least_round_trip_seconds: Some(8e-6),
            connections: 1,
            ..TcpEvidence::default()
        };
        judge(&Evidence { tcp, bytes_per_second: Some(megabytes * 1e6), ..path(0.05, 0.9) }).kind()
    };
    assert_eq!(of(1228.8, 587.0, 0.001), Some(LimitKind::Receiver), "the network, whatever of it");
    assert_eq!(of(1229.0, 153.0, 0.01), Some(LimitKind::Receiver));
    assert_eq!(of(134.0, 181.0, 0.05), Some(LimitKind::Loss));
    // A long way with a little jitter.
    let tcp = |now| TcpEvidence {
        round_trip_seconds: Some(now),
        least_round_trip_seconds: Some(0.05),
        ..TcpEvidence::default()
    };
    assert_eq!(tcp(0.055).queue_stands(100e6), Some(false));
    assert_eq!(tcp(0.08).queue_stands(100e6), Some(true));
    assert_eq!(tcp(0.07).queue_stands(100e6), None);
    assert_eq!(TcpEvidence::default().queue_stands(100e6), None);
}

/// On the receiver's host only what it reported itself is named; a queue that is before a link is not a window.
#[test]
fn the_receiver_is_named_by_what_it_reported() {
    let of = |receiver: ReceiverEvidence| judge(&Evidence { receiver: Some(receiver), ..path(0.05, 0.9) });
    let said = |receiver| of(receiver).limits[0].clause(false);
    let interrupts = ReceiverEvidence { interrupts: Some((3, 0.99)), ..ReceiverEvidence::default() };
    assert_eq!(said(interrupts), "its CPU 3 is 99 % busy, most of it with interrupts of the network");
    let claim = claim(LimitKind::Receiver);
    let confirmed = |receiver| verdict(&claim, &of(receiver)).0;
    assert_eq!(confirmed(interrupts), Verdict::Confirmed);
    assert_eq!(confirmed(ReceiverEvidence::default()), Verdict::Contradicted, "waits alone are not evidence");
    let cpus = [
        cpu(0, 0.99, 0.0),
        CoreUse { core: 2, softirq: 0.7, system: 0.27, idle: 0.03, ..CoreUse::default() },
    ];
    assert_eq!(full_of_interrupts(&cpus), Some((2, 0.97)));
    assert_eq!(full_of_interrupts(&cpus[..1]), None);
}

#[test]
fn the_window_of_datagrams_is_the_receivers_buffer() {
    let of = |trip: f64, share| {
        let tcp = TcpEvidence {
            datagrams: true,
            receive_window_share: Some(share),
            round_trip_seconds: Some(trip),
            least_round_trip_seconds: Some(0.01),
            connections: 1,
            ..TcpEvidence::default()
        };
        judge(&Evidence { tcp, bytes_per_second: Some(10.6e6), ..path(0.05, 0.9) })
    };
    let small = of(0.01, 0.9);
    assert_eq!(
        small.limits[0].to_string(),
        "UDP's window: what the receiver's buffer has room for was full 90 % of the time; it lets 104 KiB through in \
         a round trip of 10.00 ms"
    );
    assert_eq!(small.kind(), Some(LimitKind::Window));
    // The same window before a queue that stands, and one that is seldom full.
    assert_eq!(of(0.05, 0.9).kind(), Some(LimitKind::Receiver), "the network, whatever of it");
    assert_eq!(of(0.01, 0.3).kind(), Some(LimitKind::Receiver));
}

/// 50 ms with a loss of 0.01 %: RFC 9438 lets 122 segments be under way, 28 Mb/s.
#[test]
fn on_a_long_way_a_loss_in_ten_thousand_is_the_limit() {
    let of = |megabits: f64, round_trip_seconds: f64| {
        let tcp = TcpEvidence {
            retransmits_per_second: Some(0.3),
            retransmit_share: Some(1e-4),
            round_trip_seconds: Some(round_trip_seconds),
            least_round_trip_seconds: Some(0.05),
            segment_bytes: Some(1448.0),
            connections: 1,
            ..TcpEvidence::default()
        };
        kind(&Evidence { tcp, bytes_per_second: Some(megabits * 1e6 / 8.0), ..path(0.05, 0.9) })
    };
    assert_eq!(of(25.0, 0.0502), Some(LimitKind::Loss));
    // Such a loss does not explain these: another congestion control, and a slower part of the way.
    assert_eq!(of(250.0, 0.0502), Some(LimitKind::Receiver));
    assert_eq!(of(5.0, 0.0502), Some(LimitKind::Receiver));
    // Its own queue loses them.
    assert_eq!(of(28.0, 0.095), Some(LimitKind::Receiver));
}

#[test]
fn a_closed_window_is_named_before_what_waits_for_it() {
    let tcp = TcpEvidence {
        receive_window_share: Some(0.9),
        round_trip_seconds: Some(0.052),
        connections: 1,
        ..TcpEvidence::default()
    };
    let evidence = Evidence { tcp, bytes_per_second: Some(115e6), ..path(0.05, 0.9) };
    assert_eq!(kind(&evidence), Some(LimitKind::Window));
    let said = judge(&evidence).limits[0].to_string();
    assert_eq!(
        said,
        "TCP's window: the receiver's window was full 90 % of the time; it lets 5.7 MiB through in a round trip \
         of 52.00 ms"
    );
    // Its workers wait for the disks: nobody waits for the window.
    let waits = Evidence { workers: path(0.9, 0.05).workers, ..evidence.clone() };
    assert_eq!(kind(&waits), Some(LimitKind::Disk));
    // A small one fills the CPUs itself; before a large one they come first.
    let full = |rate| Evidence {
        cpus: vec![cpu(0, 0.98, 0.0)],
        cpu_users: Some(CpuUsers { own: 0.1, kernel: 0.88, others: 0.0 }),
        bytes_per_second: Some(rate),
        ..evidence.clone()
    };
    assert_eq!(kind(&full(1e6)), Some(LimitKind::Window));
    assert_eq!(kind(&full(115e6)), Some(LimitKind::Cpu));
    // Others fill them: a sender that gets too little of a CPU closes no window.
    let wants = WorkerEvidence { busy: 0.3, busiest: 0.3, ..evidence.workers.expect("workers") };
    let hogged = Evidence {
        cpu_users: Some(CpuUsers { own: 0.1, kernel: 0.05, others: 0.83 }),
        workers: Some(wants),
        worker_cpus: vec![0],
        ..full(115e6)
    };
    assert_eq!(kind(&hogged), Some(LimitKind::Window));
    let starved = ReceiverEvidence { busiest_thread: 0.97, ..ReceiverEvidence::default() };
    assert_eq!(kind(&Evidence { receiver: Some(starved), ..evidence }), Some(LimitKind::Receiver));
}

/// Figures of the lab, `tcp_rmem` of 16 KiB at the receiver: 12 KiB on their way, closed for 41 % of the time.
#[test]
fn a_small_buffer_that_is_full_is_a_window_though_wake_ups_take_more_of_the_time() {
    let small = |buffer| {
        let tcp = TcpEvidence {
            receive_window_share: Some(0.41),
            receive_buffer_bytes: buffer,
            round_trip_seconds: Some(52e-6),
            connections: 1,
            ..TcpEvidence::default()
        };
        Evidence { tcp, bytes_per_second: Some(223e6), ..path(0.0, 0.87) }
    };
    let full = small(Some(16_384.0));
    assert_eq!(kind(&full), Some(LimitKind::Window));
    // A buffer that is not full, one that has grown, and one that nobody knows.
    for buffer in [Some(131_072.0), Some(8_192.0), None] {
        assert_eq!(kind(&small(buffer)), Some(LimitKind::Receiver));
    }
    // What wake-ups cost is known as well as a CPU's cost.
    let off = Claim { of_predicted: Some(0.82), ..claim(LimitKind::Window) };
    assert_eq!(verdict(&off, &judge(&full)), (Verdict::Confirmed, None));
    let large = Evidence {
        tcp: TcpEvidence { receive_window_share: Some(0.9), round_trip_seconds: Some(0.05), ..full.tcp },
        ..full
    };
    assert_eq!(verdict(&off, &judge(&large)), (Verdict::Unexplained, Some(Doubt::Ratio)));
}

/// One worker that waits for the network for so much of its time, and works for the rest.
fn half_busy(waiting_sink: f64, tcp: TcpEvidence) -> Evidence {
    let busy = 1.0 - waiting_sink;
    let workers = WorkerEvidence { count: 1, busy, busiest: busy, waiting_sink, ..WorkerEvidence::default() };
    Evidence { route: Route::DisksToNetwork, workers: Some(workers), tcp, ..Evidence::default() }
}

/// Figures of the lab, a NIC of 10 Gb/s with 0.1 % of loss.
#[test]
fn a_link_with_a_queue_before_it_limits_a_worker_that_works_for_most_of_the_time() {
    let of = |busy: f64, round_trip_us: f64| {
        let tcp = TcpEvidence {
            round_trip_seconds: Some(round_trip_us * 1e-6),
            least_round_trip_seconds: Some(5e-6),
            retransmit_share: Some(0.0011),
            connections: 1,
            ..TcpEvidence::default()
        };
        let disk = DiskEvidence { bytes_per_second: 1.2e9, ..disk(Some(busy), 1.2) };
        Evidence { bytes_per_second: Some(1.2e9), disks: vec![disk], ..half_busy(0.34, tcp) }
    };
    let link = judge(&of(0.42, 412.0));
    assert!(matches!(link.limit(), Some(Limit::Sink { part: None, .. })), "{link:?}");
    assert_eq!(kind(&of(0.42, 20.0)), None, "no queue");
    assert_eq!(kind(&of(0.91, 412.0)), None, "the disk has few pauses");
}

/// Figures of the lab with `rmem_max` of 208 KiB.
#[test]
fn datagrams_that_wait_for_room_in_the_buffer_most_of_their_waiting_are_limited_by_it() {
    let of = |share: f64, waiting: f64| {
        let tcp = TcpEvidence {
            datagrams: true,
            receive_window_share: Some(share),
            round_trip_seconds: Some(8.1e-6),
            least_round_trip_seconds: Some(5.2e-6),
            connections: 1,
            ..TcpEvidence::default()
        };
        Evidence { bytes_per_second: Some(676e6), ..half_busy(waiting, tcp) }
    };
    assert_eq!(kind(&of(0.33, 0.497)), Some(LimitKind::Window));
    assert_eq!(kind(&of(0.2, 0.497)), None, "most of what it waits for is something else");
    // On a faster core, whose stage alone filled the buffer for less of the time than the path did.
    assert_eq!(kind(&of(0.21, 0.37)), Some(LimitKind::Window));
    assert_eq!(kind(&of(0.1, 0.15)), None, "for a small part of the time");
}

/// Figures of the lab, cubic, 300 Mb/s over 50 ms with segments of 8,948 bytes.
#[test]
fn losses_that_come_many_at_a_time_do_not_say_how_fast_a_way_with_loss_is() {
    let tcp = |retransmit_share| TcpEvidence {
        retransmit_share: Some(retransmit_share),
        least_round_trip_seconds: Some(0.05),
        segment_bytes: Some(8948.0),
        connections: 1,
        ..TcpEvidence::default()
    };
    assert!(tcp(0.0171).loses_in_bursts(34.8e6), "its own queue, at the end of slow start");
    assert!(!tcp(0.0171).loss_explains(34.8e6));
    assert!(!tcp(0.001).loses_in_bursts(9e6) && tcp(0.001).loss_explains(9e6), "by chance");
}

/// A sink that is slow closes TCP's window; where its receivers wait for the network, it is not the sink.
#[test]
fn a_sink_whose_receivers_wait_for_its_disk_is_the_limit() {
    let sink = SinkEvidence {
        host: "peer".into(),
        disk: Some("vdb".into()),
        busy: Some(0.98),
        waiting_network: 0.05,
        waiting_disk: 0.9,
    };
    let tcp = TcpEvidence {
        receive_window_share: Some(0.95),
        round_trip_seconds: Some(0.01),
        connections: 1,
        ..TcpEvidence::default()
    };
    let evidence = Evidence {
        route: Route::DisksToNetwork,
        bytes_per_second: Some(50e6),
        sink: Some(sink.clone()),
        tcp,
        ..Evidence::default()
    };
    let judgement = judge(&evidence);
    assert_eq!(judgement.limit(), Some(&Limit::Stored { sink: sink.clone() }));
    assert_eq!(judgement.kind(), Some(LimitKind::Disk));
    let disk = claim(LimitKind::Disk);
    assert_eq!(verdict(&Claim { of_sink: true, ..disk }, &judgement).0, Verdict::Confirmed);
    // A disk of this host is another one.
    assert_eq!(verdict(&disk, &judgement).0, Verdict::Contradicted);
    let starved = SinkEvidence { waiting_network: 0.9, waiting_disk: 0.05, ..sink };
    let judgement = judge(&Evidence { sink: Some(starved), ..evidence });
    assert_eq!(judgement.kind(), Some(LimitKind::Window));
}

/// Of a flow that comes in the windows are the sender's: of a slow disk here, or of a small buffer.
#[test]
fn a_flow_that_comes_in_shows_its_sender_and_its_own_window() {
    let incoming = |waiting_source, waiting_sink, sender, tcp| Evidence {
        route: Route::NetworkToDisks,
        bytes_per_second: Some(200e6),
        workers: Some(WorkerEvidence {
            count: 1,
            busy: 0.1,
            busiest: 0.1,
            waiting_source,
            waiting_sink,
            paced: false,
        }),
        sender,
        tcp: TcpEvidence { connections: 1, round_trip_seconds: Some(1e-3), ..tcp },
        ..Evidence::default()
    };
    let closed = TcpEvidence { receive_window_share: Some(0.9), ..TcpEvidence::default() };
    let waits = |source, sink, tcp| kind(&incoming(source, sink, None, tcp));
    assert_eq!(waits(0.1, 0.8, closed), Some(LimitKind::Disk), "a closed window is the disk's effect");
    assert_eq!(waits(0.8, 0.1, closed), Some(LimitKind::Window));
    assert_eq!(waits(0.8, 0.1, TcpEvidence::default()), Some(LimitKind::Sender), "the way, or the sender");
    let said = |sender, tcp| judge(&incoming(0.8, 0.1, Some(sender), tcp)).limit().expect("a limit").clone();
    let sender = ReceiverEvidence::default();
    let thread = said(ReceiverEvidence { busiest_thread: 0.97, ..sender }, TcpEvidence::default());
    assert_eq!(thread.to_string(), "the sender: one of its threads uses 97 % of a CPU");
    assert_eq!(
        (thread.kind(), thread.clause(false).as_str()),
        (LimitKind::Sender, "one of its threads uses 97 % of a CPU")
    );
    let limited = said(ReceiverEvidence { rate_limit: Some(2e8), ..sender }, TcpEvidence::default());
    assert_eq!(limited.to_string(), "the sender: it sends no more than its rate limit of 200 MB/s");
    let full = said(ReceiverEvidence { full: true, ..sender }, TcpEvidence::default());
    assert!(
        full.kind() == LimitKind::Sender
            && full.to_string().ends_with(": the sender: all of its CPUs are busy")
    );
    let small = TcpEvidence { send_buffer_share: Some(0.9), ..TcpEvidence::default() };
    let window = said(sender, small);
    assert!(
        window.kind() == LimitKind::Window && window.to_string().contains("the sender's own send buffer"),
        "{window}"
    );
}
