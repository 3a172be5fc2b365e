//! Each finding with the figures that make it speak, and with those that do not.

use super::{IDS, finding_id};
use crate::diagnose::tests::{Case, Lab, figure, idle_worker};
use crate::diagnose::{Diagnosis, Finding, Severity};
use crate::measure::{
    CoreUse, LimitedBy, Measurement, ReadAgain, ReadsTrial, ReceiverResult, Stage, WorkerResult,
};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Burst, Writing};
use std::collections::BTreeSet;

/// Four disks of 200, a NIC of 1 Gb/s, nothing wrong.
fn healthy() -> Case {
    Lab { disks: vec![200.0; 4], nics: vec![123.7], ..Lab::default() }.measured()
}

fn ids(case: &Case) -> Vec<String> {
    case.diagnose().findings.into_iter().map(|finding| finding.id).collect()
}

fn only(case: &Case) -> Finding {
    let mut findings = case.diagnose().findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

fn of(case: &mut Case, stage: Stage, protocol: Option<Protocol>) -> &mut Measurement {
    let mut all = case.measurements.iter_mut();
    all.find(|figure| figure.stage == stage && figure.protocol == protocol).expect("a measurement")
}

fn worker(path: &str, segment_bytes: u32, cpu_share: f64) -> WorkerResult {
    WorkerResult {
        worker: 0,
        source: "memory".into(),
        path: Some(path.into()),
        bytes_per_second: 123e6,
        cpu_share,
        waiting_source: 0.7,
        waiting_sink: 0.1,
        segment_bytes,
        ..WorkerResult::default()
    }
}

#[test]
fn a_healthy_server_has_none() {
    assert_eq!(ids(&healthy()), Vec::<String>::new());
}

/// Over 50 ms 0.01 % of loss leaves cubic and reno 122 segments: 21.9 MB/s.
#[test]
fn a_far_way_that_loses_a_packet_now_and_then_is_slower_over_minutes() {
    let of = |control: &str, rate: f64, losses, loss_segments, trip: f64| {
        let mut case = healthy();
        case.machine.kernel.tcp_congestion_control = Fact::Known(control.into());
        let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
        path.bytes_per_second = rate;
        for worker in &mut path.workers {
            // A queue dropped many at a time, too.
            (worker.retransmits, worker.retransmit_share, worker.segment_bytes) = (3000, 1e-2, 8948);
            (worker.losses, worker.loss_segments) = (losses, loss_segments);
            (worker.round_trip_seconds, worker.least_round_trip_seconds) = (trip, trip);
        }
        let found = case.diagnose().findings.into_iter().find(|finding| finding.id == "loss-over-time");
        found.map(|finding| finding.text)
    };
    for (control, source) in [("cubic", "RFC 9438"), ("reno", "Mathis et al. 1997")] {
        let text = of(control, 37e6, 10, 1e5, 0.05).expect("a finding");
        for part in ["0.01 %", "50 ms", control, "21.9 MB/s over minutes", source] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    for (control, rate, losses, segments, trip) in [
        ("bbr", 37e6, 10, 1e5, 0.05),
        ("cubic", 22e6, 10, 1e5, 0.05),
        ("cubic", 37e6, 4, 4e4, 0.05),
        ("cubic", 37e6, 0, 0.0, 0.05),
        ("cubic", 37e6, 10, 1e5, 1e-4),
    ] {
        let found = of(control, rate, losses, segments, trip);
        assert_eq!(found, None, "{control} {rate} {losses} {segments} {trip}");
    }
}

#[test]
fn small_pages_cost_the_cpu() {
    let mut case = healthy();
    case.machine.kernel.transparent_huge_pages = Fact::Known("madvise".into());
    assert_eq!(ids(&case), Vec::<String>::new());
    case.machine.kernel.transparent_huge_pages = Fact::Known("never".into());
    let found = only(&case);
    assert_eq!((found.id.as_str(), found.severity), ("no-huge-pages", Severity::Slow));
    case.measurements.retain(|figure| figure.stage != Stage::Disk);
    assert!(!ids(&case).contains(&"no-huge-pages".into()), "nothing was read");
}

#[test]
fn a_part_that_does_more_than_its_data_sheet_says() {
    let with = |rated: f64| {
        let mut case = healthy();
        let disk = case.plan.resources.iter_mut().find(|resource| resource.id == "disk:loop1");
        disk.expect("a disk").rated = Some(rated);
        case
    };
    assert_eq!(ids(&with(198e6)), Vec::<String>::new(), "data sheets round");
    let found = only(&with(150e6));
    assert_eq!((found.id.as_str(), found.severity, found.gain), ("above-rated", Severity::Note, 0.0));
    assert!(found.text.starts_with("disk loop1 did 200 MB/s, and is rated 150 MB/s"), "{}", found.text);
}

#[test]
fn straggler_names_the_disk_and_what_its_like_would_gain() {
    let case = Lab { disks: vec![100.0, 20.0], nics: vec![1237.5], ..Lab::default() }.measured();
    let found = only(&case);
    assert_eq!((found.id.as_str(), found.severity), ("straggler", Severity::Slow));
    assert_eq!(found.text, "loop1 reads a fifth of loop0 (20.0 MB/s against 100 MB/s): same kind of device");
    assert_eq!(found.evidence["resource"], "disk:loop1");
    assert_eq!(found.gain.round(), 80e6);
    assert!(found.remedy.contains("/dev/loop1"));
    for fine in [vec![100.0, 85.0], vec![100.0; 8], vec![20.0]] {
        assert_eq!(
            ids(&Lab { disks: fine, nics: vec![1237.5], ..Lab::default() }.measured()),
            Vec::<String>::new()
        );
    }
    let mut two =
        Lab { disks: vec![100.0, 90.0, 20.0, 110.0, 19.0], nics: vec![1237.5], ..Lab::default() }.measured();
    assert_eq!(ids(&two), ["straggler", "straggler"]);
    // A rotating disk beside flash is not a straggler.
    for (n, disk) in two.machine.disks.iter_mut().enumerate() {
        disk.rotational = Fact::Known(n == 2 || n == 4);
    }
    assert_eq!(ids(&two), Vec::<String>::new());
}

#[test]
fn receive_buffer_drops_are_a_loss() {
    let mut case = healthy();
    let udp = of(&mut case, Stage::Network, Some(Protocol::Udp));
    udp.loss = 0.2;
    udp.receiver = Some(ReceiverResult {
        host: "peer".into(),
        socket_drops: 321,
        receive_buffer_bytes: 425_984,
        ..ReceiverResult::default()
    });
    let found = only(&case);
    assert_eq!((found.id.as_str(), found.severity), ("udp-receive-buffer", Severity::Loss));
    assert!(
        found.text.contains("416 KiB overflowed 321 times") && found.text.contains("20.00 %"),
        "{}",
        found.text
    );
    assert!(found.remedy.contains("net.core.rmem_max=67108864"));
    assert_eq!(found.gain.round(), 0.25 * 123.7e6);
    let udp = of(&mut case, Stage::Network, Some(Protocol::Udp));
    udp.receiver.as_mut().expect("a receiver").socket_drops = 0;
    assert_eq!(only(&case).id, "udp-loss", "lost on the way, not in the buffer");
}

#[test]
fn mtu_of_the_ends_and_of_what_is_between() {
    let mut case = healthy();
    case.plan.paths[0].peer_mtu = Fact::Known(1500);
    let found = only(&case);
    assert_eq!(found.id, "mtu-mismatch");
    assert_eq!(found.text, "eth0 has an MTU of 9000, the peer's interface 1500");
    assert!(found.remedy.contains("ip link set eth0 mtu 9000") && found.remedy.contains("-s 8972"));
    // 8948/9038 instead of 1448/1538 on a NIC that is the bottleneck.
    assert!(
        (found.gain / 123.7e6 - (8948.0 / 9038.0 / (1448.0 / 1538.0) - 1.0)).abs() < 1e-4,
        "{}",
        found.gain
    );
    case.plan.paths[0].peer_mtu = Fact::Known(9000);
    of(&mut case, Stage::Network, Some(Protocol::Tcp)).workers = vec![worker("nic:eth0", 1448, 0.1)];
    assert!(only(&case).text.contains("segments of 1448 bytes, not 8948"));
    of(&mut case, Stage::Network, Some(Protocol::Tcp)).workers = vec![worker("nic:eth0", 8948, 0.1)];
    assert_eq!(ids(&case), Vec::<String>::new());
    case.plan.paths[0].peer_mtu = Fact::unknown("the peer did not tell");
    assert_eq!(ids(&case), Vec::<String>::new());
}

#[test]
fn memlock_names_need_have_and_remedy() {
    let mut case = healthy();
    case.machine.kernel.memlock_bytes = Fact::Known(65_536);
    (case.plan.registered, case.plan.pool_wished_bytes) = (false, 40 << 20);
    let found = only(&case);
    assert_eq!(found.id, "memlock");
    assert!(found.text.contains("64 KiB") && found.text.contains("40 MiB"), "{}", found.text);
    assert!(found.remedy.contains("`ulimit -l 40960`"));
    case.machine.kernel.memlock_bytes = Fact::Known(u64::MAX);
    assert_eq!(ids(&case), Vec::<String>::new());
}

#[test]
fn io_uring_by_setting_and_by_what_really_ran() {
    let mut case = healthy();
    case.machine.kernel.io_uring_disabled = Fact::Known(2);
    assert_eq!(ids(&case), Vec::<String>::new(), "it ran, whatever the setting says now");
    for figure in &mut case.measurements {
        figure.method = "pread, O_DIRECT, 1 MiB x 8 (fallback)".into();
    }
    assert!(only(&case).text.contains("kernel.io_uring_disabled=2"));
    case.machine.kernel.io_uring_disabled = Fact::Known(0);
    let refused = only(&case);
    assert_eq!(refused.id, "io-uring-off");
    assert!(refused.remedy.contains("seccomp"));
    for (method, found) in [("; io_uring was refused: Operation not permitted", 1), ("", 0)] {
        for figure in &mut case.measurements {
            figure.method = format!("pread and send on 8 threads (no io_uring){method}");
        }
        assert_eq!(ids(&case).len(), found, "refused by the kernel, or left out on demand");
    }
    case.measurements.clear();
    case.machine.kernel.io_uring_disabled = Fact::Known(2);
    assert_eq!(only(&case).id, "io-uring-off", "nothing ran yet: the setting tells");
}

fn core(core: u32, user: f64, steal: f64) -> CoreUse {
    CoreUse { core, user, steal, idle: 1.0 - user - steal, ..CoreUse::default() }
}

#[test]
fn one_full_core_beside_idle_ones() {
    let mut case = healthy();
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    path.cpu_by_core = vec![core(0, 0.99, 0.0), core(1, 0.1, 0.0)];
    path.workers = vec![WorkerResult { cpu_share: 0.01, ..idle_worker() }];
    assert_eq!(ids(&case), Vec::<String>::new(), "others fill that core");
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    path.workers = vec![WorkerResult { cpu_share: 0.4, ..idle_worker() }];
    let found = only(&case);
    assert_eq!((found.id.as_str(), found.severity, found.gain), ("one-core-saturated", Severity::Note, 0.0));
    assert!(found.text.starts_with("core 0 was full while 1 of 2 cores"), "{}", found.text);
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    (path.held_by, path.cpu_by_core[1]) = (None, core(1, 0.9, 0.0));
    assert_eq!(ids(&case), Vec::<String>::new(), "no other core has time");
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    (path.held_by, path.cpu_by_core[1]) = (Some(LimitedBy::Quota), core(1, 0.1, 0.0));
    assert_eq!(ids(&case), Vec::<String>::new(), "a quota is another matter");
}

#[test]
fn steal_above_five_percent() {
    let mut case = healthy();
    of(&mut case, Stage::Disk, None).cpu_by_core = vec![core(0, 0.3, 0.04), core(1, 0.1, 0.02)];
    assert_eq!(ids(&case), Vec::<String>::new());
    of(&mut case, Stage::Disk, None).cpu_by_core = vec![core(0, 0.3, 0.14), core(1, 0.1, 0.02)];
    let found = only(&case);
    assert_eq!(found.id, "steal");
    assert!(found.text.contains("14 %") && found.text.contains("loop0 alone"), "{}", found.text);
}

#[test]
fn figures_that_are_not_to_be_trusted() {
    let mut case = healthy();
    let again = ReadAgain {
        resource: "disk:loop0".into(),
        bytes: 3 << 30,
        first_bytes_per_second: Some(50e6),
        again_bytes_per_second: Some(200e6),
    };
    of(&mut case, Stage::Disk, None).read_again = vec![again];
    of(&mut case, Stage::Disk, None).flags = vec!["read-again".into()];
    of(&mut case, Stage::Disk, None).together = true;
    let found = only(&case);
    let said = "read 3 GiB again (50.0 MB/s at first, 200 MB/s again), and what was read again came faster";
    assert!(found.id == "read-again" && found.text.contains(said), "{}", found.text);
    of(&mut case, Stage::Disk, None).flags = vec!["page-cache".into(), "read-again".into()];
    of(&mut case, Stage::Disk, None).samples = vec![200e6, 180e6, 150e6];
    assert_eq!(ids(&case), ["drift", "page-cache", "read-again"]);
    let fell = case.diagnose().findings.remove(0);
    assert!(fell.text.contains("fell steadily, by 25 %"), "{}", fell.text);
    let mut case = healthy();
    case.plan.sources[0].direct = false;
    let buffered = only(&case);
    assert_eq!((buffered.id.as_str(), buffered.severity), ("page-cache", Severity::Slow));
    assert!(buffered.text.contains("/data/0/file"));
}

#[test]
fn a_path_below_its_prediction_says_what_its_workers_waited_for() {
    let mut case = healthy();
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    (path.bytes_per_second, path.workers) = (80e6, vec![worker("nic:eth0", 8948, 0.1)]);
    path.samples = vec![80e6; 6];
    let found = only(&case);
    assert_eq!(found.id, "path-below-prediction");
    assert!(found.text.contains("65 % of the 124 MB/s") && found.text.contains("70 %"), "{}", found.text);
    assert!(found.remedy.contains("--queue-depth"));
    assert_eq!(found.gain.round(), 43.7e6);
    // Rounds in which it did what its parts allow beside others: that is not a loss of the path.
    of(&mut case, Stage::Path, Some(Protocol::Tcp)).samples = vec![80e6, 122e6, 60e6, 124e6, 80e6, 80e6];
    assert_eq!(ids(&case), Vec::<String>::new());
}

#[test]
fn a_nic_that_is_down_and_bbr() {
    let mut case = healthy();
    case.machine.kernel.tcp_congestion_control = Fact::Known("bbr".into());
    assert_eq!(only(&case).id, "congestion-control");
    case.plan.loopback = true;
    assert!(!ids(&case).contains(&"congestion-control".to_string()));
    case.plan.loopback = false;
    case.goal.congestion_control = Some("cubic".into());
    assert_eq!(ids(&case), Vec::<String>::new());
    let mut nic = linerate_testing::nic("eth0", Some(10), None);
    nic.state = Fact::Known("down".into());
    case.machine.nics = vec![nic];
    assert_eq!(only(&case).id, "nic-down");
}

#[test]
fn loss_is_first_then_by_gain() {
    let mut case = Lab { disks: vec![100.0, 20.0], nics: vec![1237.5], ..Lab::default() }.measured();
    let udp = of(&mut case, Stage::Network, Some(Protocol::Udp));
    (udp.loss, udp.receiver) = (0.01, Some(ReceiverResult { socket_drops: 3, ..ReceiverResult::default() }));
    case.machine.kernel.tcp_congestion_control = Fact::Known("bbr".into());
    case.measurements.push(figure(Stage::Disk, "extra", "disk:loop9", 1.0));
    assert_eq!(ids(&case), ["udp-receive-buffer", "straggler", "congestion-control"]);
}

/// A disk of 400 MB/s for 2 s and then of 100: the bucket came back between its turns.
fn bursting(spares_reads: bool) -> Case {
    let mut case = Lab { disks: vec![180.0], nics: vec![1237.5], ..Lab::default() }.measured();
    let burst = Burst {
        burst_bytes_per_second: 400e6,
        sustained_bytes_per_second: 100e6,
        until_bytes: 800e6,
        bucket_bytes: 600e6,
        seconds: 2.0,
    };
    let writing = Writing { seconds: 8.0, bytes_per_second: 175e6, burst: Some(burst), spares_reads };
    case.plan.sources[0].writing = Some(writing);
    case
}

#[test]
fn a_bucket_that_the_writing_emptied_holds_reads_unless_they_show_otherwise() {
    let predicted =
        |case: &Case| case.diagnose().predicted.and_then(|one| one.bytes_per_second.known().copied());
    let held = bursting(false);
    assert_eq!(predicted(&held), Some(100e6), "what lasts");
    let found = held.diagnose().findings.into_iter().find(|finding| finding.id == "burst").expect("burst");
    assert!(found.text.contains("loop0” ran at 400 MB/s for 2.0 s, then at 100 MB/s"), "{}", found.text);
    // The path did 180 MB/s with what had come back: that proves nothing.
    assert_ne!(held.diagnose().verdict, Some(linerate_model::verdict::Verdict::Confirmed));
    let spared = bursting(true);
    assert_eq!(predicted(&spared), Some(180e6));
    let found = only(&spared);
    assert!(found.text.ends_with("it is of writes only"), "{}", found.text);
}

#[test]
fn a_depth_that_is_set_too_high_is_named_with_what_it_costs() {
    let tried = |rates: [f64; 3], asked: Option<u32>| {
        let mut case = Lab { disks: vec![2000.0], nics: vec![3300.0], ..Lab::default() }.measured();
        case.goal.queue_depth = asked;
        let trial = |(queue_depth, rate): (u32, f64)| ReadsTrial {
            queue_depth,
            bytes_per_second: rate,
            samples: vec![rate * 0.98, rate * 1.02],
        };
        of(&mut case, Stage::Path, Some(Protocol::Tcp)).reads_in_flight =
            [2, 4, 8].into_iter().zip(rates).map(trial).collect();
        case.diagnose().findings.into_iter().find(|finding| finding.id == "queue-too-deep")
    };
    // The states of a plain machine.
    let found = tried([2.6e9, 3.3e9, 1.9e9], Some(8)).expect("a finding");
    assert!(found.text.starts_with("8 reads in flight, as asked for, carry 1.90 GB/s on the path, 4 carry"));
    assert!(found.text.ends_with("(−42 %)") && found.remedy.contains("`--queue-depth 4`"), "{found:?}");
    assert_eq!(tried([2.6e9, 3.3e9, 3.2e9], Some(8)), None);
    assert_eq!(tried([2.6e9, 3.3e9, 1.9e9], None), None, "the trial has chosen");
}

#[test]
fn a_disk_that_stalls_in_one_round_changes_no_verdict_and_is_named() {
    let mut case = healthy();
    let before = case.diagnose();
    for (stage, protocol) in [(Stage::Path, Some(Protocol::Tcp)), (Stage::Path, Some(Protocol::Udp))] {
        let figure = of(&mut case, stage, protocol);
        (figure.samples[2], figure.spread) = (0.0, 1.0);
    }
    let together = case.measurements.iter_mut().find(|figure| figure.stage == Stage::Disk && figure.together);
    together.expect("all disks").samples[2] = 0.0;
    let after = case.diagnose();
    assert_eq!(after.verdict, before.verdict);
    let parts = |one: &Diagnosis| one.bottleneck.as_ref().map(|found| found.resources.clone());
    assert_eq!(parts(&after), parts(&before));
    assert!(after.achieved.is_some_and(|achieved| (achieved.of_predicted - 1.0).abs() < 0.05));
    let found = only(&case);
    assert_eq!(found.id, "stalled");
    assert!(found.text.contains("moved nothing in 1 of its 6 samples, and 2 more figures"), "{}", found.text);
}

#[test]
fn counters_that_are_not_there_are_named() {
    let mut case = healthy();
    of(&mut case, Stage::Path, Some(Protocol::Tcp)).not_seen =
        ["disk:/mnt/nfs", "cpu", "tcp-window"].map(str::to_string).to_vec();
    let found = only(&case);
    assert_eq!(found.id, "not-seen");
    for what in ["what /mnt/nfs did itself", "how busy the CPUs were", "a window of TCP was closed"] {
        assert!(found.text.contains(what), "{}", found.text);
    }
}

/// A peer that dies after three rounds: a longer budget is not a remedy.
#[test]
fn rounds_that_failed_are_not_blamed_on_the_budget() {
    let mut case = healthy();
    let path = of(&mut case, Stage::Path, Some(Protocol::Tcp));
    path.samples.truncate(3);
    let sentence = |case: &Case| case.diagnose().bottleneck.expect("a bottleneck").sentence;
    assert!(sentence(&case).contains("3 rounds were measured, 6 are needed (a longer --budget)"));
    of(&mut case, Stage::Path, Some(Protocol::Tcp)).flags.push("cut-short".into());
    let failed = sentence(&case);
    assert!(failed.contains("6 are needed (others failed or were interrupted"), "{failed}");
}

#[test]
fn the_names_are_those_of_the_documents() {
    let text = include_str!("../../../../../docs/run-json.md");
    let (_, list) = text.split_once("**findings** so far").expect("the list");
    let (list, _) = list.split_once("\n\n").expect("its end");
    let documented: BTreeSet<&str> =
        list.split('`').filter_map(|word| word.strip_prefix('"')?.strip_suffix('"')).collect();
    assert_eq!(IDS.lines().collect::<BTreeSet<_>>(), documented);
    assert_eq!((finding_id("nic-speed"), finding_id("nic")), (Some("nic-speed"), None));
}
