//! Each case of the verdict on a saved run: written as `run.json`, read again, and diagnosed from that alone.

use super::lab::{Case, Lab};
use super::{UNSHAPED, idle_worker};
use crate::diagnose::{Bottleneck, ProtocolDiagnosis};
use crate::measure::access::DeviceUse;
use crate::measure::statistics::{Interval, median};
use crate::measure::{CoreUse, LimitedBy, Measurement, ReadAgain, ReadsTrial, Stage, VolumeUse};
use crate::run::Run;
use linerate_facts::protocol::Protocol;
use linerate_model::verdict::{LimitKind, Verdict};

/// The headline of the saved run's diagnosis.
fn diagnosed(case: Case) -> ProtocolDiagnosis {
    let run =
        Run { plan: Some(case.plan), measurements: case.measurements, ..Run::begin(case.machine, case.goal) };
    let text = serde_json::to_string(&run).expect("JSON");
    let read: Run = serde_json::from_str(&text).expect("a run");
    let diagnosis = read.diagnose().expect("a run with a plan");
    let headline = diagnosis.by_protocol.into_iter().next().expect("a protocol");
    assert_eq!(diagnosis.verdict, Some(headline.verdict));
    assert_eq!(diagnosis.bottleneck, Some(headline.bottleneck.clone()));
    headline
}

fn lab(disks: &[f64], nics: &[f64]) -> Lab {
    Lab { disks: disks.to_vec(), nics: nics.to_vec(), ..Lab::default() }
}

/// The case with its path changed, over either protocol.
fn with_path(mut case: Case, change: impl Fn(&mut Measurement)) -> Case {
    case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Path).for_each(change);
    case
}

fn waits(figure: &mut Measurement, source: f64, sink: f64) {
    for worker in &mut figure.workers {
        (worker.waiting_source, worker.waiting_sink) = (source, sink);
    }
}

/// One worker that fills its core.
fn full_thread() -> Case {
    let lab = Lab { receiver: UNSHAPED, ..lab(&[UNSHAPED], &[UNSHAPED]) };
    let mut case = lab.measured();
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Disk) {
        (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Cpu), true);
        figure.workers.iter_mut().for_each(|worker| worker.cpu_share = 0.97);
        (figure.bytes_per_second, figure.samples) = (3.0e9, vec![3.0e9; 6]);
    }
    case
}

/// A network that something of TCP limits to 124 MB/s.
pub(super) fn of_tcp(by: LimitedBy, change: fn(&mut crate::measure::WorkerResult)) -> Case {
    let mut case = Lab { claimed: Some(1237.5), ..lab(&[200.0; 4], &[123.7]) }.measured();
    for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
        if figure.stage == Stage::Network {
            (figure.held_by, figure.lower_bound, figure.together) = (Some(by), true, true);
            figure.workers = vec![idle_worker()];
        }
        figure.workers.iter_mut().for_each(change);
    }
    case
}

#[test]
fn every_limit_that_the_path_confirms_is_a_flat_statement() {
    let window = of_tcp(LimitedBy::Window, |worker| {
        (worker.receiver_limited, worker.round_trip_seconds) = (0.95, 0.01);
    });
    let loss = of_tcp(LimitedBy::Loss, |worker| {
        (worker.retransmits, worker.retransmit_share) = (5000, 0.01);
    });
    let quota = Lab { quota_cores: 0.4, receiver: UNSHAPED, ..lab(&[2000.0], &[UNSHAPED]) };
    let cases: [(LimitKind, &str, Case); 7] = [
        (
            LimitKind::Disk,
            "Probably the bottleneck is disk loop0 (50.0 MB/s; ",
            lab(&[50.0], &[1237.5]).measured(),
        ),
        (
            LimitKind::Nic,
            "Probably the bottleneck is NIC eth0 (990 Mb/s; ",
            lab(&[200.0], &[123.7]).measured(),
        ),
        (LimitKind::Cpu, "Probably the bottleneck is the core of the one worker (0.33 CPU", full_thread()),
        (
            LimitKind::Receiver,
            "Probably the bottleneck is the receiver on peer (140 MB/s",
            Lab { receiver: 140.0, ..lab(&[200.0; 4], &[1237.5]) }.measured(),
        ),
        (
            LimitKind::Window,
            "Probably the bottleneck is TCP's window (990 Mb/s; the receiver's window was full",
            window,
        ),
        (LimitKind::Loss, "Probably the bottleneck is the loss of packets on the way (990 Mb/s; ", loss),
        (
            LimitKind::Quota,
            "Probably the bottleneck is the control group's CPU quota (0.40 cores, ",
            quota.measured(),
        ),
    ];
    for (kind, expected, case) in cases {
        let ProtocolDiagnosis { verdict, bottleneck, .. } = diagnosed(case);
        let Bottleneck { sentence, sentences, .. } = &bottleneck;
        assert_eq!((bottleneck.kind, verdict), (kind, Verdict::Confirmed), "{sentence}");
        assert!(sentences[0].ends_with(" from disk to network."), "{sentence}");
        assert!(sentences[1].starts_with(expected), "{expected}: {sentence}");
        assert!(sentences[2].contains(" would raise this"), "{sentence}");
        assert_eq!(sentences.join(" "), *sentence);
    }
}

