//! What the kernel counts of the network, as a host tells it: the files of `/proc/net`, rtnetlink's dump of
//! queueing disciplines, and the ledger that is made of them.

use super::Bytes;
use linerate::counters::{NetworkCounters, read};
use linerate::diagnose::ledger::{
    Ledger, LedgerHost, Offload, ReceiverAccount, SentCounts, Streams, drops, ledger,
};
use linerate::protocol::Protocol;
use linerate::sysroot::Sysroot;
use linerate_system::qdisc;
use std::fs;

/// In the order of the input's pieces.
const FILES: [&str; 6] = [
    "proc/net/snmp",
    "proc/net/netstat",
    "proc/net/snmp6",
    "proc/net/softnet_stat",
    "proc/net/dev",
    "sys/class/net/eth0/statistics/rx_dropped",
];

/// Zero bytes part the files; all of the input is a dump, too.
pub fn network_counters(input: &[u8]) {
    dump(input);
    let root = tempfile::Builder::new().prefix("linerate-fuzz-").tempdir().expect("a temporary directory");
    for (file, text) in FILES.iter().zip(input.split(|byte| *byte == 0)).filter(|(_, text)| !text.is_empty())
    {
        let place = root.path().join(file);
        fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        fs::write(place, text).expect("a file of the tree");
    }
    let sysroot = Sysroot::recorded(root.path());
    let first = read(&sysroot, &[]);
    let second = read(&sysroot, &["eth0".into(), "../eth0".into()]);
    for counters in [&first, &second] {
        survives(counters);
        let nothing = counters.since(counters);
        assert!(nothing.count("Udp", "InErrors").is_none_or(|count| count == 0), "a difference to itself");
        for (_, drop) in drops(counters) {
            assert!(drop.counted > 0 && !drop.meaning.is_empty() && !drop.cure.is_empty(), "{drop:?}");
        }
    }
    adds_up(input, first, second);
}

/// A peer's counters come as JSON.
fn survives(counters: &NetworkCounters) {
    let json = serde_json::to_string(counters).expect("counters are JSON");
    assert!(serde_json::from_str::<NetworkCounters>(&json).is_ok_and(|again| again == *counters), "{json}");
}

/// The ledger of any streams over these counters: no line drops more than was lost.
fn adds_up(input: &[u8], first: NetworkCounters, second: NetworkCounters) {
    let mut bytes = Bytes(input);
    let flags = bytes.byte();
    let mut number = || bytes.number() >> (flags & 63);
    let streams = Streams {
        protocol: if flags & 64 == 0 { Protocol::Udp } else { Protocol::Tcp },
        ipv6: flags & 128 != 0,
        datagram_bytes: 1472,
        seconds: 1.0,
        sent: SentCounts { bytes: number(), datagrams: number(), trains: number(), ..SentCounts::default() },
        received: ReceiverAccount {
            bytes: number(),
            datagrams: number(),
            trains: number(),
            ..ReceiverAccount::default()
        },
    };
    let offload = Offload { segmented: flags & 1 != 0, coalesced: flags & 2 != 0 };
    let end = |counters| LedgerHost { counters, offload, ..LedgerHost::default() };
    let made = ledger(&end(first), &end(second), &streams);
    let json = serde_json::to_string(&made).expect("a ledger is JSON");
    assert!(serde_json::from_str::<Ledger>(&json).is_ok(), "{json}");
    if streams.protocol == Protocol::Udp {
        let dropped: u128 = made.lines.iter().map(|line| u128::from(line.dropped)).sum();
        assert!(dropped <= u128::from(made.lost_datagrams.max(0).unsigned_abs()), "{made:?}");
    }
}

/// The kernel's bytes: as many disciplines as there is room for, or an error that has a number.
fn dump(input: &[u8]) {
    let mut found = Vec::new();
    if let Err(error) = qdisc::parse(input, &mut found) {
        assert!(error.raw_os_error().is_some_and(|number| (1..=4095).contains(&number)), "{error}");
    }
    assert!(found.len() <= input.len() / 36 + 1, "{}", found.len());
}
