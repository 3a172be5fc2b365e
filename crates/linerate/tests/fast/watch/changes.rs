//! What changes under a watch: counters that wrap or begin again, devices that come, go and are renamed, a
//! meter whose counter comes to its end.

use super::fixture::moment;
use crate::support::watch_tree::tree;
use linerate::sysroot::Sysroot;
use linerate::watch::history::{History, SeriesKind, Span};
use linerate::watch::model::{PowerKind, summed};
use linerate::watch::{Moment, MomentBuilder, Sampler, WatchSpec, bottleneck};
use std::path::Path;
use std::time::Duration;

/// The moment between two states of a tree.
fn between(root: &Path, change: impl FnOnce(&dyn Fn(&str, &str))) -> Moment {
    let spec = WatchSpec { interval: Duration::from_millis(100), ..WatchSpec::default() };
    let put = |path: &str, text: &str| {
        let place = root.join(path);
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        std::fs::write(place, text).expect("a file");
    };
    let mut sampler = Sampler::start(&Sysroot::at(root).expect("a tree"), &spec).expect("a sampler");
    let mut builder = MomentBuilder::new("x".into(), &spec);
    let first = builder.moment(&sampler.sample());
    assert!(first.interval_ms == 0.0 && first.nics.iter().all(|nic| nic.receive.bytes_per_second.is_none()));
    std::thread::sleep(Duration::from_millis(300));
    change(&put);
    // A meter that was late on a busy machine is there with one of the next samples; nothing changes any more.
    let mut moment = builder.moment(&sampler.sample());
    for _ in 0..100 {
        if moment.power.iter().all(|meter| meter.joules != Some(0.0)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        moment = builder.moment(&sampler.sample());
    }
    moment
}

const HEAD: &str = "Inter-| Receive | Transmit\n face |bytes\n";

#[test]
fn a_counter_that_wrapped_has_a_rate_and_one_that_was_reset_has_none() {
    let tree = tree(1, 1);
    let line = |processed: &str| format!("{processed} 0 0 0 0 0 0 0 0 0 0 0 00000000 0 0\n");
    std::fs::write(tree.path().join("proc/net/softnet_stat"), line("fffffff0")).expect("a file");
    let moment = between(tree.path(), |put| {
        put("proc/net/softnet_stat", &line("00000010"));
        put("proc/net/dev", &format!("{HEAD}  eth0: 0 0 3 4 5 6 7 8 1009 1010 11 12 13 14 15 16\n"));
        put(
            "proc/diskstats",
            "259 0 nvme0n1 5 4 4643973 21650 1078320 43950 39451633 1011053 2 222766 1032546 1 2 3 4 5 6\n",
        );
    });
    let seconds = moment.interval_ms / 1e3;
    let softnet = &moment.softnet[0];
    let processed = softnet.processed_per_second.expect("a wrap");
    assert!((processed * seconds - 32.0).abs() < 8.0, "{processed} over {seconds} s");
    let nic = &moment.nics[0];
    assert_eq!((nic.receive.bytes_per_second, nic.receive.bytes), (None, 0), "it was reset");
    assert!(nic.send.bytes_per_second.is_some_and(|rate| rate > 0.0), "the other direction did not");
    assert_eq!(moment.disks[0].read.bytes_per_second, None, "another disk under the same name");
}

#[test]
fn devices_come_go_and_are_renamed() {
    let tree = tree(1, 2);
    let moment = between(tree.path(), |put| {
        // eth0 is another interface now, whose counters are far ahead; the old one has a new name.
        let counters = "5 0 0 0 0 0 0 1009 1010 0 0 0 0 0 0\n";
        put("proc/net/dev", &format!("{HEAD}  eth0: 999999999999 {counters}  wan0: 2 {counters}"));
        put("sys/class/net/eth0/ifindex", "7\n");
        put("sys/class/net/wan0/ifindex", "2\n");
        put("proc/diskstats", "259 1 nvme1n1 1 0 8 0 0 0 0 0 0 0 0\n259 9 nvme9n1 1 0 8 0 0 0 0 0 0 0 0\n");
    });
    let nics: Vec<_> =
        moment.nics.iter().map(|nic| (nic.name.as_str(), nic.receive.bytes_per_second)).collect();
    assert_eq!(nics, [("eth0", None), ("wan0", None)], "both are new");
    let disks: Vec<_> = moment.disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(disks, ["nvme1n1", "nvme9n1"]);
    assert_eq!(moment.disks[1].read.requests_per_second, None);
}

#[test]
fn energy_counters_come_to_their_end_and_go_on() {
    let tree = tree(1, 1);
    let zone = tree.path().join("sys/class/powercap/intel-rapl:0");
    std::fs::create_dir_all(&zone).expect("directories");
    for (file, text) in
        [("name", "package-0\n"), ("energy_uj", "999000000\n"), ("max_energy_range_uj", "1000000000\n")]
    {
        std::fs::write(zone.join(file), text).expect("a file");
    }
    let moment = between(tree.path(), |put| put("sys/class/powercap/intel-rapl:0/energy_uj", "29000000\n"));
    let meter = moment.power.iter().find(|meter| meter.kind == PowerKind::Rapl).expect("a meter");
    assert_eq!(meter.joules, Some(30.0), "1 J to the end and 29 since");
    let watts = *meter.watts.known().expect("watts");
    assert!(
        (30.0 / 5.0..=30.0 / 0.3).contains(&watts),
        "{watts} W: 30 J in a third of a second or somewhat more"
    );
    assert_eq!(moment.energy.watts, Some(watts));
    assert_eq!(moment.energy.joules_per_gb, None, "nothing moves");
}

#[test]
fn the_bottleneck_is_reported_by_its_rule() {
    let mut moment = moment();
    let (what, rule) = bottleneck::bottleneck_of(&moment);
    let what = what.expect("a bottleneck");
    assert!(what.starts_with("enp23s0f0 sends 98.1 % of its link of 100 Gb/s; CPU 0 is 98 % busy"), "{what}");
    assert!(rule.starts_with("a link at 97 % or above"), "{rule}");
    moment.nics[0].send.share_of_link = Some(0.5);
    for core in &mut moment.cpus.each {
        core.eight = None;
    }
    let what = bottleneck::bottleneck_of(&moment).0.expect("a bottleneck");
    assert!(what.starts_with("nvme0n1 moves 6430 MB/s with 30 requests waiting"), "{what}");
    moment.disks.clear();
    assert_eq!(
        bottleneck::bottleneck_of(&moment).0.as_deref(),
        Some("socket drops 77 datagrams per second (Udp RcvbufErrors)")
    );
    moment.drops.clear();
    let (what, looked_at) = bottleneck::bottleneck_of(&moment);
    assert!(what.is_none() && looked_at.starts_with("no link at 97 %"), "{what:?} {looked_at}");
}

/// What a bond, a bridge, a VLAN and a macvlan are built on, by the kernel's links; each packet counts once
/// in the sum.
#[test]
fn what_is_built_on_others_is_not_summed() {
    let tree = tree(1, 1);
    let class = tree.path().join("sys/class/net");
    let link = |from: &str, name: &str, to: &str| {
        std::fs::create_dir_all(class.join(from)).expect("directories");
        std::os::unix::fs::symlink(format!("../{to}"), class.join(from).join(name)).expect("a link");
    };
    for member in ["eth0", "eth1"] {
        link(member, "master", "bond0");
    }
    link("bond0", "lower_eth1", "eth1");
    link("vlan7", "lower_bond0", "bond0");
    link("macvlan0", "lower_eth2", "eth2");
    link("veth0", "master", "br0");
    link("vlan9", "lower_gone0", "gone0");
    let names = ["eth0", "eth1", "eth2", "bond0", "vlan7", "macvlan0", "veth0", "br0", "vlan9"];
    for name in names {
        std::fs::create_dir_all(class.join(name)).expect("directories");
    }
    let table = |bytes: u64| {
        let line = |name: &&str| format!("  {name}: {bytes} 2 0 0 0 0 0 0 {bytes} 2 0 0 0 0 0 0\n");
        format!("{HEAD}{}", names.iter().map(line).collect::<String>())
    };
    std::fs::write(tree.path().join("proc/net/dev"), table(0)).expect("a file");
    let moment = between(tree.path(), |put| put("proc/net/dev", &table(1_000_000)));
    let of = |name: &str| moment.nics.iter().find(|nic| nic.name == name).expect("it").built_on.clone();
    assert_eq!(of("bond0"), ["eth0", "eth1"]);
    assert_eq!((of("vlan7"), of("macvlan0")), (vec!["bond0".to_string()], vec!["eth2".to_string()]));
    assert_eq!((of("br0"), of("eth0")), (vec!["veth0".to_string()], Vec::new()));
    let summed: Vec<&str> = summed(&moment.nics).map(|nic| nic.name.as_str()).collect();
    // What vlan9 lies on is not shown: it counts.
    assert_eq!(summed, ["eth0", "eth1", "eth2", "veth0", "vlan9"]);
    let mut history = History::default();
    history.push(&moment);
    let past = history.past(Span::Minute, SeriesKind::SumSend, "").expect("a sum");
    let sum = f64::from(past.most.iter().flatten().fold(0.0_f32, |most, rate| most.max(*rate)));
    let each = moment.nics[0].send.bits_per_second.expect("a rate");
    assert!((sum / each / 5.0 - 1.0).abs() < 1e-3, "{sum} of {each}");
}
