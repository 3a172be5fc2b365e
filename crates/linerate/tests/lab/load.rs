//! `linerate load` on a disk that answers 2,000 requests a second: it finds them, and the same knee each
//! time.
//!
//! LINERATE_LAB_ROUNDS=5 repeats the search, and adds the one for the highest rate, which takes longer. Needs
//! root and the tools of `lab/lab up`, else each test says that it is skipped (LINERATE_LAB as in
//! `lab/script.rs`).

use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// The tests measure: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const REQUESTS_PER_SECOND: f64 = 2000.0;
/// A figure that a neighbour on the same host may have spoilt is measured so often at most, and its median
/// counts.
const MOST_RUNS: usize = 3;

/// A lab with one throttled disk.
struct Disk(Lab);

impl Disk {
    /// None where this machine cannot have a lab.
    fn up(test: &str) -> Option<Disk> {
        let options = ["--disks", "1x0", "--iops", "2000", "--nics", "0", "--file-size", "96M"];
        Lab::up(&format!("load-{test}"), &options).map(Disk)
    }

    /// `linerate load` on the server's side, for JSON.
    fn load(&self, words: &[&str]) -> Value {
        let source = self.0.succeed("sources", &[]);
        let program = program();
        let begin = ["--", &program, "load", "--json", "--source", source.trim()];
        self.0.command("run", &[&begin[..], words].concat()).ended().gives(0).json()
    }
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}

/// LINERATE_LAB_ROUNDS.
fn rounds() -> Option<usize> {
    std::env::var("LINERATE_LAB_ROUNDS").ok().and_then(|rounds| rounds.parse().ok())
}

#[test]
fn two_thousand_requests_a_second_are_found_and_the_knee_stays() {
    undisturbed("the knee of a load", 2, || {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lab) = Disk::up("knee") else { return };
        let (mut rates, mut knees) = (Vec::new(), Vec::new());
        for _ in 0..rounds().unwrap_or(1) {
            let run = lab.load(&["--workers", "24", "--seconds", "0.4"]);
            let curve = &run["load"];
            knees.push(curve["knee_workers"].as_f64().expect("its users"));
            rates.push(curve["most"].as_f64().expect("it levels off"));
            let finding =
                run["diagnosis"]["findings"].as_array().and_then(|all| all.first()).expect("a finding");
            assert_eq!(finding["id"], "load-levels-off");
        }
        let rate = middle(&rates);
        assert!((rate / REQUESTS_PER_SECOND - 1.0).abs() <= 0.02, "{rates:?} requests a second");
        let knee = middle(&knees);
        assert!(knees.iter().all(|one| (one / knee - 1.0).abs() <= 0.10), "knees at {knees:?} users");
    });
}

#[test]
fn the_highest_rate_under_a_limit_lies_just_below() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if rounds().is_none() {
        eprintln!("skipped: LINERATE_LAB_ROUNDS=1 runs it, it takes a minute");
        return;
    }
    let Some(lab) = Disk::up("rate") else { return };
    let mut rates = Vec::new();
    let search = |lab: &Disk| {
        let run = lab.load(&["--find-rate", "--keep", "p99=20ms"]);
        run["load"]["highest"].as_f64().expect("a rate")
    };
    // The throttle lets a tenth of a second's worth through at once, which a step may live on.
    let right = |rates: &[f64]| (0.85..1.05).contains(&(middle(rates) / REQUESTS_PER_SECOND));
    let wanted = rounds().unwrap_or(1);
    while rates.len() < wanted || !right(&rates) && rates.len() < wanted.max(MOST_RUNS) {
        rates.push(search(&lab));
    }
    assert!(right(&rates), "{rates:?} requests a second");
    let found = middle(&rates);
    assert!(rates.iter().all(|rate| (rate / found - 1.0).abs() <= 0.10), "{rates:?}");
    eprintln!("highest rates: {rates:?}");
}
