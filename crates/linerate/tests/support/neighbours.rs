//! Whether this machine had its cores to itself while a figure was taken, and what a test of figures makes of
//! that.

#![allow(dead_code, reason = "each test takes the part that it needs")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A figure that falls short while more than this share of the CPU time was stolen says nothing about
/// linerate.
pub const TOO_MUCH_STOLEN: f64 = 0.01;
/// After so many spoilt runs a test gives up: a machine that is taken away stays so for minutes.
pub const MOST_SPOILT: usize = 2;

/// What the host of this machine gives to its other guests: /proc/stat's `steal`, from a moment on.
pub struct Neighbours {
    stolen: u64,
    all: u64,
}

impl Neighbours {
    /// From now on.
    pub fn watch() -> Self {
        let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
        let total = text.lines().next().expect("the sum of all CPUs");
        let ticks: Vec<u64> =
            total.split_whitespace().skip(1).map(|word| word.parse().expect("ticks")).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests of this machine use is in `user`
        // (proc_stat(5)).
        Neighbours { stolen: ticks[7], all: ticks[..8].iter().sum() }
    }

    /// The share of all CPU time that they took since.
    pub fn took(&self) -> f64 {
        let now = Neighbours::watch();
        (now.stolen - self.stolen) as f64 / ((now.all - self.all) as f64).max(1.0)
    }

    /// Whether that says nothing about linerate any more.
    pub fn spoilt(&self) -> bool {
        self.took() > TOO_MUCH_STOLEN
    }
}

/// Runs a test of rates or of times until it holds once: `most_runs` times on a machine that has its cores to
/// itself, then it fails. Runs that fail while the host takes CPU time away do not count; after MOST_SPOILT
/// of them the test says that it is skipped.
pub fn undisturbed(figures: &str, most_runs: usize, mut test: impl FnMut()) {
    let (mut failed, mut spoilt) = (0, 0);
    while spoilt < MOST_SPOILT {
        let neighbours = Neighbours::watch();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&mut test)) else { return };
        if neighbours.spoilt() {
            spoilt += 1;
        } else {
            failed += 1;
            if failed == most_runs {
                resume_unwind(failure);
            }
        }
        eprintln!("{:.3} of the CPU time was stolen; again: {figures}", neighbours.took());
    }
    eprintln!("skipped: {figures}: each time the host took CPU time away");
}
