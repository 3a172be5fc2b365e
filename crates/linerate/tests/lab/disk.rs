//! `linerate disk` on disks of known speeds: it scales as they do, finds where a common limit holds them, and
//! tells a burst from what lasts.
//!
//! LINERATE_LAB_ROUNDS=1 takes all eight disks, the default repeats and whole grids; without it, half of them
//! once in fewer cells, for the sake of time. Needs root and the tools of `lab/lab up`, else each test says that
//! it is skipped (LINERATE_LAB as in `lab/script.rs`).

use crate::support::lab::{Lab, folder};
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The tests measure: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// A figure that a neighbour on the same host may have spoilt is measured so often, and its median counts.
const MOST_RUNS: usize = 3;

fn is_thorough() -> bool {
    std::env::var_os("LINERATE_LAB_ROUNDS").is_some()
}

/// How many of eight disks, and visits of each step.
fn disks() -> (usize, &'static str) {
    if is_thorough() { (8, "3") } else { (4, "1") }
}

/// A lab of disks.
struct Disks(Lab);

impl Disks {
    /// Made with these options; none where this machine cannot have a lab.
    fn up(test: &str, options: &[&str]) -> Option<Disks> {
        Lab::up(&format!("disk-{test}"), &[&["--nics", "0", "--file-size", "96M"], options].concat())
            .map(Disks)
    }

    fn sources(&self) -> Vec<String> {
        self.0.succeed("sources", &[]).lines().map(String::from).collect()
    }

    /// The device below all images, by the kernel's name.
    fn base(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
        let place = format!("{}/base", self.0.name());
        let base =
            mounts.lines().find(|line| line.split(' ').nth(1).is_some_and(|path| path.ends_with(&place)));
        let base = base.and_then(|line| line.split(' ').next()).expect("the base is mounted");
        base.trim_start_matches("/dev/").to_string()
    }

    /// `linerate disk` on the server's side, for JSON.
    fn disk(&self, words: &[&str]) -> Command {
        let mut command = self.0.command("run", &["--", &program(), "disk", "--json"]);
        command.args(words);
        command
    }

