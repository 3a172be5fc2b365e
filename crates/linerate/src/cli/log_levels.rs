//! What is logged, by the words of `LINERATE_LOG`: `debug`, or `warn,transport=trace`.

use linerate_facts::failure::Failure;
use tracing::level_filters::LevelFilter;

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
pub(super) struct Levels {
    all: LevelFilter,
    some: Vec<(&'static str, LevelFilter)>,
}

impl Levels {
    /// The same level for all.
    pub(super) fn all(level: LevelFilter) -> Levels {
        Levels { all: level, some: Vec::new() }
    }

    /// Reads the words; what is no level is named.
    pub(super) fn parse(text: &str) -> Result<Levels, Failure> {
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
    pub(super) fn of(&self, target: &str) -> LevelFilter {
        let Some(name) = crate_named(target.split("::").next().unwrap_or_default()) else {
            return LevelFilter::OFF;
        };
        // The last word about a crate counts.
        let own = self.some.iter().rev().find(|(of, _)| *of == name);
        own.map_or(self.all, |(_, level)| *level)
    }

    /// The most that any crate logs.
    pub(super) fn most(&self) -> LevelFilter {
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
