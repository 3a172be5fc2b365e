//! What an experiment says beside what the stages and the path's waits say.

use super::lab::{Case, Lab};
use super::{UNSHAPED, idle_worker};
use crate::diagnose::{Bottleneck, ProtocolDiagnosis};
use crate::measure::{LimitedBy, Measurement, Stage, WorkerResult};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::ResourceKind;
use linerate_model::shares::{RaisedSetting, ShareRecord, TakenResource, TakenUnit};
use linerate_model::verdict::{LimitKind, Verdict};
use linerate_testing::{experiment, taken_part};

/// Bytes of the flow in a window of a slot.
const FLOW: f64 = 120e6;

/// So many cycles of 16 slots, in which the flow loses this share of what is taken from its disk and from its NIC.
pub(in crate::diagnose) fn record(disk: f64, nic: f64, cycles: usize) -> ShareRecord {
    let parts = [("disk:loop0", ResourceKind::Disk), ("nic:eth0", ResourceKind::Nic)];
    experiment(parts.map(|(id, kind)| taken_part(id, kind, TakenUnit::Bytes)), FLOW, [disk, nic], cycles)
}

/// The headline of this server, whose path over TCP was taken from.
pub(in crate::diagnose) fn diagnosed(mut case: Case, record: ShareRecord) -> ProtocolDiagnosis {
    let is_headline = |stage, protocol| stage == Stage::Path && protocol == Some(Protocol::Tcp);
    let path = case.measurements.iter_mut().find(|figure| is_headline(figure.stage, figure.protocol));
    path.expect("a path").experiment = Some(Box::new(record));
    case.diagnose().by_protocol.into_iter().next().expect("a protocol")
}

/// By its stages the disk limits it.
fn disk_of_300() -> Case {
    Lab { disks: vec![300.0], nics: vec![1237.5], ..Lab::default() }.measured()
}

#[test]
fn what_loses_all_that_is_taken_is_the_bottleneck_whatever_the_stages_say() {
    for (disk, nic, kind, id) in
        [(1.0, 0.0, LimitKind::Disk, "disk:loop0"), (0.0, 1.0, LimitKind::Nic, "nic:eth0")]
    {
        let found = diagnosed(disk_of_300(), record(disk, nic, 2));
        let sentence = &found.bottleneck.sentence;
        assert_eq!((found.verdict, found.bottleneck.kind), (Verdict::Confirmed, kind), "{sentence}");
        assert_eq!(found.bottleneck.resources, [id], "{sentence}");
        assert!(sentence.contains("11 % of it taken cost the flow 10.5 ± "), "{sentence}");
        let share = found.shares.iter().find(|share| share.resource == id).and_then(|share| share.share);
        assert!(share.is_some_and(|share| (share - 1.0).abs() < 0.05), "{:?}", found.shares);
    }
}

/// Other programs used the disk while it was measured, so that the NIC behind it is all that a prediction could be of.
#[test]
fn nothing_is_predicted_of_a_flow_whose_limit_is_known_at_least() {
    let mut case = disk_of_300();
    let disks = case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Disk);
    disks.for_each(|figure| figure.lower_bound = true);
    let found = diagnosed(case, record(1.0, 0.0, 2));
    assert_eq!((found.bottleneck.kind, found.achieved.of_predicted), (LimitKind::Disk, 0.0));
    let why = found.predicted.bytes_per_second.why().expect("a reason");
    assert!(why.starts_with("of disk loop0 only a least is known: measured ≥ "), "{why}");
}

/// The NIC was measured at a worse moment than the path.
#[test]
fn what_limits_next_is_not_less_than_what_flows() {
    let mut case = Lab { disks: vec![300.0], nics: vec![290.0], ..Lab::default() }.measured();
    let paths = case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Path);
    paths.for_each(|figure| figure.bytes_per_second = 310e6);
    let sentence = diagnosed(case, record(1.0, 0.0, 2)).bottleneck.sentence;
    assert!(sentence.contains("would gain little: NIC eth0 would limit at the same rate."), "{sentence}");
}

