//! Figures against independent readings. Traffic is sent in the middle of a watch that begins and ends idle,
//! so that what the rates add up to must be what the counters moved by, however late this machine runs its
//! programs.

use crate::support::namespaces::pair;
use crate::support::process::Ends;
use crate::support::rights::there;
use crate::support::watch_running::{RunningWatch, hurried, printed, watch};
use linerate::watch::Moment;
use std::process::Command;

/// Rates times intervals, added up.
fn moved(moments: &[Moment], rate: impl Fn(&Moment) -> Option<f64>) -> f64 {
    moments.iter().map(|moment| rate(moment).expect("a rate") * moment.interval_ms / 1e3).sum()
}

fn within_a_hundredth(ours: f64, theirs: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= theirs.abs() * 0.01 + 1e-9,
        "{what}: linerate {ours}, independently {theirs}"
    );
}

/// A number behind a word, in the form of `nstat -az` and `ethtool -S`.
fn number(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let own = words.next()?.trim_end_matches(':') == name;
        own.then(|| words.next()?.parse().ok())?
    })
}

#[test]
fn a_nic_and_the_protocols_against_proc_and_nstat() {
    let Some(pair) = pair("lrw") else { return };
    let read = |file: &str| {
        let output = pair.inside("b", &["cat", file]).ended();
        output.stdout
    };
    let nstat = || {
        let output = pair.inside("b", &["nstat", "-az"]).ended();
        output.stdout
    };
    let device = |text: &str| -> Vec<f64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("watched:")).expect("the interface");
        line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    let program = env!("CARGO_BIN_EXE_linerate");
    let words = [program, "watch", "--json", "--interval", "1s", "--count", "4", "--nic", "watched"];
    let words = [hurried(), &words].concat();
    let before = (device(&read("/proc/net/dev")), nstat());
    let mut running = RunningWatch::start(pair.inside("b", &words));
    let mut moments: Vec<Moment> = vec![running.next().expect("a moment")];
    // Sends a thousand datagrams to a port where nobody listens, from the other end.
    let shell = "for i in $(seq 1000); do echo 0123456789012345678901234567890123456789 > \
                 /dev/udp/192.0.2.2/9; done 2>/dev/null; true";
    let sent = pair.inside("a", &["bash", "-c", shell]).status().expect("bash");
    assert!(sent.success());
    while let Some(moment) = running.next() {
        moments.push(moment);
    }
    assert_eq!(moments.len(), 4);
    let after = (device(&read("/proc/net/dev")), nstat());
    let nic = |moment: &Moment| moment.nics.first().expect("the interface").clone();
    let last = nic(moments.last().expect("a moment"));
    if moments.last().is_some_and(|moment| nic(moment).receive.packets_per_second > Some(0.0)) {
        println!("skipped: this machine was too slow to send a thousand datagrams within the watch");
        return;
    }
    // What is there before the watch begins (neighbour discovery) is before its first sample: the totals are
    // compared as they stand.
    within_a_hundredth(last.receive.bytes as f64, after.0[0], "bytes received");
    within_a_hundredth(last.receive.packets as f64, after.0[1], "packets received");
    within_a_hundredth(last.send.packets as f64, after.0[9], "packets sent");
    let grown = after.0[1] - before.0[1];
    assert!(grown >= 1000.0, "{grown}");
    within_a_hundredth(
        moved(&moments, |moment| nic(moment).receive.packets_per_second),
        grown,
        "packets by rates",
    );
    within_a_hundredth(
        moved(&moments, |moment| nic(moment).receive.bytes_per_second),
        after.0[0] - before.0[0],
        "bytes by rates",
    );
    let no_ports = number(&after.1, "UdpNoPorts")
        .zip(number(&before.1, "UdpNoPorts"))
        .map(|(after, before)| after - before);
    let ours = moved(&moments, |moment| moment.udp.no_port_per_second);
    match no_ports {
        Some(theirs) => within_a_hundredth(ours, theirs, "UdpNoPorts of nstat"),
        None => println!("skipped: nstat tells nothing here"),
    }
    assert!((ours - 1000.0).abs() <= 10.0, "{ours}");
    let line = |moment: &Moment| {
        moment.drops.iter().find(|line| line.counter == "Udp NoPorts").map(|line| line.total)
    };
    assert_eq!(moments.last().and_then(line), Some(1000), "the ledger, live");
    // The constant that a veth tells is not a rate of a link.
    assert!(last.link_bits_per_second.known().is_none() && last.receive.share_of_link.is_none());
}

