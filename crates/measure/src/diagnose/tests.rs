//! The six rows of the lab, with figures as the stages would measure them, and what counts of which figure.

mod any_figures;
mod experiment;
mod interrupts;
mod lab;
mod loss;
mod others;
mod shared_disks;
mod twins;
mod verdicts;

use super::*;
use crate::measure::{LimitedBy, Measurement, Stage, WorkerResult};
pub(super) use experiment::record;
pub(super) use lab::{Case, Lab, figure};
use linerate_facts::fact::Fact;
use linerate_model::plan::{Origin, ResourceKind};
use linerate_model::verdict::{LimitKind, Verdict};

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
        "198 MB/s (1.58 Gb/s) from disk to network. Probably the bottleneck is the four disks (loop0–loop3, 50.0 MB/s \
         each, together 200 MB/s; the worker spent 90 % of the time waiting for them). Faster or more disks \
         would raise this to about 1.24 GB/s, where NIC eth0 limits.",
        "122 MB/s (980 Mb/s) from disk to network. Probably the bottleneck is NIC eth0 (990 Mb/s; the worker spent 90 % \
         of the time waiting for it). A faster NIC or further ones would raise this to about 800 MB/s, where disks \
         loop0–loop3 limit.",
        "184 MB/s (1.47 Gb/s) from disk to network. Probably the bottleneck is the two NICs (eth0 990 Mb/s and eth1 495 \
         Mb/s, together 1.48 Gb/s; the worker spent 90 % of the time waiting for them). Faster or more NICs \
         would raise this to about 400 MB/s, where disks loop0 and loop1 limit.",
        "119 MB/s (950 Mb/s) from disk to network. Probably the bottleneck is the two disks (loop0 100 MB/s and loop1 \
         20.0 MB/s, together 120 MB/s; the worker spent 90 % of the time waiting for them). loop1 reads a \
         fifth of loop0 (20.0 MB/s against 100 MB/s): same kind of device. Look at its slot, its link and for \
         errors (`dmesg | grep loop1`, `smartctl -a /dev/loop1`), and for a throttle of it; without that the \
         disks read 200 MB/s.",
        "1.20 GB/s (9.60 Gb/s) from disk to network. Probably the bottleneck is the control group's CPU quota (0.40 \
         cores, 0.33 CPU seconds per GB; the CPU quota of this control group throttled it in 90 % of its \
         periods). More cores in the quota would raise this to about 2.00 GB/s, where disk loop0 limits.",
        "139 MB/s (1.11 Gb/s) from disk to network. Probably the bottleneck is the receiver on peer (140 MB/s, with a \
         CPU quota of 0.10 cores; not the NIC, not the disks; its CPU quota throttled it in 90 % of its \
         periods). More CPU for the receiver or a further peer would raise this to about 800 MB/s, where disks \
         loop0–loop3 limit.",
    ];
    assert_eq!(sentences, expected);
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

/// A starved receiver takes more or less for the same CPU from minute to minute: what it took in the rounds of the path
/// counts, and that with a cached file, of a few windows before them, only where nothing else is known.
#[test]
fn what_held_the_receiver_in_the_rounds_counts_before_what_held_it_with_a_file() {
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
    let one_at = |with_file: bool, rate: f64| {
        receiver(&move |figure| {
            if figure.with_file == with_file {
                figure.bytes_per_second = rate;
            }
        })
    };
    assert_eq!(one_at(true, 120e6), 140e6);
    assert_eq!(one_at(false, 120e6), 120e6);
    assert_eq!(one_at(true, 160e6), 140e6);
    // A figure that something else held says nothing of the receiver.
    let held_by_another = |of_file: bool| {
        receiver(&move |figure| match figure.with_file == of_file {
            true => (figure.bytes_per_second, figure.held_by) = (120e6, Some(LimitedBy::Generator)),
            false => figure.bytes_per_second = 130e6,
        })
    };
    assert_eq!((held_by_another(true), held_by_another(false)), (130e6, 130e6));
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
            .starts_with("Probably the bottleneck is the core of the one worker (0.33 CPU seconds per GB; ")
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
        "Probably the bottleneck is the host's own stack (loopback, 5.60 Gb/s; the worker spent 90 % of the time waiting \
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
