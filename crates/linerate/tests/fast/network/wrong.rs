//! One clear sentence and the right exit status for each wrong input.

use crate::support::network::network;
use crate::support::process::Ends;

fn fails(words: &[&str], status: i32, parts: &[&str]) {
    let output = network(words).ended();
    let said = &output.stderr;
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{words:?}: “{part}” is not in “{said}”");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn words_that_cannot_be_meant() {
    fails(&["--rate", "0"], 2, &["--rate", "10G"]);
    fails(&["--rate", "1b"], 2, &["--rate", "5G"]);
    fails(&["--streams", "0"], 2, &["--streams"]);
    fails(&["--datagram", "70000"], 2, &["65507"]);
    fails(&["--pin", "0-3"], 2, &["auto, none"]);
    fails(&["--find-rate", "--protocol", "tcp"], 2, &["UDP", "--protocol"]);
    fails(&["--find-rate", "--rate", "1G"], 2, &["--rate"]);
    let file = env!("CARGO_MANIFEST_DIR").to_string() + "/Cargo.toml";
    fails(&["--source", &file, "--protocol", "udp"], 2, &["--source", "TCP", "--protocol udp"]);
    fails(&["--source", &file, "--direction", "receive"], 2, &["--source", "--direction send"]);
    fails(&["--source", &file, "--direction", "both"], 2, &["--source", "--direction send"]);
    fails(&["--source", &file, "--find-rate"], 2, &["--source", "--find-rate"]);
}

#[test]
fn what_this_machine_lacks() {
    fails(&["--pin", "4095"], 3, &["processor 4095", "linerate probe"]);
    fails(&["--congestion-control", "warp"], 3, &["warp", "modprobe"]);
    fails(&["--source", "/nowhere/file"], 3, &["/nowhere/file"]);
    fails(&["--source", "/dev/null"], 3, &["not a file"]);
    fails(&["--peer", "127.0.0.1:1"], 2, &["LINERATE_KEY"]);
}
