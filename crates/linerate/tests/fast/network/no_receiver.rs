//! `linerate network --no-receiver` between two namespaces: what the other end of the link counted is what the
//! NIC is said to have sent, and nothing goes where it may not.

use crate::support::disk::measurements;
use crate::support::namespaces::{self, Namespaces};
use crate::support::process::Ends;
use crate::support::program;
use crate::support::wall_served::busy;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Words that may go out: an address with a hardware address that nobody has.
const NOBODY: [&str; 8] =
    ["--protocol", "udp", "--no-receiver", "192.0.2.9", "--nic", "sender", "--seconds", "0.3"];

/// A pair in which 192.0.2.9 is known and is nobody.
fn pair(name: &str) -> Option<Namespaces> {
    let pair = namespaces::pair(name)?;
    let lladdr = ["lladdr", "02:00:00:00:00:01", "dev", "sender"];
    pair.printed("a", &[&["ip", "neigh", "replace", "192.0.2.9"][..], &lladdr].concat());
    Some(pair)
}

fn network(pair: &Namespaces, words: &[&str]) -> Command {
    let mut command = pair.inside("a", &[&[program().as_str(), "network"], words].concat());
    command.env("NO_COLOR", "1");
    command
}

/// A counter of the interface at this end.
fn counted(pair: &Namespaces, end: &str, name: &str) -> u64 {
    let nic = if end == "a" { "sender" } else { "watched" };
    let text = pair.printed(end, &["cat", &format!("/sys/class/net/{nic}/statistics/{name}")]);
    text.trim().parse().expect("a number")
}

fn of<'v>(run: &'v Value, name: &str) -> &'v Value {
    &measurements(run)[0]["streams"][name]
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn what_left_by_the_nic_is_what_the_other_end_of_the_link_counted() {
    let Some(pair) = pair("lrn") else { return };
    let before = counted(&pair, "b", "rx_bytes");
    let words = ["--rate", "80M", "--streams", "2", "--yes", "--json"];
    let run = network(&pair, &[&NOBODY[..], &words].concat()).ended().gives(0).json();
    let arrived = counted(&pair, "b", "rx_bytes") - before;
    let nic = of(&run, "at_nic");
    // Neighbours of IPv6 say a few words, too.
    assert!(number(&nic["bytes"]).abs_diff(arrived) < 2000, "{nic}: {arrived}");
    let sent = |name: &str| -> u64 {
        of(&run, "streams").as_array().expect("streams").iter().map(|stream| number(&stream[name])).sum()
    };
    assert_eq!(number(&nic["payload_bytes"]), sent("sent_bytes"));
    assert_eq!((number(&nic["qdisc_drops"]), number(&nic["unreachable"])), (0, 0));
    assert_eq!(sent("received_bytes"), 0, "nobody received anything");
    let rate = measurements(&run)[0]["bytes_per_second"].as_f64().expect("a rate");
    assert!((9.0e6..11.0e6).contains(&rate) || busy(), "{rate}");
    let ledger = &run["ledgers"][0];
    assert_eq!((&ledger["until_nic"], &ledger["lost_datagrams"]), (&true.into(), &0.into()), "{ledger}");
    let hosts = ledger["lines"].as_array().expect("lines").iter().map(|line| &line["host"]);
    assert!(hosts.collect::<Vec<_>>().windows(2).all(|two| two[0] == two[1]), "this host's alone: {ledger}");
}

