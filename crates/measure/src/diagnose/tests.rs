//! The six rows of the lab, with figures as the stages would measure them; noise; and input that is no
//! measurement at all.

mod lab;
mod verdicts;

use super::*;
use crate::measure::{CoreUse, LimitedBy, Measurement, ReceiverResult, Stage, WorkerResult};
pub(super) use lab::{Case, Lab, figure};
use linerate_model::plan::{Origin, ResourceKind};
use linerate_model::verdict::{LimitKind, Verdict};
use proptest::prelude::*;

const UNSHAPED: f64 = 1e5;

/// The table of the issue: name, server, kind, ids, predicted MB/s.
#[allow(clippy::type_complexity)]
fn rows() -> Vec<(&'static str, Lab, LimitKind, Vec<&'static str>, f64)> {
    let four = ["disk:loop0", "disk:loop1", "disk:loop2", "disk:loop3"];
    let lab =
        |disks: &[f64], nics: &[f64]| Lab { disks: disks.to_vec(), nics: nics.to_vec(), ..Lab::default() };
    vec![
        ("4 × 50", lab(&[50.0; 4], &[1237.5]), LimitKind::Disk, four.to_vec(), 200.0),
        (
            "4 × 200, 1 Gb/s",
            Lab { claimed: Some(1237.5), ..lab(&[200.0; 4], &[123.7]) },
            LimitKind::Nic,
            vec!["nic:eth0"],
            123.7,
        ),
        (
            "2 × 200, 1 + 0.5 Gb/s",
            lab(&[200.0; 2], &[123.7, 61.9]),
            LimitKind::Nic,
            vec!["nic:eth0", "nic:eth1"],
            185.6,
        ),
        ("100 + 20", lab(&[100.0, 20.0], &[1237.5]), LimitKind::Disk, four[..2].to_vec(), 120.0),
        (
            "40 % of a core",
            Lab { quota_cores: 0.4, receiver: UNSHAPED, ..lab(&[2000.0], &[UNSHAPED]) },
            LimitKind::Quota,
            vec!["cpu"],
            0.4 / 0.33 * 1000.0,
        ),
        (
            "receiver at 10 %",
            Lab { receiver: 140.0, ..lab(&[200.0; 4], &[1237.5]) },
            LimitKind::Receiver,
            vec!["receiver:peer"],
            140.0,
        ),
    ]
}

fn bottleneck(diagnosis: &Diagnosis) -> &Bottleneck {
    diagnosis.bottleneck.as_ref().expect("of the whole path")
}

#[test]
fn the_table_of_the_lab() {
    for (name, lab, kind, ids, predicted) in rows() {
        let case = lab.measured();
        let diagnosis = case.diagnose();
        assert_eq!(diagnosis.by_protocol.len(), 2, "{name}");
        for one in &diagnosis.by_protocol {
            assert_eq!(one.bottleneck.kind, kind, "{name}: {}", one.bottleneck.sentence);
            assert_eq!(one.bottleneck.resources, ids, "{name}: {}", one.bottleneck.sentence);
            assert_eq!(one.verdict, Verdict::Confirmed, "{name}: {}", one.bottleneck.sentence);
            let ours = *one.predicted.bytes_per_second.known().expect("a prediction") / 1e6;
            assert!((ours / predicted - 1.0).abs() < 0.01, "{name}: {ours} for {predicted}");
            assert!((one.achieved.of_predicted - 0.99).abs() < 0.01, "{name}: {}", one.achieved.of_predicted);
        }
        let stragglers: Vec<_> =
            diagnosis.findings.iter().filter(|finding| finding.id == "straggler").collect();
        assert_eq!(stragglers.len(), usize::from(name == "100 + 20"), "{name}");
        assert!(
            diagnosis.findings.iter().all(|finding| finding.id == "straggler"),
            "{name}: {:?}",
            diagnosis.findings
        );
    }
}

