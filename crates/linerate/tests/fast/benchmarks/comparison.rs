//! Runs side by side: what is paired, what is said to differ, what is said of unlike machines, and wrong
//! input.

use super::sample::{bare, begin, disk, fixture, job, load, measured, scaling, stages, whole};
use crate::support::process::{Ends, ProcessEnd};
use linerate::fact::Fact;
use linerate::measure::Stage;
use linerate::measure::access::{Access, JobRound};
use linerate::report::{self, Compared, Comparison, Folder, SampleComparison};
use linerate::run::Run;
use std::path::{Path, PathBuf};

fn saved(name: &str, run: Run) -> (PathBuf, Run) {
    (PathBuf::from(format!("{name}/run.json")), run)
}

fn compared(runs: &[(PathBuf, Run)]) -> Comparison {
    report::compare(runs).expect("a comparison")
}

/// Two rows of five repeats each, the write slower on the second.
fn small(name: &str, write: f64) -> Run {
    let mut run = begin(Stage::Disk, name);
    for (access, rate) in [(Access::Read, 100e6), (Access::Write, write)] {
        let samples = [1.0, 1.01, 0.99, 1.005, 0.995].map(|factor| rate * factor);
        run.measurements.push(measured(job(access, 4, 1 << 20), &samples));
    }
    run
}

