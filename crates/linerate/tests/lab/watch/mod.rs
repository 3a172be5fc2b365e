//! The figures of `linerate watch` beside a load, against `iostat -x`, `mpstat -P ALL`, `nstat`, `ethtool -S`
//! and a reader of `/proc` of its own: equal within 1 %.
//!
//! All look over the same four seconds. The loads (reads and writes of a loop device, UDP and TCP over a veth
//! pair, frames that a filter drops) begin after each tool's first reading and end before its last, so that
//! every byte lies in every window, however late a busy machine runs its programs. Processors are loaded by
//! others, too: their shares are compared over windows that coincide.

mod filter;
mod ground;
mod tools;

use crate::support::disk_places::LoopDevice;
use crate::support::lab;
use crate::support::namespaces::{Namespaces, pair};
use crate::support::neighbours::undisturbed;
use ground::Loads;
use linerate::watch::Moment;
use linerate::watch::model::{Eight, NicDirection, NicRates};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tools::{Tool, ToolRow, number};

/// Datagrams for the filter.
const SHORT: &str = "for i in $(seq 400); do echo hello > /dev/udp/192.0.2.2/9; done 2>/dev/null; true";
/// The windows of two programs coincide where their ends lie no further apart.
const TOGETHER: Duration = Duration::from_millis(20);
/// Windows are taken so often at most until they coincide.
const ROUNDS: usize = 8;

/// What everybody said of one window.
struct Round {
    /// With which the window began.
    first: Moment,
    /// Those of the window.
    moments: Vec<Moment>,
    before: Counted,
    after: Counted,
    iostat: ToolRow,
    /// By core.
    mpstat: BTreeMap<u32, ToolRow>,
}

/// Counters read independently.
struct Counted {
    /// `/proc/net/dev`.
    interface: Vec<f64>,
    /// `/proc/diskstats`, behind the name.
    disk: Vec<f64>,
    nstat: String,
    ethtool: String,
}

impl Counted {
    fn now(pair: &Namespaces, disk: &LoopDevice) -> Counted {
        let numbers = |line: &str| line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let dev = pair.printed("b", &["cat", "/proc/net/dev"]);
        let dev = dev.lines().find_map(|line| line.trim().strip_prefix("watched:")).expect("the interface");
        let stats = std::fs::read_to_string("/proc/diskstats").expect("/proc/diskstats");
        let own = |line: &&str| line.split_whitespace().nth(2) == Some(disk.name());
        let line = stats.lines().find(own).expect("the disk");
        let behind = line.split_once(disk.name()).expect("its name").1;
        Counted {
            interface: numbers(dev),
            disk: numbers(behind),
            nstat: pair.printed("b", &["nstat", "-asz"]),
            ethtool: pair.printed("b", &["ethtool", "-S", "watched"]),
        }
    }
}

impl Round {
    /// None where this machine was so late that the windows did not coincide, or a load was not over in time.
    fn take(pair: &Namespaces, disk: &LoopDevice) -> Option<Round> {
        let _servers = Loads::servers(pair);
        let namespace = pair.name("b");
        let program = crate::support::program();
        let watch = ["ip", "netns", "exec", &namespace, &program, "watch", "--json", "--count", "5"];
        let only = ["--nic", "watched", "--disk", disk.name()];
        let mut watch = Tool::start(&[&watch[..], &only].concat());
        let (began, first) = watch.next();
        let iostat = Tool::start(&["iostat", "-d", "-x", "-k", disk.name(), "4", "2"]);
        let mut mpstat = Tool::start(&["mpstat", "-P", "ALL", "4", "1"]);
        let (iostat_began, _) = iostat.until("Device");
        let before = Counted::now(pair, disk);
        let mut loads = Loads::start(pair, disk);
        let short = tools::unhurried(&["bash", "-c", SHORT]);
        assert!(pair.inside("a", &short).status().expect("bash").success());
        assert!(loads.ended(), "a load failed");
        let after = Counted::now(pair, disk);
        let loaded = Instant::now();
        let lines = watch.rest();
        let ended = lines.last().expect("a moment").0;
        let (iostat_ended, head) = iostat.until("Device");
        let row = iostat.until(disk.name()).1;
        let cores = mpstat.rest();
        let mpstat_ended = cores.iter().find(|(_, line)| line.contains("%usr")).expect("a head").0;
        let late = [
            ("iostat's window", (iostat_ended - iostat_began).abs_diff(ended - began)),
            ("mpstat's end", mpstat_ended.max(ended) - mpstat_ended.min(ended)),
            ("the load", loaded.saturating_duration_since(ended.min(iostat_ended))),
        ];
        println!("apart: {late:?}");
        if late.iter().any(|(_, apart)| *apart > TOGETHER) || lines.len() != 4 {
            return None;
        }
        let moment = |line: &String| serde_json::from_str(line).expect("a moment");
        Some(Round {
            first: moment(&first),
            moments: lines.iter().map(|(_, line)| moment(line)).collect(),
            before,
            after,
            iostat: ToolRow::new(&head, &row),
            mpstat: by_core(&cores),
        })
    }