#[test]
fn the_sentences() {
    let sentences: Vec<String> =
        rows().into_iter().map(|row| bottleneck(&row.1.measured().diagnose()).sentence.clone()).collect();
    let expected = [
        "198 MB/s (1.58 Gb/s) from disk to network. The bottleneck is the four disks (loop0–loop3, 50.0 MB/s \
         each, together 200 MB/s; the worker spent 90 % of the time waiting for them). Faster or more disks \
         would raise this to 1.24 GB/s, where NIC eth0 limits.",
        "122 MB/s (980 Mb/s) from disk to network. The bottleneck is NIC eth0 (990 Mb/s; the worker spent 90 % \
         of the time waiting for it). A faster NIC or further ones would raise this to 800 MB/s, where disks \
         loop0–loop3 limit.",
        "184 MB/s (1.47 Gb/s) from disk to network. The bottleneck is the two NICs (eth0 990 Mb/s and eth1 495 \
         Mb/s, together 1.48 Gb/s; the worker spent 90 % of the time waiting for them). Faster or more NICs \
         would raise this to 400 MB/s, where disks loop0 and loop1 limit.",
        "119 MB/s (950 Mb/s) from disk to network. The bottleneck is the two disks (loop0 100 MB/s and loop1 \
         20.0 MB/s, together 120 MB/s; the worker spent 90 % of the time waiting for them). Faster or more \
         disks would raise this to 1.24 GB/s, where NIC eth0 limits.",
        "1.20 GB/s (9.60 Gb/s) from disk to network. The bottleneck is the control group's CPU quota (0.40 \
         cores, 0.33 CPU seconds per GB; the CPU quota of this control group throttled it in 90 % of its \
         periods). More cores in the quota would raise this to 2.00 GB/s, where disk loop0 limits.",
        "139 MB/s (1.11 Gb/s) from disk to network. The bottleneck is the receiver on peer (140 MB/s, with a \
         CPU quota of 0.10 cores; not the NIC, not the disks; its CPU quota throttled it in 90 % of its \
         periods). More CPU for the receiver or a further peer would raise this to 800 MB/s, where disks \
         loop0–loop3 limit.",
    ];
    assert_eq!(sentences, expected);
}

/// Loss on a network that carries 124 MB/s: its cause where the link can more, its effect where it is full, and
/// nobody knows where the link's rate is not known.
#[test]
fn loss_limits_only_links_that_are_known_not_to_be_full() {
    let of = |claimed: Option<f64>, round_trip_us: f64| {
        let mut case = Lab { claimed, disks: vec![200.0; 4], nics: vec![123.7], ..Lab::default() }.measured();
        for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
            if figure.stage == Stage::Network {
                (figure.held_by, figure.lower_bound, figure.together) = (Some(LimitedBy::Loss), true, true);
                figure.workers = vec![idle_worker()];
            }
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share) = (5000, 0.01);
                worker.round_trip_seconds = round_trip_us * 1e-6;
                worker.least_round_trip_seconds = if round_trip_us > 0.0 { 8e-6 } else { 0.0 };
            }
        }
        let tcp = case.diagnose().by_protocol.remove(0);
        (tcp.bottleneck.kind, tcp.verdict, tcp.bottleneck.sentence)
    };
    let (kind, verdict, sentence) = of(Some(1237.5), 0.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of(Some(124.0), 0.0);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of(None, 0.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{sentence}");
    assert!(sentence.contains("a full link loses packets"), "{sentence}");
    // … unless the queue before it says it.
    let (kind, verdict, sentence) = of(None, 150.0);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Confirmed), "{sentence}");
}

