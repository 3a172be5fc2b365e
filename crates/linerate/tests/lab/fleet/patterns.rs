//! Servers with disks, racks and incasts, at known speeds: each as predicted, and what limits is named.

use super::{launcher, measured, on_head, sentence};
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::program;
use serde_json::Value;
use std::process::Command;

pub(super) fn fleet(lab: &Lab, more: &[&str]) -> Command {
    let program = program();
    let words = [&program, "fleet"];
    let hosts = launcher(lab);
    let always = ["--launch", &hosts, "--streams", "1", "--seconds", "0.5", "--json"];
    on_head(lab, &[&words, more, &always[..]].concat())
}

fn last(result: &Value) -> &Value {
    result["windows"].as_array().and_then(|windows| windows.last()).expect("a window")
}

/// Two servers of 300 Mb/s; their data is in the page cache, so that the network limits.
#[test]
fn servers_give_their_clients_what_their_nics_carry() {
    undisturbed("what servers send", 2, servers);
}

fn servers() {
    let Some(lab) = Lab::up("storage", &["--hosts", "5", "--rate", "300", "--slow", "h5:receive:60"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().to_string_lossy().into_owned();
    let words = ["storage", "--hosts", "h[1-5]", "--servers", "h[1-2]", "--source", &source];
    let more = ["--amount", "8M", "--buffered", "--redundancy", "2", "--redundancy", "1+1"];
    let result = measured(&mut fleet(&lab, &[&words[..], &more].concat()), 0);
    let last = last(&result);
    assert_eq!(last["flows"], 6, "{last}");
    // Two servers of 300 Mb/s, less the headers: the slow client leaves the others room.
    let carried = last["bytes_per_second"].as_f64().expect("a rate") * 8.0 / 1e6;
    let predicted = last["predicted_bytes_per_second"].as_f64().expect("a rate") * 8.0 / 1e6;
    assert!((570.0..625.0).contains(&predicted), "{predicted}");
    assert!((0.9..1.05).contains(&(carried / predicted)), "{carried} of {predicted}");
    assert_eq!(last["limits"][0]["kind"], "send", "{last}");
    assert_eq!(last["limits"][0]["hosts"], serde_json::json!(["h1", "h2"]), "{last}");
    assert!(sentence(&result).starts_with("2 servers to 3 clients: "), "{}", sentence(&result));
    assert!(sentence(&result).contains("limited by what h1, h2 send"), "{}", sentence(&result));
    // One copy more and a code of one part are the same.
    let ways = result["redundancy"].as_array().expect("ways");
    assert_eq!(ways[0], ways[1]);
    assert_eq!(ways[0]["write"]["traffic_factor"], 2.0, "{ways:?}");
    let left: Vec<_> = std::fs::read_dir(&source).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Hosts of 300 Mb/s behind uplinks of 300: three of them are three times as much.
#[test]
fn a_bisection_along_racks_says_how_far_they_are_oversubscribed() {
    undisturbed("what racks carry", 2, oversubscribed);
}

fn oversubscribed() {
    let Some(lab) = Lab::up("halves", &["--hosts", "6", "--racks", "2", "--rate", "300", "--uplink", "300"])
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("racks");
    std::fs::write(&file, "# as they are cabled\nh[1-3]\nh[4-6]\n").expect("the racks");
    let file = file.to_string_lossy().into_owned();
    let words = ["bisection", "--hosts", "h[1-6]", "--fabric", &file];
    let result = measured(&mut fleet(&lab, &words), 0);
    let racks = result["verdict"]["racks"].as_array().expect("racks");
    assert_eq!(racks.len(), 2, "each way: {racks:?}");
    for pair in racks {
        let ratio = pair["oversubscription"].as_f64().expect("a ratio");
        assert!((2.7..3.4).contains(&ratio), "{pair}");
    }
    assert!(sentence(&result).contains("carries ") && sentence(&result).contains("oversubscribed "));
}

/// A port of 200 Mb/s takes 200 Mb/s from any number of senders; one with a short queue loses what others let wait.
#[test]
fn an_incast_has_goodput_loss_and_p99_for_each_number_of_senders() {
    undisturbed("what one host takes of several", 2, incast);
}

fn incast() {
    let Some(lab) = Lab::up("incast", &["--hosts", "4", "--rate", "200", "--slow", "h1:queue:24"]) else {
        return;
    };
    let result = measured(&mut fleet(&lab, &["incast", "--hosts", "h[1-4]"]), 0);
    let sinks = result["verdict"]["incast"].as_array().expect("sinks");
    assert_eq!(sinks.len(), 4);
    for sink in sinks {
        let steps = sink["steps"].as_array().expect("steps");
        let senders: Vec<u64> = steps.iter().filter_map(|step| step["senders"].as_u64()).collect();
        assert_eq!(senders, [1, 2, 3], "{sink}");
        if sink["to"] == "h1" {
            assert!(sink["knees"]["loss"].is_u64(), "24 KiB of queue: {sink}");
            continue;
        }
        for step in steps {
            let several = step["senders"].as_u64() > Some(1);
            let slowest = step["single_flows"]["least_bytes_per_second"].as_f64();
            assert_eq!(slowest.is_some(), several, "what one of several senders has is a range: {sink}");
            let ratio = step["of_predicted"].as_f64().expect("a ratio");
            assert!((0.9..1.1).contains(&ratio), "{sink}");
            assert!(step["p99_seconds"].as_f64() > Some(0.0), "{sink}");
            assert!((0.0..0.2).contains(&step["retransmitted_share"].as_f64().expect("a share")), "{sink}");
        }
        assert_eq!(sink["knees"]["goodput"], Value::Null, "{sink}");
    }
}

/// Two hosts of the other rack share 100 Mb/s, though 1,000 are declared: of both h2 and h4 take half of what they could.
#[test]
fn an_uplink_that_is_narrower_than_declared_is_a_knee_in_goodput() {
    undisturbed("what one host takes over an uplink", 2, goodput_knee);
}

fn goodput_knee() {
    let racks = ["--hosts", "4", "--racks", "2", "--rate", "200", "--uplink", "100"];
    let Some(lab) = Lab::up("knee", &racks) else { return };
    let words = ["incast", "--hosts", "h[1-4]", "--fabric", "h[1-2]:1G", "--fabric", "h[3-4]:1G"];
    let result = measured(&mut fleet(&lab, &words), 0);
    let sinks = result["verdict"]["incast"].as_array().expect("sinks");
    for sink in sinks {
        // The next two hosts of h2 and h4 are both of the other rack.
        let crossing = sink["to"] == "h2" || sink["to"] == "h4";
        let knee = if crossing { Value::from(2) } else { Value::Null };
        assert_eq!(sink["knees"]["goodput"], knee, "{sink}");
    }
    assert!(sentence(&result).starts_with("from 2 senders on h"), "{}", sentence(&result));
}
