//! Long ways (`lab up --rtt`): the delay and the loss are those that were asked for, and what linerate says and does
//! over them.

mod congestion;
mod delay;
mod flows;
mod screens;
mod streams;

use crate::support::agent::StartedAgent;
use crate::support::lab::Lab;
use crate::support::process::Ends;
use serde_json::Value;

fn up(test: &str, options: &[&str]) -> Option<Lab> {
    Lab::up(&format!("way-{test}"), &[&["--disks", "1x0", "--file-size", "64M"], options].concat())
}

fn agent(lab: &Lab) -> StartedAgent {
    lab.agent("peer", "0.0.0.0:7411", &[])
}

fn network(lab: &Lab, agent: &StartedAgent, words: &[&str]) -> Value {
    linerate(lab, agent, &[&["network"], words].concat())
}

fn run(lab: &Lab, agent: &StartedAgent, words: &[&str]) -> Value {
    let source = lab.succeed("sources", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run").display().to_string();
    let common = ["run", "--no-save", "--source", source.trim(), "--output", &output];
    linerate(lab, agent, &[&common, words].concat())
}

fn linerate(lab: &Lab, agent: &StartedAgent, words: &[&str]) -> Value {
    let (key, address) = (agent.key(), lab.succeed("address", &["0"]));
    let to = ["--json", "--key-file", &key, "--peer", address.trim()];
    lab.linerate("run", &[words, &to].concat()).ended().gives(0).json()
}
