//! The walls between the rooms, held by a test: which room of `src` may import which, where `unsafe` may stand, and who may
//! open `/sys` and `/proc`. The table is the forward path of ARCHITECTURE.md: a room sees only what stands earlier on it.

#[path = "layering/source.rs"]
mod source;

use source::{Import, imports, proc_or_sys_opened, unsafe_lines, without_comments};
use std::path::{Path, PathBuf};

/// What every room may use: facts, units, the door to `/sys` and `/proc`, failures.
const BASE: [&str; 4] = ["fact", "units", "sysroot", "failure"];

/// One room and what it may import beside `BASE` and itself.
struct Rule {
    room: &'static str,
    /// Rooms, or parts of rooms (`plan::Protocol`), that it may import.
    may: &'static [&'static str],
    /// The reason, for the message.
    why: &'static str,
}

/// In the order of the path.
const RULES: [Rule; 23] = [
    Rule { room: "fact", may: &[], why: "it is the ground that every room stands on" },
    Rule { room: "units", may: &[], why: "it is the ground that every room stands on" },
    Rule { room: "failure", may: &[], why: "it is the ground that every room stands on" },
    Rule { room: "sysroot", may: &[], why: "it is the ground that every room stands on" },
    Rule {
        room: "probe",
        may: &[],
        why: "it says what is there and knows nothing of what will be done with it",
    },
    Rule {
        room: "capture",
        may: &["probe"],
        why: "it lays down what the probe reads, and the probe must not know of it",
    },
    Rule {
        room: "rates",
        may: &["probe"],
        why: "it is arithmetic on published tables and on what was probed",
    },
    Rule { room: "plan", may: &["probe", "rates"], why: "it decides before anything moves" },
    Rule {
        room: "flow",
        may: &["probe::usage", "plan"],
        why: "it moves bytes as planned and judges nothing",
    },
    Rule {
        room: "agent",
        may: &["probe::usage", "probe::counters", "plan::Protocol", "flow"],
        why: "the other host has neither our plan nor our measurements",
    },
    Rule {
        room: "iperf3",
        may: &["probe::usage", "plan::Protocol", "flow"],
        why: "it speaks another tool's protocol and knows no plan of ours",
    },
    Rule {
        room: "web",
        may: &["flow::origin", "agent"],
        why: "it is what all pages have in common and knows none of them",
    },
    Rule {
        room: "wall",
        may: &["probe", "rates", "plan", "flow", "agent", "web"],
        why: "it streams on the data plane and measures itself; it runs no stage of a run",
    },
    Rule { room: "event", may: &["measure"], why: "it carries what measuring tells, and is heard by anyone" },
    Rule {
        room: "measure",
        may: &["probe", "rates", "plan", "flow", "agent", "iperf3", "event"],
        why: "it does not judge its figures",
    },
    Rule {
        room: "diagnose",
        may: &["probe", "rates", "plan", "measure"],
        why: "it is pure, so that a file can be diagnosed anywhere",
    },
    Rule {
        room: "run",
        may: &["probe", "plan", "agent", "iperf3", "event", "measure", "diagnose"],
        why: "it takes the steps in turn and keeps their products; how they look is the report's",
    },
    Rule {
        room: "tune",
        may: &["probe", "rates", "plan", "measure", "diagnose", "run", "event"],
        why: "it changes settings by what was probed; how its plan looks is the command line's",
    },
    Rule {
        room: "watch",
        may: &["probe", "rates", "plan", "diagnose", "agent::Key", "web", "report::printable"],
        why: "it looks on beside anything, and measures nothing itself",
    },
    Rule {
        room: "report",
        may: &["probe", "rates", "plan", "measure", "diagnose", "run", "event", "iperf3", "wall", "watch"],
        why: "it shows products, it makes none",
    },
    Rule {
        room: "cli",
        may: &[
            "probe", "capture", "rates", "plan", "flow", "agent", "measure", "diagnose", "report", "run",
            "event", "iperf3", "wall", "tune", "watch",
        ],
        why: "it calls the rooms, none calls it",
    },
    Rule { room: "lib", may: &[], why: "it only declares the rooms" },
    Rule { room: "main", may: &["cli"], why: "it tells the story in thirty lines" },
];

#[test]
fn rooms_import_only_what_stands_earlier_on_the_path() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for (file, text) in sources(&crate_dir().join("src")) {
        for import in imports(&file, &text) {
            seen += 1;
            if let Some(complaint) = complaint(&import) {
                broken.push(format!("{}:{}: {complaint}", file.display(), import.line));
            }
        }
    }
    assert!(seen > 10, "the search finds imports: {seen}");
    assert!(
        broken.is_empty(),
        "imports against the path (tests/layering.rs has the table):\n{}",
        broken.join("\n")
    );
}

/// What is wrong with an import, if anything.
fn complaint(import: &Import) -> Option<String> {
    let (from, path) = (import.room.as_str(), import.path.as_str());
    let to = path.split("::").next().unwrap_or_default();
    let Some(rule) = RULES.iter().find(|rule| rule.room == from) else {
        return Some(format!(
            "the room `{from}` is not in the table of tests/layering.rs: say there what it may import"
        ));
    };
    // A name of the crate's root that is no room: a macro, for instance.
    if from == to || BASE.contains(&to) || !RULES.iter().any(|rule| rule.room == to) {
        return None;
    }
    if rule.may.iter().any(|may| path == *may || path.starts_with(&format!("{may}::"))) {
        return None;
    }
    let allowed: Vec<&str> = BASE.iter().chain(rule.may).copied().collect();
    Some(format!("`{from}` imports `{path}`, but {}; it may import {}", rule.why, allowed.join(", ")))
}