    /// Each step is visited so often.
    fn scaling(&self, repeats: &str, grid: &[&str]) -> Value {
        let sources = self.sources();
        let mut words = grid.to_vec();
        words.extend(["--scaling", "--access", "read", "--pattern", "sequential", "--seconds", "1.6"]);
        // The throttle hands out steps of a tenth of a second: a window that begins in the middle of one holds
        // half a step less. A deep queue lets it give more at first than it takes back in a short window.
        words.extend(["--queue-depth", "4"]);
        words.extend(["--repeats", repeats]);
        sources.iter().for_each(|source| words.extend(["--source", source]));
        self.disk(&words).ended().gives(0).json()
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// Measures until the median over the runs is at least this for each step, at most three times; gives the
/// medians.
fn medians(least: f64, mut run: impl FnMut() -> Vec<f64>) -> Vec<f64> {
    let mut runs = vec![run()];
    loop {
        let steps = 0..runs[0].len();
        let medians: Vec<f64> =
            steps.map(|step| middle(runs.iter().map(|run| run[step]).collect())).collect();
        if medians.iter().all(|median| *median >= least) || runs.len() >= MOST_RUNS {
            return medians;
        }
        eprintln!("measured again: {medians:.4?}, at least {least}");
        runs.push(run());
    }
}

/// The curves of all cells.
fn curves(run: &Value) -> Vec<&Value> {
    let scaling = &run["scaling"];
    std::iter::once(scaling).chain(scaling["further"].as_array().into_iter().flatten()).collect()
}

/// Shares of the baseline of each number of devices up to `most`, in all cells.
fn shares(run: &Value, most: u64) -> Vec<f64> {
    let curves = curves(run);
    let steps = curves.iter().flat_map(|curve| curve["steps"].as_array().expect("steps"));
    let steps = steps.filter(|step| step["devices"].as_u64().is_some_and(|devices| devices <= most));
    steps.map(|step| step["share"].as_f64().expect("a share")).collect()
}

/// Workers of a grid: one on each disk, and in the whole grid two.
fn workers(count: usize) -> String {
    if is_thorough() { format!("{count},{}", 2 * count) } else { count.to_string() }
}

#[test]
fn every_cell_of_a_grid_reaches_its_baseline() {
    undisturbed("shares of the baseline", 1, || {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let count = disks().0;
        let Some(lab) = Disks::up("grid", &["--disks", &format!("{count}x100")]) else { return };
        let cells = if is_thorough() { 4 } else { 2 };
        let mut levels = Vec::new();
        let seen = medians(0.98, || {
            // A step that is low once is measured again with all others: the median counts.
            let repeats = if is_thorough() { "3" } else { "1" };
            let run = lab.scaling(repeats, &["--workers", &workers(count), "--transfer", "256k,1M"]);
            assert_eq!(curves(&run).len(), cells);
            levels.extend(curves(&run).iter().map(|curve| curve["levels_off_at"].as_u64()));
            shares(&run, u64::MAX)
        });
        assert_eq!(seen.len(), cells * count);
        assert!(seen.iter().all(|share| *share >= 0.98), "shares of the baseline: {seen:.4?}");
        let never = levels.iter().filter(|level| level.is_none()).count();
        assert!(never * 2 > levels.len(), "levels off at {levels:?}");
    });
}

#[test]
fn every_cell_of_a_grid_reaches_its_baseline_until_the_common_limit_which_is_named() {
    undisturbed("where a common limit begins", 1, || {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // Three at least beyond the limit, so that one lucky step is outvoted: the kernel's throttle lets 30 to
        // 150 ms of its rate through at once, and four disks live on that for longer than the warm-up (320 MB/s).
        let count = disks().0.max(6);
        let options = ["--disks", &format!("{count}x100"), "--shared", "300"];
        let Some(lab) = Disks::up("limit", &options) else { return };
        let base = format!("the disk {}, which all of them lie on", lab.base());
        let right = |curve: &&Value| {
            let named = curve["held_by"].as_str().is_some_and(|who| who.contains(&base));
            named && curve["levels_off_at"] == 3
        };
        let mut runs: Vec<Value> = Vec::new();
        let most_right = |runs: &[Value]| {
            let all: Vec<&Value> = runs.iter().flat_map(curves).collect();
            all.iter().filter(|curve| right(curve)).count() * 2 > all.len()
        };
        // With one and two disks, below the limit: the median over the runs.
        let below = |runs: &[Value]| -> Vec<f64> {
            let steps = 0..runs.first().map_or(0, |run| shares(run, 2).len());
            steps.map(|step| middle(runs.iter().map(|run| shares(run, 2)[step]).collect())).collect()
        };
        let reached = |runs: &[Value]| below(runs).iter().all(|share| *share >= 0.98);
        // Right at once on a quiet machine; on a busy one, more often than not.
        while !(most_right(&runs) && reached(&runs)) && runs.len() < MOST_RUNS {
            runs.push(lab.scaling(disks().1, &["--workers", &workers(count), "--transfer", "1M"]));
        }
        let said: Vec<&Value> = runs.iter().map(|run| &run["scaling"]).collect();
        assert!(most_right(&runs), "{base}: {said:#?}");
        assert!(reached(&runs), "shares of the baseline: {:.4?}", below(&runs));
    });
}

#[test]
fn a_bucket_that_empties_gives_two_rates_and_its_size() {
    undisturbed("a disk's burst", 2, || {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lab) = Disks::up("burst", &["--disks", "1x400"]) else { return };
        let source = &lab.sources()[0];
        let words = ["--source", source, "--access", "read", "--pattern", "sequential", "--repeats", "1"];
        // The block throttle gives deep queues up to a tenth too much in the short windows that a burst is looked
        // for in.
        let child = lab
            .disk(&[&words[..], &["--queue-depth", "4", "--seconds", "6"]].concat())
            .stdout(Stdio::piped())
            .spawn();
        let child = child.expect("it starts");
        std::thread::sleep(Duration::from_millis(2500));
        // The bucket is empty: from now on the device gives a quarter.
        let mount = format!("findmnt --noheadings --output SOURCE --target {source}");
        let slower = format!(
            "source {}/limits.sh; group=linerate-{}; limit_disk \"$({mount})\" 100 0",
            folder().display(),
            lab.0.name()
        );
        Command::new("bash").args(["-c", &slower]).ended().gives(0);
        let run = child.ended().json();
        let measurement = &run["measurements"][0];
        let burst = &measurement["access"]["burst"];
        let of = |name: &str| burst[name].as_f64().unwrap_or_else(|| panic!("no {name}: {measurement}"));
        let (fast, slow) = (of("burst_bytes_per_second"), of("sustained_bytes_per_second"));
        assert!((0.85..1.1).contains(&(fast / 400e6)), "burst {fast:.3e}");
        assert!((0.9..1.1).contains(&(slow / 100e6)), "sustained {slow:.3e}");
        // Started by then for 2.5 s less its own start.
        let bucket = of("bucket_bytes") / 300e6;
        assert!(
            (0.7 * of("seconds")..1.2 * of("seconds")).contains(&bucket),
            "bucket of {bucket} s: {burst}"
        );
        assert_eq!(measurement["bytes_per_second"], burst["sustained_bytes_per_second"]);
        assert!(measurement["flags"].to_string().contains("burst"));
    });
}
