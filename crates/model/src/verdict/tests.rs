//! The judge over the table of situations, over the parts of a machine, and over any numbers.

use super::*;
use linerate_facts::usage::CoreUse;
use proptest::prelude::*;

#[expect(unreachable_pub, reason = "the tests of other crates have it from linerate-testing")]
#[path = "../../../testing/src/verdicts.rs"]
mod verdicts;

fn cpu(core: u32, user: f64, steal: f64) -> CoreUse {
    CoreUse { core, user, steal, idle: 1.0 - user - steal, ..CoreUse::default() }
}

fn disk(busy: Option<f64>, queue_depth: f64) -> DiskEvidence {
    let (name, queue_depth) = ("sda".to_string(), Some(queue_depth));
    DiskEvidence { name, bytes_per_second: 500e6, busy, queue_depth, ..DiskEvidence::default() }
}

fn reads(disk: DiskEvidence) -> Evidence {
    let bytes_per_second = Some(500e6);
    Evidence { route: Route::Disks, bytes_per_second, disks: vec![disk], ..Evidence::default() }
}

fn kind(evidence: &Evidence) -> Option<LimitKind> {
    judge(evidence).kind()
}

#[test]
fn every_situation_has_its_one_answer() {
    for situation in verdicts::situations() {
        assert_eq!(kind(&situation.evidence), situation.limited_by, "{}", situation.name);
    }
}

#[test]
fn a_disk_without_a_pause_limits_and_one_with_pauses_needs_more_in_flight() {
    assert_eq!(kind(&reads(disk(Some(0.99), 3.0))), Some(LimitKind::Disk));
    // Bursts: eight requests for half of the time are four on the average, and a disk that pauses.
    assert_eq!(kind(&reads(disk(Some(0.5), 4.0))), Some(LimitKind::Pipeline));
    assert_eq!(kind(&reads(disk(Some(0.9), 0.9))), None);
    assert_eq!(kind(&reads(disk(None, 1.0))), Some(LimitKind::Disk), "by its depth, where that is all");
    assert_eq!(kind(&reads(disk(None, 0.4))), None);
    let full = Evidence { cpus: vec![cpu(0, 0.97, 0.0)], ..reads(disk(Some(0.99), 3.0)) };
    assert_eq!(kind(&full), Some(LimitKind::Cpu));
    let own = Evidence { own_cpu: Some(0.85), ..reads(disk(Some(0.99), 3.0)) };
    assert_eq!(kind(&own), Some(LimitKind::Cpu));
    let cached = Evidence { bytes_per_second: Some(5e9), ..reads(disk(Some(0.99), 3.0)) };
    assert_eq!(judge(&cached).missing, Some(Missing::BytesOfNoDisk));
}

#[test]
fn of_a_flow_that_comes_in_the_network_is_the_source_and_the_disks_are_the_sink() {
    let incoming = |source: f64, sink: f64| Evidence {
        route: Route::NetworkToDisks,
        bytes_per_second: Some(500e6),
        workers: Some(WorkerEvidence {
            count: 4,
            busy: 1.0 - source - sink,
            busiest: 1.0 - source - sink,
            waiting_source: source,
            waiting_sink: sink,
            paced: false,
        }),
        disks: vec![disk(Some(0.99), 3.0)],
        ..Evidence::default()
    };
    let written = judge(&incoming(0.2, 0.6));
    assert_eq!(written.kind(), Some(LimitKind::Disk));
    let said = written.limit().expect("a limit").to_string();
    assert!(
        said.starts_with("the disks: the workers wait for them 60 % of the time (sda works on 3.0"),
        "{said}"
    );
    let sent = judge(&incoming(0.8, 0.1));
    assert_eq!(sent.kind(), Some(LimitKind::Sender));
    let said = sent.limit().expect("a limit").to_string();
    assert!(said.ends_with("so the server or the way from it"), "{said}");
    let link = LinkEvidence {
        nic: "eth0".into(),
        sends: false,
        share: 0.98,
        bits_per_second: 1e9,
        ..LinkEvidence::default()
    };
    assert_eq!(kind(&Evidence { links: vec![link], ..incoming(0.8, 0.1) }), Some(LimitKind::Nic));
    let others = Evidence { cpus: vec![cpu(0, 0.99, 0.0)], ..incoming(0.4, 0.3) };
    assert_eq!(kind(&others), Some(LimitKind::Cpu));
    let none = judge(&incoming(0.4, 0.3)).missing.expect("no single part").to_string();
    assert!(none.contains("wait for the disks 30 % and for the network 40 %"), "{none}");
    assert_eq!(kind(&Evidence { rate_limit: Some(510e6), ..incoming(0.8, 0.1) }), Some(LimitKind::Demand));
}

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
    let with = |link| Evidence { links: vec![link], ..outgoing(TcpEvidence::default()) };
    assert_eq!(kind(&with(link(21e6, 400.0))), Some(LimitKind::Nic));
    let said = judge(&with(link(21e6, 400.0))).limit().expect("a limit").to_string();
    assert!(said.ends_with("the shaper tbf of eth0 held packets back 400 times per second to keep its rate"));
    assert_eq!(kind(&with(link(1e6, 400.0))), Some(LimitKind::Receiver), "others pass it");
    assert_eq!(kind(&with(link(21e6, 1.0))), Some(LimitKind::Receiver));
}

