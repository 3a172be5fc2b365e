//! Findings of a run and settings of the catalogue name each other; what the plan shows first.

use super::ran;
use crate::support::tune_place::MachineFolder;
use linerate::tune::catalogue;
use std::path::Path;

/// The text of every finding, with what is broken over lines joined again.
fn findings() -> String {
    let mut text = String::new();
    let mut pending = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/src/diagnose/findings")];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path().is_dir() {
                true => pending.push(entry.path()),
                false => text += &std::fs::read_to_string(entry.path()).expect("text"),
            }
        }
    }
    let lines: Vec<&str> = text.split("\\\n").collect();
    lines.iter().enumerate().map(|(at, line)| if at > 0 { line.trim_start() } else { line }).collect()
}

/// Findings that the catalogue cures are findings that linerate has, and each tells the command that cures
/// it.
#[test]
fn findings_and_settings_name_each_other() {
    let text = findings();
    for entry in catalogue::all() {
        for finding in entry.findings {
            assert!(text.contains(&format!("\"{finding}\"")), "{finding} is not a finding");
            let cured = [
                format!("linerate tune apply --finding {finding}`"),
                format!("linerate tune apply --setting {}", entry.id),
                format!("linerate tune measure --setting {}", entry.id),
            ];
            let other = catalogue::all().filter(|other| other.findings.contains(finding));
            let by_other = other.into_iter().any(|other| text.contains(&format!("--setting {}", other.id)));
            assert!(
                by_other || cured.iter().any(|command| text.contains(command)),
                "{finding} names no command"
            );
        }
    }
    // What a finding names is there.
    for (option, known) in [
        ("--finding ", catalogue::all().flat_map(|entry| entry.findings).copied().collect::<Vec<_>>()),
        ("--setting ", catalogue::all().map(|entry| entry.id).collect()),
    ] {
        for after in text.split("linerate tune ").skip(1) {
            let command = after.split('`').next().unwrap_or_default();
            let Some((_, name)) = command.split_once(option) else { continue };
            let name = name.split([':', '=', ' ']).next().unwrap_or_default();
            assert!(known.contains(&name), "{command}");
        }
    }
}

/// `tune --finding` shows what `tune apply --finding` changes.
#[test]
fn a_finding_chooses_its_settings() {
    let tree = MachineFolder::new();
    let root = tree.root();
    let (status, text) = ran(&["--root", &root, "--finding", "udp-receive-buffer"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("rmem-max") && text.contains("67108864") && !text.contains("swappiness"), "{text}");
    let (status, text) = ran(&["apply", "--yes", "--root", &root, "--finding", "udp-receive-buffer"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "67108864\n");
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "60\n");
    assert_eq!(ran(&["undo", "--root", &root]).0, 0);
}

/// What belongs to a process comes first and is said to be nobody's but its own.
#[test]
fn the_plan_shows_what_belongs_to_a_process() {
    let tree = MachineFolder::new();
    let (_, text) = ran(&["--root", &tree.root()]);
    let own = text.find("Of the process itself").expect("told");
    assert!(own < text.find("rmem-max").expect("a setting"), "{text}");
    let (_, json) = ran(&["--root", &tree.root(), "--json", "--setting", "pinning"]);
    let plan: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(plan["process"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(plan["settings"].as_array().map(Vec::len), Some(0), "{json}");
}
