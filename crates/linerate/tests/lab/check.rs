//! `linerate check` over disks that are throttled: what it takes for a figure is one. Needs root and the tools of
//! `lab/lab up`, else the test says that it is skipped (LINERATE_LAB as in `lab/script.rs`).

use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;

/// The check's kept result.
fn check(lab: &Lab, budget: &str) -> Value {
    let sources = lab.succeed("sources", &[]);
    let program = program();
    let mut words = vec!["--", program.as_str(), "check", "--json", "--budget", budget];
    sources.lines().for_each(|source| words.extend(["--source", source]));
    let verdict = lab.command("run", &words).ended().gives(0).json();
    assert_eq!(verdict["verdict"], "too-few", "it was measured, and is the first: {verdict:#}");
    let kept = format!("/run/linerate-lab/{}/kept/linerate/results/000001.json", lab.name());
    let kept = std::fs::read_to_string(kept).expect("it is kept");
    serde_json::from_str(&kept).expect("JSON")
}

/// Samples of 0.04 s held one step of the throttle or none: the path's were 3,117 times as far apart as their median.
#[test]
fn a_short_budget_takes_no_sample_that_says_nothing() {
    undisturbed("the samples of a short check", 2, || {
        let options = ["--disks", "2x50", "--nics", "1000", "--file-size", "96M"];
        let Some(lab) = Lab::up("check-short", &options) else { return };
        let run = check(&lab, "5");
        let notes = run["plan"]["notes"].to_string();
        assert!(notes.contains("a budget of 5 s is too short: with samples of 0.2 s"), "{notes}");
        let figures = run["measurements"].as_array().expect("figures");
        let of = |stage: &str| {
            let wanted = figures.iter().find(|one| one["stage"] == stage && one["together"] == true);
            let figure = wanted.unwrap_or_else(|| panic!("no {stage} in {figures:#?}"));
            let number = |key: &str| figure[key].as_f64().expect("a number");
            (number("bytes_per_second"), number("spread"), number("seconds"))
        };
        for (rate, spread, seconds) in [of("disk"), of("path")] {
            assert!(seconds >= 0.55, "three samples of 0.2 s: {seconds}");
            assert!((rate / 100e6 - 1.0).abs() < 0.2 && spread < 0.6, "{rate} B/s, spread {spread}");
        }
    });
}