#[test]
fn the_parts_of_a_machine_in_their_order() {
    let machine = Evidence {
        quota: Some(QuotaEvidence { throttled: 0.1, used: None }),
        cpus: vec![cpu(0, 0.98, 0.0), cpu(1, 0.2, 0.06)],
        memory_stalled: Some(0.2),
        links: vec![LinkEvidence {
            nic: "eth0".into(),
            sends: true,
            share: 0.98,
            bits_per_second: 25e9,
            ..LinkEvidence::default()
        }],
        disks: vec![DiskEvidence { best_bytes_per_second: Some(510e6), ..disk(None, 8.0) }],
        drops: vec![DropEvidence { per_second: 12.0, ..DropEvidence::default() }],
        tcp: TcpEvidence {
            retransmits_per_second: Some(50.0),
            retransmit_share: Some(0.01),
            ..TcpEvidence::default()
        },
        ..Evidence::default()
    };
    let kinds: Vec<LimitKind> = judge(&machine).limits.iter().map(Limit::kind).collect();
    use LimitKind::*;
    assert_eq!(kinds, [Quota, Memory, Nic, Cpu, Disk, Loss, Loss, Steal]);
    assert_eq!(judge(&Evidence::default()).missing, Some(Missing::NothingNear));
}

#[test]
fn a_wait_for_the_network_names_the_part_of_this_host() {
    let workers = WorkerEvidence { count: 1, waiting_sink: 0.8, ..WorkerEvidence::default() };
    let mut evidence = Evidence { route: Route::Network, workers: Some(workers), ..Evidence::default() };
    let said = judge(&evidence).limits[0].to_string();
    assert!(said.starts_with("the network: the worker waits for it 80 % of the time: no link"), "{said}");
    evidence.cpus = vec![cpu(3, 0.99, 0.0)];
    assert_eq!(kind(&evidence), Some(LimitKind::Cpu));
    assert!(judge(&evidence).limits[0].to_string().ends_with(": CPU 3 is 99 % busy"));
}

/// Two workers that wait for the network on a host of 64 CPUs, one of them full.
fn one_full_of_many(full: CoreUse, busy: f64, kernel: f64) -> Evidence {
    let workers =
        WorkerEvidence { count: 2, busy, busiest: busy, waiting_sink: 0.7, ..WorkerEvidence::default() };
    let of = |core| if core == full.core { full } else { cpu(core, 0.1, 0.0) };
    Evidence {
        route: Route::DisksToNetwork,
        workers: Some(workers),
        worker_cpus: vec![0, 1],
        cpus: (0..64).map(of).collect(),
        cpu_users: Some(CpuUsers { own: 0.02, kernel: kernel / 64.0, others: 0.2 }),
        ..Evidence::default()
    }
}

