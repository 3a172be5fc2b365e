//! `linerate explain` beside programs in a lab whose limit is known: the disk is named, by the program that reads it
//! directly, and by a server that sends what it reads; and four loaders of which users asked in public what is slow.

use crate::support::lab::{Lab, folder};
use crate::support::linerate;
use crate::support::process::{Ends, Running};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A program on a side of the lab; killed with the value.
fn program(lab: &Lab, side: &str, words: &[&str]) -> Running {
    let mut command = lab.command(side, &[&["--"], words].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("it starts"))
}

/// One of the loaders and servers that are in no package.
fn loader(lab: &Lab, side: &str, words: &[&str]) -> Running {
    let script = folder().join("../bench/explain_programs.py");
    program(lab, side, &[&["python3", script.to_str().expect("a path")], words].concat())
}

/// Once it has begun to work.
fn explained(program: &Running) -> Value {
    std::thread::sleep(Duration::from_millis(1500));
    let pid = program.id().to_string();
    linerate().args(["explain", &pid, "--seconds", "3", "--json"]).ended().gives(0).json()
}

/// What limits it is named with its cause, at once. On a busy machine others have the CPU that it wants.
#[track_caller]
fn assert_cause(found: &Value, kind: &str, cause: &str) {
    let bottleneck = &found["bottleneck"];
    let limit = bottleneck["sentences"][1].as_str().unwrap_or_default();
    if kind == "cpu" && (bottleneck["kind"] == "others" || bottleneck["kind"] == "steal") {
        return;
    }
    assert!(bottleneck["kind"] == kind && limit.contains(cause), "{limit}: {found:#}");
}

#[track_caller]
fn assert_disk(found: &Value) {
    let bottleneck = &found["bottleneck"];
    let resource = bottleneck["resources"][0].as_str().unwrap_or_default();
    assert!(bottleneck["kind"] == "disk" && resource.starts_with("disk:loop"), "{found:#}");
    let sentence = bottleneck["sentence"].as_str().unwrap_or_default();
    assert!(
        found["verdict"] == "observed" && sentence.contains("Probably limited by disk loop"),
        "{sentence}"
    );
    let rate = found["rates"]["storage_read"].as_f64().unwrap_or_default();
    assert!((30e6..50e6).contains(&rate), "{rate}: {found:#}");
    let ids: Vec<&str> =
        found["findings"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.contains(&"one-read-at-a-time"), "{found:#}");
}

#[test]
fn the_disk_of_a_program_is_named() {
    let Some(lab) = Lab::up("explain", &["--disks", "1x40", "--nics", "0", "--file-size", "256M"]) else {
        return;
    };
    let sources = lab.succeed("sources", &[]);
    let file = sources.trim();
    let (folder, name) = file.rsplit_once('/').expect("a folder");
    // Several processes, one after the other, are one program.
    let script = "while :; do dd if=\"$0\" of=/dev/null bs=1M iflag=direct count=40; done";
    let reads = program(&lab, "run", &["sh", "-c", script, file]);
    assert_disk(&explained(&reads));
    drop(reads);
    let listen = ["python3", "-m", "http.server", "7471", "--bind", "127.0.0.1", "--directory", folder];
    let server = program(&lab, "run", &listen);
    let script = "until curl -sfo /dev/null http://127.0.0.1:7471/$0; do sleep 0.1; done";
    let _client = program(&lab, "run", &["sh", "-c", script, name]);
    let found = explained(&server);
    assert_disk(&found);
    assert!(found["connections"]["sent"].as_f64() > Some(30e6), "{found:#}");
}

/// mlcommons/storage#701, awslabs/mountpoint-s3#833, ai-dynamo/nixl#1769: what their users found by trials.
#[test]
fn loaders_that_limit_themselves_are_named_with_the_cause() {
    let Some(lab) = Lab::up("explain-loads", &["--disks", "1x0", "--nics", "0", "--iops", "400"]) else {
        return;
    };
    let (sources, addresses) = (lab.succeed("sources", &[]), lab.succeed("address", &[]));
    let (file, address) = (sources.trim(), addresses.trim());
    let server = loader(&lab, "peer", &["serve", address, "7472", file]);
    std::thread::sleep(Duration::from_millis(500));
    let copies = loader(&lab, "run", &["copy", address, "7472"]);
    assert_cause(&explained(&copies), "cpu", "the CPU: one thread, python3 of pid ");
    drop((copies, server));
    let reads = loader(&lab, "run", &["read", file, "131072"]);
    assert_cause(&explained(&reads), "disk", ": it reads one block of 128 KiB at a time and waits for it ");
    drop(reads);
    program(&lab, "run", &["dd", &format!("if={file}"), "of=/dev/null", "bs=1M"]).0.wait().expect("cached");
    let threads = loader(&lab, "run", &["threads", file, "48"]);
    assert_cause(&explained(&threads), "cpu", " of its threads want to run at a time, and it may use ");
}

/// safetensors#562: a mapped file over a slow device, read once by each of several processes.
#[test]
fn page_faults_of_several_processes_are_named() {
    let Some(lab) = Lab::up("explain-map", &["--disks", "1x20", "--nics", "0", "--file-size", "256M"]) else {
        return;
    };
    let sources = lab.succeed("sources", &[]);
    let script = folder().join("../bench/explain_programs.py");
    let start = "for each in 1 2 3 4; do python3 \"$0\" map \"$1\" touch & done; wait";
    let script = script.to_str().expect("a path");
    let loads = program(&lab, "run", &["sh", "-c", start, script, sources.trim()]);
    let found = explained(&loads);
    assert_cause(&found, "disk", " in 4 processes by page faults");
    let ids: Vec<&str> =
        found["findings"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    assert!(ids.contains(&"same-file-by-several"), "{found:#}");
}
