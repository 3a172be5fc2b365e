//! `linerate disk` as a user runs it, its product, and a place to measure.

use crate::support::process::{Ends, ProcessEnd};
use serde_json::Value;
use std::process::Command;

/// Small parts and short windows, so that a test takes no time.
pub const QUICK: [&str; 6] = ["--seconds", "0.1", "--repeats", "2", "--block", "4M"];

/// `linerate disk` with these words, for JSON.
pub fn disk(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("disk").args(words).env("NO_COLOR", "1");
    command
}

/// Runs it to the end.
pub fn ran(words: &[&str]) -> ProcessEnd {
    disk(words).ended()
}

/// The JSON of a command that ended with this status.
pub fn json(words: &[&str], status: i32) -> Value {
    disk(words).arg("--json").ended().gives(status).json()
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