/// SARA's test: three NICs, datagrams of 63 KB in fragments, dropped where they go, pinned and not.
#[test]
fn three_nics_send_fragments_at_once_pinned_and_not() {
    let Some(hosts) = Namespaces::new("lrf", &["a", "b"]) else { return };
    let nics = [("s0", "d0", "1", "9"), ("s1", "d1", "17", "25"), ("s2", "d2", "33", "41")];
    let mut words: Vec<String> = Vec::new();
    for (nic, far, own, nobody) in nics {
        hosts.cable(("a", nic), ("b", far));
        hosts.address("a", nic, &format!("192.0.2.{own}/28"));
        hosts.ip("b", &["link", "set", far, "up"]);
        let address = format!("192.0.2.{nobody}");
        hosts.printed("a", &["ip", "neigh", "replace", &address, "lladdr", "02:00:00:00:00:01", "dev", nic]);
        words.extend(["--no-receiver", &address, "--nic", nic].map(String::from));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let job = ["--protocol", "udp", "--datagram", "63K", "--window", "200K", "--rate", "240M"];
    let how = ["--pin", "auto", "--pin", "none", "--seconds", "0.3", "--repeats", "2", "--yes", "--json"];
    let run = network(&hosts, &[&words[..], &job, &how].concat()).ended().gives(0).json();
    let names: Vec<&str> = measurements(&run).iter().filter_map(|one| one["name"].as_str()).collect();
    let plain = ["s0", "s1", "s2", "all paths"];
    let expected = |pinned: &str| plain.map(|of| format!("{of} udp send{pinned}, no receiver"));
    assert_eq!(names, [expected(""), expected(", not pinned")].concat());
    for figure in measurements(&run) {
        let (nic, streams) =
            (&figure["streams"]["at_nic"], figure["streams"]["streams"].as_array().expect("some"));
        let sent = |name: &str| -> u64 { streams.iter().map(|stream| number(&stream[name])).sum() };
        // Each datagram in 44 packets of 1,500 bytes; a neighbour's packets are a few bytes more.
        assert_eq!(number(&nic["payload_bytes"]), sent("sent_bytes"), "{nic}");
        assert!(number(&nic["packets"]).abs_diff(44 * sent("sent_datagrams")) < 30, "{nic}");
        let is_pinned = !figure["name"].as_str().is_some_and(|name| name.contains("not pinned"));
        assert!(streams.iter().all(|stream| stream["core"].is_u64() == is_pinned), "{figure:#}");
        let is_all = figure["resource"] == "all";
        assert_eq!(streams.len(), if is_all { 3 } else { 1 });
        assert_eq!(figure["cpu_by_core"].as_array().is_some_and(|cores| !cores.is_empty()), is_all);
        let rate = figure["bytes_per_second"].as_f64().expect("a rate") / if is_all { 3.0 } else { 1.0 };
        assert!((9.0e6..11.0e6).contains(&rate) || busy(), "{rate}");
    }
}

#[test]
fn what_a_full_queue_drops_is_in_the_ledger_and_not_in_the_rate() {
    let Some(pair) = pair("lrq") else { return };
    let shape = ["root", "tbf", "rate", "20mbit", "burst", "20kb", "limit", "60kb"];
    pair.printed("a", &[&["tc", "qdisc", "add", "dev", "sender"][..], &shape].concat());
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("result");
    let words = ["--rate", "100M", "--yes", "--output", place.to_str().expect("a name")];
    let output = network(&pair, &[&NOBODY[..], &words].concat()).ended();
    let screen = &output.stdout;
    assert_eq!(output.status.code(), Some(0), "{screen} {}", output.stderr);
    for part in ["did not leave by the NIC", "nobody counts what arrived", "qdisc-drops", "unknown"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let run = std::fs::read(place.join("run.json")).expect("the result");
    let run: Value = serde_json::from_slice(&run).expect("JSON");
    assert!(number(&of(&run, "at_nic")["qdisc_drops"]) > 0, "{run:#}");
    let rate = measurements(&run)[0]["bytes_per_second"].as_f64().expect("a rate");
    assert!(rate < 5.0e6, "20 Mb/s and what the burst holds: {rate}");
    let page = std::fs::read_to_string(place.join("report.html")).expect("the page");
    assert!(page.contains("at NIC") && !page.contains("no datagram was lost"), "the page says so, too");
}

#[test]
fn answers_that_nobody_listens_are_counted_and_no_failure() {
    let Some(pair) = pair("lri") else { return };
    let mut words = NOBODY;
    words[3] = "192.0.2.2:5004";
    let run =
        network(&pair, &[&words[..], &["--rate", "20M", "--yes", "--json"]].concat()).ended().gives(0).json();
    assert!(number(&of(&run, "at_nic")["unreachable"]) > 0, "{}", of(&run, "at_nic"));
}

#[test]
fn nothing_is_sent_where_it_may_not_go() {
    let Some(pair) = pair("lrx") else { return };
    pair.printed("a", &["ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.9"]);
    // Within the network, and yet through a gateway.
    pair.printed("a", &["ip", "route", "add", "192.0.2.64/32", "via", "192.0.2.9"]);
    std::thread::sleep(Duration::from_millis(200));
    let before = counted(&pair, "b", "rx_packets");
    let fails = |words: &[&str], status: i32, parts: &[&str]| {
        let output = network(&pair, words).ended();
        let said = &output.stderr;
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{words:?}: {said}");
    };
    let rate = ["--rate", "20M"];
    fails(&[&NOBODY[..], &rate].concat(), 2, &["nobody there has agreed", "--yes"]);
    fails(&[&NOBODY[..], &["--yes"]].concat(), 2, &["--rate"]);
    fails(&[&NOBODY[..], &rate, &["--yes", "--peer", "192.0.2.2"]].concat(), 2, &["--peer"]);
    fails(&[&NOBODY[..], &rate, &["--yes", "--repeats", "900"]].concat(), 2, &["60 s at most"]);
    let with = |at: usize, word| {
        let mut words = NOBODY;
        words[at] = word;
        [&words[..], &["--yes", "--rate", "20M"]].concat()
    };
    fails(&with(1, "both"), 2, &["--protocol udp"]);
    fails(&with(5, "eth77"), 3, &["eth77", "linerate probe"]);
    fails(&with(3, "203.0.113.9"), 2, &["203.0.113.9", "gateway"]);
    fails(&with(3, "192.0.2.255"), 2, &["broadcast"]);
    fails(&with(3, "255.255.255.255"), 2, &["broadcast"]);
    fails(&with(3, "239.1.2.3"), 2, &["multicast"]);
    fails(&with(3, "192.0.2.1"), 2, &["this host"]);
    fails(&with(3, "switch.example"), 2, &["an IP address"]);
    fails(&["--no-receiver", "192.0.2.9", "--yes"], 2, &["--nic"]);
    fails(&[&NOBODY[..], &rate, &["--yes", "--nic", "other"]].concat(), 2, &["1 and 2 are given"]);
    let twice = ["--yes", "--no-receiver", "192.0.2.9", "--nic", "sender"];
    fails(&[&NOBODY[..], &rate, &twice].concat(), 2, &["--nic sender is given twice"]);
    // It asks for the hardware address of the host itself, and does not take the gateway's.
    fails(&with(3, "192.0.2.64"), 3, &["192.0.2.64", "hardware address", "ip neigh"]);
    let came = counted(&pair, "b", "rx_packets") - before;
    assert!(came < 40, "ARP and IPv6's neighbours alone, not {came} packets");
}
