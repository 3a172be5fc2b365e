//! Logging, off unless it is asked for: `--verbose` or `LINERATE_LOG`, which sets how much (`debug`, or
//! `warn,transport=trace`), on standard error; `--log FILE` writes it to a file for a bug report.
//!
//! A subscriber of our own: there are events only, no spans, and what a peer says must not act on the terminal.
//! Secrets are not logged: keys and tokens do not show themselves (`Debug`), and their text is never given to an event.

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

/// Environment variable that turns logging on.
pub(super) const VARIABLE: &str = "LINERATE_LOG";

/// The crates that log.
const CRATES: [&str; 14] = [
    "system",
    "facts",
    "machine",
    "transport",
    "model",
    "web",
    "measure",
    "fleet",
    "deliver",
    "wall",
    "tune",
    "watch",
    "report",
    "linerate",
];

/// A level for all crates, and others for some of them.
#[derive(Clone, Debug, PartialEq)]
struct Levels {
    all: LevelFilter,
    some: Vec<(&'static str, LevelFilter)>,
}

impl Levels {
    /// The same level for all.
    fn all(level: LevelFilter) -> Levels {
        Levels { all: level, some: Vec::new() }
    }

    /// Reads the words; what is not a level is named.
    fn parse(text: &str) -> Result<Levels, Failure> {
        let mut levels = Levels::all(LevelFilter::OFF);
        for word in text.split(',').map(str::trim) {
            let (of, level) = word.split_once('=').map_or((None, word), |(of, level)| (Some(of), level));
            let of = of.map(|of| crate_named(of.trim()).ok_or_else(|| nonsense(word))).transpose()?;
            let level = level_named(level.trim()).ok_or_else(|| nonsense(word))?;
            match of {
                Some(of) => levels.some.push((of, level)),
                None => levels.all = level,
            }
        }
        Ok(levels)
    }

    /// The level for a module path; nothing but linerate's own crates is logged.
    fn of(&self, target: &str) -> LevelFilter {
        let Some(name) = crate_named(target.split("::").next().unwrap_or_default()) else {
            return LevelFilter::OFF;
        };
        // The last word about a crate counts.
        let own = self.some.iter().rev().find(|(of, _)| *of == name);
        own.map_or(self.all, |(_, level)| *level)
    }

    /// The most that any crate logs.
    fn most(&self) -> LevelFilter {
        self.some.iter().map(|(_, level)| *level).chain([self.all]).max().unwrap_or(LevelFilter::OFF)
    }
}

fn crate_named(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("linerate_").unwrap_or(name);
    CRATES.into_iter().find(|known| *known == name)
}

/// Words only: `LevelFilter` itself would take numbers, too.
fn level_named(word: &str) -> Option<LevelFilter> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.into_iter().find(|level| level.eq_ignore_ascii_case(word))?.parse().ok()
}

fn nonsense(word: &str) -> Failure {
    let word: String = word.chars().take(40).collect();
    Failure::Usage(format!(
        "{VARIABLE}: “{word}” is not a level: write error, warn, info, debug, trace or off, or CRATE=LEVEL with one of {}; \
         a comma between several",
        CRATES.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn a_level_is_for_all_crates_and_a_named_one_for_one() {
        let levels = Levels::parse("warn, transport=TRACE,linerate_wall=off").expect("levels");
        assert_eq!(levels.of("linerate_measure::run"), LevelFilter::WARN);
        assert_eq!(levels.of("linerate_transport::agent"), LevelFilter::TRACE);
        assert_eq!(levels.of("linerate_wall"), LevelFilter::OFF);
        assert_eq!(levels.of("linerate::cli"), LevelFilter::WARN);
        assert_eq!(levels.of("tokio::net"), LevelFilter::OFF, "others do not speak here");
        assert_eq!(levels.most(), LevelFilter::TRACE);
        assert_eq!(Levels::parse("tune=debug").expect("levels").of("linerate_watch"), LevelFilter::OFF);
        let last = Levels::parse("web=info,web=error").expect("levels");
        assert_eq!(last.of("linerate_web"), LevelFilter::ERROR);
    }

    #[test]
    fn every_crate_that_logs_has_a_level() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for folder in std::fs::read_dir(crates).expect("crates").flatten().map(|entry| entry.path()) {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            let name = folder.file_name().expect("a name").to_string_lossy();
            assert!(!manifest.contains("\ntracing.") || crate_named(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn nonsense_is_named_with_what_may_be_written() {
        for text in
            ["", "loud", "debug,", "3", "transport", "transport=", "kernel=debug", "debug=info", "a=b=c"]
        {
            let failure = Levels::parse(text).expect_err(text);
            assert_eq!(failure.exit_status(), 2);
            assert!(failure.to_string().contains("error, warn, info"), "{failure}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            let _ = Levels::parse(&text).map(|levels| levels.of(&text));
        }
    }
}
