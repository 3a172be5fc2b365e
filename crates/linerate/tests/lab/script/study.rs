//! A study of layouts.

use super::{entries, named, script};
use crate::support::lab::Lab;
use crate::support::process::Ends;
use std::process::{Command, Stdio};

#[test]
fn a_study_ends_in_the_comparison_and_leaves_only_its_results() {
    let Some(_lab) = named("study") else { return };
    let place = tempfile::tempdir().expect("a temporary directory");
    let output = place.path().join("results");
    let output_word = output.to_string_lossy();
    let study = ["study", "--fs", "xfs,ext4", "--disks", "2x0", "--rounds", "3", "--output", &output_word];
    let job = "-- --workers 1 --access read --pattern random --amount 4M --seconds 0.2".split(' ');
    let child = Command::new(script())
        .args(study)
        .args(job)
        .env("LINERATE", env!("CARGO_BIN_EXE_linerate"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the lab script starts");
    let labs = Lab { name: format!("linerate-study-{}", child.id()) };
    let ended = child.ended();
    ended.gives(0);
    labs.assert_nothing_remains("a study");
    let screen = &ended.stdout;
    assert!(screen.contains("ext4 against xfs:") && !screen.contains("too few"), "{screen}");
    assert_eq!(entries(&output_word).len(), 7, "three rounds of two layouts, and their comparison");
    assert!(output.join("comparison/report.html").exists());
    let again = Command::new(script()).args(study).ended();
    let there =
        again.stderr.contains("is there already") || again.stderr.contains("there is no linerate yet");
    assert!(there && again.status.code() != Some(0), "{}", again.stderr);
    labs.assert_nothing_remains("a study that was refused");
}
