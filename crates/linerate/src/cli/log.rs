//! Logging, off unless it is asked for: `--verbose` or `LINERATE_LOG`, which sets how much, on standard error; `--log FILE`
//! writes it to a file for a bug report.
//!
//! A subscriber of our own: there are events only, no spans, and what a peer says must not act on the terminal.
//! Secrets are not logged: keys and tokens do not show themselves (`Debug`), and their text is never given to an event.

use super::log_levels::{Levels, VARIABLE};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_system::clock;
use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// How much a file gets where `LINERATE_LOG` does not say.
const FILE_LEVEL: LevelFilter = LevelFilter::DEBUG;

/// How much standard error gets with `--verbose`, likewise.
const VERBOSE_LEVEL: LevelFilter = LevelFilter::INFO;

/// Starts logging, where it is asked for.
pub(super) fn start(file: Option<&Path>, verbose: bool, output: &Output) -> Result<(), Failure> {
    let asked = std::env::var_os(VARIABLE).map(|text| Levels::parse(&text.to_string_lossy())).transpose()?;
    let levels = match (asked, file) {
        (Some(levels), _) => levels,
        (None, Some(_)) => Levels::all(FILE_LEVEL),
        (None, None) if verbose => Levels::all(VERBOSE_LEVEL),
        (None, None) => return Ok(()),
    };
    let file = file.map(open).transpose()?.map(Mutex::new);
    // It fails where a test of this process has set one before: that one goes on.
    let _ = tracing::subscriber::set_global_default(Log { levels, file, output: output.clone() });
    Ok(())
}

/// What is there already is kept: the log is added to it.
fn open(path: &Path) -> Result<File, Failure> {
    let opened = File::options().append(true).create(true).mode(0o600).open(path);
    opened.map_err(|error| {
        Failure::Lacks(format!(
            "--log {}: cannot be opened: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}

/// Writes each event as a line.
struct Log {
    levels: Levels,
    /// None: standard error.
    file: Option<Mutex<File>>,
    output: Output,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.levels.of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.levels.most())
    }

    fn event(&self, event: &Event<'_>) {
        let line = line_of(event, clock::date());
        match &self.file {
            // A full disk ends the log, not the work.
            Some(file) => drop(writeln!(linerate_system::lock(file), "{line}")),
            None => self.output.tell(&line),
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// `TIME LEVEL MODULE: message name=value …`, without anything that acts on a terminal.
fn line_of(event: &Event<'_>, now: SystemTime) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let time = humantime::format_rfc3339_micros(now);
    let (level, target) = (event.metadata().level(), event.metadata().target());
    let module = target.strip_prefix("linerate_").unwrap_or(target);
    printable(&format!("{time} {level:<5} {module}: {}{}", fields.message, fields.others))
}

#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // To write to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_does_nothing_to_a_terminal() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("log");
        std::fs::write(&path, "kept\n").expect("a file");
        let file = Some(Mutex::new(open(&path).expect("opened")));
        let log = Log { levels: Levels::all(LevelFilter::INFO), file, output: Output::default() };
        tracing::subscriber::with_default(log, || {
            tracing::info!(peer = "a\u{1b}[2J\nb", streams = 3, "refused\u{202e}");
            tracing::debug!("too much");
            tracing::warn!(target: "tokio", "of others");
        });
        let text = std::fs::read_to_string(&path).expect("the log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0], "kept");
        assert!(lines[1].contains("Z INFO  linerate::cli::log::tests: refused"), "{text}");
        assert!(lines[1].ends_with("peer=\"a\\u{1b}[2J\\nb\" streams=3"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}
