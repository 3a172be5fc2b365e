use super::*;
use proptest::prelude::*;

/// D1.3, section 12, as it is printed there.
const NETSTAT_OF_2010: &str = "Ip:\n 94923448 total packets received\n 273 outgoing packets dropped\n \
    74733541 requests sent out\n 1952857 fragments failed\nIcmp:\nICMP input histogram:\n destination unreachable: 423\n\
    Tcp:\n  51102689 segments send out\n  604892 segments retransmitted\n  182 bad segments received.\nUdp:\n  \
    5269 packets received\n  SndbufErrors: 2\nTcpExt:\n  786 other TCP timeouts\nIpExt:\n  OutOctets: -812905527\n";

#[test]
fn sentences_of_netstat_are_the_kernels_names() {
    let counters = netstat(NETSTAT_OF_2010).expect("counters");
    for (group, name, count) in [
        ("Ip", "FragFails", 1_952_857),
        ("Ip", "OutDiscards", 273),
        ("Tcp", "OutSegs", 51_102_689),
        ("Tcp", "RetransSegs", 604_892),
        ("Tcp", "InErrs", 182),
        ("Udp", "SndbufErrors", 2),
        ("Udp", "InDatagrams", 5269),
        ("TcpExt", "TCPTimeouts", 786),
    ] {
        assert_eq!(counters.count(group, name), Some(count), "{group} {name}");
    }
    assert_eq!(counters.count("IpExt", "OutOctets"), None, "it wrapped");
    assert_eq!(netstat("Ip:\n"), None);
}

#[test]
fn nstat_as_text_and_as_json() {
    let text = "#kernel\nTcpRetransSegs  12  0.0\nTcpExtTCPTimeouts 3 0.0\nUdp6InErrors 4 0.0\nIcmpMsgInType3 1 0.0\n";
    let json =
        r#"{"kernel":{"TcpRetransSegs":12,"TcpExtTCPTimeouts":3,"Udp6InErrors":4,"IcmpMsgInType3":1}}"#;
    for listing in [text, json] {
        let counters = nstat(listing).expect("counters");
        assert_eq!(counters.count("Tcp", "RetransSegs"), Some(12));
        assert_eq!(counters.count("TcpExt", "TCPTimeouts"), Some(3));
        assert_eq!(counters.count6("Udp6InErrors"), Some(4));
    }
    assert_eq!(nstat("{"), None);
}

#[test]
fn disciplines_and_links() {
    let tc = "qdisc mq 0: dev eth0 root \n Sent 1444641 bytes 16503 pkt (dropped 7, overlimits 1 requeues 2) \n \
        backlog 0b 0p requeues 2\nqdisc fq 8001: dev eth0 parent :1 limit 10p\n Sent 9 bytes 8 pkts (dropped 7, overlimits 0 \
        requeues 0)\nqdisc clsact ffff: dev eth1 parent ffff:fff1\n";
    let counters = tc_qdiscs(tc).expect("disciplines");
    let eth0 = counters.interface("eth0").and_then(|one| one.qdiscs.known()).expect("disciplines");
    assert_eq!((eth0[0].kind.as_str(), eth0[0].parent.as_str()), ("mq", "root"));
    assert_eq!((&eth0[0].drops, &eth0[0].packets), (&Fact::Known(7), &Fact::Known(16_503)));
    let ip = "2: eth0@if9: <BROADCAST,UP> mtu 9000 qdisc mq state UP\n    link/ether 02:00:00:00:00:01\n    RX:  bytes packets \
        errors dropped  missed   mcast\n   3193 29 0 5 17 0\n    RX errors:  length crc frame fifo overrun\n  1 2 3 4 5\n    TX:  \
        bytes packets errors dropped carrier collsns\n  11 12 0 13 0 0\n1: lo: <UP> mtu 65536\n    RX: bytes\n  1\n";
    let counters = ip_links(ip).expect("links");
    assert_eq!(counters.interfaces.len(), 1);
    let eth0 = &counters.interfaces[0];
    for (name, count) in [
        ("rx_bytes", 3193),
        ("rx_dropped", 5),
        ("rx_missed_errors", 17),
        ("rx_crc_errors", 2),
        ("tx_dropped", 13),
    ] {
        assert_eq!(eth0.count(name), Some(count), "{name}");
    }
    assert_eq!(eth0.mtu, Fact::Known(9000));
}

