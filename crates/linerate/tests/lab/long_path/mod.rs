//! Long ways (`lab up --rtt`): the delay and the loss are those that were asked for, and what linerate says and does
//! over them.

mod congestion;
mod delay;
mod flows;
mod screens;
mod streams;

use crate::support::lab::Lab;
use crate::support::program;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn up(test: &str, options: &[&str]) -> Option<Lab> {
    Lab::up(&format!("way-{test}"), &[&["--disks", "1x0", "--file-size", "64M"], options].concat())
}

/// An agent on the peer, ended with the lab.
struct PeerAgent {
    child: Child,
    folder: tempfile::TempDir,
}

impl PeerAgent {
    fn of(lab: &Lab) -> PeerAgent {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key").display().to_string();
        let program = program();
        let words = ["--", &program, "agent", "--listen", "0.0.0.0:7411", "--key-file", &key];
        let mut command = lab.command("peer", &words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("an agent");
        let patience = Instant::now() + Duration::from_secs(5);
        while std::fs::metadata(&key).is_err() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        PeerAgent { child, folder }
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }
}

impl Drop for PeerAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn network(lab: &Lab, agent: &PeerAgent, words: &[&str]) -> Value {
    linerate(lab, agent, &[&["network"], words].concat())
}

fn run(lab: &Lab, agent: &PeerAgent, words: &[&str]) -> Value {
    let source = lab.succeed("sources", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run").display().to_string();
    let common = ["run", "--no-save", "--source", source.trim(), "--output", &output];
    linerate(lab, agent, &[&common, words].concat())
}

fn linerate(lab: &Lab, agent: &PeerAgent, words: &[&str]) -> Value {
    let (key, program, address) = (agent.key(), program(), lab.succeed("address", &["0"]));
    let mut all = vec!["--", &program];
    all.extend(words);
    all.extend(["--json", "--key-file", &key, "--peer", address.trim()]);
    let text = lab.succeed("run", &all);
    serde_json::from_str(&text).expect("JSON")
}