#[test]
fn a_part_with_room_is_not_named_though_the_stages_predict_it() {
    let nic = Lab { disks: vec![300.0], nics: vec![123.7], ..Lab::default() };
    let found = diagnosed(nic.measured(), record(0.0, 0.0, 2));
    let sentence = &found.bottleneck.sentence;
    assert_eq!(
        (found.verdict, found.bottleneck.kind),
        (Verdict::Unexplained, LimitKind::Unknown),
        "{sentence}"
    );
    // A disk that moves more while it is read from may be full all the same: a reader beside the flow may be cheaper.
    let found = diagnosed(disk_of_300(), record(0.0, 0.0, 2));
    let sentence = &found.bottleneck.sentence;
    assert_eq!(found.bottleneck.kind, LimitKind::Disk, "{sentence}");
    assert!(sentence.contains("Not measured: disk loop0 (0.00 ± 0.00) moved more"), "{sentence}");
}

/// What is sent beside the flow is worked on by the same interrupts, of which nothing is taken.
#[test]
fn a_share_of_the_nic_is_none_while_a_cpu_is_full_of_interrupts() {
    let found = diagnosed(super::interrupts::case(), record(0.0, 1.0, 2));
    assert_eq!(found.bottleneck.kind, LimitKind::Cpu, "{}", found.bottleneck.sentence);
}

/// Nothing loses anything, and twice the streams raise the flow by a third.
pub(in crate::diagnose) fn raised() -> ShareRecord {
    let mut taken = record(0.0, 0.0, 4);
    taken.raised = vec![RaisedSetting { id: "reads in flight and streams".into(), from: 8, to: 16 }];
    for (at, slot) in taken.slots.iter_mut().enumerate().filter(|(at, _)| at / 2 * 7919 % 13 % 2 == at % 2) {
        (slot.mask, slot.counted.flow[0]) = (slot.mask | 4, slot.counted.flow[0] * (5 + at as u64 % 2) / 4);
    }
    taken
}

#[test]
fn more_streams_are_more_windows_where_the_path_showed_a_window() {
    let window = super::verdicts::of_tcp(LimitedBy::Window, |worker| {
        (worker.receiver_limited, worker.round_trip_seconds) = (0.95, 0.01);
    });
    for (case, kind) in [(window, LimitKind::Window), (disk_of_300(), LimitKind::Pipeline)] {
        let Bottleneck { kind: found, sentence, .. } = diagnosed(case, raised()).bottleneck;
        assert!(
            found == kind && sentence.contains("streams: 16 instead of 8 raised the flow by "),
            "{sentence}"
        );
        let why = " %. What holds each stream: the receiver's window was full 95 % of the time; it lets ";
        assert_eq!(sentence.contains(why), kind == LimitKind::Window, "{sentence}");
    }
}

/// Sending is 0.6 of what full CPUs do for the flow: it loses as much by what is sent beside it, and the NIC has room.
#[test]
fn what_sending_costs_full_cpus_by_its_stage_is_no_share_of_the_nic() {
    let (mut case, mut taken) = (disk_of_300(), record(1.0, 0.6, 2));
    let (id, kind, unit) = ("cpu".into(), ResourceKind::Cpu, TakenUnit::CpuNanos);
    taken.taken[0] = TakenResource { id, kind, unit, ..taken.taken[0].clone() };
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Network) {
        figure.busy_seconds_per_gb = 0.6;
    }
    let found = diagnosed(case, taken);
    let sentence = &found.bottleneck.sentence;
    assert_eq!((found.verdict, found.bottleneck.kind), (Verdict::Confirmed, LimitKind::Cpu), "{sentence}");
    assert!(sentence.contains("%, each less what taking it cost the CPUs."), "{sentence}");
}