/// Over 50 ms a queue that overflows loses many packets at a time: more than so much random loss would let through.
/// What it carries then is its own where that is the same in each round; what random loss leaves wanders.
#[test]
fn a_link_of_unknown_rate_that_loses_many_at_a_time_is_the_limit_where_it_keeps_its_rate() {
    let of = |interval: [f64; 2]| {
        let mut case =
            Lab { claimed: None, disks: vec![200.0; 4], nics: vec![123.7], ..Lab::default() }.measured();
        for figure in case.measurements.iter_mut().filter(|figure| figure.protocol == Some(Protocol::Tcp)) {
            if figure.stage == Stage::Network {
                (figure.held_by, figure.lower_bound, figure.together) = (Some(LimitedBy::Loss), true, true);
                figure.workers = vec![idle_worker()];
            }
            figure.interval = Some(interval.map(|share| share * figure.bytes_per_second));
            for worker in &mut figure.workers {
                (worker.retransmits, worker.retransmit_share, worker.segment_bytes) = (5000, 0.01, 8948);
                (worker.round_trip_seconds, worker.least_round_trip_seconds) = (0.057, 0.05);
            }
        }
        let tcp = case.diagnose().by_protocol.remove(0);
        (tcp.bottleneck.kind, tcp.verdict, tcp.bottleneck.sentence)
    };
    let (kind, verdict, sentence) = of([0.98, 1.03]);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Confirmed), "{sentence}");
    let (kind, verdict, sentence) = of([0.85, 1.2]);
    assert_eq!((kind, verdict), (LimitKind::Nic, Verdict::Unexplained), "{sentence}");
    let (kind, verdict, sentence) = of([0.4, 1.8]);
    assert_eq!((kind, verdict), (LimitKind::Loss, Verdict::Unexplained), "{sentence}");
}

#[test]
fn what_was_held_is_a_lower_bound_and_labelled_so() {
    // Disks and NIC both faster than the quota lets anything be: neither is known.
    let lab = Lab {
        quota_cores: 0.4,
        receiver: UNSHAPED,
        disks: vec![UNSHAPED],
        nics: vec![UNSHAPED],
        ..Lab::default()
    };
    let diagnosis = lab.measured().diagnose();
    assert_eq!(bottleneck(&diagnosis).kind, LimitKind::Quota);
    assert!(
        bottleneck(&diagnosis)
            .sentence
            .ends_with("More cores in the quota would raise this; no other limit is known.")
    );
    for id in ["disk:loop0", "nic:eth0"] {
        let resource = diagnosis.resources.iter().find(|resource| resource.id == id).expect("a resource");
        assert!(resource.lower_bound && resource.origin == Origin::Measured, "{resource:?}");
        assert!(resource.why.as_deref().is_some_and(|why| why.contains("≥") && why.contains("CPU quota")));
    }
    // Where the data sheet is known, it stands instead.
    let mut case = lab.measured();
    let nic =
        case.plan.resources.iter_mut().find(|resource| resource.kind == ResourceKind::Nic).expect("a NIC");
    (nic.effective, nic.capacity, nic.origin) = (Some(12.4e9), 12.4e9, Origin::Effective);
    let diagnosis = case.diagnose();
    let nic = diagnosis.resources.iter().find(|resource| resource.kind == ResourceKind::Nic).expect("a NIC");
    assert_eq!((nic.capacity, nic.origin, nic.lower_bound), (12.4e9, Origin::Effective, false));
}

