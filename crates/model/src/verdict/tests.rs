//! The judge over the table of situations, and over the parts of a machine.

use super::*;
use certainty::claim;
use linerate_facts::usage::CoreUse;
use linerate_machine::flow_devices::FlowDevices;

#[expect(unreachable_pub, reason = "the tests of other crates have it from linerate-testing")]
#[path = "../../../testing/src/verdicts.rs"]
mod verdicts;

mod any_evidence;
mod certainty;
mod others;
mod way;

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
fn the_bytes_that_a_disk_works_on_are_beside_those_of_the_disk_alone() {
    let alone = Some(DiskAlone { bytes_in_flight: 7.0 * 1048576.0, latency_seconds: 3.5e-3 });
    let disk = |busy| DiskEvidence { latency_seconds: Some(0.0104858), alone, ..disk(Some(busy), 2.6) };
    assert_eq!(
        judge(&reads(disk(0.97))).limit().expect("a limit").to_string(),
        "the disk: sda had 2.6 requests in flight (5.0 MiB), 10.49 ms each; alone 7 MiB, 3.50 ms each"
    );
    let workers = WorkerEvidence {
        count: 1,
        busy: 0.5,
        busiest: 0.5,
        waiting_source: 0.1,
        waiting_sink: 0.4,
        ..WorkerEvidence::default()
    };
    let path = Evidence { route: Route::DisksToNetwork, workers: Some(workers), ..reads(disk(0.9)) };
    let missing = judge(&path).missing.expect("no limit").to_string();
    assert!(
        missing.ends_with(
            "sda has nothing to do for 10 % of it, and 5.0 MiB of reads to work on at a time, alone 7 MiB"
        ),
        "{missing}"
    );
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
    assert!(said.starts_with("the disks: the workers wait for them 60 % of the time (sda had 3.0"), "{said}");
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
    let none = judge(&incoming(0.4, 0.3)).missing.expect("no single limit").to_string();
    assert!(none.contains("30 % waiting for the disks, 40 % for the network"), "{none}");
    assert_eq!(kind(&Evidence { rate_limit: Some(510e6), ..incoming(0.8, 0.1) }), Some(LimitKind::Demand));
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
    let workers = WorkerEvidence { count: 2, busy, busiest: busy, waiting_sink: 0.7, ..Default::default() };
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
        ("its NIC's interrupts", one_full_of_many(in_system(40, 0.9), 0.25, 0.9)),
        ("a thread of the kernel, or a receiver here", one_full_of_many(in_system(40, 0.0), 0.25, 0.95)),
    ];
    for (whose, evidence) in needed {
        assert_eq!(kind(&evidence), Some(LimitKind::Cpu), "{whose}");
    }
    // The worker's, which gets a quarter of it.
    assert_eq!(kind(&one_full_of_many(cpu(1, 0.99, 0.0), 0.25, 0.1)), Some(LimitKind::Others));
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
    let judged = judge(&starved);
    assert_eq!(judged.kind(), Some(LimitKind::Others), "full by their work, and not by the flow's");
    let said = judged.limit().expect("a limit").to_string();
    assert_eq!(said, "other programs: they used 93 % of CPU 0, which the flow needs");
    // By its own work alone.
    let own = Evidence { others_by_cpu: vec![(0, 0.04), (1, 0.9)], ..starved };
    assert_eq!(kind(&own), Some(LimitKind::Cpu));
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
    assert!(missing.ends_with("for the network; sda has nothing to do for 10 % of it"), "{missing}");
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

#[test]
fn a_program_that_waits_for_no_part_of_the_host_is_limited_by_what_it_waits_for() {
    let of = |program: ProgramEvidence, waiting_source| {
        let evidence = Evidence { program: Some(program), ..path(waiting_source, 0.0) };
        judge(&evidence).limits.first().map(|limit| (limit.kind(), limit.to_string()))
    };
    let sleeps = || ProgramEvidence { sleeping: 0.8, ..ProgramEvidence::default() };
    let said = "the program itself: it waits by a clock of its own 80 % of the time";
    assert_eq!(of(sleeps(), 0.0), Some((LimitKind::Demand, said.into())));
    assert_eq!(of(sleeps(), 0.6).map(|(kind, _)| kind), Some(LimitKind::Disk), "a part comes first");
    let idle = ProgramEvidence { idle: 0.9, sleeping: 0.1, ..ProgramEvidence::default() };
    assert_eq!(of(idle, 0.0).map(|(kind, _)| kind), Some(LimitKind::Demand));
    let pipe = ProgramEvidence {
        pipe_full: 0.7,
        pipe_peer: Some("nc (pid 7)".into()),
        ..ProgramEvidence::default()
    };
    let said = "the other program: nc (pid 7) takes what is written into their pipe too slowly, it is waited for 70 % of \
                the time";
    assert_eq!(of(pipe, 0.0), Some((LimitKind::Receiver, said.into())));
    assert_eq!(of(ProgramEvidence { idle: 0.4, ..ProgramEvidence::default() }, 0.0), None);
}

#[test]
fn a_program_that_waits_while_its_disk_pauses_asks_for_too_little_at_a_time() {
    let of = |busy, queue_depth, program| {
        let disk = DiskEvidence { asked_depth: Some(1.0), ..disk(Some(busy), queue_depth) };
        kind(&Evidence { program, disks: vec![disk], ..path(0.95, 0.0) })
    };
    let program = || Some(ProgramEvidence::default());
    assert_eq!(of(0.6, 0.6, program()), Some(LimitKind::Pipeline));
    assert_eq!(of(0.97, 0.97, program()), Some(LimitKind::Disk), "it never pauses");
    assert_eq!(of(0.06, 0.06, program()), Some(LimitKind::Disk), "it is throttled before its queue");
    assert_eq!(of(0.6, 0.6, None), Some(LimitKind::Disk), "linerate keeps enough reads in flight");
    // A disk that pauses beside a program which does not wait for it does not limit it.
    let beside =
        Evidence { program: program(), workers: path(0.1, 0.0).workers, ..reads(disk(Some(0.6), 0.6)) };
    assert_eq!(kind(&beside), None);
}
