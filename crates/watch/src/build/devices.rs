//! What a moment says of devices. Interfaces: both ways, on the scale of their links, with their queues and what their
//! drivers count of losses; PCIe links that changed since the watch began, or run below what they could. Disks: rates,
//! depth and latency from two readings of `/proc/diskstats`, as iostat computes them.

use super::Readings;
use super::queues::{self, Driver, DriverPair};
use crate::model::{DiskRates, DiskWay, IrqLine, NicDirection, NicRates, PcieLink};
use crate::sources::{Details, LinkNow};
use linerate_facts::counters::rates::{Elapsed, Width, rounded};
use linerate_facts::counters::{DiskCounters, NicCounters};
use linerate_facts::fact::Fact;
use linerate_facts::host::{DeviceUse, FRAME_BYTES};
use linerate_facts::wording::in_order;
use linerate_machine::probe::{NicLink, PciLink};
use std::collections::{BTreeMap, BTreeSet};

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
    let rates = |counters: fn(&NicCounters) -> [u64; 4]| {
        nic_rates(
            counters(now),
            before.map(|(before, span)| (counters(before), span)),
            speed.known().copied(),
        )
    };
    let driver = Driver::of(drivers, &now.name);
    NicRates {
        name: now.name.clone(),
        driver: link.and_then(|link| link.driver.known().cloned()),
        carrier: link.and_then(|link| link.carrier),
        up: link.and_then(up),
        receive: rates(receive),
        send: rates(send),
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

fn nic_rates(now: [u64; 4], before: Option<([u64; 4], Elapsed)>, speed: Option<f64>) -> NicDirection {
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

/// How each link was at first, and when it changed last.
#[derive(Debug, Default)]
pub(crate) struct Links {
    seen: BTreeMap<String, LinkReading>,
}

#[derive(Clone, Copy, Debug)]
struct LinkReading {
    first: PciLink,
    now: PciLink,
    changed_at_ms: Option<i64>,
}

impl Links {
    /// The links to be shown.
    pub(crate) fn lines(&mut self, links: &[LinkNow], at_ms: i64) -> Vec<PcieLink> {
        links.iter().filter_map(|link| self.line(link, at_ms)).collect()
    }

    fn line(&mut self, link: &LinkNow, at_ms: i64) -> Option<PcieLink> {
        let new = LinkReading { first: link.runs, now: link.runs, changed_at_ms: None };
        let seen = self.seen.entry(link.address.clone()).or_insert(new);
        if seen.now != link.runs {
            (seen.now, seen.changed_at_ms) = (link.runs, Some(at_ms));
        }
        (link.below || seen.changed_at_ms.is_some()).then(|| PcieLink {
            address: link.address.clone(),
            device: (!link.devices.is_empty()).then(|| link.devices.join(", ")),
            gigatransfers_per_second: link.runs.gt_per_second,
            width: link.runs.width,
            best_gigatransfers_per_second: link.able.gt_per_second,
            best_width: link.able.width,
            was: seen.changed_at_ms.map(|_| seen.first.to_string()),
            changed_at_ms: seen.changed_at_ms,
        })
    }
}

/// Whole disks, or those that were asked for. One that can hold nothing (an unused loop device) is left out.
pub(crate) fn disks(
    both: &Readings<Vec<DiskCounters>>,
    details: &Details,
    wanted: &[String],
    best: &mut BTreeMap<String, f64>,
) -> Vec<DiskRates> {
    let shown = |disk: &&DiskCounters| match wanted.is_empty() {
        true => !is_partition(details, &disk.name) && !is_unused(details, disk),
        false => wanted.contains(&disk.name),
    };
    let mut found: Vec<DiskRates> =
        both.now.iter().filter(shown).map(|now| disk(both, now, details, best)).collect();
    found.sort_by(|a, b| in_order(&a.name, &b.name));
    found
}

fn is_partition(details: &Details, name: &str) -> bool {
    details.disks.get(name).is_some_and(|disk| disk.partition)
}

fn is_unused(details: &Details, disk: &DiskCounters) -> bool {
    match details.disks.get(&disk.name).and_then(|details| details.size_bytes) {
        Some(bytes) => bytes == 0,
        None => disk.reads == 0 && disk.writes == 0,
    }
}

fn disk(
    both: &Readings<Vec<DiskCounters>>,
    now: &DiskCounters,
    details: &Details,
    best: &mut BTreeMap<String, f64>,
) -> DiskRates {
    let before = both.before.as_ref().and_then(|(before, span)| {
        let before = before.iter().find(|disk| disk.name == now.name)?;
        // A disk that was taken out and another put in under its name began again: none of its counters has a
        // rate.
        Some((before, *span, DeviceUse::between(before, now, *span)?))
    });
    let used = before.as_ref().map(|(_, _, used)| used);
    let before = before.as_ref().map(|(before, span, _)| (*before, *span));
    let known = details.disks.get(&now.name);
    let sides: [fn(&DiskCounters) -> [u64; 4]; 3] = [
        |disk| [disk.reads, disk.reads_merged, disk.read_bytes, disk.read_ms],
        |disk| [disk.writes, disk.writes_merged, disk.written_bytes, disk.write_ms],
        |disk| [disk.discards, disk.discards_merged, disk.discarded_bytes, disk.discard_ms],
    ];
    let [read, write, discard] =
        sides.map(|side| disk_rates(side(now), before.map(|(before, span)| (side(before), span))));
    let moved = read.bytes_per_second.zip(write.bytes_per_second).map(|(read, write)| read + write);
    if let Some(moved) = moved {
        let best = best.entry(now.name.clone()).or_insert(0.0);
        *best = best.max(moved);
    }
    DiskRates {
        name: now.name.clone(),
        model: known.and_then(|known| known.model.clone()),
        size_bytes: known.and_then(|known| known.size_bytes),
        read,
        write,
        discard,
        flushes_per_second: before.and_then(|(before, span)| span.rate(before.flushes, now.flushes)),
        queue_depth: used.map(|used| rounded(used.queue_depth)),
        busy_share: used.map(|used| rounded(used.utilisation)),
        weighted_seconds: now.weighted_ms as f64 / 1e3,
        busy_seconds: now.busy_ms as f64 / 1e3,
        flushes: now.flushes,
        in_flight: now.in_flight,
        best_bytes_per_second: best.get(&now.name).copied().map(rounded),
        measured_bytes_per_second: None,
        is_virtual: known.is_some_and(|known| known.is_virtual),
    }
}

fn disk_rates([requests, merged, bytes, ms]: [u64; 4], before: Option<([u64; 4], Elapsed)>) -> DiskWay {
    let span = before.map(|(_, span)| span);
    let rate = |index: usize, now: u64| before.and_then(|(before, span)| span.rate(before[index], now));
    // Of those that completed in the interval.
    let mean = |sum: Option<u64>| {
        let (earlier, span) = before?;
        let completed =
            span.counted(earlier[0], requests, Width::Bits64).filter(|completed| *completed > 0)?;
        Some(rounded(sum? as f64 / completed as f64))
    };
    let counted = |index: usize, now: u64, width| span?.counted(before?.0[index], now, width);
    DiskWay {
        bytes_per_second: rate(2, bytes),
        requests_per_second: rate(0, requests),
        latency_ms: mean(counted(3, ms, Width::Bits32)),
        merged_per_second: rate(1, merged),
        request_bytes: mean(counted(2, bytes, Width::Bits64)),
        bytes,
        requests,
        merged,
        seconds: ms as f64 / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_loses_lanes_is_reported_of_from_then_on() {
        let full = PciLink { gt_per_second: 16.0, width: 8 };
        let half = PciLink { gt_per_second: 16.0, width: 4 };
        let link = |runs| LinkNow {
            address: "0000:17:00.0".into(),
            devices: vec!["eth0".into()],
            runs,
            able: full,
            below: false,
        };
        let mut links = Links::default();
        assert!(links.lines(&[link(full)], 1).is_empty());
        let lines = links.lines(&[link(half)], 2);
        assert_eq!(
            (lines[0].width, lines[0].was.as_deref(), lines[0].changed_at_ms),
            (4, Some("16 GT/s x8"), Some(2))
        );
        let back = links.lines(&[link(full)], 3);
        assert_eq!((back[0].width, back[0].changed_at_ms), (8, Some(3)), "it changed, and is whole again");
        let below = LinkNow { below: true, ..link(half) };
        assert_eq!(Links::default().lines(&[below], 1)[0].was, None);
    }
}