/// With a file behind and without, a starved receiver takes more or less for the same CPU: only the lower of
/// what held it is sure.
#[test]
fn of_two_figures_that_the_receiver_held_the_lower_counts() {
    let two = Lab { disks: vec![200.0; 4], nics: vec![1237.5; 2], receiver: 140.0, ..Lab::default() };
    let receiver = |change: &dyn Fn(&mut Measurement)| {
        let mut case = two.measured();
        let together = |figure: &&mut Measurement| figure.stage == Stage::Network && figure.together;
        case.measurements.iter_mut().filter(together).for_each(change);
        let diagnosis = case.diagnose();
        assert_eq!(bottleneck(&diagnosis).kind, LimitKind::Receiver, "{}", bottleneck(&diagnosis).sentence);
        let found = diagnosis.resources.into_iter().find(|resource| resource.kind == ResourceKind::Receiver);
        let found = found.expect("a receiver");
        assert_eq!((found.origin, found.measured), (Origin::Measured, Some(found.capacity)));
        found.capacity
    };
    // Whichever of the two it is.
    let one_at = |with_file: bool, rate: f64| {
        receiver(&move |figure| {
            if figure.with_file == with_file {
                figure.bytes_per_second = rate;
            }
        })
    };
    assert_eq!(one_at(true, 120e6), 120e6);
    assert_eq!(one_at(false, 120e6), 120e6);
    assert_eq!(one_at(true, 160e6), 140e6);
    // A lower figure that something else held says nothing of the receiver.
    let by_disks = |figure: &mut Measurement| {
        if figure.with_file {
            (figure.bytes_per_second, figure.held_by) = (120e6, Some(LimitedBy::Generator));
        }
    };
    assert_eq!(receiver(&by_disks), 140e6);
}

#[test]
fn disks_that_share_a_controller() {
    let lab = Lab { disks: vec![200.0; 4], nics: vec![1237.5], ..Lab::default() };
    let mut case = lab.measured();
    let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all disks");
    together.bytes_per_second = 500e6;
    let diagnosis = case.diagnose();
    assert_eq!(bottleneck(&diagnosis).kind, LimitKind::Controller);
    assert_eq!(bottleneck(&diagnosis).resources, ["controller:disks"]);
    assert_eq!(bottleneck(&diagnosis).gain, 300e6);
    let disk = diagnosis.resources.iter().find(|resource| resource.id == "disk:loop0").expect("a disk");
    assert_eq!(disk.next, ["controller:disks"]);
}

/// Four disks of 500, two of them behind something that carries 500: the two that slowed down share it, and the
/// others do not.
#[test]
fn disks_that_slowed_down_are_named_and_the_others_not() {
    let lab = Lab { disks: vec![500.0; 4], nics: vec![2475.0], ..Lab::default() };
    let with = |rates: [f64; 4]| {
        let mut case = lab.measured();
        let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all");
        together.bytes_per_second = rates.iter().sum();
        together.workers = rates
            .iter()
            .enumerate()
            .map(|(n, rate)| WorkerResult {
                source: format!("disk:loop{n}"),
                bytes_per_second: *rate,
                ..idle_worker()
            })
            .collect();
        case.diagnose()
    };
    let two = with([500e6, 250e6, 500e6, 250e6]);
    assert_eq!(bottleneck(&two).resources, ["disk:loop0", "disk:loop2", "controller:disks"]);
    let said = "The bottleneck is the two disks (loop0 and loop2, 500 MB/s each, together 1.00 GB/s; the worker \
                spent 90 % of the time waiting for them), together with what disks loop1 and loop3 share, a \
                controller or a link (together 500 MB/s, one by one 1.00 GB/s).";
    assert_eq!(bottleneck(&two).sentences[1], said);
    let controller = two.resources.iter().find(|resource| resource.id == "controller:disks").expect("it");
    assert_eq!(controller.capacity, 500e6);
    let why =
        "what disks loop1 and loop3 share, a controller or a link (together 500 MB/s, one by one 1.00 GB/s)";
    assert_eq!(controller.why.as_deref(), Some(why));
    let one = with([500e6, 500e6, 500e6, 250e6]);
    let predicted = one.predicted.as_ref().and_then(|bound| bound.bytes_per_second.known().copied());
    assert_eq!(predicted, Some(1750e6));
    assert!(one.resources.iter().all(|resource| resource.kind != ResourceKind::Controller));
    let all = with([300e6; 4]);
    assert_eq!(bottleneck(&all).resources, ["controller:disks"]);
}

