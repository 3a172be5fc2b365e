//! The sink of an agent: what limits `linerate run --flow disk-to-disk` on a server of known speeds, and that
//! nothing of what was stored is left behind.
//!
//! The lab's disks belong to its server: there the agent stores, and the peer sends from memory.

use crate::support::disk_places::{Tmpfs, lacking};
use crate::support::lab::Lab;
use crate::support::{linerate, program};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// An agent; gone with the value.
struct Agent {
    child: Child,
    key: PathBuf,
    address: String,
    folder: tempfile::TempDir,
}

impl Agent {
    /// `begin`: what runs `linerate agent`.
    fn start(mut begin: Command, address: &str, words: &[&str]) -> Agent {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        begin.args(["agent", "--listen", address, "--key-file"]).arg(&key).args(words);
        let mut child = begin.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let told = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(|address| address.trim().to_string()));
        Agent { child, key, address: told.expect("it listens"), folder }
    }

    fn local(words: &[&str]) -> Agent {
        Agent::start(linerate(), "127.0.0.1:0", words)
    }

    /// `linerate run` to it.
    fn run(&self, mut begin: Command, source: &Path, words: &[&str]) -> Command {
        begin.args(["run", "--flow", "disk-to-disk", "--no-save", "--json", "--peer", &self.address]);
        begin.arg("--output").arg(self.folder.path().join("result"));
        begin.arg("--key-file").arg(&self.key).arg("--source").arg(source).args(words);
        begin
    }

    /// The same, for a moment, over loopback.
    fn briefly(&self, source: &Path) -> Output {
        let words = ["--stages", "path", "--seconds", "0.3", "--repeats", "1"];
        self.run(linerate(), source, &words).output().expect("it runs")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn source() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    std::fs::write(file.path(), vec![7u8; 64 << 20]).expect("written");
    file
}

/// Runs on the peer, to an agent on the server that stores on its disk.
fn measured(lab: &Lab) -> Value {
    let mount = lab.succeed("mounts", &[]);
    let program = program();
    let side = |side| lab.command(side, &["--", &program]);
    // The server is 1 where the peer is 2.
    let peer = lab.succeed("address", &["0"]);
    let network = peer.trim().rsplit_once('.').expect("an address of IPv4").0;
    let agent = Agent::start(side("run"), &format!("{network}.1:7471"), &["--sink", mount.trim()]);
    let file = source();
    let words = ["--stages", "disk,network,path", "--budget", "14"];
    let files = || std::fs::read_dir(mount.trim()).expect("a list").count();
    let before = files();
    let output = agent.run(side("peer"), file.path(), &words).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files(), before, "something is left");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn assert_limit(run: &Value, kind: &str, resource: &str) {
    let diagnosis = &run["diagnosis"];
    let cut = diagnosis["predicted"]["cut"].to_string();
    assert_eq!(diagnosis["bottleneck"]["kind"], kind, "{diagnosis:#}");
    assert!(cut.contains(resource), "{cut} without {resource}: {diagnosis:#}");
    // Rounds of a second, of a disk that is slowed down in bursts: by their interval.
    let interval = &diagnosis["achieved"]["of_predicted_interval"];
    let [low, high] = [0, 1].map(|end| interval[end].as_f64().expect("an end"));
    assert!(low <= 1.05 && high >= 0.95, "achieved {interval} of what was predicted: {diagnosis:#}");
    let said = diagnosis["bottleneck"]["sentences"][0].as_str().unwrap_or_default();
    assert!(said.ends_with(" from disk to disk."), "{said}");
}

#[test]
fn the_disk_of_the_sink_is_named() {
    let options = ["--disks", "1x50", "--nics", "4000", "--file-size", "32M"];
    let Some(lab) = Lab::up("sink-disk", &options) else { return };
    let run = measured(&lab);
    assert_limit(&run, "disk", "/disk:loop");
    let path = run["measurements"].as_array().and_then(|all| all.iter().find(|one| one["stage"] == "path"));
    let sink = &path.expect("the path")["sink"];
    assert!(sink["waiting_disk"].as_f64().unwrap_or(0.0) > 0.5 && sink["disk"]["name"].is_string(), "{sink}");
}

#[test]
fn the_nic_before_a_sink_is_named() {
    let options = ["--disks", "1x100", "--nics", "200", "--file-size", "32M"];
    let Some(lab) = Lab::up("sink-nic", &options) else { return };
    assert_limit(&measured(&lab), "nic", "nic:");
}

#[test]
fn neither_end_that_is_killed_leaves_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = source();
    let place = folder.path().to_str().expect("a plain path");
    for victim in ["agent", "run"] {
        let mut agent = Agent::local(&["--sink", place, "--sink-limit", "64M"]);
        let words = ["--stages", "path", "--seconds", "5", "--repeats", "1"];
        let mut run = agent.run(linerate(), file.path(), &words);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let open = |process: u32| {
            let list = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            list.filter_map(|fd| std::fs::read_link(fd.path()).ok())
                .filter(|to| to.starts_with(place))
                .count()
        };
        // The file has no name, but somebody has it open.
        let mut patience = 200;
        while open(agent.child.id()) == 0 && patience > 0 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            patience -= 1;
        }
        assert!(patience > 0, "nothing was ever stored");
        match victim {
            "agent" => agent.child.kill().expect("killed"),
            _ => run.kill().expect("killed"),
        }
        let mut patience = 200;
        while victim == "run" && open(agent.child.id()) > 0 && patience > 0 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            patience -= 1;
        }
        assert!(patience > 0, "the agent keeps the file of a client that is gone");
        let _ = run.kill();
        let _ = run.wait();
        assert_eq!(std::fs::read_dir(place).expect("a list").count(), 0, "{victim} left a file");
    }
}

#[test]
fn a_sink_that_cannot_be_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_string();
    std::fs::write(path("file"), "x").expect("written");
    let refused = |place: &str, says: &str| {
        let key = path("key");
        let words = ["agent", "--listen", "127.0.0.1:0", "--key-file", &key, "--sink", place];
        let output = linerate().args(words).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && said.contains(says), "{:?} {said}", output.status);
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    };
    refused(&path("none"), "it is not there");
    refused(&path("file"), "it is no directory");
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let read_only = Tmpfs::new(16, ",ro");
    refused(read_only.path.to_str().expect("a plain path"), "read-only");
}

#[test]
fn an_agent_without_a_sink_or_without_room_says_so() {
    let file = source();
    let agent = Agent::local(&[]);
    let output = agent.briefly(file.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && said.contains("linerate agent --sink DIR"), "{said}");
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let small = Tmpfs::new(20, "");
    std::fs::write(small.path.join("own"), vec![1; 8 << 20]).expect("written");
    let agent = Agent::local(&["--sink", small.path.to_str().expect("a plain path")]);
    let output = agent.briefly(file.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("its sink has too little room"), "{said}");
    let own = std::fs::read(small.path.join("own")).expect("still there");
    assert!(own == vec![1; 8 << 20] && std::fs::read_dir(&small.path).expect("a list").count() == 1);
}
