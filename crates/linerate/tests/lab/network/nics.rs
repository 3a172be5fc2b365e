//! Several NICs of known speeds between two network namespaces: each keeps its own rate while all run at
//! once, nothing is lost, and the search for the highest rate lands on it.

use super::ONE_AT_A_TIME;
use crate::support::agent::StartedAgent;
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use serde_json::Value;
use std::sync::PoisonError;

/// SARA's table in miniature: NICs of 1, 1 and 0.7 Gb/s.
const NICS: [f64; 3] = [1e9, 1e9, 0.7e9];
/// tbf counts the frame with its Ethernet header of 14 bytes; IP and UDP have 28 of the MTU.
const UDP_PAYLOAD_SHARE: f64 = (9000.0 - 28.0) / (9000.0 + 14.0);
/// A figure that a neighbour on the same host may have spoilt is measured so often at most; its names must be
/// right each time.
const MOST_RUNS: usize = 3;

/// A lab with an agent on its peer, which goes before the lab.
struct Pair {
    agent: StartedAgent,
    lab: Lab,
}

impl Pair {
    /// None where this machine cannot have a lab.
    fn up(test: &str, options: &[&str]) -> Option<Pair> {
        let options = [&["--disks", "1x0", "--file-size", "8M"], options].concat();
        let lab = Lab::up(&format!("net-{test}"), &options)?;
        Some(Pair { agent: lab.agent("peer", "0.0.0.0:7411", &[]), lab })
    }

    /// `linerate network` on the server's side to all of the peer's addresses, for JSON.
    fn network(&self, words: &[&str]) -> Value {
        self.network_over(&(0..NICS.len()).collect::<Vec<_>>(), words)
    }

    /// The same over these NICs only, as far as there are so many.
    fn network_over(&self, nics: &[usize], words: &[&str]) -> Value {
        let addresses = self.lab.succeed("address", &[]);
        let key = self.agent.key();
        let mut all = vec!["network", "--json", "--key-file", &key];
        let chosen = addresses.lines().enumerate().filter(|(nic, _)| nics.contains(nic));
        chosen.for_each(|(_, address)| all.extend(["--peer", address]));
        all.extend(words);
        self.lab.linerate("run", &all).ended().gives(0).json()
    }
}

/// Measures until all shares are right in one run.
fn all_within_2_percent(what: &str, mut measure: impl FnMut() -> Vec<f64>) {
    undisturbed("the rates of three NICs", MOST_RUNS, || {
        let shares = measure();
        assert!(shares.iter().all(|share| (0.98..=1.02).contains(share)), "{shares:.4?} {what}");
    });
}

fn expected(nic: usize) -> f64 {
    NICS[nic] / 8.0 * UDP_PAYLOAD_SHARE
}

#[test]
fn three_unequal_nics_keep_their_rates_at_once_and_each_is_found() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lab) = Pair::up("three", &["--nics", "1000,1000,700"]) else { return };
    at_once_they_keep_their_rates_and_lose_nothing(&lab);
    the_highest_rate_without_loss_is_found_on_each(&lab);
}

fn at_once_they_keep_their_rates_and_lose_nothing(lab: &Pair) {
    all_within_2_percent("of their own goodput at once", || {
        let run =
            lab.network(&["--protocol", "udp", "--direction", "send", "--no-latency", "--seconds", "2.5"]);
        let paths = run["measurements"][0]["streams"]["paths"].as_array().expect("paths");
        assert_eq!(paths.len(), NICS.len());
        for path in paths {
            assert_eq!(path["loss"], 0.0, "{path}");
        }
        for ledger in run["ledgers"].as_array().expect("ledgers") {
            assert_eq!(ledger["unaccounted_datagrams"], 0, "{ledger}");
        }
        let rate = |nic: usize| paths[nic]["bytes_per_second"].as_f64().expect("a rate");
        (0..NICS.len()).map(|nic| rate(nic) / expected(nic)).collect()
    });
}

fn the_highest_rate_without_loss_is_found_on_each(lab: &Pair) {
    // A search takes half a minute: all three with LINERATE_LAB_ROUNDS.
    let nics: Vec<usize> = if std::env::var("LINERATE_LAB_ROUNDS").is_ok() { vec![0, 1, 2] } else { vec![2] };
    let words = ["--protocol", "udp", "--find-rate", "--no-latency", "--seconds", "0.5"];
    all_within_2_percent("found of what the NICs carry", || {
        let run = lab.network_over(&nics, &words);
        let all = run["measurements"].as_array().expect("measurements");
        assert_eq!(all.len(), nics.len());
        let highest = |one: &Value| one["streams"]["search"]["highest"].as_f64().unwrap_or(0.0);
        all.iter().zip(&nics).map(|(one, nic)| highest(one) / expected(*nic)).collect()
    });
}

#[test]
fn a_file_arrives_over_two_nics_each_stream_a_range() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lab) = Pair::up("file", &["--nics", "2000,1000"]) else { return };
    let file = lab.agent.folder.path().join("file");
    let content = linerate_testing::content(1, 40_000_003);
    std::fs::write(&file, &content).expect("written");
    let file = file.display().to_string();
    for streams in ["2", "16"] {
        let words =
            ["--protocol", "tcp", "--direction", "send", "--verify", "--no-latency", "--seconds", "0.2"];
        let words = [&words[..], &["--repeats", "1", "--source", &file, "--streams", streams]].concat();
        let run = lab.network(&words);
        let with_file = run["measurements"].as_array().expect("measurements").iter();
        for measurement in with_file.filter(|one| one["with_file"] == true) {
            let ranges = measurement["streams"]["streams"].as_array().expect("streams");
            assert_eq!(ranges.len().to_string(), streams);
            let arrived: u64 = ranges.iter().filter_map(|range| range["received_bytes"].as_u64()).sum();
            assert_eq!(arrived, content.len() as u64);
            assert!(ranges.iter().all(|range| range["verified"] == true), "{}", measurement["name"]);
            let nics: std::collections::BTreeSet<_> =
                ranges.iter().map(|range| range["path"].to_string()).collect();
            assert_eq!(nics.len(), 2);
        }
    }
}