#[test]
fn the_screen_says_what_differs_and_what_does_not() {
    let runs = [saved("a", small("xfs", 80e6)), saved("b", small("btrfs-raid1", 42e6))];
    insta::assert_snapshot!(report::compare_terminal(&compared(&runs), 100, false), @r"
    compared with xfs

    btrfs-raid1 against xfs: faster in 0, slower in 1, no difference shown in 1.

    run          command  host        started               result
    xfs          disk     lab-server  2026-03-01T12:00:00Z  whole
    btrfs-raid1  disk     lab-server  2026-03-01T12:00:00Z  whole

    measurement                               xfs  btrfs-raid1
    sequential read, 4 workers, 1 MiB    100 MB/s     100 MB/s  no difference shown
    sequential write, 4 workers, 1 MiB  80.0 MB/s    42.0 MB/s  −48 % (−49 to −46 %)
    ");
}

#[test]
fn runs_of_other_flows_are_unlike() {
    use linerate::plan::RunFlow;
    let mut other = small("stored", 80e6);
    other.goal.flow = RunFlow::NetworkToDisk;
    let comparison = compared(&[saved("a", small("sent", 80e6)), saved("b", other)]);
    let [fact] = &comparison.unlike[..] else { panic!("{:?}", comparison.unlike) };
    assert_eq!((fact.what.as_str(), &fact.values[1][..]), ("flow", "network to disk"));
}

#[test]
fn unlike_machines_and_lonely_rows_are_reported() {
    let mut other = small("after", 80e6);
    other.machine.kernel.release = Fact::Known("6.1.0-30".into());
    other.machine.cpu.model = Fact::Known("Another CPU".into());
    other.measurements.push(measured(job(Access::Read, 64, 4096), &[1e6, 1e6]));
    let mut before = small("before", 80e6);
    before.machine.cpu.model = Fact::Known("A CPU".into());
    let runs = [saved("a", before), saved("b", other)];
    let comparison = compared(&runs);
    let what: Vec<&str> = comparison.unlike.iter().map(|fact| fact.what.as_str()).collect();
    assert_eq!(what, ["CPU model", "kernel"]);
    assert_eq!(comparison.only.len(), 1);
    let screen = report::compare_terminal(&comparison, 100, false);
    assert!(
        screen.contains("unlike machines: a difference may be theirs\n  CPU model: A CPU | Another CPU\n"),
        "{screen}"
    );
    assert!(screen.contains("only in after: sequential read, 64 workers, 4 KiB"), "{screen}");
    let page = report::compare_html(&comparison, &runs);
    assert!(page.contains("Unlike machines") && page.contains("Another CPU"));
}

#[test]
fn too_few_samples_are_no_difference() {
    let mut runs = [saved("a", small("a", 80e6)), saved("b", small("b", 20e6))];
    runs[1].1.measurements.iter_mut().for_each(|m| m.samples.truncate(2));
    let comparison = compared(&runs);
    let verdicts: Vec<_> =
        comparison.rows.iter().filter_map(|row| row.against_first[1]).map(|d| d.verdict).collect();
    assert_eq!(verdicts, [SampleComparison::TooFewSamples; 2]);
    assert!(report::compare_terminal(&comparison, 100, false).contains("(too few samples)"));
}

#[test]
fn rows_pair_by_their_job_in_whatever_order() {
    let (first, mut second) = (disk("a", 1.0), disk("b", 1.0));
    second.measurements.reverse();
    for m in &mut second.measurements {
        let access = m.access.as_mut().expect("a job");
        access.job.sources = vec![PathBuf::from("/elsewhere")];
        access.job.seed = 99;
    }
    let comparison = compared(&[saved("a", first), saved("b", second)]);
    assert_eq!((comparison.rows.len(), comparison.only.len()), (16, 0));
    let same = |row: &report::Rate, other: &report::Rate| row.bytes_per_second == other.bytes_per_second;
    for row in &comparison.rows {
        let [Some(a), Some(b)] = &row.figures[..] else { panic!("{}: both sides have it", row.name) };
        assert!(same(a, b), "{}", row.name);
    }
}

#[test]
fn knees_and_devices_have_answers() {
    let runs = [saved("a", load("a", 2000.0)), saved("b", load("b", 4000.0))];
    let comparison = compared(&runs);
    assert_eq!(comparison.answers[0].question, "nearly the most");
    assert!(comparison.answers[0].answers[1].starts_with("32 workers"), "{:?}", comparison.answers);
    let page = report::compare_html(&comparison, &runs);
    assert!(page.contains("b, p99") && page.matches("<svg class=\"plot\"").count() == 2);
    let comparison = compared(&[saved("a", scaling()), saved("b", scaling())]);
    let told: Vec<&str> = comparison.answers.iter().map(|answer| answer.question.as_str()).collect();
    assert_eq!(told, ["all devices", "levels off"]);
}

#[test]
fn whole_runs_compare_too_and_the_same_name_is_distinguished() {
    let run = whole;
    let comparison =
        compared(&[(PathBuf::from("before/run.json"), run()), (PathBuf::from("after/run.json"), run())]);
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    assert_eq!(labels, ["before", "after"]);
    assert_eq!(comparison.rows.len(), whole().measurements.len());
    assert!(comparison.unlike.is_empty());
    let differs = |row: &report::Rate| row.samples >= 3;
    assert!(comparison.rows.iter().flat_map(|row| row.figures.iter().flatten()).all(differs));
    assert!(
        comparison
            .rows
            .iter()
            .all(|row| row.against_first[1].is_some_and(|d| d.verdict == SampleComparison::NoDifferenceShown))
    );
}

#[test]
fn runs_of_one_name_are_repeats_where_that_is_asked_for() {
    let single = |name: &str, read: f64| {
        let mut run = small(name, 80e6);
        run.measurements.iter_mut().for_each(|m| m.samples = vec![m.bytes_per_second]);
        (run.measurements[0].bytes_per_second, run.measurements[0].samples) = (read, vec![read]);
        saved(name, run)
    };
    let rates = [100e6, 101e6, 99e6, 100.5e6];
    let runs = rates.iter().flat_map(|rate| [single("xfs", *rate), single("btrfs", rate * 0.5)]).collect();
    let joined = report::joined(runs);
    let comparison = compared(&joined);
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    assert_eq!(labels, ["xfs", "btrfs"]);
    let read = &comparison.rows[0];
    assert!(read.figures.iter().flatten().all(|figure| figure.samples == 4));
    assert_eq!(read.figures[0].as_ref().map(|figure| figure.bytes_per_second), Some(100.25e6));
    assert_eq!(read.against_first[1].map(|difference| difference.verdict), Some(SampleComparison::Lower));
}

#[test]
fn csv_has_a_line_for_each_rate() {
    let runs = [saved("a", small("x,y", 80e6)), saved("b", small("b", 42e6))];
    let csv = report::compare_csv(&compared(&runs));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(
        lines[1].starts_with("disk,\"sequential read, 4 workers, 1 MiB\",\"x,y\",100000000,"),
        "{}",
        lines[1]
    );
    assert!(lines[4].ends_with(",5,,0.525,lower,bytes_per_second,42000000"), "{}", lines[4]);
}

#[test]
fn the_page_loads_nothing_and_shows_no_markup_from_outside() {
    let runs = [saved("a", small("<script>x", 80e6)), saved("b", disk("</svg>", 0.9))];
    let page = report::compare_html(&compared(&runs), &runs);
    for reference in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("&lt;/svg&gt;") && !page.contains("NaN"));
}

#[test]
fn the_folder_holds_the_comparison_and_is_not_written_over() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let runs = [saved("a", small("a", 80e6)), saved("b", small("b", 42e6))];
    let comparison = compared(&runs);
    let both = Compared { comparison: &comparison, runs: &runs };
    let folder = Folder::begin(place.path(), &both).expect("a folder");
    folder.save_report(&both).expect("a page");
    let json = std::fs::read(place.path().join("compare.json")).expect("compare.json");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["rows"][1]["against_first"][1]["verdict"], "lower");
    assert_eq!(Folder::begin(place.path(), &both).expect_err("it is used").exit_status(), 2);
}

fn linerate(arguments: &[&Path]) -> ProcessEnd {
    crate::support::linerate().arg("compare").args(arguments).ended()
}

