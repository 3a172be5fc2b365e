//! Congestion controls over 50 ms, side by side: what answers each loss by sending less, and what does not.

use super::{agent, network, up};
use crate::support::neighbours::undisturbed;
use serde_json::Value;

/// Most and least of a trial's turns, Mb/s.
fn range(trials: &[Value], name: &Value) -> (f64, f64) {
    let trial = trials.iter().find(|trial| trial["congestion_control"] == *name);
    let trial = trial.unwrap_or_else(|| panic!("{name} was not tried: {trials:?}"));
    let turns = trial["samples"].as_array().expect("turns").iter().filter_map(Value::as_f64);
    let turns: Vec<f64> = turns.map(|rate| rate * 8.0 / 1e6).collect();
    assert_eq!(turns.len(), 3, "{trial}");
    (turns.iter().copied().fold(f64::INFINITY, f64::min), turns.iter().copied().fold(0.0, f64::max))
}

/// The namespace's own is reno. Where one segment in a thousand is lost, RFC 9438's response function lets it, and cubic
/// as well, have 39 segments under way in the long run: 9 Mb/s of a link of 200, and now more, now less soon after slow start.
/// bbr does not take such a loss for a full link.
#[test]
fn over_a_long_way_with_loss_bbr_carries_more_than_what_answers_each_loss() {
    let there =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("its list");
    if !["reno", "cubic", "bbr"].iter().all(|name| there.split_whitespace().any(|one| one == *name)) {
        eprintln!("skipped: congestion controls over a long way: this kernel has {}", there.trim());
        return;
    }
    let options = ["--rtt", "50ms", "--loss", "0.1%", "--rate", "200", "--nics", "1000", "--mtu", "1500"];
    let Some(lab) = up("control", &options) else { return };
    lab.succeed("run", &["--", "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"]);
    let agent = agent(&lab);
    let words =
        ["--protocol", "tcp", "--direction", "send", "--seconds", "1", "--repeats", "1", "--no-latency"];
    undisturbed("congestion controls over 50 ms", 3, || {
        let result = network(&lab, &agent, &words);
        let trials = result["measurements"][0]["congestion_controls"].as_array().expect("trials");
        let (reno, cubic, bbr) =
            (range(trials, &Value::Null), range(trials, &"cubic".into()), range(trials, &"bbr".into()));
        let all = format!("reno {reno:?}, cubic {cubic:?}, bbr {bbr:?}");
        assert!(bbr.0 > reno.1.max(cubic.1), "{all}");
        // Their intervals do not meet, and it says so.
        let findings = result["diagnosis"]["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["id"] == "congestion-control");
        let found = found.unwrap_or_else(|| panic!("{findings:?}: {all}"));
        let text = found["text"].as_str().expect("a sentence");
        assert!(text.contains(" with bbr and ") && text.contains('±'), "{text}");
        assert!(found["gain"].as_f64() > Some(0.0), "{found}");
    });
}
