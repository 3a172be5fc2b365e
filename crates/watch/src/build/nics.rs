//! Interfaces: both ways, on the scale of their links, with their queues and what their drivers count of
//! losses.

use super::{Readings, queues};
use crate::model::{IrqLine, NamedCounter, NicDirection, NicRates};
use crate::sources::{Details, DriverReading};
use linerate_facts::counters::NicCounters;
use linerate_facts::counters::rates::{Elapsed, rounded};
use linerate_facts::counters::{Counters, InterfaceCounters};
use linerate_facts::fact::Fact;
use linerate_facts::natural_order::in_order;
use linerate_machine::probe::NicLink;
use std::collections::BTreeSet;

/// Preamble, start, checksum and gap of each frame, which the interface does not count (IEEE 802.3).
const FRAME_BYTES: f64 = 24.0;
/// Words in the names of drivers' counters that tell of a loss, or of what leads to one.
const LOSSES: [&str; 12] = [
    "drop",
    "err",
    "discard",
    "miss",
    "pause",
    "no_buf",
    "nobuf",
    "out_of_buffer",
    "overrun",
    "fifo",
    "crc",
    "timeout",
];
/// Lines of one interface's driver.
const MOST_NAMED: usize = 64;

/// Two readings of the drivers.
pub(crate) type DriverPair<'a> = (Option<&'a DriverReading>, Option<&'a DriverReading>);

pub(crate) fn nics(
    both: &Readings<Vec<NicCounters>>,
    drivers: DriverPair,
    irqs: &[IrqLine],
    details: &Details,
    wanted: &[String],
) -> Vec<NicRates> {
    let shown = |nic: &&NicCounters| match wanted.is_empty() {
        true => nic.name != "lo",
        false => wanted.contains(&nic.name),
    };
    let mut found: Vec<NicRates> =
        both.now.iter().filter(shown).map(|now| nic(both, now, drivers, irqs, details)).collect();
    found.sort_by(|a, b| in_order(&a.name, &b.name));
    found
}

fn nic(
    both: &Readings<Vec<NicCounters>>,
    now: &NicCounters,
    drivers: DriverPair,
    irqs: &[IrqLine],
    details: &Details,
) -> NicRates {
    // By name and index: a name that went to another interface is a new interface.
    let before = both.before.as_ref().and_then(|(before, span)| {
        let same = |other: &&NicCounters| other.name == now.name && other.index == now.index;
        Some((before.iter().find(same)?, *span))
    });
    let link = details.nics.get(&now.name);
    let speed = link.map_or(Fact::unknown("not looked at yet"), |link| link.speed_bits_per_second.clone());
    let speed = speed.map(|bits| bits as f64);
    let receive: fn(&NicCounters) -> [u64; 4] =
        |nic| [nic.rx_bytes, nic.rx_packets, nic.rx_dropped, nic.rx_errors];
    let send: fn(&NicCounters) -> [u64; 4] =
        |nic| [nic.tx_bytes, nic.tx_packets, nic.tx_dropped, nic.tx_errors];
    let way = |counters: fn(&NicCounters) -> [u64; 4]| {
        way(counters(now), before.map(|(before, span)| (counters(before), span)), speed.known().copied())
    };
    let driver = Driver::of(drivers, &now.name);
    NicRates {
        name: now.name.clone(),
        driver: link.and_then(|link| link.driver.known().cloned()),
        carrier: link.and_then(|link| link.carrier),
        up: link.and_then(up),
        receive: way(receive),
        send: way(send),
        queues: queues::queues(&now.name, driver.as_ref(), irqs),
        ethtool: driver.map(|driver| driver.losses()).unwrap_or_default(),
        built_on: built_on(&now.name, details),
        link_bits_per_second: speed,
        measured_bits_per_second: None,
    }
}

/// By its own links and by those of its members, whichever the kernel shows.
fn built_on(name: &str, details: &Details) -> Vec<String> {
    let members = details.nics.iter().filter(|(_, nic)| nic.master.as_deref() == Some(name));
    let own = details.nics.get(name).into_iter().flat_map(|nic| &nic.lower);
    let all: BTreeSet<&String> = members.map(|(member, _)| member).chain(own).collect();
    all.into_iter().cloned().collect()
}

/// Virtual interfaces have `unknown` while they are up.
fn up(link: &NicLink) -> Option<bool> {
    link.state.known().map(|state| matches!(state.as_str(), "up" | "unknown"))
}

fn way(now: [u64; 4], before: Option<([u64; 4], Elapsed)>, speed: Option<f64>) -> NicDirection {
    let rate = |index: usize| before.and_then(|(before, span)| span.rate(before[index], now[index]));
    let (bytes, packets) = (rate(0), rate(1));
    let on_the_wire = bytes.zip(packets).map(|(bytes, packets)| (bytes + packets * FRAME_BYTES) * 8.0);
    NicDirection {
        bytes_per_second: bytes,
        bits_per_second: bytes.map(|bytes| rounded(bytes * 8.0)),
        packets_per_second: packets,
        drops_per_second: rate(2),
        errors_per_second: rate(3),
        share_of_link: on_the_wire
            .zip(speed)
            .filter(|(_, speed)| *speed > 0.0)
            .map(|(bits, speed)| rounded(bits / speed)),
        bytes: now[0],
        packets: now[1],
        drops: now[2],
        errors: now[3],
    }
}

/// What one interface's driver counted, now and before.
pub(crate) struct Driver<'a> {
    now: &'a Counters,
    before: Option<(&'a Counters, Elapsed)>,
}

impl<'a> Driver<'a> {
    fn of((before, now): DriverPair<'a>, name: &str) -> Option<Self> {
        let now = now?;
        let own =
            |interface: &'a InterfaceCounters| (interface.name == name).then_some(interface.driver.known()?);
        let counters = now.interfaces.iter().find_map(own)?;
        let before = before.and_then(|before| {
            Some((before.interfaces.iter().find_map(own)?, Elapsed::between(before.at, now.at)?))
        });
        Some(Driver { now: counters, before })
    }

    /// All that are not 0, with their rates.
    pub(crate) fn rates(&self) -> impl Iterator<Item = NamedCounter> + '_ {
        self.now.iter().filter_map(|(name, value)| {
            let total = *value.known()?;
            // Those of 0 are not kept: what is missing before was 0.
            let rate = self.before.and_then(|(before, span)| {
                let earlier = before.get(name).map_or(Some(0), |value| value.known().copied())?;
                span.rate(earlier, total)
            });
            Some(NamedCounter { name: name.clone(), per_second: rate, total })
        })
    }

    /// Those of losses, the fastest first.
    fn losses(&self) -> Vec<NamedCounter> {
        let tells = |name: &str| {
            let name = name.to_ascii_lowercase();
            LOSSES.iter().any(|word| name.contains(word))
        };
        let mut found: Vec<NamedCounter> = self.rates().filter(|one| tells(&one.name)).collect();
        found.sort_by(|a, b| {
            let rate = |one: &NamedCounter| one.per_second.unwrap_or(0.0);
            rate(b).total_cmp(&rate(a)).then(b.total.cmp(&a.total)).then_with(|| a.name.cmp(&b.name))
        });
        found.truncate(MOST_NAMED);
        found
    }
}
