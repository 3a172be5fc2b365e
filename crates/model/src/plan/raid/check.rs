//! Arrays that are there, held against the arithmetic: does the file system know the stripe, does everything
//! begin where a block begins, do the requests fit.

use super::level::RaidLevel;
use super::traffic::traffic_over;
use super::{LEAST_CHUNK_BYTES, Pattern, exact_size};
use linerate_facts::fact::Fact;
use linerate_machine::probe::{Array, Disk, DiskKind, FileSystem, Machine};
use linerate_machine::topology::DEEPEST_VOLUMES;
use serde::Serialize;

/// XFS counts its mount options in sectors of this size, bytes.
const SECTOR_BYTES: u64 = 512;
/// Block of all but tiny ext4, bytes.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// One array and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// `md0`, `dm-3`, or where a file system that is an array by itself is mounted.
    pub name: String,
    /// As the kernel names it.
    pub level: String,
    pub disks: Fact<u32>,
    pub data_disks: Fact<u32>,
    pub chunk_bytes: Fact<u64>,
    pub stripe_bytes: Fact<u64>,
    /// Mounted file systems on it.
    pub file_systems: Vec<String>,
    pub remarks: Vec<RaidRemark>,
}

/// One thing that is right, or that is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaidRemark {
    /// It is as it should be.
    pub good: bool,
    pub text: String,
    /// What to do where it is not.
    pub remedy: Option<String>,
}

fn good(text: String) -> RaidRemark {
    RaidRemark { good: true, text, remedy: None }
}

fn bad(text: String, remedy: impl Into<String>) -> RaidRemark {
    RaidRemark { good: false, text, remedy: Some(remedy.into()) }
}

/// Every array of the machine, block devices first. `requests`: their size and pattern, where the user says
/// them.
pub fn check(machine: &Machine, requests: Option<(u64, Pattern)>) -> Vec<Checked> {
    let arrays = machine.disks.iter().filter_map(|disk| Some((disk, disk.array.as_ref()?)));
    let mut checked: Vec<Checked> =
        arrays.map(|(disk, array)| of_disk(machine, disk, array, requests)).collect();
    let mut seen: Vec<&str> = Vec::new();
    for system in &machine.file_systems {
        let Some(array) = system.array.as_ref().filter(|array| is_array_itself(system, array)) else {
            continue;
        };
        // A volume that is mounted twice, and the data sets of one pool, are one array.
        let pool = match system.kind.as_str() {
            "zfs" => system.source.split('/').next().unwrap_or_default(),
            _ => &system.source,
        };
        if seen.contains(&pool) {
            continue;
        }
        seen.push(pool);
        let name = format!("{} on {}", system.kind, system.mount_point.display());
        checked.push(Checked { file_systems: vec![name.clone()], ..new_check(name, array, requests) });
    }
    checked
}

/// btrfs and ZFS are arrays by themselves, over more than one disk; XFS and ext4 only know of one below.
fn is_array_itself(system: &FileSystem, array: &Array) -> bool {
    matches!(system.kind.as_str(), "btrfs" | "zfs") && !matches!(array.disks, Fact::Known(0 | 1))
}

fn new_check(name: String, array: &Array, requests: Option<(u64, Pattern)>) -> Checked {
    let mut remarks = Vec::new();
    match array.degraded {
        Fact::Known(0) | Fact::Unknown { .. } => {}
        Fact::Known(missing) => remarks.push(bad(
            format!("disks that are missing or failed: {missing}"),
            "replace them (`mdadm --manage ARRAY --add DISK`, `lvconvert --repair`, `zpool replace`, `btrfs \
             replace`) before \
             anything else: what they held comes from the others at each read",
        )),
    }
    remarks.extend(requests.and_then(|(bytes, pattern)| fit(array, bytes, pattern)));
    Checked {
        name,
        level: array.level.clone(),
        disks: array.disks.clone(),
        data_disks: array.data_disks.clone(),
        chunk_bytes: array.chunk_bytes.clone(),
        stripe_bytes: array.stripe_bytes.clone(),
        file_systems: Vec::new(),
        remarks,
    }
}

fn of_disk(machine: &Machine, disk: &Disk, array: &Array, requests: Option<(u64, Pattern)>) -> Checked {
    let mut found = new_check(disk.name.clone(), array, requests);
    let striped = is_striped(array);
    if striped
        && let Fact::Known(chunk) = array.chunk_bytes
        && chunk % LEAST_CHUNK_BYTES != 0
    {
        found.remarks.push(bad(
            format!("a chunk of {chunk} bytes is not a whole number of blocks of {LEAST_CHUNK_BYTES}"),
            "blocks lie across two disks: make the array again (`linerate plan raid`)",
        ));
    }
    found.remarks.extend(alignment(machine, disk));
    found.remarks.extend(announced(disk, &found.stripe_bytes).filter(|_| striped));
    let on_it = machine.file_systems.iter().filter(|system| stands_on(machine, system, &disk.name));
    for system in on_it {
        found.file_systems.push(format!("{} on {}", system.kind, system.mount_point.display()));
        if striped {
            found.remarks.extend(knows(system, array, &found.stripe_bytes));
        }
    }
    found
}