#[test]
fn drivers_counters_are_those_of_ethtool() {
    if Command::new("ethtool").arg("--version").output().is_err() {
        println!("skipped: ethtool is not installed");
        return;
    }
    let Some(pair) = pair("lrd") else { return };
    // One name of each is enough: a veth counts its queues, and they are all 0 here but what XDP had.
    let output = pair.inside("b", &["ethtool", "-S", "watched"]).ended();
    let theirs = output.stdout;
    let names = theirs.lines().filter(|line| line.contains(": ")).count();
    assert!(names > 1, "{theirs}");
    let program = env!("CARGO_BIN_EXE_linerate");
    let mut running = RunningWatch::start(
        pair.inside("b", &[program, "watch", "--json", "--interval", "200ms", "--count", "1"]),
    );
    let moment = running.next().expect("a moment");
    let nic = moment.nics.iter().find(|nic| nic.name == "watched").expect("the interface");
    assert_eq!(nic.driver.as_deref(), Some("veth"));
    for one in &nic.ethtool {
        assert_eq!(number(&theirs, &one.name), Some(one.total as f64), "{}", one.name);
    }
}

#[test]
fn rates_are_what_totals_moved_by_and_totals_lie_between_two_readings() {
    let proc_stat = || std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let switches = |text: &str| number(text, "ctxt").expect("a count");
    let before = proc_stat();
    let mut running = RunningWatch::start(watch(&["--json", "--interval", "250ms", "--count", "4"]));
    let mut moments = Vec::new();
    while let Some(moment) = running.next() {
        moments.push(moment);
    }
    let after = proc_stat();
    assert_eq!(moments.len(), 4);
    let (mut disks, mut rates) = (0, 0);
    for pair in moments.windows(2) {
        let seconds = pair[1].interval_ms / 1e3;
        // A reading that came later than the moment waits for it is the one of before, and has no rate.
        if let Some(rate) = pair[1].cpus.context_switches_per_second {
            let counted = (pair[1].cpus.context_switches - pair[0].cpus.context_switches) as f64;
            within_a_hundredth(rate, counted / seconds, "context switches");
            rates += 1;
        }
        // Other tests' loop devices come and go, and one that has come has no rate yet.
        let known = pair[1].disks.iter().filter_map(|now| {
            let before = pair[0].disks.iter().find(|before| before.name == now.name)?;
            Some((now, before, now.write.bytes_per_second?))
        });
        for (now, before, rate) in known {
            disks += 1;
            let bytes = (now.write.bytes - before.write.bytes) as f64;
            // The disks' file is read a moment after the processors'.
            assert!((rate * seconds - bytes).abs() <= bytes * 0.1, "{}: {rate} {bytes}", now.name);
        }
    }
    assert!(disks > 0 || moments[0].disks.is_empty(), "no disk was there twice");
    assert!(rates > 0, "no reading was in time");
    for moment in &moments {
        let total = moment.cpus.context_switches as f64;
        assert!((switches(&before)..=switches(&after)).contains(&total));
        for core in &moment.cpus.each {
            let eight = core.eight.expect("shares");
            let sum = eight.user
                + eight.nice
                + eight.system
                + eight.idle
                + eight.iowait
                + eight.irq
                + eight.softirq
                + eight.steal;
            assert!((sum - 1.0).abs() < 1e-3, "{eight:?}");
        }
        assert!(moment.memory.available > 0 && moment.memory.available <= moment.memory.total);
    }
}

