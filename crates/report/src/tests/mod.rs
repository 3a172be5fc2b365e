//! What holds of several parts of this crate together.

mod described;
mod extreme;
mod media;
mod papers;

use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use std::path::{Path, PathBuf};

/// Files of saved results.
fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let entries =
        std::fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("a fixture").path());
    let is_saved = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && (name.starts_with("run-") || name.starts_with("stage-"))
    };
    let mut saved: Vec<PathBuf> = entries.filter(is_saved).collect();
    saved.sort();
    saved
}

fn saved(name: &str) -> Run {
    let path = fixtures().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
    crate::read(&path.expect("a fixture")).expect("a saved run")
}

#[test]
fn a_result_about_a_program_is_not_shown_without_its_name() {
    let run = Run { stage: Some(Stage::Explain), name: "canaryd".into(), ..saved("run-partial") };
    let why = crate::anonymous(&run).expect_err("refused").to_string();
    assert!(why.contains("one of explain about its program"), "{why}");
}
