//! What may be taken of a planted program, and what its verdict is once something was taken.

use super::{explained, observed, receives, sends, thread};
use crate::activity::Activity;
use crate::experiment::{NoExperiment, ProgramExperiment, nic_to_take};
use crate::flow::ProgramFlow;
use crate::observe::{Observation, limiting_group};
use crate::processes::FlowCount;
use linerate_facts::failure::Failure;
use linerate_machine::probe::Machine;
use linerate_measure::measure::Stage;
use linerate_measure::measure::experiment::AgentReach;
use linerate_model::plan::ResourceKind;
use linerate_model::shares::{ShareRecord, TakenResource, TakenUnit};
use linerate_model::verdict::LimitKind;
use linerate_testing::{Tree, experiment, taken_part};

/// A program that is there, on the CPUs of a host of which linerate may use all.
fn planned(program: Observation) -> Result<ProgramExperiment, NoExperiment> {
    planned_with(program, None)
}

fn planned_with(mut program: Observation, agent: Option<Failure>) -> Result<ProgramExperiment, NoExperiment> {
    program.living = vec![7];
    let mut tree = Tree::new(&[]);
    tree.put(&format!("proc/{}/status", std::process::id()), "Cpus_allowed_list:\t0-1\n");
    let (sysroot, inferred) = (tree.sysroot(), explained(&program).bottleneck);
    let (machine, flow) = (Machine::default(), &program);
    let flow = ProgramFlow::of(&sysroot, &machine, flow);
    ProgramExperiment::of(&sysroot, &machine, &flow, &inferred, agent.map(Err))
}

fn untaken(planned: &ProgramExperiment) -> Vec<&str> {
    planned.untaken.iter().map(|figure| figure.resource.as_str()).collect()
}

#[test]
fn a_full_thread_is_taken_from_and_what_is_beyond_this_host_is_named() {
    let full = || observed(vec![thread("main", &[(Activity::Running, 0.97)])]);
    let program = Observation { connections: sends(50e6, 0.05, 0.0), ..full() };
    let taken = planned(program).expect("its CPUs");
    assert_eq!(untaken(&taken), Vec::<&str>::new());
    assert!(
        taken.words().contains("10 % of the time of the 2 CPUs that mover may run on"),
        "{}",
        taken.words()
    );
    let waits = || observed(vec![thread("main", &[(Activity::Running, 0.6), (Activity::Send, 0.4)])]);
    let program = Observation { connections: sends(50e6, 0.9, 0.0), ..waits() };
    assert_eq!(untaken(&planned(program).expect("its CPUs")), ["nic:eth0"]);
    let program = Observation { connections: sends(50e6, 0.9, 0.9), ..waits() };
    let slow_reader = planned(program).expect("its CPUs");
    assert_eq!(untaken(&slow_reader), ["nic:eth0", "receiver:192.0.2.9:80"]);
    assert!(
        slow_reader
            .words()
            .contains("Nothing is taken of NIC eth0: no agent of linerate behind it was named (--peer)")
    );
    let program = Observation { connections: receives(50e6, 0.95), ..full() };
    assert_eq!(untaken(&planned(program).expect("its CPUs")), Vec::<&str>::new());
    let mut quota = Observation { connections: sends(50e6, 0.05, 0.0), ..full() };
    quota.group.quota_cpus = 0.5;
    quota.group.throttled = 0.8;
    assert_eq!(untaken(&planned(quota).expect("its CPUs")), ["quota:of its control group"]);
}