#[test]
fn a_wild_figure_alone_makes_no_controller() {
    let lab = Lab { disks: vec![100.0, 20.0], nics: vec![1237.5], ..Lab::default() };
    let mut case = lab.measured();
    let alone =
        case.measurements.iter_mut().find(|figure| !figure.together && figure.resource == "disk:loop0");
    let alone = alone.expect("loop0 alone");
    (alone.bytes_per_second, alone.spread) = (188e6, 1.42);
    alone.samples = vec![53e6, 188e6, 321e6];
    let together = case.measurements.iter_mut().find(|figure| figure.name == "all disks").expect("all disks");
    let worker = |source: &str, bytes_per_second: f64| WorkerResult {
        source: source.into(),
        bytes_per_second,
        ..idle_worker()
    };
    together.workers = vec![worker("disk:loop0", 100e6), worker("disk:loop1", 20e6)];
    let diagnosis = case.diagnose();
    assert_eq!(bottleneck(&diagnosis).resources, ["disk:loop0", "disk:loop1"]);
    let disk = diagnosis.resources.iter().find(|resource| resource.id == "disk:loop0").expect("a disk");
    assert!((disk.capacity / 100e6 - 1.0).abs() < 0.02, "{}", disk.capacity);
}

#[test]
fn a_link_through_which_more_was_measured_than_it_claims_never_binds() {
    let mut case = Lab { disks: vec![3600.0], nics: vec![UNSHAPED], ..Lab::default() }.measured();
    let mut link = case.plan.resources[0].clone();
    (link.id, link.kind) = ("pcie:0000:01:00.0".into(), ResourceKind::Pcie);
    (link.capacity, link.origin) = (3317e6, Origin::Effective);
    case.plan.resources[0].next = vec![link.id.clone()];
    case.plan.resources.insert(1, link);
    let link = |case: &Case| {
        let found =
            case.diagnose().resources.into_iter().find(|resource| resource.kind == ResourceKind::Pcie);
        found.expect("a link")
    };
    assert!(link(&case).lower_bound && link(&case).why.is_some_and(|why| why.contains("claims 3.32 GB/s")));
    case.measurements
        .iter_mut()
        .filter(|figure| figure.stage == Stage::Disk)
        .for_each(|f| f.bytes_per_second = 3.2e9);
    assert!(!link(&case).lower_bound);
}

#[test]
fn the_cpu_of_one_worker_on_loopback() {
    let mut case =
        Lab { disks: vec![UNSHAPED], nics: vec![UNSHAPED], receiver: UNSHAPED, ..Lab::default() }.measured();
    case.plan.loopback = true;
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Disk) {
        (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Cpu), true);
        figure.receiver.get_or_insert_default().cpu_seconds_per_gb = 0.2;
        figure.workers.iter_mut().for_each(|worker| worker.cpu_share = 0.97);
        (figure.bytes_per_second, figure.samples) = (3.0e9, vec![3.0e9; 6]);
    }
    let mut disk = case.measurements[0].clone();
    (disk.held_by, disk.lower_bound) = (Some(LimitedBy::Generator), true);
    case.measurements[0] = disk;
    case.measurements.retain(|figure| figure.name != "all disks");
    let diagnosis = case.diagnose();
    // One worker on one of two cores: 1 ÷ 0.33 s/GB; both together would do 2 ÷ 0.53.
    assert!(
        (diagnosis.predicted.as_ref().expect("a prediction").bytes_per_second.known().expect("a prediction")
            / 1e9
            - 1.0 / 0.33)
            .abs()
            < 0.01
    );
    assert!(
        bottleneck(&diagnosis).sentences[1]
            .starts_with("The bottleneck is the core of the one worker (0.33 CPU seconds per GB; ")
    );
    case.machine.cpu.quota_cores = Fact::Known(1.0);
    let quota = case.diagnose();
    assert!(
        (quota.predicted.as_ref().expect("a bound").bytes_per_second.known().expect("a prediction") / 1e9
            - 1.0 / 0.53)
            .abs()
            < 0.01
    );
}

