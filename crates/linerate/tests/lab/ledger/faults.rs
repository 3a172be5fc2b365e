//! The planted faults.

use super::ground::{CABLE, LedgerTest, TwoHosts};
use linerate::diagnose::ledger::{Layer, Ledger, LedgerLine};

/// The line of a layer of a host that dropped something.
fn dropping(ledger: &Ledger, host: &str, layer: Layer) -> LedgerLine {
    let mut lines = ledger.lines.iter().filter(|line| line.host == host && line.layer == layer);
    lines.find(|line| line.dropped > 0).cloned().unwrap_or_else(|| panic!("{host} {layer} dropped nothing"))
}

/// All is accounted for, by these lines alone.
fn adds_up(ledger: &Ledger, by: &[&LedgerLine]) {
    assert!(ledger.lost_datagrams > 0, "the fault shows");
    assert_eq!((ledger.unaccounted_datagrams, ledger.unaccounted_bytes), (0, 0));
    let all: u64 = ledger.lines.iter().map(|line| line.dropped).sum();
    assert_eq!(all, ledger.lost_datagrams as u64, "the lines add up to the loss");
    assert_eq!(by.iter().map(|line| line.dropped).sum::<u64>(), all, "no other layer dropped");
}

fn names(ledger: &Ledger, id: &str) -> bool {
    ledger.findings.iter().any(|finding| finding.id == id)
}

fn cure(line: &LedgerLine) -> &str {
    line.cure.as_deref().unwrap_or_default()
}

#[test]
fn without_a_fault_every_layer_passes_all() {
    let Some(ground) = TwoHosts::new() else { return };
    for (segmented, coalesced) in [(false, false), (true, false), (true, true)] {
        // Few: all of them fit into the socket's buffer, however slow its reader.
        let test = LedgerTest { segmented, coalesced, datagrams: 4400, ..LedgerTest::default() };
        let ledger = ground.test(&test);
        assert_eq!(
            (ledger.lost_datagrams, ledger.unaccounted_datagrams, ledger.unaccounted_bytes),
            (0, 0, 0)
        );
        assert!(ledger.findings.is_empty() && ledger.others.is_empty(), "{ledger:?}");
        for line in &ledger.lines {
            if let Some(datagrams) = line.datagrams {
                assert_eq!(datagrams, 4400, "{line:?}");
            }
            if let Some(bytes) = line.bytes.filter(|_| line.interface.is_none()) {
                assert_eq!(bytes, 4400 * 1472, "{line:?}");
            }
        }
        let layers: Vec<Layer> = ledger.lines.iter().map(|line| line.layer).collect();
        assert!(layers.starts_with(&[Layer::Application, Layer::Udp, Layer::Ip]), "{layers:?}");
        assert!(layers.ends_with(&[Layer::Ip, Layer::Udp, Layer::Socket, Layer::Application]), "{layers:?}");
    }
}

/// So slow a link overflows anyone who sends: the 59 MB of a test would have to take 23 seconds, and a sender
/// that gets a seventh of a core needs six. A link of 400 Mb/s did not always: such a sender stayed below it.
const SLOW_LINK: &str = "20mbit";
/// The reader's wait after each call, µs: some 300 datagrams a second are taken, which the same sender
/// exceeds twentyfold.
const SLOW_READER: u64 = 50_000;

/// Both hosts with a slow link and a short queue on the sender; none, with a message, where the kernel has no
/// tbf.
fn behind_a_token_bucket() -> Option<TwoHosts> {
    let ground = TwoHosts::new()?;
    let tbf = ["tbf", "rate", SLOW_LINK, "burst", "64kb", "limit", "96kb"];
    if !ground.tc(&[&["qdisc", "add", "dev", CABLE, "root"], &tbf[..]].concat()) {
        println!("skipped: no tbf here");
        return None;
    }
    Some(ground)
}

/// A slow reader with a small buffer.
fn small_buffer() -> LedgerTest {
    LedgerTest { buffer_bytes: 64_000, wait_micros: SLOW_READER, ..LedgerTest::default() }
}

#[test]
fn a_receive_buffer_of_64_kilobytes() {
    let Some(ground) = TwoHosts::new() else { return };
    for (segmented, coalesced) in [(false, false), (true, false), (true, true)] {
        let test = LedgerTest { segmented, coalesced, ..small_buffer() };
        let ledger = ground.test(&test);
        let socket = dropping(&ledger, "b", Layer::Socket);
        adds_up(&ledger, &[&socket]);
        assert!(cure(&socket).contains("net.core.rmem_max"), "{socket:?}");
        assert_eq!(ledger.findings[0].id, "udp-receive-buffer");
    }
}

#[test]
fn a_token_bucket_that_overflows() {
    let Some(ground) = behind_a_token_bucket() else { return };
    for segmented in [false, true] {
        let ledger = ground.test(&LedgerTest { segmented, coalesced: segmented, ..LedgerTest::default() });
        let queue = dropping(&ledger, "a", Layer::Qdisc);
        adds_up(&ledger, &[&queue]);
        assert!(cure(&queue).contains("tbf") && cure(&queue).contains(CABLE), "{queue:?}");
        assert!(names(&ledger, "qdisc-drops"));
        let passed =
            ledger.lines.iter().find(|line| line.layer == Layer::Qdisc).and_then(|line| line.datagrams);
        let arrived = ledger.lines.last().and_then(|line| line.datagrams);
        assert_eq!(passed, arrived, "what the queue let through is what arrived");
    }
}

