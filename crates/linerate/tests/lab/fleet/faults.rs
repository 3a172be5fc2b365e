//! Faults of a host itself: the slow host is named, and its reason behind it.

use super::{fleet, launcher, measured, sentence};
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use serde_json::Value;

#[test]
fn a_cpu_quota_is_the_reason_of_a_slow_host() {
    undisturbed("what a host with a CPU quota sends", 2, quota);
}

fn quota() {
    // A fiftieth of a fast core carries 1 Gb/s. With less, a program without optimisation takes half a minute to
    // agree on its keys.
    let Some(lab) = Lab::up("quota", &["--hosts", "4", "--rate", "2000", "--slow", "h3:cpu:2"]) else {
        return;
    };
    let result = measured(&mut fleet(&lab, &["--hosts", "h[1-4]", "--launch", &launcher(&lab)]), 0);
    // It holds the host back both ways, and not always more where it sends.
    assert!(sentence(&result).starts_with("h3 "), "{}", sentence(&result));
    assert!(
        sentence(&result).contains("; its quota of 0.02 CPUs holds it back in "),
        "{}",
        sentence(&result)
    );
    for slow in result["verdict"]["members"].as_array().expect("members") {
        assert_eq!(slow["name"], "h3", "{}", sentence(&result));
    }
}

#[test]
fn another_mtu_is_the_reason_of_a_slow_host() {
    undisturbed("what a host with another MTU receives", 2, other_mtu);
}

fn other_mtu() {
    let slow = ["--slow", "h3:mtu:1500", "--slow", "h3:receive:120"];
    let Some(lab) = Lab::up("mtu", &[&["--hosts", "4", "--rate", "400"], &slow[..]].concat()) else { return };
    let result = measured(&mut fleet(&lab, &["--hosts", "h[1-4]", "--launch", &launcher(&lab)]), 0);
    assert!(sentence(&result).starts_with("h3 receives at 0."), "{}", sentence(&result));
    assert!(sentence(&result).ends_with("; its MTU is 1500, the others' 9000"), "{}", sentence(&result));
    // Unlike members come first.
    let differences = result["differences"].as_array().expect("differences");
    assert!(differences.iter().any(|one| one == "not all have MTU 9000: h3: MTU 1500"), "{differences:?}");
}

/// Its one RX queue is worked on by one CPU, which a firewall keeps busy. All hosts of the lab have the same
/// CPUs, so this runs alone (.config/nextest.toml).
#[test]
fn one_rx_queue_on_a_full_cpu_is_the_reason_of_a_slow_receiver() {
    undisturbed("which CPU is full", 2, full_queue);
}

/// Without h3 a CPU is more than three quarters busy, in the median of the windows: the hosts of a lab share them.
fn others_are_busy(result: &Value) -> bool {
    let receives = |window: &Value| {
        let cells = result["cells"].as_array().expect("cells");
        cells.iter().any(|cell| cell["window"] == *window && cell["to"] == "h3")
    };
    let hosts = result["hosts"].as_array().expect("hosts").iter();
    let busiest = hosts.filter(|host| !receives(&host["window"])).map(|host| &host["busiest"]["idle"]);
    let mut idle: Vec<f64> = busiest.filter_map(Value::as_f64).collect();
    idle.sort_by(f64::total_cmp);
    idle.get(idle.len() / 2).is_some_and(|idle| *idle < 0.25)
}

fn full_queue() {
    if !std::process::Command::new("nft")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        eprintln!("skipped: nft is not installed (apt install nftables): no firewall can keep a CPU busy");
        return;
    }
    let Some(lab) = Lab::up("rules", &["--hosts", "4", "--rate", "200", "--slow", "h3:rules:60000"]) else {
        return;
    };
    let result = measured(&mut fleet(&lab, &["--hosts", "h[1-4]", "--launch", &launcher(&lab)]), 0);
    assert!(sentence(&result).starts_with("h3 receives at 0."), "{}", sentence(&result));
    if others_are_busy(&result) {
        eprintln!(
            "skipped: other programs keep the CPUs of this machine busy, so that none is full for h3 alone"
        );
        return;
    }
    let evidence = result["verdict"]["members"][0]["evidence"][0].as_str().unwrap_or_default();
    assert!(evidence.starts_with("it has one RX queue, CPU "), "{}", sentence(&result));
    assert!(evidence.ends_with(" % of its time softirq"), "{}", sentence(&result));
}
