//! `linerate disk` as a user runs it, its product, and a place to measure.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Small parts and short windows, so that a test takes no time.
pub const QUICK: [&str; 6] = ["--seconds", "0.1", "--repeats", "2", "--block", "4M"];

/// `linerate disk` with these words, for JSON.
pub fn disk(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("disk").args(words).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// Runs it to the end.
pub fn ran(words: &[&str]) -> Output {
    disk(words).output().expect("it starts")
}

/// The JSON of a command that ended with this status.
pub fn json(words: &[&str], status: i32) -> Value {
    let output = disk(words).arg("--json").output().expect("it starts");
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else on standard output")
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}

/// Names in a directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a list");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A directory on a disk of which a tenth and more is free, as linerate wants it; none, with a message, where
/// there is none.
pub fn place() -> Option<tempfile::TempDir> {
    for parent in [std::env::temp_dir(), "/dev/shm".into()] {
        let Ok(directory) = tempfile::tempdir_in(parent) else { continue };
        let Ok((free, total)) = linerate_system::file::space_at(directory.path()) else { continue };
        if free.saturating_sub(total / 10) > 512 << 20 {
            return Some(directory);
        }
    }
    eprintln!(
        "skipped: neither the temporary directory nor /dev/shm has a tenth of its room and 512 MiB free"
    );
    None
}

pub fn measurements(run: &Value) -> &Vec<Value> {
    run["measurements"].as_array().expect("measurements")
}

/// It ended so, with one sentence that says this.
pub fn refused(output: &Output, status: i32, says: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("linerate: ") && said.contains(says), "no “{says}” in: {said}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}
