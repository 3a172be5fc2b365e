//! Results of other tools as runs, for whoever reads results: fio's and iperf3's JSON, also with warnings around it,
//! iperf3's stream of events, and the lines and tables of nuttcp, IOR and elbencho.
//!
//! Pure: bytes in, a [`Run`] out. The kind is known by what is written, never by a name. What such a file does not say is
//! unknown; what limited the flow is judged by `model::verdict` from what it does say, and is an observation.

#![forbid(unsafe_code)]

mod document;
mod fio;
mod fio_job;
mod fio_json;
mod iperf3;
mod iperf3_json;
mod iperf3_path;
mod lenient;
pub mod paper;
mod table;
mod verdict;

use document::DocumentKind;
use iperf3::Tests;
use linerate_facts::fact::Fact;
use linerate_facts::printable::utf8;
use linerate_machine::probe::Machine;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use std::time::{Duration, SystemTime};

/// A larger file is not read: a day of a hundred streams is less.
pub const LARGEST_BYTES: u64 = 256 << 20;
/// Figures of one file.
const MOST_FIGURES: usize = 1000;

/// Why a tool's file is not taken. In a sentence after the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    #[error("is {tool}'s JSON, but ends before its end: let {tool} finish, or save its output whole")]
    Cut { tool: &'static str },
    #[error("is {tool}'s JSON, but cannot be read: {why}; save {tool}'s output again, alone in its file")]
    Broken { tool: &'static str, why: String },
    #[error("is fio's JSON, but holds no job: nothing was measured")]
    NoJob,
    #[error("holds results of fio and of iperf3: give each its own file")]
    TwoTools,
}

/// A file's content as a run; none where it is of no tool that is known here.
pub fn read(bytes: &[u8]) -> Result<Option<Run>, ForeignError> {
    let decoded = utf8(bytes);
    let bytes = decoded.as_ref();
    let (mut fio, mut tests) = (fio::Results::default(), Tests::default());
    document::each(bytes, |kind, document| match kind {
        DocumentKind::Fio => fio.add(document),
        DocumentKind::Iperf3 => tests.add(document),
        DocumentKind::Iperf3Event => tests.add_event(document),
    })?;
    match (fio.is_empty(), tests.is_empty()) {
        (true, true) => Ok(table::read(bytes)),
        (false, true) => fio.run().map(Some),
        (true, false) => Ok(Some(tests.run())),
        (false, false) => Err(ForeignError::TwoTools),
    }
}

/// A run of another tool, of which nothing is known yet.
fn begin(stage: Stage, tool: String, name: String, host: Option<&str>, started: Option<f64>) -> Run {
    let host = match host {
        Some(host) => Fact::Known(host.to_string()),
        None => Fact::unknown(format!("{tool} does not report it")),
    };
    let machine = Machine { host, ..Machine::default() };
    let at =
        started.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds as u64)));
    // The last second that RFC 3339 can write, 9999-12-31.
    let at = at.filter(|_| started.is_some_and(|seconds| seconds < 253_402_300_799.0));
    let started = at.map_or("unknown".into(), |at| humantime::format_rfc3339_seconds(at).to_string());
    Run { tool, started, ..Run::begin_stage(stage, name, machine, Goal::default()) }
}

#[cfg(test)]
mod tests;
