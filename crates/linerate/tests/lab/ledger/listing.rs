//! The counters of a server of 2009 that moved data over 10 Gb/s: what they say was dropped, and what cures it.

use linerate::counters::read;
use linerate::diagnose::ledger::{Drop, Layer, drops};
use linerate::sysroot::Sysroot;

const SNMP: &str = "Ip: OutDiscards FragFails FragCreates\nIp: 273 1952857 141571054\n\
    Tcp: AttemptFails RetransSegs InErrs\nTcp: 10 604892 182\n\
    Udp: InDatagrams NoPorts OutDatagrams SndbufErrors\nUdp: 5269 0 23775230 2\n";
const NETSTAT: &str =
    "TcpExt: TCPTimeouts\nTcpExt: 786\nIpExt: InOctets OutOctets\nIpExt: 806747296 -812905527\n";

fn drop_of(all: &[(Layer, Drop)], counter: &str) -> (Layer, Drop) {
    all.iter()
        .find(|(_, drop)| drop.counter == counter)
        .cloned()
        .unwrap_or_else(|| panic!("{counter}: {all:#?}"))
}

#[test]
fn each_counter_that_is_not_0_has_its_layer_and_its_cure() {
    let root = tempfile::tempdir().expect("a folder");
    let net = root.path().join("proc/net");
    std::fs::create_dir_all(&net).expect("folders");
    std::fs::write(net.join("snmp"), SNMP).expect("written");
    std::fs::write(net.join("netstat"), NETSTAT).expect("written");
    let counters = read(&Sysroot::recorded(root.path()), &[]);
    assert_eq!(counters.count("Udp", "InDatagrams"), Some(5269));
    assert_eq!(counters.count("Udp", "OutDatagrams"), Some(23_775_230));
    assert_eq!(counters.count("Udp", "NoPorts"), Some(0));
    assert_eq!(counters.count("IpExt", "InOctets"), Some(806_747_296));
    let out = counters.netstat.known().expect("counters")["IpExt"]["OutOctets"].clone();
    assert_eq!(out.why(), Some("negative: it wrapped, or is not a counter"));
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