/// The device counted its bytes, and the second reading was no faster than the first.
#[test]
fn a_disk_that_was_read_again_is_confirmed_where_both_readings_agree() {
    let mut case = lab(&[50.0], &[1237.5]).measured();
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Disk) {
        figure.read_again.push(ReadAgain {
            resource: "disk:loop0".into(),
            bytes: 1 << 30,
            first_bytes_per_second: Some(51e6),
            again_bytes_per_second: Some(50e6),
        });
    }
    let found = diagnosed(case);
    assert_eq!(found.verdict, Verdict::Confirmed, "{}", found.bottleneck.sentence);
}

/// An array whose disks all pause, with as many reads in flight as make no difference.
fn paused_volume() -> Case {
    let mut case = lab(&[2600.0], &[UNSHAPED]).measured();
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Network) {
        let member = |name: &str, utilisation| DeviceUse {
            name: name.into(),
            utilisation,
            read_bytes_per_second: 1300e6,
            ..DeviceUse::default()
        };
        figure.devices = vec![member("loop0", 1.0)];
        let members = vec![member("nvme0n1", 0.41), member("nvme1n1", 0.38)];
        figure.volumes = vec![VolumeUse { name: "loop0".into(), members }];
    }
    case
}

/// Reads of 10 ms: what twice as many carry is twice as much.
fn few_reads(carried: [f64; 3]) -> Case {
    with_path(lab(&[800.0], &[UNSHAPED]).measured(), |path| {
        let trial = |(queue_depth, megabytes): (u32, f64)| ReadsTrial {
            queue_depth,
            bytes_per_second: megabytes * 1e6,
            samples: vec![megabytes * 0.98e6, megabytes * 1.02e6],
        };
        path.reads_in_flight = [2, 4, 8].into_iter().zip(carried).map(trial).collect();
    })
}

/// A worker on a CPU that the hypervisor has a third of.
fn stolen_cpu() -> Case {
    let mut case = full_thread();
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Disk) {
        figure.workers.iter_mut().for_each(|worker| (worker.cpu_share, worker.core) = (0.65, Some(0)));
        let full =
            CoreUse { core: 0, user: 0.35, system: 0.3, steal: 0.34, idle: 0.01, ..CoreUse::default() };
        let idle = CoreUse { core: 1, idle: 1.0, ..CoreUse::default() };
        figure.cpu_by_core = vec![full, idle];
    }
    case.plan.workers.iter_mut().for_each(|worker| worker.core = 0);
    let path = case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Path);
    path.for_each(|path| {
        (path.bytes_per_second, path.samples, path.interval) = (2.0e9, vec![2.0e9; 6], Some([2.0e9; 2]));
    });
    case
}

#[test]
fn a_volume_few_reads_and_stolen_cpus_are_named_as_what_they_are() {
    let cases: [(LimitKind, &str, &str, Case); 3] = [
        (
            LimitKind::Volume,
            "Probably the bottleneck is the volume loop0 (2.60 GB/s; none of its 2 disks is busy for more than 41 % of the \
             time; ",
            "Another layout of the volume, or none would raise this",
            paused_volume(),
        ),
        (
            LimitKind::Pipeline,
            "Probably the bottleneck is too few reads in flight on disk loop0 (800 MB/s; 8 of a worker carry \
             2.0 times what 4 carry).",
            "More reads in flight (--queue-depth) would raise this",
            few_reads([200.0, 400.0, 800.0]),
        ),
        (
            LimitKind::Steal,
            "Probably the bottleneck is the CPU time that the hypervisor leaves (34 % of it went to others, 0.33 CPU seconds \
             per GB; the hypervisor gave 34 % of CPU 0 to others).",
            "CPUs that the hypervisor gives to nobody else would raise this",
            stolen_cpu(),
        ),
    ];
    for (kind, expected, raised, case) in cases {
        let ProtocolDiagnosis { verdict, bottleneck, .. } = diagnosed(case);
        let Bottleneck { sentence, sentences, .. } = &bottleneck;
        assert_eq!((bottleneck.kind, verdict), (kind, Verdict::Confirmed), "{sentence}");
        assert!(sentences[1].starts_with(expected), "{expected}: {sentence}");
        assert!(sentences[2].starts_with(raised), "{raised}: {sentence}");
    }
}

