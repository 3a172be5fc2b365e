//! The panel of the commands that measure: it stands below what they write, and is gone when they end,
//! whatever ends them.

use super::Watch;
use super::emulated::screen;
use std::path::PathBuf;

/// Of the panel, and of nothing else that is written.
const PANEL: [&str; 2] = ["fullest core", "limited by: "];
/// Two figures of a disk in a few seconds.
const SHORT: &str = "disk --amount 8M --access read --repeats 1";

fn place() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The command with a scratch of the tests' own.
fn words(more: &str) -> String {
    format!("{SHORT} --source {} {more}", place().display())
}

/// What is left on the terminal, without the panel.
fn clean(watch: &Watch) -> String {
    let text = watch.text();
    assert!(!text.contains("\x1b[?"), "no mode of the terminal was changed: {text:?}");
    let left = screen(&text).join("\n");
    for part in PANEL {
        assert!(!left.contains(part), "{part:?} is left:\n{left}");
    }
    left
}

#[test]
fn a_measurement_shows_the_machine_and_leaves_its_figures() {
    let Some(mut watch) = Watch::of(&words("--seconds 1.5"), &[]) else { return };
    watch.until("fullest core");
    watch.until("limited by: ");
    assert_eq!(watch.status(), Some(0));
    let left = clean(&watch);
    // The lines of what was measured stand above the result, as they always have.
    for (name, count) in [("  disk     sequential read", 1), ("  disk     random read", 1)] {
        assert_eq!(left.matches(name).count(), count, "{name:?} in\n{left}");
    }
    let lines: Vec<&str> = left.lines().collect();
    let at = |what: &str| lines.iter().position(|line| line.contains(what)).expect("a line");
    assert!(at("  disk     random read") < lines.len() - 2, "the result follows:\n{left}");
}

#[test]
fn ctrl_c_takes_the_panel_away() {
    let Some(mut watch) = Watch::of(&words("--seconds 20"), &[]) else { return };
    watch.until("fullest core");
    watch.press("\x03");
    assert!(watch.status().is_some_and(|status| status != 0), "it says that it is not whole");
    clean(&watch);
}

#[test]
fn an_error_takes_the_panel_away_and_speaks_for_itself() {
    let Some(mut watch) = Watch::of("run --source /nonexistent/file --protocol tcp", &[]) else { return };
    assert_eq!(watch.status(), Some(3));
    let left = clean(&watch);
    assert!(
        left.lines().any(|line| line.starts_with("linerate: ") && line.contains("/nonexistent")),
        "{left}"
    );
}

#[test]
fn standard_output_is_the_results_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let words = words(&format!("--seconds 1.5 --json > {}", file.display()));
    let Some(mut watch) = Watch::of(&words, &[]) else { return };
    watch.until("fullest core");
    assert_eq!(watch.status(), Some(0));
    clean(&watch);
    let text = std::fs::read_to_string(file).expect("the result");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text:?}");
}

#[test]
fn without_colours_it_writes_none_and_a_dumb_terminal_has_none() {
    let Some(mut watch) = Watch::of(&words("--seconds 1.2 --pattern random"), &[("NO_COLOR", "1")]) else {
        return;
    };
    watch.until("fullest core");
    assert_eq!(watch.status(), Some(0));
    for code in ["\x1b[3", "\x1b[38;5;", "\x1b[9"] {
        assert!(!watch.text().contains(code), "{code:?} in {:?}", watch.text());
    }
    let words = words("--seconds 1.2 --pattern random");
    let Some(mut watch) = Watch::of(&words, &[("TERM", "dumb")]) else { return };
    assert_eq!(watch.status(), Some(0));
    assert!(!watch.text().contains("fullest core"), "{:?}", watch.text());
}