#[test]
fn of_many_cpus_only_a_full_one_that_the_flow_needs_makes_it_wait() {
    let in_system =
        |core, softirq| CoreUse { core, system: 0.99 - softirq, softirq, idle: 0.01, ..CoreUse::default() };
    let waits = |evidence: &Evidence| matches!(judge(evidence).limit(), Some(Limit::Sink { part: None, .. }));
    // A program's, in its own code or in the kernel's; interrupts of another flow's NIC.
    for other in [cpu(40, 0.99, 0.0), in_system(40, 0.0), in_system(40, 0.9)] {
        assert!(waits(&one_full_of_many(other, 0.25, 0.1)), "{other:?}");
    }
    // A hog beside a worker that wants little of its CPU.
    assert!(waits(&one_full_of_many(cpu(1, 0.99, 0.0), 0.05, 0.1)));
    let needed = [
        ("the worker's", one_full_of_many(cpu(1, 0.99, 0.0), 0.25, 0.1)),
        ("its NIC's interrupts", one_full_of_many(in_system(40, 0.9), 0.25, 0.9)),
        ("a thread of the kernel, or a receiver here", one_full_of_many(in_system(40, 0.0), 0.25, 0.95)),
    ];
    for (whose, evidence) in needed {
        assert_eq!(kind(&evidence), Some(LimitKind::Cpu), "{whose}");
    }
    // A flow of which nobody knows where it runs.
    let unknown =
        |full| Evidence { worker_cpus: Vec::new(), cpu_users: None, ..one_full_of_many(full, 0.25, 0.0) };
    assert!(waits(&unknown(cpu(40, 0.99, 0.0))));
    assert_eq!(kind(&unknown(in_system(40, 0.9))), Some(LimitKind::Cpu));
    let two = Evidence { cpus: vec![cpu(0, 0.99, 0.0), cpu(1, 0.2, 0.0)], ..unknown(cpu(0, 0.99, 0.0)) };
    assert_eq!(kind(&two), Some(LimitKind::Cpu), "one of two is as likely its own as not");
}

#[test]
fn stolen_time_is_named_where_nothing_else_limits() {
    let stolen =
        |route, share| kind(&Evidence { route, cpus: vec![cpu(1, 0.5, share)], ..Evidence::default() });
    assert_eq!(stolen(Route::Machine, 0.05), Some(LimitKind::Steal));
    // A twentieth of a CPU explains no flow.
    assert_eq!(stolen(Route::Network, 0.08), None);
    assert_eq!(stolen(Route::Network, 0.15), Some(LimitKind::Steal));
    assert!(!is_full(&CoreUse::default()), "nothing was read of it");
}

#[test]
fn kinds_have_the_words_of_the_result() {
    let word = |kind| serde_json::to_value(kind).expect("JSON");
    assert_eq!(word(LimitKind::SocketLink), "socket-link");
    assert_eq!(word(LimitKind::Pipeline), "pipeline");
}

/// A path whose workers wait for their source, or for their sink, or for nothing.
fn path(waiting_source: f64, waiting_sink: f64) -> Evidence {
    let workers =
        WorkerEvidence { count: 1, busy: 0.1, busiest: 0.1, waiting_source, waiting_sink, paced: false };
    Evidence { route: Route::DisksToNetwork, workers: Some(workers), ..Evidence::default() }
}

fn claim(kind: LimitKind) -> Claim<'static> {
    Claim {
        kind,
        tied: &[],
        rounds: 6,
        least_rounds: 6,
        distrust: None,
        of_predicted: Some(0.99),
        of_predicted_interval: None,
        burst: 1.0,
    }
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

