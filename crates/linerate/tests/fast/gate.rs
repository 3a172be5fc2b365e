//! `--expect` as a user meets it: exit status, a line a rule, the page for a CI, rules that are written, and what is
//! wrong with them.

use crate::support::process::{Ends, ProcessEnd};
use crate::support::{keep_apart, linerate, rights, root, text};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn ran(&self, words: &[&str]) -> ProcessEnd {
        self.ended(linerate(), words)
    }

    fn ended(&self, mut command: Command, words: &[&str]) -> ProcessEnd {
        keep_apart(&mut command, self.0.path());
        command.args(words).current_dir(self.0.path()).ended()
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, content).expect("written");
        file
    }
}

fn lab() -> String {
    text(&root().join("fixtures/run-lab-disks.json")).to_string()
}

#[test]
fn a_kept_result_is_held_to_rules() {
    let (folder, lab) = (Folder::new(), lab());
    let held = folder.ran(&["check", &lab, "--expect", "path >= 190MB/s", "--expect", "twins within 10%"]);
    held.gives(0).is_content();
    held.shows(&["held", "path >= 190MB/s: path tcp 197 MB/s", "2 rules for lab-server: 2 held."]);
    let rules = ["path >= 0.9 predicted", "disk:* >= 60MB/s", "disk:none >= 1GB/s"];
    let words: Vec<&str> = rules.iter().flat_map(|rule| ["--expect", rule]).collect();
    let junit = [&["check", &lab, "--junit", "gate.xml"][..], &words[..]].concat();
    let failed = folder.ran(&junit);
    failed.gives(5);
    assert!(failed.stderr.is_empty(), "{failed}");
    let lines: Vec<&str> = failed.stdout.lines().collect();
    assert!(lines[0].starts_with("failed      disk:* >= 60MB/s: disk loop0 alone 49.7 MB/s"), "{lines:?}");
    assert!(
        lines[1].starts_with("not judged  disk:none >= 1GB/s: disk none is not in this machine"),
        "{lines:?}"
    );
    assert!(lines.len() == 4 && lines[2].starts_with("held        path"), "{lines:?}");
    let page = std::fs::read_to_string(folder.0.path().join("gate.xml")).expect("a page");
    assert!(page.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{page}");
    let json = folder.ran(&[&junit[..], &["--json"]].concat());
    let found = json.json();
    assert_eq!(
        (json.code(), &found["outcome"], &found["rules"][1]["outcome"]),
        (Some(5), &"failed".into(), &"failed".into())
    );
    folder.ran(&["check", &lab, "--expect", "disk:none >= 1GB/s"]).gives(6);
}

#[test]
fn rules_are_written_of_a_result_and_of_parts_and_read_again() {
    let (folder, lab) = (Folder::new(), lab());
    let written = folder.ran(&["report", &lab, "--expectations"]);
    written.gives(0).is_content().shows(&["expect = [", "\"path >= 187MB/s\", # 0.95 of 197 MB/s"]);
    let file = folder.write("good.toml", &written.stdout);
    folder.ran(&["check", &lab, "--expect", text(&file)]).gives(0);
    let machine = root().join("examples/machines/streaming-server.toml");
    let plan = folder.ran(&["plan", "--machine", text(&machine), "--expectations"]);
    plan.gives(0).is_content().shows(&["\"path >= ", "\"nic:", "that the parts are likely to carry"]);
    let file = folder.write("node.toml", &plan.stdout);
    folder.ran(&["check", &lab, "--expect", text(&file)]).gives(5).shows(&["bottleneck is"]);
}

#[test]
fn a_run_is_held_to_the_first_of_a_comparison() {
    let (folder, lab) = (Folder::new(), lab());
    let slower = |name: &str, factor: f64| {
        let mut run: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&lab).expect("a run")).expect("JSON");
        let scale =
            |value: &mut serde_json::Value| *value = (value.as_f64().expect("a rate") * factor).into();
        for figure in run["measurements"].as_array_mut().expect("figures") {
            scale(&mut figure["bytes_per_second"]);
            figure["samples"].as_array_mut().expect("samples").iter_mut().for_each(scale);
            figure["interval"].as_array_mut().into_iter().flatten().for_each(scale);
        }
        run["machine"]["nics"][0]["mtu"] = 1500.into();
        folder.write(name, &run.to_string())
    };
    let (little, much) = (slower("little.json", 0.98), slower("much.json", 0.92));
    let beside = |other: &Path| folder.ran(&["compare", &lab, text(other), "--expect", "like first"]);
    beside(&little).gives(0);
    beside(&much).gives(5).shows(&["failed      like first: ", "92 % of the ", "MTU of lr-v0 9000 → 1500"]);
    let baseline = folder.ran(&["check", &lab, "--expect", &format!("like {}", text(&much))]);
    baseline.gives(0);
    let other = text(&root().join("fixtures/run-big-server.json")).to_string();
    folder.ran(&["check", &lab, "--expect", &format!("like {other}")]).gives(6).shows(&["another machine: "]);
}