/// `iostat` without an interval tells what each disk did since boot: bytes, and the mean depth.
#[test]
fn disks_against_iostat() {
    if !there("iostat") {
        return;
    }
    let mut running = RunningWatch::start(watch(&["--json", "--interval", "200ms", "--count", "1"]));
    let moment = running.next().expect("a moment");
    let table = printed("iostat", &["-d", "-k", "-p", "ALL"]);
    let columns: Vec<&str> =
        table.lines().find(|line| line.starts_with("Device")).expect("a head").split_whitespace().collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).expect("a column");
    let mut compared = 0;
    for disk in moment.disks.iter().filter(|disk| disk.read.bytes > 100 << 20) {
        let Some(line) = table.lines().find(|line| line.split_whitespace().next() == Some(&disk.name)) else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let theirs = |name: &str| words[column(name)].parse::<f64>().expect("a number") * 1024.0;
        within_a_hundredth(disk.read.bytes as f64, theirs("kB_read"), &disk.name);
        within_a_hundredth(disk.write.bytes as f64, theirs("kB_wrtn"), &disk.name);
        compared += 1;
    }
    println!("{compared} disks compared");
}

/// `mpstat` without an interval tells the shares since boot; ours are the seconds since boot.
#[test]
fn processors_against_mpstat() {
    if !there("mpstat") {
        return;
    }
    let mut running = RunningWatch::start(watch(&["--json", "--interval", "200ms", "--count", "1"]));
    let moment = running.next().expect("a moment");
    let table = printed("mpstat", &["-P", "ALL"]);
    let head: Vec<&str> =
        table.lines().find(|line| line.contains("%usr")).expect("a head").split_whitespace().collect();
    let column = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    for core in &moment.cpus.each {
        let number = core.number.to_string();
        let line = table
            .lines()
            .find(|line| line.split_whitespace().nth(column("CPU")) == Some(&number))
            .expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let theirs = |name: &str| words[column(name)].parse::<f64>().expect("a number");
        let all = core.seconds;
        let sum =
            all.user + all.nice + all.system + all.idle + all.iowait + all.irq + all.softirq + all.steal;
        for (name, seconds) in [
            ("%usr", all.user),
            ("%sys", all.system),
            ("%iowait", all.iowait),
            ("%soft", all.softirq),
            ("%idle", all.idle),
        ] {
            let ours = seconds / sum * 100.0;
            // mpstat has two decimals, and its own reading is a little later.
            assert!((ours - theirs(name)).abs() <= 1.0, "core {number} {name}: {ours} {}", theirs(name));
        }
    }
}

/// The kernel's own links, which the made tree of `changes.rs` imitates.
#[test]
fn a_bridge_and_a_macvlan_are_built_on_what_they_lie_on() {
    let Some(pair) = pair("lrb") else { return };
    let mut made = true;
    for words in [
        "link add bridge type bridge",
        "link add over type veth peer name far",
        "link set over master bridge",
        "link add link watched name mac type macvlan",
    ] {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
        made &= pair.inside("b", &words).output().is_ok_and(|output| output.status.success());
    }
    if !made {
        println!("skipped: this kernel makes no bridge or no macvlan");
        return;
    }
    let words = [env!("CARGO_BIN_EXE_linerate"), "watch", "--json", "--interval", "200ms", "--count", "1"];
    let moment = RunningWatch::start(pair.inside("b", &words)).next().expect("a moment");
    let built_on = |name: &str| {
        let nic = moment.nics.iter().find(|nic| nic.name == name);
        nic.expect("the interface").built_on.join(" ")
    };
    assert_eq!(["bridge", "mac", "over", "watched"].map(built_on), ["over", "watched", "", ""]);
}