    /// What a rate adds up to over the window.
    fn moved(&self, rate: impl Fn(&Moment) -> Option<f64>) -> f64 {
        self.moments.iter().map(|moment| rate(moment).expect("a rate") * moment.interval_ms / 1e3).sum()
    }

    fn seconds(&self) -> f64 {
        self.moments.iter().map(|moment| moment.interval_ms / 1e3).sum()
    }
}

/// mpstat's rows of its one interval.
fn by_core(lines: &[(Instant, String)]) -> BTreeMap<u32, ToolRow> {
    let mut found = BTreeMap::new();
    let head = lines.iter().find(|(_, line)| line.contains("%usr")).map(|(_, line)| line).expect("a head");
    for (_, line) in lines.iter().filter(|(_, line)| !line.starts_with("Average")) {
        let row = ToolRow::new(head, line);
        if let Some(core) = row.word("CPU").and_then(|word| word.parse().ok()) {
            found.insert(core, row);
        }
    }
    found
}

fn same(ours: f64, theirs: f64, what: &str) {
    close(ours, theirs, 0.0, what);
}

/// Within 1 %, and half of the last digit that a tool prints.
fn close(ours: f64, theirs: f64, digit: f64, what: &str) {
    println!("{what}: linerate {ours:.3}, independently {theirs:.3}");
    assert!((ours - theirs).abs() <= theirs.abs() * 0.01 + digit / 2.0, "{what}: {ours}, not {theirs}");
}

#[test]
fn beside_a_load_all_figures_are_those_of_other_tools() {
    undisturbed("figures beside a load", 2, || {
        if let Some(lacking) = lab::lacking().or_else(missing) {
            assert_ne!(std::env::var("LINERATE_LAB").as_deref(), Ok("1"), "LINERATE_LAB=1, but {lacking}");
            println!("skipped: {lacking}");
            return;
        }
        tools::hurry();
        let Some(pair) = pair("lrl") else { return };
        let Some(disk) = LoopDevice::of_mib(64) else { return };
        let filtered = filter::attach(&pair);
        // The neighbours learn each other's addresses before anything is counted.
        let hello = pair.inside("a", &["bash", "-c", "echo hello > /dev/udp/192.0.2.2/9"]).status();
        assert!(hello.expect("bash").success());
        let Some(round) = (0..ROUNDS).find_map(|_| Round::take(&pair, &disk)) else {
            panic!(
                "in {ROUNDS} rounds this machine was never in time: it is too busy to compare anything on"
            );
        };
        interface(&round);
        protocols(&round);
        if filtered {
            driver(&round);
        }
        blocks(&round);
        processors(&round);
    });
}

fn missing() -> Option<String> {
    let tools = ["iostat", "mpstat", "nstat", "ethtool", "iperf3", "fio", "stdbuf", "chrt"];
    let there = |tool: &&&str| std::process::Command::new(tool).arg("--version").output().is_err();
    tools.iter().find(there).map(|tool| format!("comparing a loaded watch needs {tool}"))
}

fn nic(moment: &Moment) -> &NicRates {
    moment.nics.iter().find(|nic| nic.name == "watched").expect("the interface")
}

/// `/proc/net/dev`: eight columns received, eight sent; bytes and packets come first.
fn interface(round: &Round) {
    let grown = |index: usize| round.after.interface[index] - round.before.interface[index];
    let receive: fn(&NicRates) -> &NicDirection = |nic| &nic.receive;
    let send: fn(&NicRates) -> &NicDirection = |nic| &nic.send;
    assert!(grown(0) > 50e6, "the load was there: {}", grown(0));
    for (what, way, index) in [("received", receive, 0), ("sent", send, 8)] {
        same(round.moved(|moment| way(nic(moment)).bytes_per_second), grown(index), &format!("bytes {what}"));
        let bits = round.moved(|moment| way(nic(moment)).bits_per_second);
        same(bits, grown(index) * 8.0, &format!("bits {what}"));
        let packets = round.moved(|moment| way(nic(moment)).packets_per_second);
        same(packets, grown(index + 1), &format!("packets {what}"));
    }
}

fn protocols(round: &Round) {
    let grown = |names: [&str; 2]| {
        let of = |text: &str| names.iter().map(|name| number(text, name)).sum::<f64>();
        of(&round.after.nstat) - of(&round.before.nstat)
    };
    let datagrams = grown(["UdpInDatagrams", "Udp6InDatagrams"]);
    assert!(datagrams > 5000.0, "{datagrams}");
    same(round.moved(|moment| moment.udp.datagrams_in_per_second), datagrams, "UdpInDatagrams of nstat");
    let segment = |name: &str| number(&round.after.nstat, name) - number(&round.before.nstat, name);
    same(round.moved(|moment| moment.tcp.segments_in_per_second), segment("TcpInSegs"), "TcpInSegs of nstat");
    let out = round.moved(|moment| moment.tcp.segments_out_per_second);
    same(out, segment("TcpOutSegs"), "TcpOutSegs of nstat");
}

