//! `mdadm --detail`: an array of Linux' software RAID and its members.

use crate::probe::machine::{Array, Disk, DiskKind, Machine};
use crate::probe::storage::array::{copies, data_disks, with_stripe};
use linerate_facts::fact::Fact;

/// Members of one array: md takes 384.
const MOST_MEMBERS: usize = 1024;

/// `/dev/md0:` and the lines below it.
pub(super) fn from_mdadm(text: &str) -> Option<Machine> {
    let name = text.lines().next()?.strip_prefix("/dev/")?.strip_suffix(':')?;
    let of = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(" : ")?;
            (name.trim() == key).then(|| value.trim())
        })
    };
    let number = |key: &str| of(key).and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
    let level = of("Raid Level")?.to_string();
    let absent = "mdadm does not report it";
    let disks = small("Raid Devices");
    let layout = of("Layout").map(str::to_string);
    // `near=2`, `far=2`, `offset=2`: copies within a row, copies in others.
    let all = layout
        .as_deref()
        .and_then(|layout| layout.split_once('=')?.1.split(' ').next()?.parse().ok())
        .unwrap_or(1);
    let near = if layout.as_deref().is_some_and(|layout| layout.starts_with("near")) { all } else { 1 };
    let chunk =
        of("Chunk Size").and_then(|size| size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024));
    let state = of("State").map(|state| state.split(',').next().unwrap_or(state).trim().to_string());
    let working = small("Active Devices").zip(disks).map(|(active, disks)| disks.saturating_sub(active));
    let array = with_stripe(Array {
        chunk_bytes: Fact::from_option(chunk, absent),
        data_disks: Fact::from_option(disks.and_then(|disks| data_disks(&level, disks, near)), absent),
        copies: Fact::from_option(disks.and_then(|disks| copies(&level, disks, all)), absent),
        disks: Fact::from_option(disks, absent),
        degraded: Fact::from_option(working, absent),
        layout: Fact::from_option(layout, absent),
        state: Fact::from_option(state, absent),
        level,
        ..Array::default()
    });
    let size = number("Array Size").and_then(|kib| kib.checked_mul(1024));
    let disk = Disk {
        name: name.to_string(),
        kind: DiskKind::Md,
        size_bytes: Fact::from_option(size, absent),
        members: text.lines().filter_map(member).take(MOST_MEMBERS).collect(),
        array: Some(array),
        ..Disk::default()
    };
    Some(Machine { disks: vec![disk], ..Machine::default() })
}

/// `       0       8       16        0      active sync   /dev/sdb`; spares and failed ones are no members.
fn member(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.get(3)?.parse::<u32>().is_ok() && words.first()?.parse::<u32>().is_ok();
    let path = words.last()?.strip_prefix("/dev/")?;
    (place && words.contains(&"active")).then(|| path.to_string())
}
