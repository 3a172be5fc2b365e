//! Other programs beside a run: one that computes on every CPU and one that reads the same disk are named.

use crate::support::lab::Lab;
use crate::support::process::Ends;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A program that goes on until the value goes, with what it started.
struct Program(Child);

impl Program {
    fn start(command: &str, words: &[&str]) -> Program {
        let mut child = Command::new(command);
        child.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Program(child.spawn().expect("it starts"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

fn finding<'a>(run: &'a Value, id: &str) -> &'a str {
    let findings = run["diagnosis"]["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {:#}", run["diagnosis"]))["text"].as_str().expect("a text")
}

#[test]
fn programs_that_compute_and_that_read_the_same_disk_are_named() {
    let options = ["--disks", "1x60", "--nics", "1000", "--file-size", "64M"];
    let Some(lab) = Lab::up("others", &options) else { return };
    let source = lab.succeed("sources", &[]);
    let read = "while :; do dd if=\"$0\" of=/dev/null bs=1M iflag=direct; done";
    let _reader = Program::start("sh", &["-c", read, source.trim()]);
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let _hogs: Vec<Program> = (0..cpus).map(|_| Program::start("sha256sum", &["/dev/zero"])).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("result").to_string_lossy().into_owned();
    let run = ["--", "--no-save", "--json", "--protocol", "tcp", "--output", &output];
    let words = [&run[..], &["--budget", "6", "--stages", "disk,network,path"]].concat();
    let ran = lab.command("demo", &words).ended();
    assert!(ran.status.success(), "linerate run: {}", ran.stderr);
    let run = ran.json();
    let bottleneck = &run["diagnosis"]["bottleneck"];
    assert_eq!(bottleneck["kind"], "others", "{:#}", run["diagnosis"]);
    let after_the_rate = bottleneck["sentences"][1].as_str().expect("a sentence");
    assert!(
        after_the_rate.starts_with("Other programs ") && after_the_rate.ends_with(" is what was left."),
        "{after_the_rate}"
    );
    assert!(!bottleneck["sentence"].as_str().expect("a sentence").contains("would raise"), "{bottleneck}");
    let busy = finding(&run, "others-busy");
    assert!(busy.contains("sha256sum (pid "), "{busy}");
    let on_disk = finding(&run, "others-on-disk");
    assert!(on_disk.contains("dd (pid ") || on_disk.contains("sh (pid "), "{on_disk}");
}