#[test]
fn only_what_the_path_shows_is_confirmed() {
    let of = |claim: &Claim, evidence: &Evidence| verdict(claim, &judge(evidence));
    let (source, sink, calm) = (path(0.9, 0.05), path(0.05, 0.9), path(0.3, 0.3));
    let disk = claim(LimitKind::Disk);
    assert_eq!(of(&disk, &source), (Verdict::Confirmed, None));
    assert_eq!(of(&disk, &sink), (Verdict::Contradicted, None));
    assert_eq!(of(&disk, &calm), (Verdict::Unexplained, Some(Doubt::NothingSeen)));
    assert_eq!(of(&claim(LimitKind::Nic), &sink), (Verdict::Confirmed, None));
    assert_eq!(of(&claim(LimitKind::Nic), &source), (Verdict::Contradicted, None));
    let tie = |tied| Claim { tied, ..disk };
    assert_eq!(of(&tie(&[LimitKind::Nic]), &source), (Verdict::Tie, None));
    assert_eq!(of(&Claim { kind: LimitKind::Nic, ..tie(&[LimitKind::Disk]) }, &source), (Verdict::Tie, None));
    let neither = Claim { kind: LimitKind::Nic, ..tie(&[LimitKind::Window]) };
    assert_eq!(of(&neither, &source), (Verdict::Contradicted, None), "the path showed a third");
    // The ratio takes certainty away, and gives none.
    for ratio in [0.94, 1.06] {
        let off = Claim { of_predicted: Some(ratio), ..disk };
        assert_eq!(of(&off, &source), (Verdict::Unexplained, Some(Doubt::Ratio)));
        assert_eq!(of(&off, &sink), (Verdict::Contradicted, None));
    }
    // Rounds that are far apart from each other say neither that it agrees nor that it does not.
    for (ratio, rounds, expected) in [
        (0.88, [0.69, 1.05], Doubt::Unsteady { low: 69, high: 105 }),
        (1.2, [1.04, 1.5], Doubt::Unsteady { low: 104, high: 150 }),
        (0.88, [0.8, 0.94], Doubt::Ratio),
        (1.2, [1.1, 1.5], Doubt::Ratio),
    ] {
        let wide = Claim { of_predicted: Some(ratio), of_predicted_interval: Some(rounds), ..disk };
        assert_eq!(of(&wide, &source), (Verdict::Unexplained, Some(expected)));
        assert_eq!(of(&Claim { of_predicted: Some(0.98), ..wide }, &source), (Verdict::Confirmed, None));
    }
    // Between what lasts and what a full bucket gives.
    let bucket = Claim { of_predicted: Some(1.34), burst: 4.0, ..disk };
    assert_eq!(of(&bucket, &source), (Verdict::Confirmed, None));
    assert_eq!(of(&Claim { of_predicted: Some(0.9), ..bucket }, &source).1, Some(Doubt::Ratio));
    assert_eq!(of(&Claim { of_predicted: Some(4.5), ..bucket }, &source).1, Some(Doubt::Ratio));
    // What a byte costs a CPU is not known better.
    let quota = Evidence { quota: Some(QuotaEvidence { throttled: 0.5, used: None }), ..path(0.05, 0.9) };
    let far = Claim { of_predicted: Some(1.2), ..claim(LimitKind::Quota) };
    assert_eq!(of(&far, &quota), (Verdict::Confirmed, None));
    let farther = Claim { of_predicted: Some(0.7), ..far };
    assert_eq!(of(&farther, &quota), (Verdict::Unexplained, Some(Doubt::Ratio)));
    let exact = Claim { of_predicted: Some(1.0), ..disk };
    assert_eq!(of(&exact, &calm), (Verdict::Unexplained, Some(Doubt::NothingSeen)));
    // Too little was measured, or a cache.
    let few = Claim { rounds: 5, ..disk };
    assert_eq!(of(&few, &source), (Verdict::Unexplained, Some(Doubt::FewRounds { measured: 5 })));
    assert_eq!(
        of(&Claim { distrust: Some(Distrust::Cache), ..disk }, &source),
        (Verdict::Unexplained, Some(Doubt::Untrusted(Distrust::Cache)))
    );
    let no_path = Claim { of_predicted: None, ..disk };
    assert_eq!(of(&no_path, &source), (Verdict::Unexplained, Some(Doubt::NotMeasured)));
}