/// A program that sends over eth0 alone, and an agent there that may be sent to as fast as it comes.
#[test]
fn of_a_nic_is_taken_where_all_that_is_sent_and_the_agent_are_behind_it() {
    let waits = || observed(vec![thread("main", &[(Activity::Running, 0.6), (Activity::Send, 0.4)])]);
    let over = |interfaces: [&str; 2]| {
        let mut all = sends(50e6, 0.9, 0.0);
        all.busiest.push(all.busiest[0].clone());
        let names = all.busiest.iter_mut().zip(interfaces);
        names.for_each(|(one, name)| one.interfaces = vec![name.into(), "under-it".into()]);
        Observation { connections: all, ..waits() }
    };
    let near = AgentReach {
        address: ([192, 0, 2, 9], 7411).into(),
        local: None,
        round_trip_seconds: 0.000_3,
        rate_limit: None,
    };
    let asked = |program: &Observation, count, agent, interface: Option<&str>| {
        let flow = ProgramFlow::of(&Tree::new(&[]).sysroot(), &Machine::default(), program);
        nic_to_take(&flow, count, agent, interface.map(str::to_string)).map_err(|why| why.to_string())
    };
    let (alone, both) = (over(["eth0", "eth0"]), over(["eth0", "eth1"]));
    let (sent, received) = (FlowCount::Sent, FlowCount::Received);
    assert_eq!(asked(&alone, sent, near, Some("eth0")), Ok("eth0".into()));
    let far = AgentReach { round_trip_seconds: 0.02, ..near };
    let bounded = AgentReach { rate_limit: Some(1e6), ..near };
    for (program, count, agent, interface, why) in [
        (
            &alone,
            received,
            near,
            Some("eth0"),
            "the program receives, and an agent takes only of what is sent",
        ),
        (&alone, FlowCount::Storage, near, Some("eth0"), "the program sends nothing by TCP"),
        (&alone, sent, near, Some("lo"), "the agent is on this host"),
        (&alone, sent, near, Some("eth1"), "is behind NIC eth1, and the program sends over eth0: name one"),
        (
            &both,
            sent,
            near,
            Some("eth0"),
            "is behind NIC eth0, and the program sends over eth0 and eth1: name",
        ),
        (&alone, sent, near, None, "over which NIC the agent at 192.0.2.9:7411 is reached is unknown"),
        (&alone, sent, far, Some("eth0"), "the agent is too far away for slots of a second"),
        (&alone, sent, bounded, Some("eth0"), "the agent bounds what this host may send"),
    ] {
        let said = asked(program, count, agent, interface).expect_err("it is not taken from");
        assert!(said.contains(why), "{said}");
    }
}

/// An agent that is not there leaves the NIC of a program that waits for it in doubt, and of one that does not no doubt.
#[test]
fn a_nic_is_in_doubt_only_where_the_program_waits_for_it() {
    let with = |share| {
        let works = thread("main", &[(Activity::Running, 1.0 - share), (Activity::Send, share)]);
        let program = Observation { connections: sends(50e6, share, 0.0), ..observed(vec![works]) };
        planned_with(program, Some(Failure::lacks("no agent there"))).expect("its CPUs")
    };
    let (waits, works) = (with(0.4), with(0.05));
    assert_eq!((untaken(&waits), &*waits.spec.untaken), (vec!["nic:eth0"], &["nic:eth0".to_string()][..]));
    assert_eq!((untaken(&works), works.spec.untaken.len()), (vec!["nic:to the agent"], 0));
}

#[test]
fn what_cannot_be_taken_from_is_one_sentence() {
    let reads = || observed(vec![thread("dd", &[(Activity::Disk, 0.95)])]);
    let said = |program: Observation| planned(program).err().map(|why| why.to_string()).unwrap_or_default();
    assert_eq!(said(reads()), "it moves nothing");
    let mut writes = reads();
    writes.total.storage_written = Some(40e6);
    assert!(said(writes).starts_with("it writes to files, and nothing can be taken of that"));
    let mut far = reads();
    far.connections = sends(50e6, 0.9, 0.0);
    far.connections.busiest[0].least_round_trip_seconds = Some(0.02);
    assert_eq!(said(far), "the path is too far for slots of a second");
    let mut elsewhere = Observation { connections: sends(50e6, 0.05, 0.0), ..reads() };
    elsewhere.allowed_cpus = vec![0, 1, 2];
    elsewhere.host.cpus.push(linerate_facts::usage::CoreUse { core: 2, ..Default::default() });
    assert_eq!(said(elsewhere), "nothing that it uses is busy and can be taken from");
    // Of its disk the file is not known.
    let mut hidden = observed(vec![thread("dd", &[(Activity::Disk, 0.7), (Activity::Running, 0.3)])]);
    hidden.total.storage_read = Some(40e6);
    let hidden = planned(hidden).expect("its CPUs");
    assert_eq!(untaken(&hidden), ["disk:of its files"]);
    assert_eq!(hidden.count, FlowCount::Storage);
}