#[test]
fn disks_that_are_full_and_reads_that_suffice_leave_the_disk_the_limit() {
    let mut busy = paused_volume();
    for figure in &mut busy.measurements {
        figure.volumes.iter_mut().for_each(|volume| volume.members[1].utilisation = 0.97);
    }
    for (what, case) in [("a full member", busy), ("no gain", few_reads([640.0, 790.0, 800.0]))] {
        let found = diagnosed(case);
        assert_eq!((found.bottleneck.kind, found.verdict), (LimitKind::Disk, Verdict::Confirmed), "{what}");
    }
}

#[test]
fn two_limits_that_are_the_same_are_a_tie() {
    let tie = diagnosed(lab(&[62.0; 2], &[123.7]).measured());
    assert_eq!(tie.verdict, Verdict::Tie, "{}", tie.bottleneck.sentence);
    let said = "Probably the bottleneck is the two disks (loop0 and loop1, 62.0 MB/s each, together 124 MB/s; the worker \
                spent 90 % of the time waiting for them) or NIC eth0: the measurements cannot tell them apart.";
    assert_eq!(tie.bottleneck.sentences[1..], [said]);
    let apart = diagnosed(lab(&[65.0; 2], &[123.7]).measured());
    assert_eq!(apart.verdict, Verdict::Confirmed, "{}", apart.bottleneck.sentence);
}

/// Six rounds of a virtual machine whose speed changes from second to second, GB/s.
struct Rounds {
    disk: [f64; 6],
    network: [f64; 6],
    path: [f64; 6],
}

impl Rounds {
    /// A path that always has its reads at the disk.
    fn measured(&self) -> Case {
        let lab = Lab { receiver: UNSHAPED, cost: (0.03, 0.15), ..lab(&[1600.0], &[2700.0]) };
        let mut case = with_path(lab.measured(), |path| {
            waits(path, 0.18, 0.27);
            path.workers.iter_mut().for_each(|worker| {
                (worker.cpu_share, worker.source, worker.queue_depth) = (0.55, "disk:loop0".into(), 8);
            });
            let busy = DeviceUse { name: "loop0".into(), utilisation: 0.92, ..DeviceUse::default() };
            path.devices = vec![DeviceUse { queue_depth: 6.4, read_bytes_per_second: 1.7e9, ..busy }];
        });
        case.measurements.retain(|figure| figure.name != "loop0 alone" && !figure.with_file);
        for figure in &mut case.measurements {
            let rounds = match figure.stage {
                Stage::Disk => self.disk,
                Stage::Network => self.network,
                _ => self.path,
            };
            figure.together = true;
            figure.samples = rounds.map(|rate| rate * 1e9).to_vec();
            figure.bytes_per_second = median(&figure.samples);
            figure.interval = Interval::of(&figure.samples).map(|found| [found.low, found.high]);
        }
        case
    }
}