/// Requests are cut into chunks; where the level is not known, a chunk shows that.
fn is_striped(array: &Array) -> bool {
    RaidLevel::of_array(&array.level)
        .map_or_else(|| array.chunk_bytes.known().is_some_and(|chunk| *chunk > 0), RaidLevel::is_striped)
}

/// Whether a file system's devices are the array, or are on it (partitions, LVM, encryption).
fn stands_on(machine: &Machine, system: &FileSystem, array: &str) -> bool {
    system.devices.iter().any(|device| is_above(machine, device, array))
}

fn is_above(machine: &Machine, upper: &str, lower: &str) -> bool {
    let mut level: Vec<&str> = vec![upper];
    for _ in 0..DEEPEST_VOLUMES {
        if level.contains(&lower) {
            return true;
        }
        let below = machine.disks.iter().filter(|disk| level.contains(&disk.name.as_str()));
        level = below.flat_map(|disk| disk.members.iter().map(String::as_str)).collect();
        level.sort_unstable();
        level.dedup();
    }
    false
}

/// The array, its members, and what is on it begin at whole blocks of what is below.
fn alignment(machine: &Machine, array: &Disk) -> Vec<RaidRemark> {
    let concerned = machine.disks.iter().filter(|disk| {
        disk.name == array.name || array.members.contains(&disk.name) || disk.members.contains(&array.name)
    });
    let known: Vec<(&Disk, u64)> =
        concerned.filter_map(|disk| Some((disk, *disk.misaligned_bytes.known()?))).collect();
    let off: Vec<&(&Disk, u64)> = known.iter().filter(|(_, off)| *off > 0).collect();
    if off.is_empty() && !known.is_empty() {
        let names: Vec<&str> = known.iter().map(|(disk, _)| disk.name.as_str()).collect();
        return vec![good(format!("aligned: {}", names.join(", ")))];
    }
    let remedy = |disk: &Disk| match disk.kind {
        DiskKind::Partition => {
            "let the partition begin at a multiple of 1 MiB (`parted --align optimal`), and make what is on \
             it again"
        }
        DiskKind::Dm => "make the volume again with `pvcreate --dataalignment` of the stripe",
        _ => "make it again on partitions that begin at a multiple of 1 MiB",
    };
    let remark = |(disk, off): &&(&Disk, u64)| {
        bad(format!("{} begins {off} bytes behind a boundary of what is below it", disk.name), remedy(disk))
    };
    off.iter().map(remark).collect()
}

/// What the kernel tells file systems (`optimal_io_size`) is the stripe; mkfs takes it from there.
fn announced(disk: &Disk, stripe: &Fact<u64>) -> Option<RaidRemark> {
    let announced = disk.optimal_io_bytes.known().copied().filter(|bytes| *bytes > 0)?;
    let stripe = *stripe.known()?;
    let text = format!(
        "the kernel announces {} as the best request, the stripe is {}",
        exact_size(announced),
        exact_size(stripe)
    );
    if announced == stripe {
        return Some(good(format!("the kernel announces the stripe of {}", exact_size(stripe))));
    }
    Some(bad(
        text,
        "give mkfs the stripe (`linerate plan raid` prints the options): it would take the kernel's word",
    ))
}

/// Whether a file system knows the stripe that it is on.
fn knows(system: &FileSystem, array: &Array, stripe: &Fact<u64>) -> Option<RaidRemark> {
    let (chunk, data, stripe) = (*array.chunk_bytes.known()?, *array.data_disks.known()?, *stripe.known()?);
    let place = format!("{} on {}", system.kind, system.mount_point.display());
    match system.kind.as_str() {
        "xfs" => Some(xfs(system, &place, chunk, data)),
        "ext4" | "ext3" | "ext2" => Some(ext4(system, &place, chunk, stripe)),
        _ => None,
    }
}

