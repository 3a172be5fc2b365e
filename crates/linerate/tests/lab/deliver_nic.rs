//! A NIC that goes down while a file comes: a short while is waited for; after a long one what came is kept, and the
//! next start goes on with it.

use crate::support::lab::Lab;
use crate::support::program;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `linerate serve` on the peer of the lab; gone with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until the journal has so many lines of blocks.
fn awaits_lines(out: &Path, blocks: usize) {
    let begun = Instant::now();
    let journaled = || std::fs::read_to_string(out.join(".data.linerate-journal")).unwrap_or_default();
    while journaled().lines().count() <= blocks {
        assert!(begun.elapsed() < Duration::from_secs(30), "its blocks do not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_nic_that_goes_down_is_waited_for_or_what_came_is_kept() {
    let options = ["--disks", "1x100", "--nics", "100", "--file-size", "32M"];
    let Some(lab) = Lab::up("deliver-nic", &options) else { return };
    let own = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let (from, out) = (own.path().join("from"), own.path().join("out"));
    std::fs::create_dir(&from).expect("made");
    let content: Vec<u8> = (0..40 << 20u32).map(|at: u32| (at.wrapping_mul(31) >> 7) as u8).collect();
    std::fs::write(from.join("data"), &content).expect("written");
    let program = program();
    let address = format!("{}:7464", lab.succeed("address", &["0"]).trim());
    let serve = ["--", &program, "serve", from.to_str().expect("a plain path"), "--listen", &address];
    let mut child = lab.command("peer", &serve).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let _server = Server(child);
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("http://"))), "the server does not start");
    let url = format!("http://{address}/data");
    let get = |timeout: &str| {
        let words = ["--", &program, "get", &url, "--json", "--no-save", "--timeout", timeout, "--output"];
        let mut get: Command = lab.command("run", &words);
        get.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let link = |state: &str| drop(lab.succeed("run", &["--", "ip", "link", "set", "nic0", state]));
    // For two seconds: the same connections go on, or new ones.
    let child = get("30s");
    awaits_lines(&out, 2);
    link("down");
    std::thread::sleep(Duration::from_secs(2));
    link("up");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(out.join("data")).expect("there") == content);
    std::fs::remove_dir_all(&out).expect("removed");
    // For longer than its patience.
    let child = get("1s");
    awaits_lines(&out, 2);
    link("down");
    let output = child.wait_with_output().expect("it ends");
    link("up");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && !out.join("data").exists(), "{said}");
    let output = get("30s").wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["kept_bytes"].as_u64().is_some_and(|kept| kept >= 4 << 20), "{report}");
    assert!(std::fs::read(out.join("data")).expect("there") == content);
}
