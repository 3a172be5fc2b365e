//! The screen and the page of one stage's benchmark, and the folder that holds them.

use super::sample::{begin, disk, fixture, stages, whole};
use crate::support::samples::loads_nothing;
use linerate::report::{self, Folder};
use linerate::run::Run;
use linerate_testing::drawn;
use std::path::Path;

/// The fixtures are what the builder makes; `LINERATE_WRITE_FIXTURES=1 cargo test` writes them again.
#[test]
fn the_fixtures_are_the_sample_benchmarks() {
    for (name, run) in stages() {
        if std::env::var_os("LINERATE_WRITE_FIXTURES").is_some() {
            std::fs::write(fixture(&format!("stage-{name}")), report::json(&run))
                .expect("the fixture can be written");
        }
        let read = report::read(&fixture(&format!("stage-{name}"))).expect("a fixture that can be read");
        // Through JSON, so that what it cannot hold (the last digit of a float) does not count.
        assert!(
            report::json(&read) == report::json(&run),
            "stage-{name}.json: LINERATE_WRITE_FIXTURES=1 cargo test"
        );
    }
}

#[test]
fn the_screen_fits_and_has_an_answer() {
    let answers = ["801 MB/s", "sequential write", "levels off", "It levels off at about", "copy"];
    for ((name, run), answer) in stages().iter().zip(answers) {
        for width in [60, 80, 100, 140] {
            let screen = report::terminal(run, width, false);
            for line in screen.lines() {
                assert!(line.chars().count() <= width, "{name} at {width}: {line}");
                assert_eq!(line.trim_end(), line, "{name}: no blanks at the end");
            }
            let flat = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(answer), "{name} at {width}: {answer}\n{screen}");
        }
    }
}

#[test]
fn the_page_loads_nothing_and_has_its_charts() {
    // A chart for each: two of throughput, four of latency by direction and size …
    for ((name, run), least) in stages().iter().zip([4, 4, 1, 2, 5]) {
        let page = report::html(run);
        loads_nothing(&page, name);
        let charts = page.matches("<figure class=\"chart\">").count();
        assert!(charts >= least, "{name}: {charts} charts");
        assert_eq!(charts, page.matches("<svg class=\"plot\"").count(), "{name}");
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{name}");
    }
}

#[test]
fn names_from_outside_are_no_markup() {
    let mut run = disk("<script>alert(1)</script>\u{1b}[2J", 1.0);
    run.errors.push("<b>EIO</b>".into());
    run.measurements[0].flags.push("<i>".into());
    let page = report::html(&run);
    assert!(
        !page.contains("<script>")
            && !page.contains("<b>EIO")
            && !page.contains("<i>")
            && !page.contains('\u{1b}')
    );
    assert!(!report::terminal(&run, 100, false).contains('\u{1b}'));
}

#[test]
fn broken_numbers_do_not_break_the_page() {
    // Each value meets each fifth stage, another one in each run.
    for (at, value) in [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0].into_iter().enumerate() {
        let all = stages();
        let chosen = drawn(all.len() as u32).map(|number| (number as usize + at) % all.len());
        for (name, mut run) in chosen.map(|stage| all[stage].clone()) {
            for m in &mut run.measurements {
                m.bytes_per_second = value;
                m.samples = vec![value; 3];
                m.memory.iter_mut().for_each(|point| point.latency_seconds = Some(value));
                if let Some(side) = m.access.as_mut().and_then(|access| access.reads.as_mut()) {
                    side.operations_per_second = value;
                    side.latency.p50 = value;
                }
            }
            run.scaling
                .iter_mut()
                .flat_map(|scaling| &mut scaling.first.steps)
                .for_each(|step| step.share = value);
            run.load
                .iter_mut()
                .flat_map(|load| &mut load.points)
                .for_each(|point| point.operations_per_second = value);
            let page = report::html(&run);
            assert!(!page.contains("NaN") && page.len() < 2_000_000, "{name} {value}");
            // JSON has no NaN: no file brings one to a screen, but nothing may panic.
            assert!(!report::terminal(&run, 80, false).is_empty(), "{name} {value}");
        }
    }
}

#[test]
fn an_empty_benchmark_says_so() {
    let run = begin(linerate::measure::Stage::Disk, "nothing");
    assert!(report::terminal(&run, 80, false).contains("nothing was measured"));
    assert!(report::html(&run).contains("Nothing was measured."));
}

#[test]
fn the_folder_holds_both_and_is_not_written_over() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("results");
    let (_, run) = stages().remove(0);
    let folder = Folder::begin(&path, &run).expect("a folder");
    folder.save(&run).expect("saved again");
    folder.save_report(&run).expect("a page");
    assert!(path.join("report.html").exists());
    assert_eq!(report::json(&report::read(&path).expect("a benchmark")), report::json(&run));
    let again = Folder::begin(&path, &run).expect_err("it holds a run already");
    assert_eq!(again.exit_status(), 2, "{again}");
}

#[test]
fn a_benchmark_and_a_whole_run_each_show_themselves() {
    let (_, run) = stages().remove(0);
    let read = |run: &Run| report::parse(report::json(run).as_bytes(), Path::new("run.json")).expect("a run");
    assert_eq!(read(&run).command(), "disk");
    assert!(report::html(&read(&run)).contains("id=\"charts\""));
    assert_eq!(read(&whole()).command(), "run");
    assert!(report::html(&read(&whole())).contains("id=\"stages\""));
}
