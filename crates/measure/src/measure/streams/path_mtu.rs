//! What a path carries in one packet, found by sending: datagrams that nobody may cut (DF), of ever better
//! sizes, and the receiver tells which came (as RFC 8899 does, since the ICMP messages of RFC 1191 are often
//! filtered).

use super::StreamBench;
use super::job::{StreamDirection, StreamsJob};
use super::open::{self, Connected};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::PathPlan;
use linerate_system::clock;
use linerate_system::socket::forbid_fragments;
use linerate_system::socket::udp_headers;
use linerate_system::stop::Stop;
use linerate_transport::flow::stream::{
    Content, SendMethod, StreamCounters, StreamSocket, is_too_large, run,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Every link carries this much (RFC 791: 576, RFC 8200: 1280).
const LEAST_V4: u32 = 576;
const LEAST_V6: u32 = 1280;
/// The length field of IP has 16 bits.
const MOST_BYTES: u32 = 65_535;
/// Datagrams of one try: one may be lost by chance.
const DATAGRAMS: u64 = 4;
/// They have arrived by then, or will not.
const ARRIVAL: Duration = Duration::from_millis(250);
/// Bounds closer than this are found.
const RESOLUTION: u32 = 4;

/// One path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// `eth0`.
    pub path: String,
    /// What our interface and the peer's say, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs_bytes: Option<u32>,
    /// The largest packet that arrived, with its IP header; none: not even the smallest did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_bytes: Option<u32>,
    /// Larger packets vanish and nobody says so: TCP would hang where its segments are larger.
    pub black_hole: bool,
    /// The peer's address is one of IPv6.
    pub v6: bool,
}

impl PathMtu {
    /// What the ends' interfaces would allow, and IP can say (loopback has an MTU of 65,536).
    pub(crate) fn declared_bytes(&self) -> Option<u32> {
        [self.ours_bytes, self.theirs_bytes].into_iter().flatten().min().map(|bytes| bytes.min(MOST_BYTES))
    }

    /// Less arrives than the interfaces allow.
    pub fn smaller_than_declared(&self) -> bool {
        self.found_bytes.zip(self.declared_bytes()).is_some_and(|(found, declared)| found < declared)
    }

    /// Payload of a datagram that is one packet.
    pub fn datagram_bytes(&self) -> Option<u32> {
        Some(self.found_bytes? - udp_headers(self.v6))
    }
}

/// Finds it for every path.
pub(crate) fn find_path_mtus(bench: &mut StreamBench<'_>) -> Vec<PathMtu> {
    let mut found = Vec::new();
    for path in 0..bench.paths.len() {
        if bench.stopped() {
            break;
        }
        found.extend(find(bench, path));
    }
    found
}

/// None where no datagram could be sent at all: that is shown by the figures.
fn find(bench: &mut StreamBench<'_>, path: usize) -> Option<PathMtu> {
    let PathPlan { name, mtu, peer_mtu, peer, .. } = bench.paths[path].clone();
    let mut result = PathMtu {
        path: name,
        ours_bytes: mtu.known().copied(),
        theirs_bytes: peer_mtu.known().copied(),
        v6: peer.is_ipv6(),
        ..PathMtu::default()
    };
    let least = if result.v6 { LEAST_V6 } else { LEAST_V4 };
    let declared = result.declared_bytes().unwrap_or(1500).max(least);
    let mut arrives = |bytes: u32| try_size(bench, path, bytes - udp_headers(peer.is_ipv6()));
    if arrives(declared)? == Fate::Arrived {
        result.found_bytes = Some(declared);
        return Some(result);
    }
    let (mut good, mut bad) = (None, declared);
    // What most links that are smaller than that carry, before halving.
    for bytes in [8996, 1500, 1492, 1400, least] {
        if bytes < bad {
            if arrives(bytes)? == Fate::Arrived {
                good = Some(bytes);
                break;
            }
            bad = bytes;
        }
    }
    while let Some(low) = good.filter(|low| bad - low > RESOLUTION) {
        let middle = low + (bad - low) / 2;
        if arrives(middle)? == Fate::Arrived { good = Some(middle) } else { bad = middle }
    }
    result.found_bytes = good;
    result.black_hole = arrives(declared)? == Fate::Vanished;
    Some(result)
}

/// What became of datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrived,
    /// The kernel refused to send them: our interface is smaller, or a router told so (ICMP).
    Refused,
    /// They were sent, and did not arrive.
    Vanished,
}

/// Sends some datagrams with this payload; none where the stream could not be opened, or the run was stopped.
fn try_size(bench: &mut StreamBench<'_>, path: usize, datagram_bytes: u32) -> Option<Fate> {
    let job = StreamsJob {
        path: Some(path),
        datagram_bytes: Some(datagram_bytes),
        method: SendMethod::Datagrams,
        bytes_per_second: Some(1e6),
        ..StreamsJob::plain(Protocol::Udp, StreamDirection::Send)
    };
    let mut wanted = open::wanted(bench, &job);
    wanted
        .iter_mut()
        .for_each(|wanted| wanted.spec.limit_bytes = Some(DATAGRAMS * u64::from(datagram_bytes)));
    let (connected, _) = open::open(bench, &job, wanted);
    let Some(Connected { wanted, socket }) = connected.into_iter().next() else {
        let _ = bench.sessions[path].close();
        return None;
    };
    let refused = send_whole(&wanted.spec, socket, bench.stop);
    let fate = if refused { Fate::Refused } else { await_arrival(bench, path) };
    let _ = bench.sessions[path].close();
    // Cut short it says nothing of the path.
    (!bench.stopped()).then_some(fate)
}

/// Sends without fragments; true where the kernel refuses the size.
fn send_whole(
    spec: &linerate_transport::flow::stream::StreamSpec,
    socket: StreamSocket,
    stop: &Stop,
) -> bool {
    if let StreamSocket::Udp { socket, .. } = &socket
        && forbid_fragments(socket).is_err()
    {
        return false;
    }
    let counters = StreamCounters::new(clock::now());
    let sent = run(spec, socket, Content::Memory, &counters, stop);
    sent.is_err_and(|error| is_too_large(&error))
}

fn await_arrival(bench: &StreamBench<'_>, path: usize) -> Fate {
    let patience = clock::now() + ARRIVAL;
    loop {
        let sample = bench.sessions[path].sample().ok();
        let stream = sample.as_ref().and_then(|sample| sample.streams.first());
        if stream.is_some_and(|stream| stream.datagrams > 0) {
            return Fate::Arrived;
        }
        if clock::now() > patience || bench.stopped() {
            return Fate::Vanished;
        }
        bench.stop.wait(Duration::from_millis(5));
    }
}