#[test]
fn unsafe_stands_only_in_the_system_crate() {
    let mut broken = Vec::new();
    for (file, text) in sources(&crate_dir()) {
        for line in unsafe_lines(&text) {
            broken.push(format!(
                "{}:{line}: `unsafe` belongs into crates/system, with no policy beside it",
                file.display()
            ));
        }
    }
    for root in ["lib.rs", "main.rs"] {
        let text = std::fs::read_to_string(crate_dir().join("src").join(root)).expect("crate root");
        if !without_comments(&text).contains("#![forbid(unsafe_code)]") {
            broken.push(format!("src/{root}: `#![forbid(unsafe_code)]` is missing"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn sys_and_proc_are_opened_only_through_sysroot() {
    let mut broken = Vec::new();
    for (file, text) in sources(&crate_dir().join("src")) {
        if file.starts_with("src/sysroot") {
            continue;
        }
        for line in proc_or_sys_opened(&file, &text) {
            broken.push(format!(
                "{}:{line}: opens /sys or /proc itself; ask a `Sysroot`, so that --root works",
                file.display()
            ));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every product that the table names is there: a rule for a room that was renamed would hold nothing.
#[test]
fn table_names_rooms_that_exist() {
    let src = crate_dir().join("src");
    for rule in RULES {
        let there = src.join(format!("{}.rs", rule.room)).exists() || src.join(rule.room).is_dir();
        // The command line is built last.
        assert!(there || rule.room == "cli", "the table has `{}`, src has not", rule.room);
        for may in rule.may {
            let room = may.split("::").next().unwrap_or_default();
            assert!(RULES.iter().any(|rule| rule.room == room), "{}: `{may}` is no room", rule.room);
        }
    }
}

fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All `.rs` files under a directory, by path below the crate, with their text.
fn sources(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).expect("source directory").flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("source file");
                found.push((path.strip_prefix(crate_dir()).unwrap_or(&path).to_path_buf(), text));
            }
        }
    }
    found.sort();
    found
}

mod the_search_itself {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<String> {
        imports(Path::new(file), text)
            .into_iter()
            .map(|i| format!("{}:{} {}", i.room, i.line, i.path))
            .collect()
    }

    #[test]
    fn sees_use_trees_inline_paths_and_super() {
        let text = "use crate::plan::{Goal, capacity::{self, Model}};\nuse std::fs;\nfn f(x: crate::flow::Lane) {}\n";
        assert_eq!(
            found("src/probe/cpu.rs", text),
            [
                "probe:1 plan::Goal",
                "probe:1 plan::capacity",
                "probe:1 plan::capacity::Model",
                "probe:3 flow::Lane"
            ]
        );
        assert_eq!(found("src/probe/cpu.rs", "use super::super::plan::Goal;"), ["probe:1 plan::Goal"]);
        assert_eq!(
            found("src/probe/mod.rs", "use super::{plan::Goal, fact};"),
            ["probe:1 plan::Goal", "probe:1 fact"]
        );
        assert_eq!(
            found("src/run.rs", "use crate::{\n    plan,\n    probe::*,\n};"),
            ["run:2 plan", "run:3 probe"]
        );
        assert!(found("src/probe/cpu.rs", "use super::plan::Goal;").is_empty(), "a file of the room");
    }

    #[test]
    fn is_not_fooled_by_comments_strings_and_tests() {
        let text = "// crate::plan::x\n/* /* crate::plan::x */ crate::flow */\nlet a = \"crate::plan::x\";\n\
                    let b = r#\"crate::\"plan\"#; let c = '\"'; let d: &'static str = \"\\\"crate::plan\";\n\
                    #[cfg(test)]\nmod tests {\n    use crate::plan::Goal;\n}\nuse crate::agent::Key;";
        assert_eq!(found("src/probe/cpu.rs", text), ["probe:9 agent::Key"]);
    }

    #[test]
    fn table_is_applied() {
        let import = |room: &str, path: &str| Import { room: room.into(), path: path.into(), line: 1 };
        assert_eq!(complaint(&import("diagnose", "measure::Measurement")), None);
        assert_eq!(complaint(&import("probe", "fact::Fact")), None);
        assert_eq!(complaint(&import("agent", "plan::Protocol::Tcp")), None);
        assert!(
            complaint(&import("agent", "plan::Goal"))
                .is_some_and(|text| text.contains("`agent` imports `plan::Goal`"))
        );
        assert!(complaint(&import("agent", "plan::ProtocolZoo")).is_some());
        assert!(complaint(&import("diagnose", "flow::start")).is_some_and(|text| text.contains("pure")));
        assert!(
            complaint(&import("util", "fact::Fact")).is_some_and(|text| text.contains("not in the table"))
        );
    }

    #[test]
    fn unsafe_and_open_are_seen() {
        assert_eq!(
            unsafe_lines("// unsafe\nlet a = \"unsafe\";\nunsafe { b() }\n#![forbid(unsafe_code)]"),
            [3]
        );
        let text = "fs::read_to_string(\"/proc/stat\");\nFile::open(&format!(\"/sys/{a}\"))\nsysroot.text(\"/proc/stat\");\n\
                    std::fs::read_dir(\n    Path::new(\"/sys/class/net\"))\nfs::read(\"/etc/x\")";
        assert_eq!(proc_or_sys_opened(Path::new("src/probe/cpu.rs"), text), [1, 2, 4]);
    }
}
