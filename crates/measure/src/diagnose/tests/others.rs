//! Other programs beside a run: named, and never a reason to buy anything or to be surer.

use super::experiment::{diagnosed as diagnosed_with, raised, record};
use super::lab::{Case, Lab};
use crate::diagnose::{Diagnosis, Finding};
use crate::measure::access::DeviceUse;
use crate::measure::others::tests::{core, program};
use crate::measure::{CpuShare, LimitedBy, Measurement, OthersUse, Stage};
use linerate_facts::counters::HiddenProcesses;
use linerate_model::verdict::{LimitKind, Verdict};
use proptest::prelude::*;

/// Other programs have so much of CPU 0, where the worker is, and read so much of the disk, MB/s, in all figures but
/// those of memory.
fn beside(case: &mut Case, cpu: f64, disk: f64) {
    for figure in case.measurements.iter_mut().filter(|figure| figure.stage != Stage::Memory) {
        let own = 1.0 - cpu;
        figure.cpu_by_core = vec![core(0, cpu, 0.2f64.min(own)), core(1, 0.0, 0.1)];
        figure.cpu_share = CpuShare { linerate: 0.1, kernel: 0.05, others: cpu / 2.0 };
        let mut processes = vec![program(1673, "rustc", cpu, 0.0)];
        if disk > 0.0 {
            processes.push(program(77, "dd", 0.02, disk * 1e6));
        }
        figure.others = Some(OthersUse { processes, ..OthersUse::default() });
        let own = figure.bytes_per_second;
        for worker in &mut figure.workers {
            (worker.core, worker.source, worker.bytes_per_second) = (Some(0), "disk:loop0".into(), own);
        }
        if figure.stage != Stage::Network {
            figure.devices = vec![DeviceUse {
                name: "loop0".into(),
                utilisation: 1.0,
                read_bytes_per_second: own + disk * 1e6,
                operations_per_second: (own + disk * 1e6) / 1e6,
                queue_depth: 8.0 + disk / 10.0,
                ..DeviceUse::default()
            }];
        }
    }
}

fn case() -> Case {
    Lab { disks: vec![50.0], nics: vec![1237.5], ..Lab::default() }.measured()
}

fn diagnosed(cpu: f64, disk: f64) -> Diagnosis {
    let mut case = case();
    beside(&mut case, cpu, disk);
    case.diagnose()
}

fn finding<'a>(diagnosis: &'a Diagnosis, id: &str) -> Option<&'a Finding> {
    diagnosis.findings.iter().find(|finding| finding.id == id)
}

#[test]
fn a_hog_on_the_workers_cpu_is_named_after_the_rate_and_nothing_is_to_be_bought() {
    let found = diagnosed(0.77, 0.0);
    let bottleneck = found.bottleneck.as_ref().expect("a sentence");
    assert_eq!((found.verdict, bottleneck.kind), (Some(Verdict::Unexplained), LimitKind::Others));
    assert_eq!((&bottleneck.resources[..], bottleneck.gain), (&["cpu".to_string()][..], 0.0));
    assert_eq!(
        bottleneck.sentences[1],
        "Other programs used 77 % of CPU 0, most of it rustc (pid 1673): 49.5 MB/s is what was left."
    );
    assert_eq!(bottleneck.sentences.len(), 3, "{:?}", bottleneck.sentences);
    let busy = finding(&found, "others-busy").expect("a finding");
    assert!(
        busy.text.contains("77 % of CPU 0, most of it rustc (pid 1673)") && busy.gain == 0.0,
        "{}",
        busy.text
    );
    assert!(!busy.evidence.to_string().contains("rustc"), "names are in the text and the measurement alone");
    assert!(finding(&found, "others-on-disk").is_none());
}

#[test]
fn a_hog_that_was_there_only_while_the_disks_were_measured_is_why_nothing_is_known() {
    let mut case = case();
    let quiet = case.measurements.clone();
    beside(&mut case, 0.77, 0.0);
    for (figure, quiet) in case.measurements.iter_mut().zip(&quiet) {
        if figure.stage == Stage::Disk {
            (figure.held_by, figure.lower_bound) = (Some(LimitedBy::Others), true);
        } else {
            *figure = quiet.clone();
        }
    }
    let found = case.diagnose();
    let bottleneck = found.bottleneck.as_ref().expect("a sentence");
    assert_eq!((found.verdict, bottleneck.kind), (Some(Verdict::Unexplained), LimitKind::Others));
    assert_eq!(
        bottleneck.sentences[1],
        "Other programs used 77 % of CPU 0, most of it rustc (pid 1673), while the disks were measured by \
         themselves."
    );
    assert_eq!(bottleneck.gain, 0.0);
}

