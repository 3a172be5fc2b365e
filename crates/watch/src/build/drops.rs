//! The loss ledger, live: every counter of drops that is not 0, with its rate, its meaning and its cure
//! (`diagnose::ledger` has the table).
//!
//! Beside it what the protocols count: softnet by core, TCP, and UDP's drops by cause.

use super::Readings;
use crate::model::{DropLine, SoftnetCore, Tcp, Udp};
use crate::sources::{DriverReading, FileReading, NetworkReading};
use linerate_facts::counters::rates::{Elapsed, Width, rounded, sum};
use linerate_facts::counters::{Counters, NetworkCounters, SoftnetCounters};
use linerate_facts::fact::Fact;
use linerate_measure::diagnose::ledger::{Drop, Layer, drops_by_interface};
use std::collections::BTreeMap;
use std::time::Instant;

type Key = (Layer, Option<String>, String);

/// What each counter was when it was read last, with the line made of it.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    protocols: DropSide,
    interfaces: DropSide,
}

#[derive(Debug, Default)]
struct DropSide {
    at: Option<Instant>,
    totals: BTreeMap<Key, u64>,
    lines: Vec<(Layer, DropLine)>,
}

impl Drops {
    /// The lines now, in the order of the layers.
    pub(crate) fn lines(
        &mut self,
        network: Option<&NetworkReading>,
        drivers: Option<&DriverReading>,
        wanted: &[String],
    ) -> Vec<DropLine> {
        if let Some((network, at)) =
            network.and_then(|network| Some((network, network.snmp.as_ref().ok()?.at)))
        {
            self.protocols.take(at, || of_protocols(network));
        }
        if let Some(drivers) = drivers {
            self.interfaces.take(drivers.at, || NetworkCounters {
                interfaces: drivers.interfaces.clone(),
                ..NetworkCounters::default()
            });
        }
        let shown = |line: &&(Layer, DropLine)| {
            wanted.is_empty() || line.1.interface.as_ref().is_none_or(|name| wanted.contains(name))
        };
        let mut all: Vec<&(Layer, DropLine)> =
            self.protocols.lines.iter().chain(&self.interfaces.lines).filter(shown).collect();
        all.sort_by_key(|(layer, _)| *layer);
        all.into_iter().map(|(_, line)| line.clone()).collect()
    }
}

impl DropSide {
    /// A reading that was seen before changes nothing.
    fn take(&mut self, at: Instant, counters: impl FnOnce() -> NetworkCounters) {
        if self.at == Some(at) {
            return;
        }
        let span = self.at.and_then(|before| Elapsed::between(before, at));
        let mut totals = BTreeMap::new();
        let mut lines = Vec::new();
        for (layer, interface, drop) in drops_by_interface(&counters()) {
            let key = (layer, interface.clone(), drop.counter.clone());
            // What was 0 before was in no line.
            let before = self.totals.get(&key).copied().unwrap_or(0);
            let rate = span.and_then(|span| span.rate(before, drop.counted));
            totals.insert(key, drop.counted);
            lines.push((layer, line(layer, interface, drop, rate)));
        }
        *self = DropSide { at: Some(at), totals, lines };
    }
}

fn line(layer: Layer, interface: Option<String>, drop: Drop, per_second: Option<f64>) -> DropLine {
    let unit: &str = drop.unit.into();
    DropLine {
        layer: layer.to_string(),
        interface,
        counter: drop.counter,
        unit: unit.into(),
        per_second,
        total: drop.counted,
        meaning: drop.meaning,
        cure: drop.cure,
    }
}

fn of_protocols(network: &NetworkReading) -> NetworkCounters {
    NetworkCounters {
        snmp: fact(&network.snmp),
        snmp6: fact(&network.snmp6),
        netstat: fact(&network.netstat),
        softnet: fact(&network.softnet),
        ..NetworkCounters::default()
    }
}

fn fact<T: Clone>(read: &FileReading<T>) -> Fact<T> {
    match read {
        Ok(read) => Fact::Known(read.value.clone()),
        Err(why) => Fact::unknown(why),
    }
}