/// On the receiver's host only what it reported itself is named; a queue that stands before a link is no window.
#[test]
fn the_receiver_is_named_by_what_it_reported() {
    let of = |receiver: ReceiverEvidence| judge(&Evidence { receiver: Some(receiver), ..path(0.05, 0.9) });
    let said = |receiver| of(receiver).limits[0].clause(false);
    let interrupts = ReceiverEvidence { interrupts: Some((3, 0.99)), ..ReceiverEvidence::default() };
    assert_eq!(said(interrupts), "its CPU 3 is 99 % busy, most of it with interrupts of the network");
    let claim = claim(LimitKind::Receiver);
    let confirmed = |receiver| verdict(&claim, &of(receiver)).0;
    assert_eq!(confirmed(interrupts), Verdict::Confirmed);
    assert_eq!(confirmed(ReceiverEvidence::default()), Verdict::Contradicted, "waits alone are no evidence");
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

#[test]
fn full_cpus_are_the_flows_only_where_it_fills_or_wants_them() {
    let users = |own, kernel, others| Some(CpuUsers { own, kernel, others });
    let full = |waits: Evidence| Evidence { cpus: vec![cpu(0, 0.98, 0.0), cpu(1, 0.99, 0.0)], ..waits };
    // Interrupts and kernel threads are the flow's own work.
    let kernel = Evidence { cpu_users: users(0.45, 0.5, 0.0), ..full(path(0.05, 0.9)) };
    assert_eq!(kind(&kernel), Some(LimitKind::Cpu));
    // Somebody else fills them, and the workers that wait for their disks want little.
    let hog = Evidence { cpu_users: users(0.05, 0.05, 0.88), ..full(path(0.85, 0.05)) };
    assert_eq!(kind(&hog), Some(LimitKind::Disk));
    let wants = WorkerEvidence { busy: 0.5, busiest: 0.5, ..hog.workers.expect("workers") };
    let starved = Evidence { worker_cpus: vec![0], workers: Some(wants), ..hog };
    assert_eq!(kind(&starved), Some(LimitKind::Cpu));
}

#[test]
fn a_disk_that_always_has_its_reads_limits_a_worker_that_waits_for_nothing_in_particular() {
    let kept = |queue_depth| {
        let disk = DiskEvidence { asked_depth: Some(4.0), ..disk(Some(0.9), queue_depth) };
        Evidence { disks: vec![disk], ..path(0.3, 0.3) }
    };
    assert_eq!(kind(&kept(3.6)), Some(LimitKind::Disk));
    assert_eq!(kind(&kept(1.5)), None);
    let missing = judge(&kept(1.5)).missing.map(|missing| missing.to_string()).unwrap_or_default();
    assert!(missing.ends_with("none is half of it; sda has nothing to do for 10 % of it"), "{missing}");
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0f64..=1.0,
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(f64::MAX), Just(0.0)],
    ]
}

