//! Disks: rates, depth and latency from two readings of `/proc/diskstats`, as iostat computes them.

use super::Readings;
use crate::model::{DiskRates, DiskWay};
use crate::sources::Details;
use linerate_facts::counters::DiskCounters;
use linerate_facts::counters::rates::{Elapsed, Width, rounded};
use linerate_facts::host::DeviceUse;
use linerate_facts::wording::in_order;
use std::collections::BTreeMap;

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
        sides.map(|rates| self::rates(rates(now), before.map(|(before, span)| (rates(before), span))));
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

fn rates([requests, merged, bytes, ms]: [u64; 4], before: Option<([u64; 4], Elapsed)>) -> DiskWay {
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
