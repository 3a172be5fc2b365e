//! Peers that go away in the middle, answer half, or have another key.

use crate::support::network::{measurements, network, said};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `linerate agent` with a key of its own.
pub struct NetworkAgent {
    child: Child,
    pub address: SocketAddr,
    place: tempfile::TempDir,
}

impl NetworkAgent {
    pub fn start(words: &[&str]) -> NetworkAgent {
        let place = tempfile::tempdir().expect("a directory");
        let mut command = crate::support::linerate();
        command
            .arg("agent")
            .args(["--listen", "127.0.0.1:0", "--key-file"])
            .arg(place.path().join("key"))
            .args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).env_remove("LINERATE_KEY");
        let mut child = command.spawn().expect("an agent");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut told =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("listening on ")?.parse().ok());
        let address = told.next().expect("an address");
        NetworkAgent { child, address, place }
    }

    /// `linerate network` towards it.
    pub fn network(&self, words: &[&str]) -> Command {
        let mut command = network(words);
        command.args(["--peer", &self.address.to_string(), "--key-file"]).arg(self.place.path().join("key"));
        command
    }
}

impl Drop for NetworkAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn product(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else on standard output")
}

#[test]
fn a_peer_that_vanishes_leaves_the_figures_so_far() {
    let mut agent = NetworkAgent::start(&[]);
    let words = ["--protocol", "tcp", "--no-latency", "--seconds", "0.3", "--repeats", "2", "--json"];
    let mut command = agent.network(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Trials, then sending, then receiving: it is gone in one of these.
    std::thread::sleep(Duration::from_millis(2500));
    agent.child.kill().expect("killed");
    let killed = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    let said = said(&output);
    assert!(!said.contains("panicked"), "{said}");
    match output.status.code() {
        // It had done with everything, on a fast machine.
        Some(0) => assert_eq!(measurements(&product(&output)).len(), 2),
        Some(1) => {
            let run = product(&output);
            assert!(run["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{run}");
            assert!(said.contains(&agent.address.to_string()), "{said}");
        }
        // Nothing was measured yet, on a slow one.
        Some(3) => assert!(said.contains(&agent.address.to_string()), "{said}"),
        other => panic!("exit status {other:?}: {said}"),
    }
}

#[test]
fn another_key_is_refused() {
    let (agent, other) = (NetworkAgent::start(&[]), NetworkAgent::start(&[]));
    let key = other.place.path().join("key");
    let mut command = network(&["--peer", &agent.address.to_string(), "--key-file"]);
    let output = command.arg(key).output().expect("it starts");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("refused the key"), "{}", said(&output));
}

#[test]
fn an_interrupt_gives_the_figures_so_far() {
    let agent = NetworkAgent::start(&[]);
    let words = ["--protocol", "tcp", "--method", "write", "--congestion-control", "cubic", "--no-latency"];
    let words =
        [&words[..], &["--direction", "send,receive", "--seconds", "0.5", "--repeats", "3", "--json"]]
            .concat();
    let mut command = agent.network(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // One figure takes 2 s: the first is done, the second is not.
    std::thread::sleep(Duration::from_millis(3200));
    let stopped = Instant::now();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let run = product(&output);
    assert!(!measurements(&run).is_empty(), "{run}");
    assert!(said(&output).contains("interrupted"), "{}", said(&output));
}
