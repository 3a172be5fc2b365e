//! `linerate explain` beside programs on a disk of 40 MB/s: the disk is named, by the program that reads it directly, and
//! by a server that sends what it reads, in a network namespace of its own.

use crate::support::lab::Lab;
use crate::support::linerate;
use crate::support::process::{Ends, Running};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A program on the server's side of the lab; killed with the value.
fn program(lab: &Lab, words: &[&str]) -> Running {
    let mut command = lab.command("run", &[&["--"], words].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("it starts"))
}

fn explained(program: &Running) -> Value {
    let pid = program.id().to_string();
    linerate().args(["explain", &pid, "--seconds", "3", "--json"]).ended().gives(0).json()
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
    let reads = program(&lab, &["sh", "-c", script, file]);
    std::thread::sleep(Duration::from_millis(500));
    assert_disk(&explained(&reads));
    drop(reads);
    let listen = ["python3", "-m", "http.server", "7471", "--bind", "127.0.0.1", "--directory", folder];
    let server = program(&lab, &listen);
    let script = "until curl -sfo /dev/null http://127.0.0.1:7471/$0; do sleep 0.1; done";
    let _client = program(&lab, &["sh", "-c", script, name]);
    std::thread::sleep(Duration::from_millis(1500));
    let found = explained(&server);
    assert_disk(&found);
    assert!(found["connections"]["sent"].as_f64() > Some(30e6), "{found:#}");
}