#[test]
fn a_group_that_limits_the_disks_is_entered_unless_linerate_is_in_it() {
    let mut tree = Tree::new(&[]);
    tree.put("proc/7/cgroup", "5:blkio:/pods/web\n4:cpu,cpuacct:/pods\n0::/\n");
    tree.put("proc/self/cgroup", "5:blkio:/\n4:cpu,cpuacct:/\n0::/\n");
    assert_eq!(limiting_group(&tree.sysroot(), 7), None);
    tree.put("sys/fs/cgroup/blkio/pods/blkio.throttle.read_bps_device", "7:0 40000000\n");
    let [group, own] = limiting_group(&tree.sysroot(), 7).expect("a group");
    assert_eq!((group, own), ("/sys/fs/cgroup/blkio/pods/web".into(), "/sys/fs/cgroup/blkio".into()));
    tree.put("proc/self/cgroup", "5:blkio:/pods/other\n0::/\n");
    assert_eq!(limiting_group(&tree.sysroot(), 7), None, "the limit is linerate's, too");
    tree.put("proc/7/cgroup", "0::/web.slice/nginx.service\n");
    tree.put("proc/self/cgroup", "0::/user.slice\n");
    tree.put("sys/fs/cgroup/web.slice/io.max", "259:0 rbps=40000000\n");
    let [group, own] = limiting_group(&tree.sysroot(), 7).expect("a group");
    assert!(group.ends_with("web.slice/nginx.service") && own.ends_with("user.slice"), "{group:?} {own:?}");
}

/// Two cycles in which the flow loses these shares of what is taken of its disk and of its CPUs.
fn record(shares: [f64; 2]) -> ShareRecord {
    let cpu = taken_part("cpu", ResourceKind::Cpu, TakenUnit::CpuNanos);
    let disk = taken_part("disk:vda", ResourceKind::Disk, TakenUnit::Bytes);
    experiment([disk, TakenResource { busy: Some(1.0), ..cpu }], 16e6, shares, 2)
}

#[test]
fn what_is_taken_decides_and_the_run_is_kept_with_its_shares() {
    let mut reads = observed(vec![thread("dd", &[(Activity::Disk, 0.95)])]);
    reads.total.storage_read = Some(40e6);
    let mut found = explained(&reads);
    found.measured(&record([0.0, 1.0]), &[]);
    let said = &found.bottleneck.sentence;
    assert_eq!((found.verdict, found.bottleneck.kind), ("measured", LimitKind::Cpu), "{said}");
    assert!(
        said.starts_with("mover (pid 7) reads 40.0 MB/s from storage. The bottleneck is the CPU: 10 % of it")
    );
    let run = found.run(Machine::default(), record([0.0, 1.0]));
    assert_eq!(
        (run.stage, run.command().as_str(), run.name.as_str()),
        (Some(Stage::Explain), "explain", "mover")
    );
    assert!((run.measurements[0].bytes_per_second - 38e6).abs() < 0.1e6);
    assert_eq!(run.diagnose().expect("a diagnosis").shares.len(), 2);
}

#[test]
fn a_part_with_room_is_not_named_and_what_nothing_was_taken_of_is_not_excluded() {
    let turn = |name: &str| thread(name, &[(Activity::Running, 0.97)]);
    let mut full = observed(vec![turn("a")]);
    full.connections = sends(50e6, 0.05, 0.0);
    let mut found = explained(&full);
    assert_eq!(found.bottleneck.kind, LimitKind::Cpu);
    let mut untouched = record([0.0, 0.0]);
    untouched.busy_untaken = vec!["nic:eth0".into()];
    found.measured(&untouched, &[]);
    assert_eq!(
        (found.verdict, found.bottleneck.kind),
        ("unknown", LimitKind::Unknown),
        "{:?}",
        found.bottleneck
    );
    let mut found = explained(&full);
    let mut nic = record([0.0, 1.0]);
    nic.busy_untaken = vec!["nic:eth0".into()];
    found.measured(&nic, &[]);
    assert_eq!((found.verdict, found.bottleneck.kind), ("observed", LimitKind::Cpu));
    assert!(found.bottleneck.sentence.ends_with("NIC eth0 may be busy: nothing was taken from it."));
    let mut quota = full;
    quota.group.quota_cpus = 0.5;
    quota.group.throttled = 0.8;
    let mut found = explained(&quota);
    found.measured(&untouched, &[]);
    assert_eq!(
        (found.verdict, found.bottleneck.kind),
        ("observed", LimitKind::Quota),
        "{:?}",
        found.bottleneck
    );
    let mut found = explained(&quota);
    found.not_measured(NoExperiment::Ended);
    assert!(found.bottleneck.sentence.ends_with("Not measured: it has ended.") && found.shares.is_empty());
}
