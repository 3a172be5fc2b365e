//! Peers that go away in the middle, answer half, or have another key.

use crate::support::agent::StartedAgent;
use crate::support::disk::measurements;
use crate::support::network::network;
use crate::support::process::{Ends, signal};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

impl StartedAgent {
    /// `linerate network` towards it.
    pub fn network(&self, words: &[&str]) -> Command {
        let mut command = network(words);
        command.args(self.words());
        command
    }
}

#[test]
fn a_peer_that_vanishes_leaves_the_figures_so_far() {
    let mut agent = StartedAgent::start(&[]);
    let words = ["--protocol", "tcp", "--no-latency", "--seconds", "0.3", "--repeats", "2", "--json"];
    let mut command = agent.network(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Trials, then sending, then receiving: it is gone in one of these.
    std::thread::sleep(Duration::from_millis(2500));
    agent.child.kill().expect("killed");
    let killed = Instant::now();
    let output = child.ended();
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    let said = &output.stderr;
    assert!(!said.contains("panicked"), "{said}");
    match output.status.code() {
        // It had done with everything, on a fast machine.
        Some(0) => assert_eq!(measurements(&output.json()).len(), 2),
        Some(1) => {
            let run = output.json();
            assert!(run["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{run}");
            assert!(said.contains(&agent.address.to_string()), "{said}");
        }
        // Nothing was measured yet, on a slow one.
        Some(3) => assert!(said.contains(&agent.address.to_string()), "{said}"),
        other => panic!("exit status {other:?}: {said}"),
    }
}

#[test]
fn an_interrupt_gives_the_figures_so_far() {
    let agent = StartedAgent::start(&[]);
    let words = ["--protocol", "tcp", "--method", "write", "--congestion-control", "cubic", "--no-latency"];
    let words =
        [&words[..], &["--direction", "send,receive", "--seconds", "0.5", "--repeats", "3", "--json"]]
            .concat();
    let mut command = agent.network(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // One figure takes 2 s: the first is done, the second is not.
    std::thread::sleep(Duration::from_millis(3200));
    let stopped = Instant::now();
    signal(&child, "INT");
    let output = child.ended();
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
    output.gives(1);
    output.mentions(&["interrupted"]);
    let run = output.json();
    assert!(!measurements(&run).is_empty(), "{run}");
}