prop_compose! {
    fn any_evidence()(
        n in proptest::collection::vec(number(), 20),
        (route, counts, with) in (0usize..6, any::<[u64; 3]>(), any::<u8>()),
    ) -> Evidence {
        use Route::*;
        let has = |bit: u8| with & (1 << bit) != 0;
        Evidence {
            route: [Machine, Memory, Disks, Network, DisksToNetwork, Unknown][route],
            bytes_per_second: has(0).then_some(n[0] * 1e9),
            rate_limit: has(7).then_some(n[5] * 1e9),
            left_out: has(1).then_some(LeftOut {
                by_disk: counts[0], by_network: counts[1], by_cpu: counts[2],
            }),
            receiver: has(2).then_some(ReceiverEvidence {
                busiest_thread: n[1],
                quota: Some(QuotaEvidence { throttled: n[2], used: None }),
                rate_limit: Some(n[3] * 1e9),
                full: has(6),
                interrupts: has(3).then_some((1, n[2])),
            }),
            quota: has(3).then_some(QuotaEvidence { throttled: n[4], used: Some(n[5]) }),
            own_cpu: has(4).then_some(n[6]),
            workers: has(5).then_some(WorkerEvidence {
                count: 2, busy: n[7], busiest: n[8], waiting_source: n[9], waiting_sink: n[10], paced: has(7),
            }),
            cpus: vec![cpu(0, n[11], n[12])],
            worker_cpus: if has(7) { vec![0] } else { Vec::new() },
            cpu_users: has(4).then_some(CpuUsers { own: n[7], kernel: n[8], others: n[9] }),
            memory_stalled: Some(n[13]),
            links: vec![LinkEvidence {
                nic: "eth0".into(), sends: has(6), share: n[14], bits_per_second: 1e9, bytes_per_second: n[13] * 1e9,
                shaper: has(5).then(|| ("tbf".into(), n[16] * 20.0)),
            }],
            disks: vec![disk(has(6).then_some(n[15]), n[16] * 8.0)],
            volumes: if has(4) {
                let members = vec![disk(Some(n[15]), n[16]), disk(Some(n[14]), n[17])];
                vec![VolumeEvidence { name: "sda".into(), members }]
            } else {
                Vec::new()
            },
            reads: has(5).then_some(ReadsEvidence { reads: 8, fewer: 4, gain: n[13] * 2.0 }),
            drops: vec![DropEvidence { per_second: n[17] * 20.0, ..DropEvidence::default() }],
            tcp: TcpEvidence {
                zero_windows_per_second: Some(n[18] * 20.0),
                retransmits_per_second: Some(n[19] * 20.0),
                retransmit_share: Some(n[0]),
                receive_window_share: has(1).then_some(n[1]),
                send_buffer_share: has(2).then_some(n[2]),
                round_trip_seconds: has(3).then_some(n[3]),
                least_round_trip_seconds: has(5).then_some(n[3] * n[4]),
                receive_buffer_bytes: has(2).then_some(n[17] * 1e6),
                segment_bytes: has(4).then_some(n[18] * 9000.0),
                connections: counts[0] as u32,
                datagrams: has(6),
            },
        }
    }
}

proptest! {
    /// A limit with its rule, or what is missing: never neither, never both.
    #[test]
    fn any_evidence_has_an_answer(evidence in any_evidence()) {
        let judged = judge(&evidence);
        prop_assert_eq!(judged.limits.is_empty(), judged.missing.is_some());
        for limit in &judged.limits {
            let (what, rule) = (limit.to_string(), limit.rule());
            prop_assert!(!what.is_empty() && !rule.is_empty() && !what.contains('\n'), "{what}: {rule}");
        }
        prop_assert!(judged.missing.is_none_or(|missing| !missing.to_string().is_empty()));
    }

    /// What a quota throttles more is limited by it all the more.
    #[test]
    fn more_throttling_never_unlimits(evidence in any_evidence(), less in 0.0f64..1.0, more in 0.0f64..1.0) {
        let of = |throttled| {
            let quota = Some(QuotaEvidence { throttled, used: None });
            let judged = judge(&Evidence { quota, ..evidence.clone() });
            judged.limits.iter().any(|limit| limit.kind() == LimitKind::Quota)
        };
        prop_assert!(!of(less.min(more)) || of(less.max(more)));
    }
}

#[test]
fn a_flow_that_has_what_it_asked_for_is_limited_by_that_alone() {
    let workers = WorkerEvidence { count: 1, busy: 0.95, busiest: 0.95, ..WorkerEvidence::default() };
    let of = |moved: f64| Evidence {
        rate_limit: Some(100e6),
        bytes_per_second: Some(moved),
        workers: Some(workers),
        ..path(0.0, 0.0)
    };
    assert_eq!(kind(&of(96e6)), Some(LimitKind::Demand));
    let said = judge(&of(96e6)).limits[0].to_string();
    assert_eq!(said, "the flow asked for no more than 100 MB/s");
    assert_eq!(kind(&of(90e6)), Some(LimitKind::Cpu), "it asked for more than it had");
    assert_eq!(verdict(&claim(LimitKind::Demand), &judge(&of(100e6))), (Verdict::Confirmed, None));
    assert_eq!(verdict(&claim(LimitKind::Disk), &judge(&of(100e6))).0, Verdict::Contradicted);
}