#[test]
fn polling_at_a_low_rate_does_not_make_the_cpu_the_bottleneck() {
    // A disk of 50 MB/s in front of a sender that polls both cores full: 40 CPU seconds per GB, none of them
    // needed.
    let mut case = Lab { disks: vec![50.0], nics: vec![123.7], ..Lab::default() }.measured();
    for figure in &mut case.measurements {
        figure.cpu_seconds_per_gb = 2.0 / (figure.bytes_per_second / 1e9);
    }
    assert_eq!(bottleneck(&case.diagnose()).resources, ["disk:loop0"]);
}

#[test]
fn what_was_measured_only_together_counts_by_its_workers() {
    let mut case = Lab { disks: vec![50.0, 30.0], nics: vec![40.0, 20.0], ..Lab::default() }.measured();
    let worker = |source: &str, path: Option<&str>, megabytes: f64| WorkerResult {
        source: source.into(),
        path: path.map(str::to_string),
        bytes_per_second: megabytes * 1e6,
        ..idle_worker()
    };
    // The schedule left the second disk and the second NIC without a figure of their own.
    case.measurements.retain(|figure| !["loop1 alone", "eth1 tcp alone"].contains(&figure.name.as_str()));
    for figure in &mut case.measurements {
        match (figure.stage, figure.together) {
            (Stage::Disk, true) => {
                figure.workers = vec![worker("disk:loop0", None, 50.0), worker("disk:loop1", None, 30.0)]
            }
            (Stage::Network, true) => {
                figure.workers =
                    vec![worker("memory", Some("nic:eth0"), 40.0), worker("memory", Some("nic:eth1"), 20.0)];
            }
            _ => {}
        }
    }
    let diagnosis = case.diagnose();
    assert_eq!(bottleneck(&diagnosis).resources, ["nic:eth0", "nic:eth1"]);
    assert_eq!(diagnosis.predicted.as_ref().expect("a prediction").bytes_per_second, Fact::Known(60e6));
    let disk = diagnosis.resources.iter().find(|resource| resource.id == "disk:loop1").expect("a disk");
    assert_eq!((disk.capacity, disk.origin), (30e6, Origin::Measured));
}

#[test]
fn loopback_is_called_the_hosts_own_stack() {
    let mut case = Lab { disks: vec![2000.0], nics: vec![700.0], ..Lab::default() }.measured();
    case.plan.loopback = true;
    let diagnosis = case.diagnose();
    assert_eq!(
        bottleneck(&diagnosis).sentences[1],
        "The bottleneck is the host's own stack (loopback, 5.60 Gb/s; the worker spent 90 % of the time waiting \
         for it)."
    );
}

#[test]
fn nothing_measured_is_a_diagnosis_with_gaps() {
    let mut case = Lab { disks: vec![50.0; 2], nics: vec![100.0], ..Lab::default() }.measured();
    case.measurements.clear();
    let diagnosis = case.diagnose();
    assert!(diagnosis.predicted.as_ref().expect("a prediction").bytes_per_second.why().is_some());
    assert_eq!(diagnosis.achieved.expect("a figure").bytes_per_second, 0.0);
    assert!(bottleneck(&diagnosis).sentence.starts_with("The bottleneck is unknown"));
    assert!(diagnosis.by_protocol.is_empty() && diagnosis.findings.is_empty());
}

#[test]
fn use_of_each_resource_by_its_workers() {
    let mut case = Lab { disks: vec![50.0; 2], nics: vec![100.0, 100.0], ..Lab::default() }.measured();
    let worker = |source: &str, path: &str, megabytes: f64| WorkerResult {
        source: source.into(),
        path: Some(path.into()),
        bytes_per_second: megabytes * 1e6,
        ..idle_worker()
    };
    let path = case.measurements.iter_mut().find(|figure| figure.stage == Stage::Path).expect("a path");
    path.workers = vec![worker("disk:loop0", "nic:eth0", 50.0), worker("disk:loop1", "nic:eth0", 25.0)];
    let diagnosis = case.diagnose();
    let used = |id: &str| {
        let found = diagnosis.resources.iter().find(|resource| resource.id == id);
        (found.expect("a resource").utilisation * 100.0).round()
    };
    assert_eq!((used("disk:loop0"), used("disk:loop1"), used("nic:eth0")), (100.0, 50.0, 75.0));
}

