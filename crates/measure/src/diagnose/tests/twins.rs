//! Parts that do less than their like, and networks that are fast until their credits are spent.

use super::{Case, Lab, figure};
use crate::diagnose::{Finding, burst_of_network, slow_nodes, slow_paths};
use crate::measure::access::MemoryPoint;
use crate::measure::streams::{PathFigure, StreamDirection, StreamFigure, StreamsJob, StreamsResult};
use crate::measure::{LimitedBy, Measurement, Stage, WorkerResult};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_facts::usage::CoreUse;
use linerate_model::plan::Burst;
use linerate_testing::{machine, nic};

/// 956 and 95.8 Mb/s.
const NICS: [f64; 2] = [119.5, 11.975];

fn two_nics(rates: [f64; 2]) -> Case {
    let mut case = Lab { disks: vec![400.0; 2], nics: rates.to_vec(), ..Lab::default() }.measured();
    case.machine.nics = vec![nic("eth0", None, None), nic("eth1", None, None)];
    case
}

fn stragglers(case: &Case) -> Vec<Finding> {
    let mut findings = case.diagnose().findings;
    findings.retain(|finding| finding.id == "straggler");
    findings
}

#[test]
fn a_nic_that_carries_a_tenth_of_its_twin_is_named_and_nothing_is_to_be_bought() {
    let case = two_nics(NICS);
    let found = stragglers(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    let says = "eth1 carries a tenth of eth0 (95.8 Mb/s against 956 Mb/s): same driver, same MTU";
    assert_eq!(found[0].text, says);
    assert!(found[0].remedy.starts_with("look at its link (`ethtool eth1`: speed), cable and switch port"));
    assert!(found[0].remedy.ends_with("without that the NICs carry 1.91 Gb/s"), "{}", found[0].remedy);
    assert_eq!(found[0].evidence["resource"], "nic:eth1");
    let sentence = case.diagnose().bottleneck.expect("a bottleneck").sentence;
    assert!(
        sentence.contains("Probably the bottleneck is the two NICs") && sentence.contains(says),
        "{sentence}"
    );
    assert!(!sentence.contains("Faster or more NICs") && !sentence.contains("would raise"), "{sentence}");
}

#[test]
fn equal_nics_and_unlike_ones_are_not_named() {
    assert!(stragglers(&two_nics([119.5, 110.0])).is_empty());
    let sentence = two_nics([119.5; 2]).diagnose().bottleneck.expect("a bottleneck").sentence;
    assert!(sentence.contains("Faster or more NICs"), "{sentence}");
    let mut unlike = two_nics(NICS);
    unlike.machine.nics[1].driver = Fact::Known("igb".into());
    assert!(stragglers(&unlike).is_empty(), "another driver");
    let mut unknown = two_nics(NICS);
    unknown.machine.nics[1].driver = Fact::unknown("not in this test");
    assert!(stragglers(&unknown).is_empty(), "nobody knows whether it is alike");
    let mut elsewhere = two_nics(NICS);
    elsewhere.plan.paths[1].receiver = "receiver:other".into();
    assert!(stragglers(&elsewhere).is_empty(), "another host takes it");
}

#[test]
fn links_that_differ_are_said_with_their_rates() {
    let mut case = two_nics(NICS);
    case.machine.nics = vec![nic("eth0", Some(1), None), nic("eth1", Some(1), None)];
    case.machine.nics[1].speed_bits_per_second = Fact::Known(100_000_000);
    let found = stragglers(&case);
    assert!(found[0].text.ends_with("same MTU; its link is 100 Mb/s, theirs 1.00 Gb/s"), "{}", found[0].text);
}

#[test]
fn a_full_cpu_that_moves_less_than_its_like_is_named_unless_it_serves_interrupts() {
    let mut case = Lab { disks: vec![400.0; 2], nics: vec![285.0], ..Lab::default() }.measured();
    case.machine.cpu = machine(4).cpu;
    let path = case.measurements.iter_mut().find(|one| one.stage == Stage::Path).expect("a path");
    let worker = path.workers[0].clone();
    let filled = |core: u32| WorkerResult {
        core: Some(core),
        cpu_share: 0.99,
        bytes_per_second: if core == 2 { 60e6 } else { 100e6 + f64::from(core) },
        ..worker.clone()
    };
    path.workers = (0..4).map(filled).collect();
    path.cpu_by_core.clear();
    let found = stragglers(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    let says = "CPU 2 moves 60 % of CPU 0, CPU 1 and CPU 3 (60.6 MB/s against 101 MB/s each): the same work";
    assert!(found[0].text.starts_with(says), "{}", found[0].text);
    let path = case.measurements.iter_mut().find(|one| one.stage == Stage::Path).expect("a path");
    path.cpu_by_core = vec![CoreUse { core: 2, user: 0.6, softirq: 0.4, ..CoreUse::default() }];
    assert!(stragglers(&case).is_empty(), "its interrupts have the rest");
    let path = case.measurements.iter_mut().find(|one| one.stage == Stage::Path).expect("a path");
    path.cpu_by_core.clear();
    path.workers[2].cpu_share = 0.5;
    assert!(stragglers(&case).is_empty(), "it waited");
}

#[test]
fn one_slow_nic_of_four_is_named() {
    let mut case = Lab { disks: vec![400.0; 4], nics: vec![119.5, 119.0, 60.0, 119.5], ..Lab::default() };
    case.receiver = 50_000.0;
    let mut case = case.measured();
    case.machine.nics = (0..4).map(|n| nic(&format!("eth{n}"), None, None)).collect();
    let found = stragglers(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    let text = &found[0].text;
    assert!(
        text.starts_with("eth2 carries half of eth0, eth1 and eth3 (480 Mb/s against 956 Mb/s each)"),
        "{text}"
    );
}

/// Streams over two NICs at once.
fn streams(rates: [f64; 2], edit: impl Fn(&mut StreamFigure)) -> Measurement {
    let direction = StreamDirection::Send;
    let path = |(name, rate): (&str, f64)| PathFigure {
        name: name.into(),
        direction,
        streams: 1,
        bytes_per_second: rate * 1e6,
        samples: [0.99, 1.0, 1.01].map(|part| part * rate * 1e6).to_vec(),
        loss: 0.0,
    };
    let stream = |name: &str| {
        let mut stream = StreamFigure { path: name.into(), direction, ..StreamFigure::default() };
        edit(&mut stream);
        stream
    };
    let names = ["eth0", "eth1"];
    let paths = names.into_iter().zip(rates).map(path).collect();
    let job = StreamsJob::plain(Protocol::Tcp, direction);
    let result = StreamsResult::plain(job, paths, names.map(stream).to_vec());
    Measurement {
        protocol: Some(Protocol::Tcp),
        streams: Some(Box::new(result)),
        // The CPU is full of other programs' work: the fast NIC carries at least that much.
        held_by: Some(LimitedBy::Cpu),
        lower_bound: true,
        ..figure(Stage::Network, "all paths tcp send", "all", rates.iter().sum())
    }
}

#[test]
fn the_network_command_names_the_slow_twin_as_well() {
    let mut machine = machine(2);
    machine.nics = vec![nic("eth0", None, None), nic("eth1", None, None)];
    let found = slow_paths(&machine, &[streams(NICS, |_| {}), streams(NICS, |_| {})]);
    assert_eq!(found.len(), 1, "each once: {found:?}");
    assert!(found[0].text.starts_with("eth1 carries a tenth of eth0 (95.8 Mb/s against 956 Mb/s)"));
    assert!(slow_paths(&machine, &[streams([119.5; 2], |_| {})]).is_empty());
    let full = streams(NICS, |stream| stream.sender_cpu_share = 0.97);
    assert!(slow_paths(&machine, &[full]).is_empty(), "a thread of the stream has no time left");
    let asked = Measurement { held_by: Some(LimitedBy::Demand), ..streams(NICS, |_| {}) };
    assert!(slow_paths(&machine, &[asked]).is_empty(), "it was asked for no more");
}

#[test]
fn a_memory_node_that_reads_less_than_the_others_is_named() {
    let mut machine = machine(4);
    let node = machine.memory.nodes[0].clone();
    machine.memory.nodes = [0, 1]
        .map(|id| linerate_machine::probe::NumaNode { id, cpus: vec![2 * id, 2 * id + 1], ..node.clone() })
        .to_vec();
    let read = |cores, memory, megabytes: f64| Measurement {
        memory: Some(MemoryPoint {
            kernel: "read".into(),
            store: None,
            stride_bytes: 64,
            working_set_bytes: 1 << 30,
            cores: 2,
            node_of_cores: Some(cores),
            node_of_memory: Some(memory),
            latency_seconds: None,
            level: "memory".into(),
        }),
        ..figure(Stage::Memory, "read", "memory", megabytes)
    };
    let all = [read(0, 0, 40e3), read(1, 1, 20e3), read(0, 1, 15e3), read(1, 0, 15e3)];
    let found = slow_nodes(&machine, &all);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].text.starts_with("memory node 1 reads half of memory node 0 (20.0 GB/s against 40.0 GB/s)")
    );
    assert!(slow_nodes(&machine, &all[2..]).is_empty(), "both are far");
    machine.memory.nodes[1].cpus.pop();
    assert!(slow_nodes(&machine, &all).is_empty(), "fewer CPUs read it");
}

#[test]
fn what_a_network_does_until_its_credits_are_spent_is_not_what_lasts() {
    let burst = Burst {
        burst_bytes_per_second: 285e6,
        sustained_bytes_per_second: 47.6e6,
        until_bytes: 1.71e9,
        bucket_bytes: 1.42e9,
        seconds: 6.0,
    };
    let mut case = Lab { disks: vec![400.0; 2], nics: vec![285.0], ..Lab::default() }.measured();
    let is_flow = |one: &&mut Measurement| {
        matches!(one.stage, Stage::Path | Stage::Network) && one.protocol == Some(Protocol::Tcp)
    };
    // The NIC alone was measured before.
    for one in case.measurements.iter_mut().filter(is_flow).filter(|one| one.together || one.with_file) {
        (one.bytes_per_second, one.interval, one.burst) = (47.6e6, None, Some(burst.clone()));
        one.samples = vec![285e6, 285e6, 120e6, 47.6e6, 47.6e6, 47.6e6];
    }
    let diagnosis = case.diagnose();
    let nic = diagnosis.resources.iter().find(|one| one.id == "nic:eth0").expect("the NIC");
    assert!((nic.capacity / 47.6e6 - 1.0).abs() < 0.01, "{nic:?}");
    let kind = diagnosis.bottleneck.as_ref().map(|found| found.kind);
    assert_eq!(kind, Some(linerate_model::verdict::LimitKind::Nic), "{:?}", diagnosis.bottleneck);
    let achieved = diagnosis.achieved.as_ref().expect("a rate");
    assert!((achieved.of_predicted - 1.0).abs() < 0.05, "{achieved:?}");
    let found = diagnosis.findings.iter().find(|finding| finding.id == "burst").expect("a finding");
    assert!(
        found.text.ends_with("ran at 2.28 Gb/s for 6.0 s, then at 381 Mb/s: what lasts is the second figure")
    );
    let disk = Measurement { burst: Some(burst), ..figure(Stage::Disk, "sda", "disk:sda", 47.6) };
    assert!(burst_of_network(&disk).is_none());
}

#[test]
fn a_flow_that_falls_to_a_second_rate_is_a_burst_and_no_cpu() {
    let rates: Vec<f64> = (0..120).map(|window| if window < 60 { 285e6 } else { 47.6e6 }).collect();
    let flow = |held_by| Measurement {
        samples: vec![285e6, 135e6, 47.6e6],
        held_by: Some(held_by),
        lower_bound: true,
        ..figure(Stage::Network, "eth0 tcp send", "nic:eth0", 135.0)
    };
    let mut found = flow(LimitedBy::Cpu);
    found.set_burst_of_flow(&rates, 0.1);
    assert_eq!((found.held_by, found.lower_bound, found.bytes_per_second), (None, false, 47.6e6));
    assert!(found.flags.contains(&"burst".to_string()) && found.burst.is_some());
    let mut asked = flow(LimitedBy::Demand);
    asked.set_burst_of_flow(&rates, 0.1);
    assert_eq!(asked.burst, None, "its user's rate limit has a bucket of its own");
}
