//! The ledgers of measured streams: one for each figure, direction and other host, from the figure's own
//! counts and both hosts' counters.

use super::{Ledger, LedgerHost, Offload, ReceiverAccount, SentCounts, Streams, Thread, ledger};
use crate::measure::Measurement;
use crate::measure::streams::{HostCounters, NicAccount, StreamDirection, StreamFigure, StreamsResult};
use linerate_facts::protocol::Protocol;
use serde::{Deserialize, Serialize};

/// A ledger and what it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLedger {
    /// Name of the figure.
    pub measurement: String,
    /// Send: from here.
    pub direction: StreamDirection,
    #[serde(flatten)]
    pub ledger: Ledger,
}

/// Of every figure whose hosts told their counters.
pub fn ledgers(measurements: &[Measurement]) -> Vec<MeasuredLedger> {
    let mut all = Vec::new();
    for measurement in measurements {
        let Some(result) = measurement.streams.as_deref() else { continue };
        let Some(own) = result.counters.iter().find(|host| !host.peer) else { continue };
        if let Some(nic) = &result.at_nic {
            all.push(until_nic(measurement, result, own, nic));
        }
        for peer in result.counters.iter().filter(|host| host.peer) {
            for direction in [StreamDirection::Send, StreamDirection::Receive] {
                let streams = streams_of(result, peer, direction);
                if streams.is_empty() {
                    continue;
                }
                let ledger = of(measurement, result, (own, peer), direction, &streams);
                all.push(MeasuredLedger { measurement: measurement.name.clone(), direction, ledger });
            }
        }
    }
    all
}

/// Nobody receives: what left by the NIC is the last that is counted.
fn until_nic(
    measurement: &Measurement,
    result: &StreamsResult,
    own: &HostCounters,
    nic: &NicAccount,
) -> MeasuredLedger {
    let streams: Vec<&StreamFigure> = result.streams.iter().collect();
    let mut totals = totals(measurement, result, StreamDirection::Send, &streams);
    totals.received.bytes = nic.payload_bytes;
    // To the nearest: the packets of others are in the count, too.
    let each = u64::from(totals.datagram_bytes.max(1));
    totals.received.datagrams = ((nic.payload_bytes + each / 2) / each).min(totals.sent.datagrams);
    let here = end(own, &measurement.cpu_by_core, &streams);
    let mut ledger = ledger(&here, &LedgerHost { host: String::new(), ..LedgerHost::default() }, &totals);
    ledger.lines.retain(|line| line.host == here.host);
    ledger.until_nic = true;
    MeasuredLedger { measurement: measurement.name.clone(), direction: StreamDirection::Send, ledger }
}

/// The streams to or from this host.
fn streams_of<'r>(
    result: &'r StreamsResult,
    peer: &HostCounters,
    direction: StreamDirection,
) -> Vec<&'r StreamFigure> {
    let mine = |stream: &&StreamFigure| stream.direction == direction && peer.paths.contains(&stream.path);
    result.streams.iter().filter(mine).collect()
}

fn of(
    measurement: &Measurement,
    result: &StreamsResult,
    (own, peer): (&HostCounters, &HostCounters),
    direction: StreamDirection,
    streams: &[&StreamFigure],
) -> Ledger {
    let here = end(own, &measurement.cpu_by_core, streams);
    let there =
        end(peer, measurement.receiver.as_ref().map_or(&[][..], |receiver| &receiver.cpu_by_core), streams);
    let totals = totals(measurement, result, direction, streams);
    match direction {
        StreamDirection::Receive => ledger(&there, &here, &totals),
        StreamDirection::Send | StreamDirection::Both => ledger(&here, &there, &totals),
    }
}

fn end(host: &HostCounters, cores: &[crate::measure::CoreUse], streams: &[&StreamFigure]) -> LedgerHost {
    LedgerHost {
        host: host.host.clone(),
        counters: host.counters.clone(),
        // Several paths: the sum of what was read is meant.
        interface: host.interface.clone().filter(|_| host.paths.len() == 1),
        offload: Offload {
            segmented: streams
                .iter()
                .any(|stream| stream.trains > 0 && stream.trains < stream.sent_datagrams),
            coalesced: streams
                .iter()
                .any(|s| s.received_trains > 0 && s.received_trains < s.received_datagrams),
        },
        cores: cores.to_vec(),
    }
}

fn totals(
    measurement: &Measurement,
    result: &StreamsResult,
    direction: StreamDirection,
    streams: &[&StreamFigure],
) -> Streams {
    let sum =
        |of: fn(&StreamFigure) -> u64| streams.iter().map(|stream| of(stream)).fold(0, u64::saturating_add);
    let busiest = streams.iter().max_by(|a, b| a.receiver_cpu_share.total_cmp(&b.receiver_cpu_share));
    let receiving_core = |stream: &StreamFigure| match direction {
        StreamDirection::Receive => stream.core,
        StreamDirection::Send | StreamDirection::Both => stream.peer_core,
    };
    let sent_datagrams = sum(|stream| stream.sent_datagrams);
    let granted =
        streams.iter().map(|stream| stream.buffers.receive_granted_bytes).filter(|bytes| *bytes > 0);
    Streams {
        protocol: measurement.protocol.unwrap_or(Protocol::Tcp),
        ipv6: result.path_mtus.iter().any(|path| path.v6),
        datagram_bytes: sum(|stream| stream.sent_bytes).checked_div(sent_datagrams).unwrap_or(0) as u32,
        seconds: measurement.seconds,
        sent: SentCounts {
            bytes: sum(|stream| stream.sent_bytes),
            datagrams: sent_datagrams,
            trains: sum(|stream| stream.trains),
            refused: sum(|stream| stream.refused_sends),
            too_long: 0,
        },
        received: ReceiverAccount {
            bytes: sum(|stream| stream.received_bytes),
            datagrams: sum(|stream| stream.received_datagrams),
            trains: sum(|stream| stream.received_trains),
            duplicated: sum(|stream| stream.duplicated),
            foreign: sum(|stream| stream.foreign),
            socket_drops: sum(|stream| stream.socket_drops),
            receive_buffer_bytes: granted.min().unwrap_or(0),
            thread: busiest.and_then(|stream| {
                let cpu_seconds = stream.receiver_cpu_share * measurement.seconds;
                Some(Thread { core: receiving_core(stream)?, cpu_seconds })
            }),
        },
    }
}