pub(super) fn idle_worker() -> WorkerResult {
    WorkerResult {
        cpu_share: 0.1,
        waiting_source: 0.5,
        waiting_sink: 0.1,
        segment_bytes: 8948,
        ..WorkerResult::default()
    }
}

fn jitter(seed: u64, n: usize) -> f64 {
    // SplitMix64: one number for each figure of each seed, ±3 %.
    let mut z = seed.wrapping_add((n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    0.97 + 0.06 * ((z ^ (z >> 31)) as f64 / u64::MAX as f64)
}

proptest! {
    #[test]
    fn noise_of_three_percent_changes_no_name(seed in any::<u64>()) {
        for (name, lab, kind, ids, predicted) in rows() {
            let mut case = lab.measured();
            for (n, figure) in case.measurements.iter_mut().enumerate() {
                figure.bytes_per_second *= jitter(seed, 2 * n);
                figure.cpu_seconds_per_gb *= jitter(seed, 2 * n + 1);
            }
            let diagnosis = case.diagnose();
            for one in &diagnosis.by_protocol {
                prop_assert_eq!(one.bottleneck.kind, kind, "{}: {}", name, one.bottleneck.sentence);
                prop_assert_eq!(&one.bottleneck.resources, &ids, "{}", name);
                let ours = *one.predicted.bytes_per_second.known().expect("a prediction") / 1e6;
                prop_assert!((ours / predicted - 1.0).abs() < 0.05, "{name}: {ours} for {predicted}");
            }
            prop_assert_eq!(diagnosis.findings.iter().any(|finding| finding.id == "straggler"), name == "100 \
                + 20");
        }
    }

    #[test]
    fn any_measurements_give_a_diagnosis_that_json_can_hold(
        measurements in prop::collection::vec(any_measurement(), 0..14), protocols in any_protocols(), loopback in any::<bool>(),
    ) {
        let mut case = Lab { disks: vec![50.0; 3], nics: vec![100.0; 2], ..Lab::default() }.measured();
        case.goal.protocols = protocols;
        case.plan.loopback = loopback;
        case.measurements = measurements;
        let value = serde_json::to_value(case.diagnose()).expect("JSON");
        let again: Diagnosis = serde_json::from_value(value).expect("no NaN or infinity became null");
        let sentence = &bottleneck(&again).sentence;
        prop_assert!(!sentence.contains("NaN") && !sentence.contains("inf "));
        for finding in &again.findings {
            prop_assert!(!finding.text.contains("NaN") && !finding.text.contains("inf"), "{}", finding.text);
        }
    }

    #[test]
    fn a_plan_that_somebody_edited_does_no_harm(
        capacity in any_number(), core in any::<u32>(), drop in any::<prop::sample::Index>(),
    ) {
        let mut case = Lab { disks: vec![50.0; 3], nics: vec![100.0; 2], ..Lab::default() }.measured();
        let at = drop.index(case.plan.resources.len());
        (case.plan.resources[at].capacity, case.plan.resources[at].origin) = (capacity, Origin::Rated);
        case.plan.workers[0].core = core;
        case.plan.ceiling.bytes_per_second = Fact::Known(capacity);
        let value = serde_json::to_value(case.diagnose()).expect("JSON");
        prop_assert!(serde_json::from_value::<Diagnosis>(value).is_ok(), "no NaN or infinity became null");
        case.plan.resources.remove(at);
        let _ = case.diagnose();
        case.plan.workers.clear();
        let _ = case.diagnose();
    }
}

/// Numbers that a broken measurement may hold.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0f64..2e9,
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), Just(1e-300), Just(f64::MAX)],
    ]
}

fn any_protocols() -> impl Strategy<Value = Vec<Protocol>> {
    prop::collection::vec(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)], 0..3)
}

