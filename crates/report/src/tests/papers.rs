//! A paper's figures out of a run, and what file systems take.

use super::saved;
use linerate_facts::fact::Fact;
use linerate_interop::paper::{
    Cause, CauseKind, PaperFigure, ReproducedFigure, ReproducedStep, Reproduction,
};
use linerate_machine::probe::FileSystem;
use linerate_measure::measure::Measurement;

fn figure(published: &str, row: &str) -> PaperFigure {
    PaperFigure {
        what: "a figure with a long name that a narrow screen has to shorten".into(),
        published: published.to_string().try_into().expect("a figure"),
        place: "table 2".into(),
        plan: None,
        part: None,
        asked: None,
        row: row.into(),
        per: None,
        differs: Vec::new(),
    }
}

#[test]
fn a_figure_is_the_best_of_the_rows_that_have_its_words() {
    let run = saved("stage-disk-xfs");
    let of = |published: &str, row: &str| crate::measured_figure(&run, &figure(published, row));
    let best = run.measurements.iter().map(|row| row.bytes_per_second).fold(0.0, f64::max);
    assert_eq!(of("1 GB/s", ""), Fact::Known(best));
    assert!(of("3400 IOPS", "read").known().is_some_and(|requests| *requests > 0.0));
    // What a run has not, or a unit that does not fit, is unknown with its reason.
    for (published, row, why) in [
        ("1 GB/s", "no such row", "no rate in a row “no such row”"),
        ("142 W", "", "no power above idle"),
        ("5 disks", "", "no number of parts"),
        ("18 ms", "", "no access time of a load"),
    ] {
        let found = of(published, row);
        assert!(found.why().is_some_and(|reason| reason.contains(why)), "{published}: {found:?}");
    }
}

#[test]
fn a_reproduction_fits_every_screen_and_names_its_first_difference() {
    let figure = figure("30 Gb/s", "");
    let cause = Cause { cause: CauseKind::FileSystem, words: "ext4 here, xfs in the paper".into() };
    let of = |value| ReproducedFigure::new(&figure, 1.0, Fact::Known(value), vec![cause.clone()]);
    let step = ReproducedStep {
        name: "Three NICs".into(),
        on: "vm".into(),
        command: "network --protocol udp".into(),
        left_out: None,
        figures: vec![of(3.75e9), of(3e9)],
    };
    let left = "its nic is not here: give --with nic=…".to_string();
    let out = ReproducedStep { left_out: Some(left), figures: Vec::new(), ..step.clone() };
    let found = Reproduction { paper: "P".into(), planned: false, steps: vec![step, out] };
    for width in [60, 80, 100, 140] {
        let screen = crate::reproduced(&found, width, false);
        assert!(screen.lines().all(|line| line.chars().count() <= width), "{width}:\n{screen}");
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["2 of 2 figures measured", "1 step left out", "file system: ext4", "0.80", "left out"] {
            assert!(screen.contains(part), "{width}: {part}\n{screen}");
        }
    }
    let page = crate::reproduced_html(&found);
    assert!(page.contains("Three NICs") && page.contains("give --with nic"), "{page}");
}

#[test]
fn a_file_system_is_held_against_the_device_below_it() {
    let mut run = saved("stage-disk-xfs");
    let first: Measurement = run.measurements[0].clone();
    let on = |source: &str, rate: f64, cost: f64| {
        let mut one = Measurement { bytes_per_second: rate, busy_seconds_per_gb: cost, ..first.clone() };
        one.access.iter_mut().for_each(|access| access.job.sources = vec![source.into()]);
        one
    };
    let mount =
        |at: &str, kind: &str| FileSystem { mount_point: at.into(), kind: kind.into(), ..Default::default() };
    run.machine.file_systems = vec![mount("/", "ext4"), mount("/mnt/xfs", "xfs")];
    run.measurements = vec![on("/dev/vdb", 2e9, 0.1), on("/mnt/xfs", 1.5e9, 0.25)];
    let screen = crate::terminal(&run, 120, false);
    assert!(screen.contains("The tax of file systems"), "{screen}");
    let row = screen.lines().find(|line| line.starts_with("/mnt/xfs")).unwrap_or_default();
    for part in ["xfs", "1.50 GB/s", "75 %", "+0.150"] {
        assert!(row.contains(part), "{part}: {row}\n{screen}");
    }
    run.measurements.remove(0);
    assert!(
        !crate::terminal(&run, 120, false).contains("The tax"),
        "without a device there is nothing to hold it against"
    );
}