#[test]
fn a_filter_that_drops_at_the_sender() {
    let Some(ground) = TwoHosts::new() else { return };
    // Direct action: one random number of ten is TC_ACT_SHOT.
    let program = "4,32 0 0 4294963256,53 0 1 3865470566,6 0 0 2,6 0 0 0";
    let planted = ground.tc(&["qdisc", "add", "dev", CABLE, "clsact"])
        && ground.tc(&["filter", "add", "dev", CABLE, "egress", "bpf", "da", "bytecode", program]);
    if !planted {
        println!("skipped: no clsact with BPF here");
        return;
    }
    for segmented in [false, true] {
        let ledger = ground.test(&LedgerTest { segmented, coalesced: segmented, ..LedgerTest::default() });
        let queue = dropping(&ledger, "a", Layer::Qdisc);
        adds_up(&ledger, &[&queue]);
        assert!(cure(&queue).contains("tc filter show"), "{queue:?}");
        assert!(names(&ledger, "qdisc-drops"));
    }
}

#[test]
fn a_short_queue_inside_of_a_shaper() {
    let Some(ground) = TwoHosts::new() else { return };
    let planted = ground.tc(&["qdisc", "add", "dev", CABLE, "root", "handle", "1:", "htb", "default", "10"])
        && ground
            .tc(&["class", "add", "dev", CABLE, "parent", "1:", "classid", "1:10", "htb", "rate", SLOW_LINK])
        && ground
            .tc(&["qdisc", "add", "dev", CABLE, "parent", "1:10", "handle", "10:", "pfifo", "limit", "3"]);
    if !planted {
        println!("skipped: no htb and pfifo here");
        return;
    }
    let ledger = ground.test(&LedgerTest::default());
    let queue = dropping(&ledger, "a", Layer::Qdisc);
    adds_up(&ledger, &[&queue]);
    assert_eq!(queue.drops.len(), 1, "the root's count has the inner one's in it: {queue:?}");
    assert!(cure(&queue).contains("pfifo") && cure(&queue).contains("limit"), "{queue:?}");
}

#[test]
fn an_mtu_of_1500_behind_one_of_9000() {
    let Some(ground) = TwoHosts::new() else { return };
    ground.set_mtu("a", 9000);
    let ledger = ground.test(&LedgerTest { datagram_bytes: 8972, datagrams: 500, ..LedgerTest::default() });
    let wire = dropping(&ledger, "b", Layer::Wire);
    adds_up(&ledger, &[&wire]);
    assert!(cure(&wire).contains("MTU") && wire.drops[0].meaning.contains("1500"), "{wire:?}");
    assert_eq!(ledger.findings[0].id, "mtu-mismatch");
}

#[test]
fn a_sender_whose_own_mtu_is_too_small_is_reported() {
    let Some(ground) = TwoHosts::new() else { return };
    let ledger = ground.test(&LedgerTest {
        datagram_bytes: 8972,
        datagrams: 140,
        segmented: true,
        ..LedgerTest::default()
    });
    assert_eq!((ledger.lost_datagrams, ledger.unaccounted_datagrams), (0, 0));
    assert_eq!(ledger.findings[0].id, "mtu-mismatch");
    assert!(ledger.findings[0].text.contains("EMSGSIZE"), "{:?}", ledger.findings);
}

#[test]
fn datagrams_in_pieces_are_accounted_for() {
    let Some(ground) = TwoHosts::new() else { return };
    let test = LedgerTest { datagram_bytes: 8972, datagrams: 4000, ..small_buffer() };
    let ledger = ground.test(&test);
    let socket = dropping(&ledger, "b", Layer::Socket);
    adds_up(&ledger, &[&socket]);
}

#[test]
fn a_reader_on_a_busy_core() {
    let Some(ground) = TwoHosts::new() else { return };
    let core = std::thread::available_parallelism().map_or(1, usize::from) as u32 - 1;
    // Some 200 MB: a seventeenth of a core cannot take it in time, and the buffer is not the cause.
    let test = LedgerTest {
        datagrams: 200_000,
        segmented: true,
        core: Some(core),
        spinners: 16,
        buffer_bytes: 4 << 20,
        ..LedgerTest::default()
    };
    // The scheduler may favour who slept: then once more.
    let mut ledgers = (0..5).map(|_| ground.test(&test));
    let ledger = ledgers.find(|ledger| ledger.lost_datagrams > 0).expect("a starved reader loses datagrams");
    let socket = dropping(&ledger, "b", Layer::Socket);
    adds_up(&ledger, &[&socket]);
    assert!(cure(&socket).contains("another core"), "{socket:?}");
    assert_eq!(ledger.findings[0].id, "receiver-core-busy");
}

#[test]
fn a_queue_and_a_socket_that_both_drop() {
    let Some(ground) = behind_a_token_bucket() else { return };
    for segmented in [false, true] {
        let test = LedgerTest { segmented, coalesced: segmented, ..small_buffer() };
        let ledger = ground.test(&test);
        let (queue, socket) = (dropping(&ledger, "a", Layer::Qdisc), dropping(&ledger, "b", Layer::Socket));
        adds_up(&ledger, &[&queue, &socket]);
        let passed =
            ledger.lines.iter().find(|line| line.layer == Layer::Qdisc).and_then(|line| line.datagrams);
        assert_eq!(passed, Some(40_000_u64.next_multiple_of(if segmented { 44 } else { 1 }) - queue.dropped));
        assert!(names(&ledger, "qdisc-drops") && names(&ledger, "udp-receive-buffer"));
    }
}
