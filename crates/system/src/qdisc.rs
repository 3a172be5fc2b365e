//! Queueing disciplines of all interfaces and what they count (RTM_GETQDISC over rtnetlink,
//! `net/sched/sch_api.c`): what `tc -s qdisc` shows. A question that needs no privilege. Of the network
//! namespace of the process.

pub use super::netlink::Dump;
use super::netlink::{attributes, dump, messages, u32_at, u64_at};
use std::io;

/// `parent` of an interface's outermost discipline (TC_H_ROOT).
pub const ROOT: u32 = 0xffff_ffff;
/// `parent` of `ingress` and `clsact` (TC_H_INGRESS).
pub const INGRESS: u32 = 0xffff_fff1;

/// One discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the interface.
    pub interface: i32,
    /// Major number in the upper half; 0 for those that the kernel put there by itself.
    pub handle: u32,
    /// [`ROOT`], [`INGRESS`], or a class.
    pub parent: u32,
    /// `pfifo_fast`, `tbf`, …
    pub kind: String,
    /// Bytes that passed.
    pub bytes: Option<u64>,
    /// Packets that passed: segments of trains.
    pub packets: Option<u64>,
    pub queue: Option<QdiscQueue>,
}

/// `struct gnet_stats_queue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscQueue {
    /// Waiting now.
    pub packets: u32,
    /// Waiting now.
    pub bytes: u32,
    pub drops: u32,
    pub requeues: u32,
    pub overlimits: u32,
}

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`.
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
/// A server with 128 queues on each of 16 cards has 2,000.
const MOST: usize = 65_536;

/// All of them.
pub fn read() -> io::Result<Vec<Qdisc>> {
    let mut found = Vec::new();
    // NETLINK_ROUTE is protocol 0; a tcmsg that names nothing: all interfaces.
    dump(None, RTM_GETQDISC, &[0; TCMSG_BYTES], |datagram| parse(datagram, &mut found))?;
    Ok(found)
}

/// Takes what one datagram of a dump holds. What is cut short or of another kind is left out; an error that
/// the kernel tells is one.
pub fn parse(datagram: &[u8], found: &mut Vec<Qdisc>) -> io::Result<Dump> {
    messages(datagram, RTM_NEWQDISC, |body| {
        if found.len() < MOST {
            found.extend(qdisc(body));
        }
    })
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let mut found = Qdisc {
        interface: u32_at(body, 4)? as i32,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        ..Qdisc::default()
    };
    for (kind, value) in attributes(body.get(TCMSG_BYTES..)?) {
        match kind {
            TCA_KIND => {
                let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
                found.kind = String::from_utf8_lossy(&value[..end]).into_owned();
            }
            TCA_STATS2 => statistics(value, &mut found),
            _ => {}
        }
    }
    Some(found)
}

fn statistics(nested: &[u8], qdisc: &mut Qdisc) {
    let mut packets64 = None;
    for (kind, value) in attributes(nested) {
        match kind {
            // struct gnet_stats_basic: u64 bytes, u32 packets.
            TCA_STATS_BASIC => {
                qdisc.bytes = u64_at(value, 0);
                qdisc.packets = u32_at(value, 8).map(u64::from);
            }
            // Only where more than 2³² packets passed, before 5.x never.
            TCA_STATS_PKT64 => packets64 = u64_at(value, 0),
            TCA_STATS_QUEUE => qdisc.queue = queue(value),
            _ => {}
        }
    }
    qdisc.packets = packets64.or(qdisc.packets);
}

fn queue(value: &[u8]) -> Option<QdiscQueue> {
    Some(QdiscQueue {
        packets: u32_at(value, 0)?,
        bytes: u32_at(value, 4)?,
        drops: u32_at(value, 8)?,
        requeues: u32_at(value, 12)?,
        overlimits: u32_at(value, 16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::HEAD_BYTES;
    use crate::netlink::made::{attribute, done, error, message};
    use proptest::prelude::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_token_bucket_with_drops() {
        let basic = [&5_000_000_000u64.to_ne_bytes()[..], &7u32.to_ne_bytes()].concat();
        let nested = [
            attribute(TCA_STATS_BASIC, &basic),
            attribute(TCA_STATS_PKT64, &4_294_967_303u64.to_ne_bytes()),
            attribute(TCA_STATS_QUEUE, &words(&[1, 1500, 42, 3, 99])),
        ]
        .concat();
        let mut body = words(&[0, 2, 0x8001_0000, ROOT, 2]);
        body.extend(attribute(TCA_KIND, b"tbf\0"));
        body.extend(attribute(2, &[0; 36]));
        body.extend(attribute(TCA_STATS2 | 0x8000, &nested));
        let mut datagram = message(RTM_NEWQDISC, &body);
        datagram.extend(done());
        let mut found = Vec::new();
        assert_eq!(parse(&datagram, &mut found).expect("a dump"), Dump::Ended);
        let queue = QdiscQueue { packets: 1, bytes: 1500, drops: 42, requeues: 3, overlimits: 99 };
        let expected = Qdisc {
            interface: 2,
            handle: 0x8001_0000,
            parent: ROOT,
            kind: "tbf".into(),
            bytes: Some(5_000_000_000),
            packets: Some(4_294_967_303),
            queue: Some(queue),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn an_error_of_the_kernel_is_reported() {
        let error = parse(&error(-1), &mut Vec::new()).expect_err("EPERM");
        assert_eq!(crate::Errno::from_io_error(&error), Some(crate::Errno::PERM));
    }

    #[test]
    fn the_live_ones() {
        let found = read().expect("a dump needs no privilege");
        assert!(found.iter().all(|qdisc| qdisc.interface > 0 && !qdisc.kind.is_empty()), "{found:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left_out(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut found = Vec::new();
            let _ = parse(&bytes, &mut found);
            let _ = parse(&message(RTM_NEWQDISC, &bytes), &mut found);
            prop_assert!(found.len() <= 2 + bytes.len() / HEAD_BYTES);
        }
    }
}