#[test]
fn wrong_input_is_one_clear_sentence() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let good = fixture("stage-load");
    let text = std::fs::read_to_string(&good).expect("a fixture");
    let empty = write("empty.json", &report::json(&begin(Stage::Disk, "empty")));
    let other = write(
        "other.json",
        &report::json(&Run {
            measurements: vec![bare(Stage::Disk, "x", &[1e6; 3])],
            ..begin(Stage::Disk, "other")
        }),
    );
    let cases = [
        (place.path().join("away"), "is not there", 3),
        (place.path().to_path_buf(), "run.json is not there", 3),
        (write("text", "hello"), "is not JSON", 2),
        (write("foreign.json", "{\"a\": 1}"), "no field `schema`", 2),
        (write("newer.json", &text.replacen("\"schema\": 2", "\"schema\": 9", 1)), "has schema 9", 2),
        (write("half.json", &text[..text.len() / 2]), "cut off", 2),
        (write("edited.json", &text.replacen("\"machine\"", "\"machin\"", 1)), "missing field `machine`", 2),
        (empty, "measured nothing", 3),
        (other, "no measurement in common", 2),
    ];
    for (path, expected, status) in cases {
        let output = linerate(&[&good, &path]);
        let said = &output.stderr;
        assert!(said.contains(expected), "{expected}: {said}");
        assert_eq!(said.lines().count(), 1, "one sentence: {said}");
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(linerate(&[&good]).status.code(), Some(2), "one run alone is wrong use");
}

#[test]
fn every_sample_compares_with_itself_without_a_difference() {
    for (name, run) in stages() {
        let comparison = compared(&[saved("a", run.clone()), saved("b", run)]);
        let rows = comparison.rows.iter().filter_map(|row| row.against_first[1]);
        assert!(
            rows.clone().all(|d| d.verdict == SampleComparison::NoDifferenceShown && d.ratio == 1.0),
            "{name}"
        );
        assert!(rows.count() + comparison.answers.len() > 0, "{name}");
        for width in [60, 100, 140] {
            let screen = report::compare_terminal(&comparison, width, false);
            assert!(screen.lines().all(|line| line.chars().count() <= width), "{name} at {width}:\n{screen}");
        }
    }
}

/// Five visits, each with these latencies and this processor time.
fn with_visits(name: &str, p99: f64, cpu: f64) -> Run {
    let mut run = small(name, 80e6);
    for measurement in &mut run.measurements {
        let visit = |factor: f64| JobRound {
            p50_seconds: 0.001 * factor,
            p99_seconds: p99 * factor,
            cpu_seconds_per_gb: cpu * factor,
        };
        let access = measurement.access.as_mut().expect("a job");
        access.visits = [1.0, 1.01, 0.99, 1.005, 0.995].map(visit).to_vec();
    }
    run
}

#[test]
fn latencies_and_processor_time_are_judged_too() {
    let runs = [saved("a", with_visits("a", 0.002, 0.5)), saved("b", with_visits("b", 0.008, 0.3))];
    let comparison = compared(&runs);
    assert_eq!(comparison.details.len(), 6, "p50, p99 and CPU of two measurements");
    let verdicts: Vec<_> =
        comparison.details.iter().filter_map(|detail| detail.against_first[1]).map(|d| d.verdict).collect();
    let of_one = [SampleComparison::NoDifferenceShown, SampleComparison::Higher, SampleComparison::Lower];
    assert_eq!(verdicts, [of_one, of_one].concat());
    let screen = report::compare_terminal(&comparison, 100, false);
    assert!(screen.contains("p99: sequential read, 4 workers, 1 MiB") && screen.contains("×4.0"), "{screen}");
    assert!(!screen.contains("p50:"), "only what differs: {screen}");
    let page = report::compare_html(&comparison, &runs);
    assert!(
        page.contains("p50: sequential read") && page.contains("verdict lower\">×4.0"),
        "more latency is worse"
    );
    let csv = report::compare_csv(&comparison);
    assert!(csv.contains("no-difference-shown,p50_seconds,0.001"), "{csv}");
    // One run that has none takes nothing away from the rates.
    let comparison = compared(&[saved("a", with_visits("a", 0.002, 0.5)), saved("b", small("b", 80e6))]);
    assert_eq!((comparison.details.len(), comparison.rows.len()), (0, 2));
}

#[test]
fn knees_of_several_runs_are_judged_by_their_intervals() {
    let several = |name: &str, rate: f64| {
        [0.99, 1.0, 1.01].map(|factor| saved(name, load(name, rate * factor))).to_vec()
    };
    let runs = report::joined([several("a", 2000.0), several("b", 4000.0)].concat());
    let comparison = compared(&runs);
    let knee = comparison.details.last().expect("knees");
    assert_eq!(knee.figures[0].map(|figure| figure.samples), Some(3));
    assert_eq!(knee.against_first[1].map(|against| against.verdict), Some(SampleComparison::Higher));
    // One run each: no interval, no verdict.
    let comparison = compared(&[saved("a", load("a", 2000.0)), saved("b", load("b", 4000.0))]);
    let knee = comparison.details.last().expect("knees");
    assert_eq!(knee.against_first[1].map(|against| against.verdict), Some(SampleComparison::TooFewSamples));
}