fn xfs(system: &FileSystem, place: &str, chunk: u64, data: u32) -> RaidRemark {
    let believed = system.array.as_ref();
    let unit = believed.and_then(|array| array.chunk_bytes.known().copied());
    let wide = believed.and_then(|array| array.data_disks.known().copied());
    let wanted = format!("su={}k,sw={data}", chunk / 1024);
    match (unit, wide) {
        (Some(unit), Some(wide)) if unit == chunk && wide == data => {
            good(format!("{place} knows the stripe: su={}, sw={wide}", exact_size(unit)))
        }
        (Some(unit), wide) if unit > 0 => {
            let width = wide.map_or_else(String::new, |wide| format!(", sw={wide}"));
            // xfs(5): sunit may grow by powers of two, swidth may be any multiple of it; both in sectors.
            let grows = chunk.is_multiple_of(unit) && (chunk / unit).is_power_of_two();
            let (sunit, swidth) =
                (chunk / SECTOR_BYTES, chunk.saturating_mul(u64::from(data)) / SECTOR_BYTES);
            let remedy = if grows {
                format!("mount it with -o sunit={sunit},swidth={swidth}, once; XFS keeps that")
            } else {
                format!("make it again with mkfs.xfs -d {wanted}: XFS takes no smaller unit later")
            };
            bad(format!("{place} believes in su={}{width}, the array has {wanted}", exact_size(unit)), remedy)
        }
        _ => bad(
            format!("{place} does not know the stripe"),
            format!("make it again with mkfs.xfs -d {wanted}: XFS cannot be changed later"),
        ),
    }
}

/// ext4 shows its stripe as a mount option, in blocks, where it has one. A tree that does not report the
/// block leaves the usual one.
fn ext4(system: &FileSystem, place: &str, chunk: u64, stripe: u64) -> RaidRemark {
    let shown = system.options.split(',').find_map(|option| option.strip_prefix("stripe="));
    let blocks = shown.and_then(|blocks| blocks.parse::<u64>().ok()).filter(|blocks| *blocks > 0);
    let known = system.array.as_ref().and_then(|array| array.stripe_bytes.known().copied());
    let believed = known.or(blocks.map(|blocks| blocks.saturating_mul(USUAL_BLOCK_BYTES)));
    let block = known.zip(blocks).map(|(bytes, blocks)| bytes / blocks).filter(|block| *block > 0);
    let block = block.unwrap_or(USUAL_BLOCK_BYTES);
    let (stride, width) = (chunk / block, stripe / block);
    let remedy = format!(
        "tune2fs -E stride={stride},stripe_width={width} on its device (blocks of {}), then mount it again",
        exact_size(block)
    );
    match believed {
        Some(believed) if believed == stripe => {
            good(format!("{place} knows the stripe of {}", exact_size(stripe)))
        }
        Some(believed) if believed > 0 => bad(
            format!(
                "{place} believes in a stripe of {}, the array has {}",
                exact_size(believed),
                exact_size(stripe)
            ),
            remedy,
        ),
        _ => bad(format!("{place} does not know the stripe"), remedy),
    }
}

/// Whether requests fit the array's chunk.
fn fit(array: &Array, request: u64, pattern: Pattern) -> Option<RaidRemark> {
    let level = RaidLevel::of_array(&array.level)?;
    let (chunk, disks) = (*array.chunk_bytes.known()?, *array.disks.known()?);
    if !level.is_striped() || chunk == 0 {
        return None;
    }
    let data = array.data_disks.known().copied().unwrap_or_else(|| level.data_disks(disks));
    let stripe = chunk.saturating_mul(u64::from(data));
    let seen = traffic_over(level, disks, data, Some(chunk), request, pattern);
    let asked = exact_size(request);
    let ask = "compare chunks with `linerate plan raid`; a chunk is changed by `mdadm --grow --chunk`, or by \
               making the array again";
    if pattern.is_sequential() && stripe > request {
        let text = format!(
            "requests of {asked} reach {:.1} of {data} data disks: a stripe is {}",
            seen.disks_per_request,
            exact_size(stripe)
        );
        return Some(bad(
            text,
            format!("ask for {} at once, or take a smaller chunk: {ask}", exact_size(stripe)),
        ));
    }
    if !pattern.is_sequential() && chunk < request {
        let text = format!(
            "requests of {asked} busy {:.1} disks each: a chunk is {}",
            seen.disks_per_request,
            exact_size(chunk)
        );
        return Some(bad(text, format!("a chunk of at least {asked} keeps each on one disk: {ask}")));
    }
    let moved = seen.read_per_byte + seen.written_per_byte;
    let cost = if pattern.is_write() {
        format!(", and move {moved:.2} bytes on the disks for each of theirs")
    } else {
        String::new()
    };
    Some(good(format!(
        "requests of {asked} fit the chunk: they touch {:.1} of {data} data disks{cost}",
        seen.disks_per_request
    )))
}

#[cfg(test)]
mod tests;