/// The samples of four runs: medians and their intervals alone made the first a tie with the network, which carried
/// more than the disk in each round.
#[test]
fn a_machine_that_changes_its_speed_is_judged_within_its_rounds() {
    let of = |disk, network, path| diagnosed(Rounds { disk, network, path }.measured());
    let agrees = of(
        [1.52, 1.61, 1.49, 1.91, 1.60, 1.81],
        [1.82, 2.13, 4.18, 3.16, 2.28, 4.19],
        [1.42, 1.74, 1.76, 1.83, 1.50, 1.80],
    );
    assert_eq!((agrees.bottleneck.kind, agrees.verdict), (LimitKind::Disk, Verdict::Confirmed));
    // Twice as fast in half of the rounds, and the path with it.
    let two_states = of(
        [1.60, 3.20, 1.55, 3.10, 3.15, 1.62],
        [3.1, 6.1, 3.3, 6.0, 6.2, 3.2],
        [1.57, 3.22, 1.60, 3.02, 3.10, 1.60],
    );
    assert_eq!((two_states.bottleneck.kind, two_states.verdict), (LimitKind::Disk, Verdict::Confirmed));
    // Rounds that say neither.
    let unsteady = of(
        [2.12, 1.93, 2.48, 2.33, 1.98, 1.66],
        [4.39, 3.57, 4.25, 4.40, 3.54, 3.39],
        [1.46, 2.03, 1.90, 1.85, 1.92, 1.68],
    );
    assert_eq!((unsteady.bottleneck.kind, unsteady.verdict), (LimitKind::Disk, Verdict::Unexplained));
    let said = &unsteady.bottleneck.sentences[1];
    let expected = "likely disk loop0 (2.05 ± 0.43 GB/s; loop0 had 6.4 requests in flight";
    assert!(said.contains(expected) && said.contains("the path did 69 to 105 % of"), "{said}");
    // The path does more than its disk in every round: that is not noise.
    let more = of([2.64; 6], [6.0; 6], [3.2, 3.1, 3.3, 3.2, 3.2, 3.3]);
    assert_eq!(more.verdict, Verdict::Unexplained);
    assert!(more.bottleneck.sentences[1].contains("but it did 121 % of that"), "{:?}", more.bottleneck);
    // Two that take turns at being the slower one are a tie.
    let tie = of(
        [1.52, 1.71, 1.49, 1.91, 1.60, 1.81],
        [1.62, 1.61, 1.69, 1.82, 1.65, 1.78],
        [1.50, 1.60, 1.48, 1.80, 1.58, 1.75],
    );
    assert_eq!(tie.verdict, Verdict::Tie, "{}", tie.bottleneck.sentence);
}

#[test]
fn a_path_that_shows_another_limit_contradicts() {
    let case = with_path(lab(&[200.0; 2], &[123.7]).measured(), |path| waits(path, 0.9, 0.05));
    let found = diagnosed(case);
    assert_eq!((found.verdict, found.bottleneck.kind), (Verdict::Contradicted, LimitKind::Nic));
    let said = "Not explained: by its parts NIC eth0 (990 Mb/s) limits the flow to 124 MB/s, but the path showed another \
                limit: the disks: the worker waits for them 90 % of the time.";
    assert_eq!(found.bottleneck.sentences[1..], [said]);
}

#[test]
fn what_is_not_explained_says_what_is_missing() {
    let disks = || lab(&[50.0; 2], &[1237.5]).measured();
    let mut unmeasured = disks();
    unmeasured.measurements.retain(|figure| figure.stage != Stage::Path);
    let mut cached = disks();
    for figure in cached.measurements.iter_mut().filter(|figure| figure.stage == Stage::Disk) {
        figure.flags.push("page-cache".into());
    }
    let of_disks = |change: fn(&mut Measurement)| {
        let mut case = disks();
        case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Disk).for_each(change);
        case
    };
    let again = |first, rate| ReadAgain {
        resource: "disk:loop0".into(),
        bytes: 1 << 30,
        first_bytes_per_second: first,
        again_bytes_per_second: Some(rate),
    };
    let mut faster = disks();
    let mut unsure = disks();
    for (case, read) in [(&mut faster, again(Some(20e6), 50e6)), (&mut unsure, again(None, 50e6))] {
        for figure in case.measurements.iter_mut().filter(|figure| figure.stage == Stage::Disk) {
            figure.read_again.push(read.clone());
        }
    }
    let uncounted = of_disks(|figure| figure.not_seen.push("disk:loop1".into()));
    let slow = |path: &mut Measurement| {
        path.bytes_per_second *= 0.8;
        path.samples.iter_mut().for_each(|rate| *rate *= 0.8);
    };
    let cases: [(&str, Case); 8] = [
        ("The path was not measured: no verdict", unmeasured),
        ("2 rounds were measured, 6 are needed", with_path(disks(), |path| path.samples.truncate(2))),
        ("but a cache answered some of its reads", cached),
        ("but what was read again came faster than at first", faster),
        ("a cache below the device cannot be ruled out", unsure),
        ("but nothing counts what the device read itself", uncounted),
        ("no single limit: 5 % working", with_path(disks(), |path| waits(path, 0.4, 0.3))),
        (
            "the path agrees (the worker spent 90 % of the time waiting for them), but it did 79 % of that",
            with_path(disks(), slow),
        ),
    ];
    for (expected, case) in cases {
        let found = diagnosed(case);
        let sentence = &found.bottleneck.sentence;
        assert_eq!(found.verdict, Verdict::Unexplained, "{sentence}");
        assert!(sentence.contains(expected), "{expected}: {sentence}");
        assert!(!sentence.contains("Probably the bottleneck is"), "a flat statement: {sentence}");
    }
}
