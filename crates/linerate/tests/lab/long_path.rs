//! Long ways (`lab up --rtt`): the delay and the loss are those that were asked for.

use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::program;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Connects to a port where nobody listens: the refusal takes one round trip. Nanoseconds of each.
const KNOCK: &str = "for i in 1 2 3 4 5; do t=$(date +%s%N); (exec 3<>/dev/tcp/$0/9) 2>/dev/null; \
                     echo $(($(date +%s%N) - t)); done";

fn up(test: &str, options: &[&str]) -> Option<Lab> {
    Lab::up(&format!("way-{test}"), &[&["--disks", "1x0", "--file-size", "64M"], options].concat())
}

/// The shortest of five round trips, milliseconds.
fn round_trip_ms(lab: &Lab) -> f64 {
    let address = lab.succeed("address", &["0"]);
    let times = lab.succeed("run", &["--", "bash", "-c", KNOCK, address.trim()]);
    let times = times.lines().map(|line| line.parse::<f64>().expect("nanoseconds") / 1e6);
    times.fold(f64::INFINITY, f64::min)
}

#[test]
fn a_round_trip_takes_what_was_asked_for() {
    let Some(lab) = up("delay", &["--rtt", "40ms", "--nics", "100,100"]) else { return };
    undisturbed("a round trip of 40 ms", 3, || {
        let took = round_trip_ms(&lab);
        // A new process and its end are in it.
        assert!((40.0..50.0).contains(&took), "{took} ms");
    });
    let status = lab.succeed("status", &[]);
    assert!(status.contains("the way to the peer: round trip 40 ms\n"), "{status}");
    assert_eq!(status.matches("overruns=0").count(), 4, "{status}");
}

/// Datagrams one way: each is lost with the same chance, whether its train was cut or not.
#[test]
fn the_loss_is_the_one_that_was_asked_for() {
    const LOSS: f64 = 0.02;
    let Some(lab) = up("loss", &["--rtt", "1ms", "--loss", "2%", "--nics", "100", "--mtu", "1500"]) else {
        return;
    };
    let agent = PeerAgent::of(&lab);
    // Small requests beside them would be datagrams of another size.
    let words = ["--protocol", "udp", "--rate", "40M", "--seconds", "2", "--repeats", "1", "--no-latency"];
    let result = network(&lab, &agent, &words);
    let status = lab.succeed("status", &[]);
    let of = |name: &str| -> f64 {
        let line = status.lines().find(|line| line.trim_start().starts_with("there ")).expect("its counters");
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.expect("a counter").parse().expect("a number")
    };
    // The kernel hands down trains of many datagrams: they count by their bytes.
    let share = of("lost") / (of("bytes") / 1514.0);
    assert!((0.7 * LOSS..1.3 * LOSS).contains(&share), "{share}: {status}");
    assert_eq!((of("overruns"), of("queue_drops")), (0.0, 0.0));
    let seen = result["measurements"][0]["loss"].as_f64().expect("a loss");
    assert!((0.6 * LOSS..1.4 * LOSS).contains(&seen), "{seen}");
}

/// With datagrams most of the bottleneck is used, and next to nothing lost, though a window's worth is far away; TCP with
/// a limit keeps to it, its segments spread by the kernel.
#[test]
fn datagrams_fill_a_long_way_and_a_limit_is_paced() {
    const LINK: f64 = 100e6 / 8.0;
    let Some(lab) = up("udp", &["--rtt", "50ms", "--rate", "100", "--nics", "1000"]) else { return };
    let agent = PeerAgent::of(&lab);
    let path = |words: &[&str]| {
        let result = run(&lab, &agent, words);
        let all = result["measurements"].as_array().expect("measurements");
        let path = all.iter().find(|one| one["stage"] == "path").expect("a path").clone();
        (path["bytes_per_second"].as_f64().expect("a rate"), path["loss"].as_f64().unwrap_or(0.0), path)
    };
    undisturbed("datagrams over 50 ms", 3, || {
        let (rate, loss, path) = path(&["--protocol", "udp", "--budget", "12"]);
        assert!((0.6 * LINK..1.01 * LINK).contains(&rate) && loss < 0.05, "{path}");
    });
    let (rate, _, path) = path(&["--protocol", "tcp", "--rate-limit", "40M", "--budget", "12"]);
    assert!(rate < 0.45 * LINK, "{path}");
    let method = path["method"].as_str().expect("a method");
    assert!(method.contains("paced by the kernel"), "{method}");
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