#[test]
fn an_experiment_that_was_left_out_says_why_on_the_screen() {
    let inferred = disk_of_300().diagnose().bottleneck.expect("a bottleneck");
    let mut case = disk_of_300();
    let path = case.measurements.iter_mut().find(|figure| figure.stage == Stage::Path).expect("a path");
    path.no_experiment = Some("the agent bounds what this host may move".into());
    let found = case.diagnose().bottleneck.expect("a bottleneck");
    let (last, before) = found.sentences.split_last().expect("sentences");
    assert_eq!((found.kind, before), (inferred.kind, inferred.sentences.as_slice()));
    assert_eq!(last, "Not measured: the agent bounds what this host may move.");
}

#[test]
fn too_few_slots_leave_what_is_inferred_and_say_so() {
    let inferred = disk_of_300().diagnose().bottleneck.expect("a bottleneck");
    let found = diagnosed(disk_of_300(), record(0.0, 0.0, 1));
    assert_eq!(found.bottleneck.resources, inferred.resources);
    let (last, before) = found.bottleneck.sentences.split_last().expect("sentences");
    assert_eq!(before, inferred.sentences);
    assert_eq!(last, "Not measured: there was time for 16 slots, and 32 are needed.");
}

/// A NIC's taker sends to the same receiver.
#[test]
fn a_receiver_that_is_full_is_not_blamed_on_the_nic() {
    let lab = Lab { receiver: 140.0, ..Lab { disks: vec![UNSHAPED], nics: vec![1237.5], ..Lab::default() } };
    let found = diagnosed(lab.measured(), record(0.0, 1.0, 2));
    assert_ne!(found.bottleneck.kind, LimitKind::Nic, "{}", found.bottleneck.sentence);
}

#[test]
fn a_receiver_whose_cpus_lose_all_that_is_taken_is_measured() {
    let lab = Lab { receiver: 140.0, ..Lab { disks: vec![UNSHAPED], nics: vec![1237.5], ..Lab::default() } };
    let mut taken = record(1.0, 0.95, 2);
    let (id, kind, unit) = ("receiver-cpus:peer".into(), ResourceKind::Receiver, TakenUnit::CpuNanos);
    taken.taken[0] = TakenResource { id, kind, unit, ..taken.taken[0].clone() };
    let found = diagnosed(lab.measured(), taken);
    let sentence = &found.bottleneck.sentence;
    assert_eq!(
        (found.verdict, found.bottleneck.kind),
        (Verdict::Confirmed, LimitKind::Receiver),
        "{sentence}"
    );
    assert_eq!(found.bottleneck.resources, ["receiver:peer"], "{sentence}");
    let said = "The bottleneck is the CPUs of the receiver on peer: 11 % of them taken cost the flow 11.1 ± ";
    assert!(sentence.contains(said) && sentence.contains("More CPU for the receiver"), "{sentence}");
}

/// Alone each reads twice as much.
#[test]
fn disks_that_are_full_together_and_not_alone_share_what_limits_them() {
    let mut case = Lab { disks: vec![300.0, 300.0], nics: vec![1237.5], ..Lab::default() }.measured();
    let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all disks");
    let worker = |at: usize| WorkerResult {
        source: format!("disk:loop{at}"),
        bytes_per_second: 150e6,
        ..idle_worker()
    };
    together.workers = vec![worker(0), worker(1)];
    let is_path = |figure: &&mut Measurement| figure.stage == Stage::Path;
    let paths = case.measurements.iter_mut().filter(is_path);
    paths.for_each(|path| path.workers = vec![worker(0), worker(1)]);
    let mut halves = record(0.5, 0.5, 2);
    let second =
        TakenResource { id: "disk:loop1".into(), kind: ResourceKind::Disk, ..halves.taken[1].clone() };
    halves.taken[1] = second;
    halves.taken.iter_mut().for_each(|one| one.pool = Some("disks".into()));
    let found = diagnosed(case, halves);
    let sentence = &found.bottleneck.sentence;
    assert_eq!(
        (found.verdict, found.bottleneck.kind),
        (Verdict::Confirmed, LimitKind::Controller),
        "{sentence}"
    );
    let said = "What disk loop0 shares with others limits it: alone it reads 300 MB/s, beside them 150 MB/s.";
    assert!(sentence.contains(said), "{sentence}");
}
