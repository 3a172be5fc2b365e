//! `linerate network` as a user runs it, and its product.

use std::process::Command;

/// Short windows, no latency unless asked for.
pub const QUICK: [&str; 4] = ["--seconds", "0.15", "--repeats", "2"];

/// `linerate network` with these words.
pub fn network(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("network").args(words).env("NO_COLOR", "1");
    command
}
