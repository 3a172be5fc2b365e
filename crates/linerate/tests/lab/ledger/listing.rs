//! A listing of `netstat -s` of a server of 2009 that moved data over 10 Gb/s: what it says was dropped, and
//! what cures it.

use linerate::counters::from_netstat;
use linerate::diagnose::ledger::{Drop, Layer, drops};

const LISTING: &str = include_str!("../../../../../fixtures/netstat/server-2009.txt");

fn drop_of(all: &[(Layer, Drop)], counter: &str) -> (Layer, Drop) {
    all.iter()
        .find(|(_, drop)| drop.counter == counter)
        .cloned()
        .unwrap_or_else(|| panic!("{counter}: {all:#?}"))
}

#[test]
fn each_counter_that_is_not_0_has_its_layer_and_its_cure() {
    let counters = from_netstat(LISTING);
    assert_eq!(counters.count("Udp", "InDatagrams"), Some(5269));
    assert_eq!(counters.count("Udp", "OutDatagrams"), Some(23_775_230));
    assert_eq!(counters.count("Udp", "NoPorts"), Some(0));
    assert_eq!(counters.count("IpExt", "InOctets"), Some(806_747_296));
    let out = counters.netstat.known().expect("counters")["IpExt"]["OutOctets"].clone();
    assert_eq!(out.why(), Some("negative: it wrapped, or is no counter"));
    let all = drops(&counters);
    for (counter, counted, layer, cure) in [
        ("Ip OutDiscards", 273, Layer::Ip, "queue"),
        ("Ip FragFails", 1_952_857, Layer::Ip, "MTU"),
        ("Ip FragCreates", 141_571_054, Layer::Ip, "path MTU"),
        ("Tcp RetransSegs", 604_892, Layer::Tcp, "dropped"),
        ("Tcp InErrs", 182, Layer::Tcp, "cable"),
        ("Tcp AttemptFails", 10, Layer::Tcp, "listens"),
        ("Udp SndbufErrors", 2, Layer::Socket, "net.core.wmem_max"),
        ("TcpExt TCPTimeouts", 786, Layer::Tcp, "timer"),
    ] {
        let (found, drop) = drop_of(&all, counter);
        assert_eq!((found, drop.counted), (layer, counted), "{drop:?}");
        assert!(drop.cure.contains(cure) || drop.meaning.contains(cure), "{drop:?}");
    }
    assert!(!all.iter().any(|(_, drop)| drop.counted == 0 || drop.counter.contains("NoPorts")));
    assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in the order of the layers");
}

#[test]
fn any_text_is_read_or_left_out() {
    for text in [
        "",
        "Udp:",
        "Udp:\n x",
        "Tcp:\n 99999999999999999999999 segments received\n",
        "Udp:\n SndbufErrors: -2\n",
    ] {
        let counters = from_netstat(text);
        assert!(drops(&counters).is_empty(), "{text:?}");
    }
    let twice = from_netstat(
        "Udp:\n 5 packet receive errors\n 7 packet receive errors\n 3 packet receive errors of others\n",
    );
    assert_eq!(twice.count("Udp", "InErrors"), Some(5));
}