/// The filter's drops, by the driver's own counter. A driver is asked more seldom where it answers slowly,
/// and its rates are then of more than one moment: what is compared is its counter.
fn driver(round: &Round) {
    let name = "rx_queue_0_xdp_drops";
    let theirs = number(&round.after.ethtool, name) - number(&round.before.ethtool, name);
    assert!(theirs >= 380.0, "{theirs} frames were dropped");
    let own = |moment: &Moment| nic(moment).ethtool.iter().find(|one| one.name == name).cloned();
    let total = |moment: Option<&Moment>| moment.and_then(own).map_or(0.0, |one| one.total as f64);
    let grown = total(round.moments.last()) - total(Some(&round.first));
    same(grown, theirs, "rx_queue_0_xdp_drops of ethtool -S");
    let seen = round.moments.iter().filter_map(own).any(|one| one.per_second > Some(0.0));
    assert!(seen, "with its rate");
}

/// iostat's rates, means and depth; and the counters of `/proc/diskstats` behind its name: reads, merged,
/// sectors, ms, writes, …
fn blocks(round: &Round) {
    let disk = |moment: &Moment| moment.disks.first().expect("the disk").clone();
    let grown = |index: usize| round.after.disk[index] - round.before.disk[index];
    let seconds = round.seconds();
    assert!(grown(2) * 512.0 > 30e6, "the load was there: {}", grown(2));
    let read = round.moved(|moment| disk(moment).read.bytes_per_second);
    let written = round.moved(|moment| disk(moment).write.bytes_per_second);
    same(read, grown(2) * 512.0, "bytes read");
    same(written, grown(6) * 512.0, "bytes written");
    let reads = round.moved(|moment| disk(moment).read.requests_per_second);
    let writes = round.moved(|moment| disk(moment).write.requests_per_second);
    same(reads, grown(0), "reads");
    same(writes, grown(4), "writes");
    let iostat = |column: &str| round.iostat.figure(column);
    close(read / seconds / 1024.0, iostat("rkB/s"), 0.01, "rkB/s of iostat");
    close(written / seconds / 1024.0, iostat("wkB/s"), 0.01, "wkB/s of iostat");
    close(reads / seconds, iostat("r/s"), 0.01, "r/s of iostat");
    close(writes / seconds, iostat("w/s"), 0.01, "w/s of iostat");
    // Of one interval the mean latency is time ÷ requests: weighted by them, the intervals make the window's.
    let latency = |way: fn(&Moment) -> (Option<f64>, Option<f64>)| {
        round.moved(|moment| {
            let (requests, each) = way(moment);
            Some(requests? * each.unwrap_or(0.0))
        })
    };
    let reading = latency(|moment| {
        let read = &moment.disks[0].read;
        (read.requests_per_second, read.latency_ms)
    });
    let writing = latency(|moment| {
        let write = &moment.disks[0].write;
        (write.requests_per_second, write.latency_ms)
    });
    close(reading / reads, iostat("r_await"), 0.01, "r_await of iostat, ms");
    close(writing / writes, iostat("w_await"), 0.01, "w_await of iostat, ms");
    let depth = round.moved(|moment| disk(moment).queue_depth) / seconds;
    close(depth, iostat("aqu-sz"), 0.01, "aqu-sz of iostat");
}

/// Where a processor's time went.
type Class = fn(&Eight) -> f64;

/// Shares of the window in percent: within one hundredth of the window's time.
fn processors(round: &Round) {
    let cores = &round.moments[0].cpus.each;
    assert_eq!(cores.len(), round.mpstat.len());
    for core in cores {
        let theirs = &round.mpstat[&core.number];
        let columns: [(&str, Class); 8] = [
            ("%usr", |eight| eight.user),
            ("%nice", |eight| eight.nice),
            ("%sys", |eight| eight.system),
            ("%iowait", |eight| eight.iowait),
            ("%irq", |eight| eight.irq),
            ("%soft", |eight| eight.softirq),
            ("%steal", |eight| eight.steal),
            ("%idle", |eight| eight.idle),
        ];
        for (column, class) in columns {
            let share = |moment: &Moment| {
                let own = moment.cpus.each.iter().find(|other| other.number == core.number)?;
                own.eight.as_ref().map(class)
            };
            let ours = round.moved(share) / round.seconds() * 100.0;
            let theirs = theirs.figure(column);
            println!("core {} {column}: linerate {ours:.2}, mpstat {theirs:.2}", core.number);
            assert!((ours - theirs).abs() <= 1.0, "core {} {column}: {ours}, mpstat {theirs}", core.number);
        }
    }
}