#[test]
fn a_measurement_and_a_probe_end_with_what_their_rules_came_to() {
    let folder = Folder::new();
    let quick = ["memory", "--kernels", "read", "--working-set", "64k", "--cores", "1"];
    let words = [&quick[..], &["--seconds", "0.01", "--repeats", "6", "--expect"]].concat();
    folder.ran(&[&words[..], &["memory >= 1kB/s"]].concat()).gives(0).shows(&["1 rule for ", ": 1 held."]);
    let json = folder.ran(&[&words[..], &["memory >= 900TB/s", "--json"]].concat());
    json.mentions(&["memory >= 900TB/s: memory "]);
    assert!(json.json()["measurements"].is_array() && [Some(5), Some(6)].contains(&json.code()), "{json}");
    assert!(folder.ran(&["list"]).stdout.lines().count() >= 2, "both results are kept");
    let tree = root().join("fixtures/virtual-machine");
    let probe = |rule: &str| folder.ran(&["probe", text(&tree), "--expect", rule]);
    probe("probe: CPU governor is performance").gives(6);
    probe("probe: no array-degraded").gives(0);
    probe("probe: kernel is 2.6.32").gives(5).shows(&["kernel is 6."]);
    probe("path >= 1GB/s").gives(6).shows(&["nothing was measured"]);
}

#[test]
fn wrong_rules_are_refused_before_anything_is_measured() {
    let folder = Folder::new();
    let refused = |words: &[&str], status: i32, says: &str| {
        folder.ran(&[&["run"][..], words].concat()).refused(status, &[says]);
    };
    refused(&["--expect", "disk:* >= 10ms"], 2, "is another unit: disk:* is a rate");
    refused(&["--expect", "dsk >= 3GB/s"], 2, "names no part and no figure");
    refused(&["--expect", "path >= 5GB/s", "--expect", "path <= 3GB/s"], 2, "contradict each other");
    refused(&["--expect", "node.toml"], 3, "node.toml cannot be read");
    refused(&["--expect", "like none.json"], 3, "none.json");
    refused(&["--expect", "as usual", "--junit", "no/such/gate.xml"], 3, "--junit no/such/gate.xml: ");
    let file = folder.write("node.toml", "expect = [\n  \"path >= 3kg\",\n]\n");
    refused(&["--expect", text(&file)], 2, "“3kg” is another unit");
    folder.write("empty.toml", "expect = []");
    refused(&["--expect", "empty.toml"], 2, "holds no rule");
}

/// The rules are judged and printed; only the file is missing.
#[test]
fn a_page_that_finds_no_room_is_one_sentence() {
    if !rights::may_mount() {
        return rights::skipped("only root may mount a small tmpfs");
    }
    let (folder, lab) = (Folder::new(), lab());
    let full = "mkdir -p full && mount -t tmpfs -o size=4k none full && head -c 4k /dev/zero >full/full; exec \"$0\" \"$@\"";
    let shell = ["--mount", "sh", "-c", full, env!("CARGO_BIN_EXE_linerate")];
    let check = ["check", &lab, "--junit", "full/gate.xml", "--expect"];
    let with =
        |rule: &str| folder.ended(Command::new("unshare"), &[&shell[..], &check[..], &[rule]].concat());
    with("path >= 1MB/s")
        .gives(1)
        .says(&["--junit full/gate.xml: No space left", "has room"])
        .shows(&["1 held."]);
    with("path >= 1TB/s").gives(5).says(&["--junit full/gate.xml: "]);
}

#[test]
fn a_recorded_tree_fails_for_its_settings() {
    let tree = linerate_testing::Tree::new(&[
        ("proc/cpuinfo", "processor : 0\nmodel name : ACME 9000\nflags : fpu\n"),
        ("proc/sys/net/core/default_qdisc", "pfifo_fast\n"),
        ("sys/devices/system/cpu/online", "0\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ]);
    let rules = ["probe: CPU governor is performance", "probe: net.core.default_qdisc is fq"];
    let words: Vec<&str> = rules.iter().flat_map(|rule| ["--expect", rule]).collect();
    let probed = Folder::new().ran(&[&["probe", text(tree.path())][..], &words[..]].concat());
    probed.gives(5).shows(&["CPU governor is powersave.", "net.core.default_qdisc is pfifo_fast."]);
}
