//! `linerate network` as a user runs it, and its product.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Short windows, no latency unless asked for.
pub const QUICK: [&str; 4] = ["--seconds", "0.15", "--repeats", "2"];

/// `linerate network` with these words.
pub fn network(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("network").args(words).stdin(Stdio::null()).env("NO_COLOR", "1").env_remove("LINERATE_KEY");
    command
}

/// What it said on standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}

/// Its product; it must have ended well.
pub fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else on standard output")
}

/// The measurements of a product.
pub fn measurements(run: &Value) -> &Vec<Value> {
    run["measurements"].as_array().expect("measurements")
}