prop_compose! {
    fn any_measurement()(
        stage in prop_oneof![Just(Stage::Memory), Just(Stage::Disk), Just(Stage::Network), Just(Stage::Path)],
        resource in prop_oneof![Just("all"), Just("disk:loop0"), Just("disk:loop1"), Just("disk:loop2"), Just("nic:eth0"), Just("nic:eth1"), Just("nobody")],
        name in prop_oneof![Just("copy all cores"), Just("read all cores"), Just("x")],
        numbers in prop::collection::vec(any_number(), 14),
        (together, with_file, lower_bound, told) in any::<(bool, bool, bool, bool)>(),
        held_by in prop::option::of(prop_oneof![Just(LimitedBy::Cpu), Just(LimitedBy::Quota), Just(LimitedBy::Peer), Just(LimitedBy::Generator)]),
        protocol in prop::option::of(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]),
        flags in prop::collection::vec(prop_oneof![Just("quota"), Just("steal"), Just("page-cache"), Just("read-again")], 0..3),
        (socket_drops, segment_bytes, worker) in any::<(u64, u32, usize)>(),
    ) -> Measurement {
        let core = |core| CoreUse { core, user: numbers[2], idle: numbers[3], steal: numbers[4], ..CoreUse::default() };
        Measurement {
            together, with_file, lower_bound, held_by, protocol,
            bytes_per_second: numbers[0],
            samples: numbers[..4].to_vec(),
            spread: numbers[1],
            cpu_seconds_per_gb: numbers[5],
            cpu_by_core: vec![core(0), core(1)],
            flags: flags.iter().map(|flag| flag.to_string()).collect(),
            seconds: numbers[6],
            workers: vec![WorkerResult {
                worker, source: resource.into(), path: Some(resource.into()), bytes_per_second: numbers[7], cpu_share: numbers[8],
                waiting_source: numbers[9], waiting_sink: numbers[10], segment_bytes, ..WorkerResult::default()
            }],
            receiver: told.then(|| ReceiverResult {
                cpu_seconds_per_gb: numbers[11], busiest_thread: numbers[12], throttled: numbers[13], quota_cores: numbers[1],
                socket_drops, receive_buffer_bytes: socket_drops, cpu_by_core: vec![core(0)], ..ReceiverResult::default()
            }),
            loss: numbers[12],
            ..figure(stage, name, resource, 0.0)
        }
    }
}

/// Nothing of the server reached a limit of its own: no bottleneck of hardware, and nothing to buy.
#[test]
fn a_flow_that_reached_its_rate_limit_is_limited_by_that() {
    let of = |limit: f64, path: f64| {
        let mut case = Lab { disks: vec![path], nics: vec![100.0], ..Lab::default() }.measured();
        case.goal.rate_limit = Some(limit);
        let flows = case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Memory);
        for figure in flows.filter(|figure| figure.bytes_per_second >= 0.95 * limit) {
            (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Demand), true);
        }
        case.diagnose()
    };
    let reached = of(100e6, 100.0);
    let bottleneck = reached.bottleneck.expect("a bottleneck");
    assert_eq!((bottleneck.kind, reached.verdict), (LimitKind::Demand, Some(Verdict::Confirmed)));
    assert_eq!((bottleneck.resources, bottleneck.gain), (vec!["demand:rate-limit".to_string()], 0.0));
    assert_eq!(
        bottleneck.sentences[1..].join(" "),
        "The flow asked for no more than 100 MB/s (--rate-limit) and had it: nothing of this server limited \
         it. What it can do beyond that was not measured."
    );
    assert!(reached.findings.iter().all(|finding| finding.gain == 0.0), "{:?}", reached.findings);
    // A disk that gives less than was asked for is the bottleneck as ever.
    let below = of(100e6, 60.0);
    assert_eq!(below.bottleneck.expect("a bottleneck").kind, LimitKind::Disk);
}