#[test]
fn names_of_drivers_have_blanks_and_brackets() {
    let text = "NIC statistics:\n     rx_packets: 5\n     [0]: rx_discards: 7\n     rxq0: rx_drops_no_frags: 0\n  bad: x\n";
    let counters = driver_counters("eth0", text).expect("counters");
    let driver = counters.interfaces[0].driver.known().expect("counters");
    assert_eq!(driver.get("[0]: rx_discards"), Some(&Fact::Known(7)));
    assert_eq!(driver.len(), 2, "what is 0 is left out");
    assert_eq!(driver_counters("eth0", "nothing"), None);
}

#[test]
fn two_listings_of_one_tool_are_a_difference_and_two_tools_are_not() {
    let at = |retransmitted: u64| {
        netstat(&format!("Tcp:\n    {retransmitted} segments retransmitted\n")).expect("counters")
    };
    let by_nstat = nstat("TcpRetransSegs 70 0.0\n").expect("counters");
    let once = over_time(&[("netstat", at(50)), ("nstat", by_nstat.clone())]);
    assert_eq!(once.since_boot.count("Tcp", "RetransSegs"), Some(50));
    assert_eq!(once.between, NetworkCounters::default());
    let eth0 = driver_counters("eth0", "rx_discards_phy: 4\n").expect("counters");
    let twice = over_time(&[("netstat", at(50)), ("ethtool -S", eth0), ("netstat", at(80))]);
    assert_eq!(twice.between.count("Tcp", "RetransSegs"), Some(30));
    assert_eq!(twice.since_boot.count("Tcp", "RetransSegs"), None);
    assert!(twice.since_boot.interface("eth0").is_some(), "listed once");
    let backwards = over_time(&[("netstat", at(80)), ("netstat", at(50))]);
    assert_eq!(backwards.between.count("Tcp", "RetransSegs"), None, "it went back");
}

#[test]
fn connections_say_what_they_waited_for() {
    let text = "State Recv-Q Send-Q\nESTAB 0 0 192.0.2.2:1 192.0.2.3:2\n\t cubic rto:204 bytes_sent:1000 bytes_retrans:25 \
        rwnd_limited:260ms(80.2%) sndbuf_limited:1ms(0.1%)\nESTAB 0 0 192.0.2.2:3 192.0.2.3:4 cubic rto:204 bytes_sent:1000 \
        sndbuf_limited:9ms(55%)\n";
    let all = ss_sockets(text).expect("connections");
    assert_eq!((all.connections, all.sent_bytes, all.retransmitted_bytes), (2, 2000, 25));
    assert_eq!((all.by_receiver, all.by_send_buffer), ((1, 0.802), (1, 0.55)));
    assert_eq!(ss_sockets("State Recv-Q\n"), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_left_out(
        text in "((Ip|Tcp|RX|TX|qdisc|[0-9]{1,20}|2: eth0: <UP> mtu|Sent|bytes|segments|dropped|:|é) ?\n?){0,40}|.{0,200}",
    ) {
        let all = [netstat(&text), nstat(&text), tc_qdiscs(&text), ip_links(&text), driver_counters("eth0", &text)];
        let listings: Vec<(&str, NetworkCounters)> = all.into_iter().flatten().map(|one| ("a tool", one)).collect();
        let counted = over_time(&listings);
        prop_assert!(counted.is_empty() || !listings.is_empty());
    }
}