pub(crate) fn softnet(both: &Readings<Vec<SoftnetCounters>>) -> Vec<SoftnetCore> {
    let one = |now: &SoftnetCounters| {
        let before = both
            .before
            .as_ref()
            .and_then(|(before, span)| Some((before.iter().find(|before| before.core == now.core)?, *span)));
        let count = |of: fn(&SoftnetCounters) -> Option<u64>| of(now).unwrap_or(0);
        let rate = |of: fn(&SoftnetCounters) -> Option<u64>| {
            let (before, span) = before?;
            span.rate_of(of(before)?, of(now)?, Width::Bits32)
        };
        SoftnetCore {
            core: now.core,
            processed_per_second: rate(|core| core.processed.known().copied()),
            dropped_per_second: rate(|core| core.dropped.known().copied()),
            squeezed_per_second: rate(|core| core.squeezed.known().copied()),
            flow_limited_per_second: rate(|core| core.flow_limited.known().copied()),
            backlog: now.backlog.known().copied(),
            processed: count(|core| core.processed.known().copied()),
            dropped: count(|core| core.dropped.known().copied()),
            squeezed: count(|core| core.squeezed.known().copied()),
        }
    };
    both.now.iter().map(one).collect()
}

/// A counter of the protocols' files. UDP's are of both IP versions: IPv6 has a file of its own.
fn count(network: &NetworkReading, group: &str, name: &str) -> Option<u64> {
    let known = |counters: &Counters, name: &str| counters.get(name)?.known().copied();
    let file = if group == "TcpExt" { &network.netstat } else { &network.snmp };
    let four = known(file.as_ref().ok()?.value.get(group)?, name)?;
    let six = match group {
        "Udp" => network.snmp6.as_ref().ok().and_then(|file| known(&file.value, &format!("Udp6{name}"))),
        _ => None,
    };
    Some(four.saturating_add(six.unwrap_or(0)))
}

pub(crate) fn tcp_and_udp(before: Option<&NetworkReading>, now: &NetworkReading) -> (Tcp, Udp) {
    let span =
        before.and_then(|before| Elapsed::between(before.snmp.as_ref().ok()?.at, now.snmp.as_ref().ok()?.at));
    let total = |group: &str, name: &str| count(now, group, name);
    let rate =
        |group: &str, name: &str| span?.rate_known(count(before?, group, name), count(now, group, name));
    let (sent, again) = (rate("Tcp", "OutSegs"), rate("Tcp", "RetransSegs"));
    let tcp = Tcp {
        // A state, and no counter.
        established: total("Tcp", "CurrEstab"),
        segments_in_per_second: rate("Tcp", "InSegs"),
        segments_out_per_second: sent,
        retransmits_per_second: again,
        // The kernel counts what it sends again among the segments sent.
        retransmit_share: sent
            .zip(again)
            .filter(|(sent, _)| *sent > 0.0)
            .map(|(sent, again)| rounded(again / sent)),
        timeouts_per_second: rate("TcpExt", "TCPTimeouts"),
        resets_out_per_second: rate("Tcp", "OutRsts"),
        errors_in_per_second: rate("Tcp", "InErrs"),
        listen_overflows_per_second: rate("TcpExt", "ListenOverflows"),
        zero_windows_per_second: rate("TcpExt", "TCPToZeroWindowAdv"),
        pruned_per_second: sum([rate("TcpExt", "PruneCalled"), rate("TcpExt", "TCPRcvCollapsed")]),
        retransmits: total("Tcp", "RetransSegs"),
        segments_in: total("Tcp", "InSegs"),
        segments_out: total("Tcp", "OutSegs"),
    };
    let causes = ["RcvbufErrors", "InCsumErrors", "MemErrors"].map(|name| rate("Udp", name));
    let known = sum(causes).unwrap_or(0.0);
    let udp = Udp {
        datagrams_in_per_second: rate("Udp", "InDatagrams"),
        datagrams_out_per_second: rate("Udp", "OutDatagrams"),
        receive_buffer_drops_per_second: causes[0],
        send_buffer_drops_per_second: rate("Udp", "SndbufErrors"),
        checksum_drops_per_second: causes[1],
        memory_drops_per_second: causes[2],
        no_port_per_second: rate("Udp", "NoPorts"),
        // `InErrors` has all the others in it.
        other_drops_per_second: rate("Udp", "InErrors").map(|all| rounded((all - known).max(0.0))),
        datagrams_in: total("Udp", "InDatagrams"),
        datagrams_out: total("Udp", "OutDatagrams"),
    };
    (tcp, udp)
}
