//! What a long measurement does to others and to itself: a limit is level in every tenth of a second, and
//! memory does not grow.

use crate::support::disk::{disk, place};
use crate::support::neighbours::undisturbed;
use crate::support::text;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const LIMIT: f64 = 8.0 * 1024.0 * 1024.0;
const WINDOW: Duration = Duration::from_millis(100);
/// A request, and what the schedule makes up after a delay.
const TRANSFER: f64 = 65_536.0;
const CREDIT_SECONDS: f64 = 0.005;
/// What linerate reads beside the file while it measures: counters in /proc, at the ends of windows.
const BESIDE: f64 = 131_072.0;

/// `words` on a source, its standard output thrown away.
fn started(words: &[&str]) -> Child {
    disk(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// The number behind a word in a file of the process's directory in /proc; none once it has ended.
fn told(process: &Child, file: &str, word: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", process.id())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes that were read by then, between these two moments.
struct Sample {
    before: Instant,
    after: Instant,
    bytes: f64,
}

/// The kernel's own count of what the process read, every few milliseconds until it ends.
fn watched(mut process: Child) -> Vec<Sample> {
    let mut samples = Vec::new();
    while process.try_wait().expect("its state").is_none() {
        let before = Instant::now();
        if let Some(bytes) = told(&process, "io", "rchar:") {
            samples.push(Sample { before, after: Instant::now(), bytes: bytes as f64 });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    samples
}

#[test]
fn a_limit_is_level_in_every_tenth_of_a_second() {
    undisturbed("a limit in each tenth of a second", 2, || {
        let Some(place) = place() else { return };
        let words = [
            &["--source", text(place.path()), "--access", "read", "--pattern", "random", "--transfer", "64k"]
                [..],
            &["--amount", "16M", "--seconds", "4", "--repeats", "1", "--rate-limit", "8MiB/s"],
            &["--engine", "psync", "--buffered"],
        ]
        .concat();
        let samples = watched(started(&words));
        let all = samples.last().expect("samples").bytes;
        assert!(all > LIMIT * 3.0, "{all} bytes were read in four seconds");
        // Between the first and the last quarter of a second of reading: what is read to probe the machine is
        // outside.
        let reading: Vec<&Sample> =
            samples.iter().filter(|one| (0.1..0.95).contains(&(one.bytes / all))).collect();
        let mut shares = Vec::new();
        for (index, from) in reading.iter().enumerate() {
            let Some(to) = reading[index..].iter().find(|to| to.before - from.after >= WINDOW) else { break };
            let bytes = to.bytes - from.bytes;
            // All of it was read between these moments, however long this process or that one was held up.
            let longest = (to.after - from.before).as_secs_f64();
            let most = LIMIT * (longest + CREDIT_SECONDS) + 2.0 * TRANSFER + BESIDE;
            assert!(bytes <= most, "{bytes} bytes in {longest} s, at most {most} are allowed");
            shares.push(bytes / (LIMIT * (to.before - from.after).as_secs_f64()));
        }
        shares.sort_by(f64::total_cmp);
        assert!(shares.len() > 50, "{} windows", shares.len());
        // All at once in each second would leave most windows empty.
        let (low, middle) = (shares[shares.len() / 10], shares[shares.len() / 2]);
        assert!(
            low > 0.5 && (0.8..1.3).contains(&middle),
            "a tenth of the windows below {low}, half below {middle}"
        );
    });
}

/// The most memory that linerate has had when it ends, kB.
fn most_memory(source: &str, seconds: &str, repeats: &str) -> u64 {
    let words =
        ["--source", source, "--access", "read", "--pattern", "random", "--transfer", "4k", "--block"];
    let more = ["4M", "--amount", "16M", "--buffered", "--seconds", seconds, "--repeats", repeats];
    let mut process = started(&[&words[..], &more].concat());
    let mut most = 0;
    while process.try_wait().expect("its state").is_none() {
        most = told(&process, "status", "VmHWM:").unwrap_or(most).max(most);
        std::thread::sleep(Duration::from_millis(10));
    }
    most
}

/// Neither with the time of a window nor with the number of windows. LINERATE_LONG_SECONDS=1800 measures for half an
/// hour instead of a few seconds.
#[test]
fn memory_is_the_same_after_a_short_run_and_after_a_long_one() {
    let Some(place) = place() else { return };
    let long = std::env::var("LINERATE_LONG_SECONDS").unwrap_or_else(|_| "3".into());
    let source = text(place.path());
    let (short, long) = (most_memory(source, "0.5", "1"), most_memory(source, &long, "1"));
    let many = most_memory(source, "0.02", "60");
    assert!(short > 0 && long > 0 && many > 0, "{short} kB, {long} kB and {many} kB");
    assert!(long <= short + 2048, "{short} kB after half a second, {long} kB after longer");
    // What each window leaves (its figure) is a few kilobytes.
    assert!(many <= short + 2400, "{short} kB after one window, {many} kB after 60");
    println!("{short} kB after one window, {long} kB after a long one, {many} kB after 60");
}
