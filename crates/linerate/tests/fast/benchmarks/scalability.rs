//! The grid of `disk --scaling`: what all sources reach of the baseline over workers, transfer size and layout.

use super::sample::{scaling, scaling_grid};
use crate::report::flat;
use linerate::measure::Measurement;
use linerate::report;
use linerate::run::disk::BestAlone;
use std::path::Path;

#[test]
fn every_cell_has_its_share_of_the_baseline_on_the_screen() {
    let run = scaling_grid();
    for width in [60, 80, 100, 140] {
        let screen = report::terminal(&run, width, false);
        assert!(screen.lines().all(|line| line.chars().count() <= width), "{width}:\n{screen}");
        let head = screen.lines().find(|line| line.contains("of baseline")).expect("the column");
        assert!(
            head.contains("workers") && head.contains("transfer") && head.contains("levels off"),
            "{head}"
        );
        assert_eq!(screen.lines().filter(|line| line.contains(" MB/s  ")).count(), 2 * 2 * 2 * 3, "{screen}");
    }
    let screen = flat(&report::terminal(&run, 100, false));
    assert!(screen.contains("4 1 MiB 324 MB/s 81 % 0.4 % – sequential read"), "{screen}");
    assert!(
        screen.contains("16 4 MiB 300 MB/s 75 % 0.4 % at 2 (100 %) sequential write, one file, strided"),
        "{screen}"
    );
    assert!(screen.contains("12 of 24 cells level off: the disk vda, which all of them lie on"), "{screen}");
}

/// CUNY's percentage against a card that was measured before: 324 MB/s of four times 135.
#[test]
fn the_best_alone_may_be_of_a_result_before() {
    let mut run = scaling_grid();
    for access in run.measurements.iter_mut().filter_map(|measurement| measurement.access.as_mut()) {
        access.best_alone_bytes_per_second = Some(135e6);
    }
    let screen = flat(&report::terminal(&run, 140, false));
    assert!(screen.contains("4 1 MiB 324 MB/s 81 % 60 %"), "{screen}");
    assert!(report::csv(&run).lines().next().is_some_and(|head| head.contains("of_best_alone")));
    // The best of each kind of access, whatever its workers.
    let before = scaling_grid().measurements;
    let is_alone = |m: &&Measurement| m.access.as_ref().is_some_and(|of| of.job.sources.len() == 1);
    let alone: Vec<&Measurement> = before.iter().filter(is_alone).collect();
    let job = &alone[0].access.as_ref().expect("a job").job;
    let best = BestAlone::all(&before).into_iter().find(|best| best.is_like(job)).map(|best| best.rate());
    assert_eq!(best, alone.iter().map(|m| m.bytes_per_second).reduce(f64::max));
}

#[test]
fn the_page_has_the_grid_and_the_charts_of_the_documents() {
    let page = report::html(&scaling_grid()).replace('\u{a0}', " ");
    assert!(page.contains("id=\"scalability\""));
    let title = "Sequential read, share of the baseline";
    for title in ["Sequential read", title, "Sequential write, one file, strided, share of the baseline"] {
        assert!(page.contains(&format!("<figcaption>{title}</figcaption>")), "{title}");
    }
    assert!(page.contains("of baseline in %"));
    assert!(
        page.contains("4 sources reach 75 % to 100 % of the baseline in 24 cells, of which 12 level off.")
    );
}

#[test]
fn a_share_is_in_the_lines_of_spreadsheets_and_comparisons() {
    let run = scaling_grid();
    let csv = report::csv(&run);
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = rows.next().and_then(|head| head.iter().rposition(|name| *name == "of_baseline"));
    // Counted from the end: commas are in the names of jobs.
    let from_end = csv.lines().next().map_or(0, |head| head.split(',').count()) - column.expect("a column");
    let shares: Vec<_> = rows.map(|row| row[row.len() - from_end]).collect();
    assert!(shares.contains(&"0.81") && shares.contains(&""), "{shares:?}");
    let runs = [run.clone(), run].map(|run| ("grid/run.json".into(), run)).to_vec();
    let comparison = report::compare(&runs).expect("comparable");
    let asked = &comparison.answers[0];
    assert_eq!(asked.question, "all devices, sequential read, 1 MiB × 1, 4 workers");
    assert_eq!(asked.answers, ["324 MB/s, 81 % of the baseline"; 2]);
    assert_eq!(comparison.answers.len(), 2 * 24);
}

#[test]
fn one_cell_keeps_its_place_in_the_file_and_further_ones_follow() {
    let value = |run| serde_json::to_value(run).expect("a value");
    let one = value(scaling());
    assert!(one["scaling"]["steps"].is_array() && one["scaling"].get("further").is_none());
    let grid = value(scaling_grid());
    assert_eq!(grid["scaling"]["cell"], "sequential read, 1 MiB × 1, 4 workers");
    assert_eq!(grid["scaling"]["further"].as_array().map(Vec::len), Some(23));
    let read = report::parse(grid.to_string().as_bytes(), Path::new("run.json")).expect("a run");
    assert_eq!(read.scaling, scaling_grid().scaling);
}