#[test]
fn a_reader_of_the_same_disk_is_named_with_what_it_took() {
    let found = diagnosed(0.0, 30.0);
    let bottleneck = found.bottleneck.as_ref().expect("a sentence");
    assert_eq!((found.verdict, bottleneck.kind), (Some(Verdict::Unexplained), LimitKind::Others));
    assert_eq!(bottleneck.resources, ["disk:loop0"]);
    assert_eq!(
        bottleneck.sentences[1],
        "Other programs moved 30.0 MB/s of disk loop0 (38 % of what it moved), most of it dd (pid 77): 49.5 MB/s is \
         what was left."
    );
    assert!(finding(&found, "others-on-disk").is_some() && finding(&found, "others-busy").is_none());
}

/// The disk loses all that is taken of it, whoever reads it beside the flow: of a little the disk is still what limits.
#[test]
fn a_measured_part_is_named_beside_others_who_took_a_little_of_it() {
    let of = |disk: f64, record| {
        let mut case = case();
        beside(&mut case, 0.0, disk);
        diagnosed_with(case, record).bottleneck
    };
    let (little, much) = (of(9.0, record(1.0, 0.0, 2)), of(30.0, record(1.0, 0.0, 2)));
    assert_eq!((little.kind, much.kind), (LimitKind::Disk, LimitKind::Others));
    // Twice the reads beside another program get more of what both read.
    assert_eq!([9.0, 30.0].map(|disk| of(disk, raised()).kind), [LimitKind::Pipeline, LimitKind::Others]);
    assert!(little.sentence.contains("of it taken cost the flow"), "{}", little.sentence);
    let named = "Other programs moved 9.00 MB/s of disk loop0 (15 % of what it moved), most of it dd (pid 77): 49.5 MB/s \
                 is what was left.";
    assert_eq!(little.sentence.matches(named).count(), 1, "{}", little.sentence);
    assert!(!much.sentence.contains("faster disk"), "{}", much.sentence);
}

#[test]
fn on_a_quiet_machine_nobody_is_mentioned() {
    for (cpu, disk) in [(0.0, 0.0), (0.02, 0.0), (0.0, 1.0), (0.02, 1.0)] {
        let found = diagnosed(cpu, disk);
        let text = serde_json::to_string(&found).expect("JSON");
        assert!(!text.contains("ther programs") && !text.contains("rustc"), "{cpu} {disk}: {text}");
        assert_eq!(found.verdict, Some(Verdict::Confirmed));
    }
}

#[test]
fn programs_on_cpus_with_time_left_are_worth_a_note_alone() {
    let mut case = case();
    beside(&mut case, 0.5, 0.0);
    let found = case.diagnose();
    assert_eq!(found.verdict, Some(Verdict::Confirmed), "{:?}", found.bottleneck);
    assert!(finding(&found, "others-busy").is_some_and(|finding| finding.text.contains("had time left")));
}

#[test]
fn what_cannot_be_seen_is_said() {
    let mut case = case();
    beside(&mut case, 0.0, 0.0);
    for others in case.measurements.iter_mut().filter_map(|figure| figure.others.as_mut()) {
        (others.hidden, others.hidden_cpu) = (Some(HiddenProcesses::OutsideContainer), 0.3);
    }
    let hidden = case.diagnose();
    let finding = finding(&hidden, "others-hidden").expect("a finding");
    assert!(
        finding.text.starts_with("30 % of the CPUs worked for processes that cannot be seen"),
        "{}",
        finding.text
    );
}

/// The first sentence that says what to raise, or a finding with a gain of the CPU's or the disk's.
fn bought(diagnosis: &Diagnosis) -> Option<String> {
    let sentences = diagnosis.bottleneck.iter().flat_map(|bottleneck| bottleneck.sentences.clone());
    let remedies = diagnosis.findings.iter().filter(|finding| finding.gain > 0.0);
    sentences.chain(remedies.map(|finding| finding.remedy.clone())).find(|text| text.contains("raise"))
}

fn rank(diagnosis: &Diagnosis) -> u32 {
    match diagnosis.verdict {
        Some(Verdict::Confirmed) => 2,
        Some(Verdict::Tie) => 1,
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_run_beside_more_work_of_others_is_never_surer(
        disk in 40.0f64..400.0, nic in 40.0f64..400.0,
        (cpu, more_cpu) in (0.0f64..0.7, 0.05f64..0.3),
        (read, more_read) in (0.0f64..50.0, 5.0f64..200.0),
        of_cpu: bool,
    ) {
        let lab = Lab { disks: vec![disk], nics: vec![nic], ..Lab::default() };
        let of = |cpu, read| {
            let mut case = lab.measured();
            beside(&mut case, cpu, read);
            let explains = case
                .measurements
                .iter()
                .filter(|figure| figure.stage == Stage::Path)
                .any(|path: &Measurement| path.evidence().others_explain());
            (case.diagnose(), explains)
        };
        let (before, _) = of(cpu, read);
        let (after, explains) = if of_cpu { of(cpu + more_cpu, read) } else { of(cpu, read + more_read) };
        prop_assert!(rank(&after) <= rank(&before), "{:?}", after.bottleneck);
        prop_assert!(!explains || bought(&after).is_none(), "{:?}", bought(&after));
    }
}
