//! Planted situations: what is observed of a program, what the judge makes of it, and what is found.

mod experiment;

use crate::activity::{Activity, ActivityShares};
use crate::connections::{ConnectionUse, ConnectionsUse};
use crate::descriptors::FileUse;
use crate::flow::ProgramFlow;
use crate::observe::{GroupUse, MappedFile, Observation};
use crate::processes::ExplainedProcess;
use crate::remedies::Remedies;
use crate::threads::{ThreadUse, ThreadsRead};
use crate::{Explanation, explanation, findings};
use linerate_facts::host::{DeviceUse, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_machine::flow_devices::FlowDevices;
use linerate_machine::probe::Machine;
use linerate_model::verdict::LimitKind;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

fn thread(name: &str, does: &[(Activity, f64)]) -> ThreadUse {
    let mut shares = ActivityShares::default();
    does.iter().for_each(|(activity, share)| shares.set(*activity, *share));
    ThreadUse { name: name.into(), pid: 7, samples: 100, seconds: 10.0, shares, ..ThreadUse::default() }
}

/// Ten seconds of a program with these threads on two idle CPUs.
fn observed(threads: Vec<ThreadUse>) -> Observation {
    let cpu = |core| CoreUse { core, user: 0.2, idle: 0.8, ..CoreUse::default() };
    Observation {
        seconds: 10.0,
        name: "mover".into(),
        pids: vec![7],
        total: ExplainedProcess {
            storage_read: Some(0.0),
            storage_written: Some(0.0),
            cpus: 0.3,
            ..ExplainedProcess::default()
        },
        threads_read: ThreadsRead { count: threads.len(), rounds: 200, ..ThreadsRead::default() },
        threads,
        allowed_cpus: vec![0, 1],
        host: HostUse { seconds: 10.0, cpus: vec![cpu(0), cpu(1)], ..HostUse::default() },
        ..Observation::default()
    }
}

fn sends(bytes: f64, busy: f64, receive_window_limited: f64) -> ConnectionsUse {
    let one = ConnectionUse {
        peer: "192.0.2.9:80".parse().ok(),
        sent: bytes,
        busy,
        receive_window_limited,
        round_trip_seconds: 0.000_2,
        least_round_trip_seconds: Some(0.000_1),
        segment_bytes: 1448,
        ..ConnectionUse::default()
    };
    let devices = FlowDevices { interfaces: ["eth0".to_string()].into(), ..FlowDevices::default() };
    ConnectionsUse { count: 1, sent: bytes, busiest: vec![one], devices, ..ConnectionsUse::default() }
}

fn receives(bytes: f64, unread: f64) -> ConnectionsUse {
    let mut all = sends(0.0, 0.0, 0.0);
    all.received = bytes;
    all.busiest[0].received = bytes;
    all.busiest[0].unread = unread;
    all
}

fn explained(observed: &Observation) -> Explanation {
    let flow = ProgramFlow::of(&Sysroot::recorded("/nonexistent"), &Machine::default(), observed);
    explanation(&flow, &BTreeMap::new())
}

/// The kind of what limits it, its sentence, and the ids of what was found.
fn judged(observed: &Observation) -> (LimitKind, String, Vec<String>) {
    let found = explained(observed);
    let ids = found.findings.iter().map(|finding| finding.id.clone()).collect();
    (found.bottleneck.kind, found.bottleneck.sentence, ids)
}

#[test]
fn waits_for_a_disk_and_a_full_thread_are_named() {
    let mut reads = observed(vec![thread("dd", &[(Activity::Disk, 0.95), (Activity::Running, 0.05)])]);
    reads.total.storage_read = Some(40e6);
    let (kind, said, _) = judged(&reads);
    assert_eq!(kind, LimitKind::Disk);
    assert!(
        said.starts_with("mover (pid 7) reads 40.0 MB/s from storage. Probably limited by the disks"),
        "{said}"
    );
    let mut full = observed(vec![
        thread("main", &[(Activity::Running, 0.97)]),
        thread("pool", &[(Activity::Lock, 0.99)]),
    ]);
    full.connections = sends(50e6, 0.2, 0.0);
    let (kind, said, ids) = judged(&full);
    assert_eq!(kind, LimitKind::Cpu, "{said}");
    assert!(ids.contains(&"one-thread-full".into()), "{ids:?}");
    let of = |pid, name: &str| ExplainedProcess { pid, name: name.into(), ..ExplainedProcess::default() };
    full.processes = vec![of(9, "rsync"), of(7, "nginx")];
    let found = explained(&full).findings;
    assert!(found.iter().any(|one| one.remedy.starts_with("`worker_processes")), "{found:?}");
}

#[test]
fn threads_that_take_turns_or_are_too_many_are_the_cpu() {
    let turn = |name: &str| thread(name, &[(Activity::Lock, 0.74), (Activity::Running, 0.25)]);
    let mut turns = observed(vec![turn("a"), turn("b"), turn("c"), turn("d")]);
    turns.connections = sends(50e6, 0.01, 0.0);
    turns.threads_read.running_rounds = 196;
    let (kind, said, ids) = judged(&turns);
    assert!(kind == LimitKind::Cpu && ids.contains(&"threads-take-turns".into()), "{said} {ids:?}");
    assert!(
        said.contains("the CPU: its 4 threads take turns: one of them works 100 % of the time"),
        "{said}"
    );
    turns.threads_read.running_rounds = 150;
    assert_eq!(judged(&turns).0, LimitKind::Unknown, "they work at any time, and do so together at times");
    let wants = |at: usize| thread(&format!("{at}"), &[(Activity::Runnable, 0.9), (Activity::Running, 0.1)]);
    let mut many = observed((0..20).map(wants).collect());
    many.total = ExplainedProcess { cpus: 1.98, called_read: Some(90e6), ..many.total };
    many.host.cpus.iter_mut().for_each(|cpu| (cpu.user, cpu.idle) = (1.0, 0.0));
    let (kind, said, _) = judged(&many);
    let expected =
        "the CPU: 20 of its threads want to run at a time, and it may use 2 CPUs: each waits for one 90 %";
    assert!(kind == LimitKind::Cpu && said.contains(expected), "{said}");
}

#[test]
fn a_server_waits_for_its_receiver_or_for_the_next_request() {
    let events = || observed(vec![thread("nginx", &[(Activity::Poll, 0.97), (Activity::Running, 0.03)])]);
    let of = |connections| judged(&Observation { connections, ..events() });
    let (kind, said, ids) = of(sends(1e6, 1.0, 0.95));
    assert_eq!((kind, ids), (LimitKind::Receiver, vec!["window-closed-by-receiver".to_string()]), "{said}");
    assert!(said.contains("the other program: it takes what comes too slowly"), "{said}");
    let (kind, said, _) = of(sends(1e6, 0.02, 0.0));
    assert_eq!(kind, LimitKind::Demand, "{said}");
    assert!(said.contains("Probably nothing here limits it: nobody asks for more"), "{said}");
    let (kind, said, _) = of(sends(1e6, 1.0, 0.0));
    assert_eq!(kind, LimitKind::Receiver, "the path there, or the receiver: {said}");
    // Threads of a runtime wait for each other; the connection has nothing unsent.
    let runtime = observed(vec![thread("go", &[(Activity::Lock, 0.9), (Activity::Running, 0.08)])]);
    let (kind, said, _) = judged(&Observation { connections: sends(1e6, 0.01, 0.0), ..runtime });
    assert_eq!(kind, LimitKind::Demand, "{said}");
}

/// Its disk's queue is empty where a control group holds the reads back.
#[test]
fn a_ring_waits_for_a_throttled_disk_where_cold_bytes_are_sent_at_once() {
    let ring = || observed(vec![thread("serve", &[(Activity::Ring, 0.97), (Activity::Running, 0.03)])]);
    let of = |storage_read, busy| {
        let mut all = ring();
        all.total.storage_read = Some(storage_read);
        judged(&Observation { connections: sends(60e6, busy, 0.0), ..all }).0
    };
    assert_eq!(of(60e6, 0.02), LimitKind::Disk);
    assert_eq!(of(60e6, 0.98), LimitKind::Receiver);
    assert_eq!(of(1e6, 0.02), LimitKind::Demand, "the page cache has them, and nobody asks for more");
}

#[test]
fn threads_of_a_runtime_are_one_worker_and_a_server_may_keep_to_a_rate_of_its_own() {
    let pool = |activity, share| {
        let third =
            [(activity, share / 3.0), (Activity::Poll, (1.0 - share) / 3.0), (Activity::Lock, 2.0 / 3.0)];
        let hands_over = |name: &str| thread(name, &third);
        let looks_after = thread("sysmon", &[(Activity::Timer, 1.0)]);
        observed(vec![hands_over("a"), hands_over("b"), hands_over("c"), looks_after])
    };
    let mut reads = pool(Activity::Disk, 0.9);
    reads.total.storage_read = Some(40e6);
    reads.connections = sends(40e6, 0.1, 0.0);
    assert_eq!(judged(&reads).0, LimitKind::Disk);
    let mut paces = pool(Activity::Running, 0.05);
    paces.connections = sends(5e6, 0.05, 0.0);
    paces.connections.busiest[0].sends_unasked = true;
    let (kind, said, _) = judged(&paces);
    assert!(kind == LimitKind::Demand && said.contains("it waits by a clock of its own 90 %"), "{said}");
    let mut lacks = pool(Activity::Runnable, 0.8);
    lacks.threads.push(thread("d", &[(Activity::Running, 0.2)]));
    lacks.connections = sends(50e6, 0.05, 0.0);
    lacks.host.cpus.iter_mut().for_each(|cpu| (cpu.user, cpu.idle) = (0.92, 0.08));
    assert_eq!(judged(&lacks).0, LimitKind::Others);
}

#[test]
fn a_client_waits_for_its_server_or_keeps_to_a_rate_of_its_own() {
    let client = |connections| {
        let events = observed(vec![thread("curl", &[(Activity::Poll, 0.98), (Activity::Running, 0.01)])]);
        judged(&Observation { connections, ..events })
    };
    assert_eq!(client(receives(5e6, 0.0)).0, LimitKind::Sender);
    let (kind, said, ids) = client(receives(5e6, 1.0));
    assert_eq!((kind, ids), (LimitKind::Demand, vec!["own-rate-limit".to_string()]), "{said}");
}

#[test]
fn a_relay_waits_for_the_side_that_is_slower() {
    let of = |busy| {
        let mut all = sends(5e6, busy, 0.9);
        all.busiest.push(receives(5e6, 0.0).busiest.remove(0));
        all.received = 5e6;
        let events = observed(vec![thread("haproxy", &[(Activity::Poll, 0.9), (Activity::Running, 0.1)])]);
        judged(&Observation { connections: all, ..events }).0
    };
    assert_eq!((of(1.0), of(0.05)), (LimitKind::Receiver, LimitKind::Sender));
}

#[test]
fn a_pipe_a_quota_and_a_program_that_does_nothing() {
    let mut piped = observed(vec![thread("cat", &[(Activity::PipeWrite, 0.9), (Activity::Running, 0.1)])]);
    piped.total.called_written = Some(80e6);
    piped.pipe_peer = Some("gzip (pid 8)".into());
    let (kind, said, _) = judged(&piped);
    assert_eq!(kind, LimitKind::Receiver);
    assert!(said.contains("gzip (pid 8) takes what is written into their pipe too slowly"), "{said}");
    let mut throttled = observed(vec![thread("gzip", &[(Activity::Running, 0.2)])]);
    throttled.total.called_read = Some(80e6);
    throttled.group = GroupUse { quota_cpus: 0.3, throttled: 0.8, ..GroupUse::default() };
    assert_eq!(judged(&throttled).0, LimitKind::Quota);
    let idle = observed(vec![thread("agent", &[(Activity::Poll, 1.0)])]);
    let (kind, said, ids) = judged(&idle);
    assert_eq!((kind, ids.len()), (LimitKind::Unknown, 0));
    let expected =
        "mover (pid 7) moves no bytes. There is nothing to explain: it waits for events 100 % of the time.";
    assert_eq!(said, expected);
}

#[test]
fn faults_of_a_mapped_file_small_blocks_and_one_file_of_several_processes() {
    let mut loads =
        observed(vec![thread("python3", &[(Activity::PageFault, 0.8), (Activity::Running, 0.2)])]);
    loads.total = ExplainedProcess { major_faults: 400.0, storage_read: Some(26e6), ..loads.total };
    loads.mapped = vec![MappedFile { path: "/data/model.safetensors".into(), bytes: 9 << 30, processes: 1 }];
    let (kind, said, ids) = judged(&loads);
    assert_eq!(kind, LimitKind::Disk, "{said}");
    assert!(ids.contains(&"page-faults".into()), "{ids:?}");
    let mut small = observed(vec![thread("tar", &[(Activity::Running, 0.95)])]);
    // Names are not always UTF-8.
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/data/\xff"));
    let file = |pid| FileUse { pid, path: path.into(), bytes_per_second: 20e6, ..FileUse::default() };
    small.files = vec![file(7), file(8)];
    small.living = vec![7, 8];
    small.total = ExplainedProcess {
        called_read: Some(40e6),
        reads_per_second: Some(10_000.0),
        called_written: Some(0.0),
        writes_per_second: Some(0.0),
        ..small.total
    };
    let (_, _, ids) = judged(&small);
    assert!(serde_json::to_string(&explained(&small)).is_ok_and(|text| text.contains("/data/\u{fffd}")));
    for id in ["small-blocks", "same-file-by-several", "cache-answers"] {
        assert!(ids.contains(&id.into()), "{id}: {ids:?}");
    }
    // Its small calls are not what reads the file: io_uring does, whose reads nobody counts.
    small.total.called_read = Some(100e3);
    let (_, _, ids) = judged(&small);
    assert!(!ids.contains(&"small-blocks".into()), "{ids:?}");
}

#[test]
fn a_disk_that_others_use_is_said_with_their_part_unless_the_program_has_ended() {
    let of = |ended| {
        let mut reads = observed(vec![thread("dd", &[(Activity::Disk, 0.9)])]);
        reads.total.storage_read = Some(40e6);
        reads.ended = ended;
        let disk = DeviceUse {
            name: "vda".into(),
            utilisation: 1.0,
            queue_depth: 2.0,
            read_bytes_per_second: 100e6,
            ..DeviceUse::default()
        };
        reads.host.disks = vec![disk];
        reads
    };
    let with_disk = |observed: &Observation| {
        let mut flow = ProgramFlow::of(&Sysroot::recorded("/nonexistent"), &Machine::default(), observed);
        flow.disks = crate::flow::disks_used(observed, &flow.rates);
        findings::findings(
            &flow,
            &BTreeMap::from([("disk:vda".to_string(), 300e6)]),
            &Remedies::of_programs(std::iter::empty()),
        )
    };
    let found = with_disk(&of(false));
    let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["one-read-at-a-time", "others-on-disk"]);
    assert!(found[1].text.contains("60.0 MB/s of its 100 MB/s") && found[0].gain == 200e6, "{found:?}");
    assert!(!with_disk(&of(true)).iter().any(|one| one.id == "others-on-disk"), "its last bytes are unknown");
}
