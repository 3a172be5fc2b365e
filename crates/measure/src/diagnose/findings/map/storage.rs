//! Disks below what their ports, their arrays and their alignment allow, and file systems whose drives never learn
//! which blocks are free.

use super::{listed, rate};
use crate::diagnose::product::{Finding, Severity};
use linerate_facts::units::show_size;
use linerate_machine::probe::{Array, Controller, ControllerKind, Disk, FileSystem, Machine};
use linerate_machine::topology::{DEEPEST_VOLUMES, disk_port_rate};
use serde_json::json;
use std::collections::BTreeSet;

/// How far md is with what it does beside.
const WAIT_FOR_MD: &str = "`cat /proc/mdstat` shows how far it is";

/// `disk-port`: a SATA, SAS or Fibre Channel port runs slower than it can.
pub(super) fn slow_port(machine: &Machine) -> Vec<Finding> {
    let below = |controller: &&Controller| {
        let rates = (controller.link_bits_per_second.known(), controller.link_max_bits_per_second.known());
        let serial =
            !matches!(controller.kind, ControllerKind::Nvme | ControllerKind::Scsi | ControllerKind::Other);
        serial
            && !controller.disks.is_empty()
            && matches!(rates, (Some(now), Some(most)) if *now > 0 && now < most)
    };
    machine.controllers.iter().filter(below).map(|controller| one_port(machine, controller)).collect()
}

fn one_port(machine: &Machine, controller: &Controller) -> Finding {
    let most = Controller {
        link_bits_per_second: controller.link_max_bits_per_second.clone(),
        ..controller.clone()
    };
    let (now, most) = (disk_port_rate(controller).unwrap_or(0.0), disk_port_rate(&most).unwrap_or(0.0));
    let behind: Vec<&Disk> = controller.disks.iter().filter_map(|name| machine.disk(name)).collect();
    // A rotating disk behind its own port never fills it.
    let turning = behind.len() == 1 && behind.iter().all(|disk| disk.rotational.known() == Some(&true));
    let names: Vec<&str> = controller.disks.iter().map(String::as_str).collect();
    let line = |bits: &linerate_facts::fact::Fact<u64>| {
        rate(linerate_facts::units::bytes_per_second(bits.known().copied().unwrap_or(0)))
    };
    Finding::new(if turning { Severity::Note } else { Severity::Slow }, "disk-port", format!(
            "{} ({}) runs at {}, its port could do {}{}",
            controller.name,
            listed(&names),
            line(&controller.link_bits_per_second),
            line(&controller.link_max_bits_per_second),
            if turning { "; a rotating disk needs no more" } else { "" }
        )).evidence(json!({ "devices": names, "port": controller.name, "bytes_per_second": now, "most_bytes_per_second": most })).remedy("where the disk can do more too (`smartctl -i` shows it): reseat it, change the cable or the \
                 backplane; `dmesg` reports a link that was slowed down after errors").gain(if turning { 0.0 } else { most - now })
}

/// `array-degraded`: an array lacks members, and reads what they held from all the others.
pub(super) fn degraded(machine: &Machine) -> Vec<Finding> {
    let lacks = |disk: &&Disk| {
        disk.array.as_ref().is_some_and(|array| array.degraded.known().is_some_and(|count| *count > 0))
    };
    let degraded = machine.disks.iter().filter(lacks).filter_map(|disk| Some((disk, disk.array.as_ref()?)));
    let finding = |(disk, array): (&Disk, &Array)| {
        let missing = array.degraded.known().copied().unwrap_or(0);
        let rebuilding = array.sync_action.known().is_some_and(|action| action == "recover");
        let (state, remedy) = match rebuilding {
            true => (
                ", and it is being rebuilt",
                format!("{WAIT_FOR_MD}, and what is measured until then is too low"),
            ),
            false => (
                "",
                format!(
                    "`cat /proc/mdstat` and `mdadm --detail /dev/{}` name them; replace and add them",
                    disk.name
                ),
            ),
        };
        Finding::slow(
            "array-degraded",
            format!("{} ({}) lacks {missing} of its disks{state}", disk.name, array.level),
        )
        .evidence(json!({
            "devices": [disk.name], "level": array.level, "missing": missing, "sync_action": array.sync_action.known(),
        }))
        .remedy(remedy)
    };
    degraded.map(finding).collect()
}

/// `array-busy`: a whole array is read through, or written anew, beside everything else.
pub(super) fn busy(machine: &Machine) -> Vec<Finding> {
    let busy = |disk: &Disk| {
        let array = disk.array.as_ref()?;
        let action =
            array.sync_action.known().filter(|action| !["idle", "frozen"].contains(&action.as_str()))?;
        let whole = array.degraded.known().is_none_or(|missing| *missing == 0);
        whole.then(|| {
            Finding::slow(
                "array-busy",
                format!("{} ({}): md's {action} takes its share of the disks' time", disk.name, array.level),
            )
            .evidence(json!({ "devices": [disk.name], "level": array.level, "sync_action": action }))
            .remedy(format!("{WAIT_FOR_MD}; measure when it is done"))
        })
    };
    machine.disks.iter().filter_map(busy).collect()
}

/// The striped array that a file system lies on, through partitions and volumes.
fn array_below<'a>(machine: &'a Machine, fs: &FileSystem) -> Option<(&'a Disk, &'a Array)> {
    let [only] = fs.devices.as_slice() else { return None };
    let mut at = machine.disk(only)?;
    for _ in 0..DEEPEST_VOLUMES {
        if let Some(array) = at.array.as_ref().filter(|array| striped(array)) {
            return Some((at, array));
        }
        let [below] = at.members.as_slice() else { return None };
        at = machine.disk(below)?;
    }
    None
}

fn striped(array: &Array) -> bool {
    ["raid0", "raid4", "raid5", "raid6", "raid10", "striped"].contains(&array.level.as_str())
        && array.chunk_bytes.known().is_some()
}

/// `stripe-mismatch`: a file system was made for another chunk or number of disks than the array below has.
pub(super) fn stripe(machine: &Machine) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    machine
        .file_systems
        .iter()
        .filter(|fs| seen.insert(&fs.devices))
        .filter_map(|fs| mismatch(machine, fs))
        .collect()
}

fn mismatch(machine: &Machine, fs: &FileSystem) -> Option<Finding> {
    let (volume, array) = array_below(machine, fs)?;
    let believed = fs.array.as_ref()?;
    let chunk = *array.chunk_bytes.known()?;
    let data = array.data_disks.known().copied();
    let Some(unit) = believed.chunk_bytes.known().copied() else {
        return whole_stripe_mismatch(fs, volume, array, believed, chunk, data?);
    };
    let width = believed.data_disks.known().copied();
    let other_width = width.zip(data).is_some_and(|(width, data)| width != data);
    if unit == chunk && !other_width {
        return None;
    }
    let stripe = |chunk: u64, disks: Option<u32>| match disks {
        Some(disks) => format!("{} × {disks}", show_size(chunk)),
        None => show_size(chunk),
    };
    let sectors = |bytes: u64| bytes / 512;
    let width_sectors = sectors(chunk).saturating_mul(u64::from(data.unwrap_or(1)));
    let remedy = match fs.kind.as_str() {
        "xfs" => {
            format!("mount it with `sunit={},swidth={width_sectors}` (sectors of 512 bytes)", sectors(chunk))
        }
        "ext4" | "ext3" => format!(
            "`tune2fs -E stride={},stripe_width={} {}` (blocks of 4 KiB)",
            chunk / 4096,
            (chunk / 4096).saturating_mul(u64::from(data.unwrap_or(1))),
            fs.source
        ),
        _ => "make the file system again with the array's chunk".into(),
    };
    Some(Finding::note("stripe-mismatch", format!(
            "{} on {} believes in stripes of {}, {} ({}) has {}",
            fs.kind,
            fs.mount_point.display(),
            stripe(unit, width),
            volume.name,
            array.level,
            stripe(chunk, data)
        )).evidence(json!({
            "devices": [volume.name], "file_system_chunk_bytes": unit, "file_system_data_disks": width, "array_chunk_bytes": chunk,
            "array_data_disks": data,
        })).remedy(remedy))
}

/// ext4 tells its whole stripe only.
fn whole_stripe_mismatch(
    fs: &FileSystem,
    volume: &Disk,
    array: &Array,
    believed: &Array,
    chunk: u64,
    data: u32,
) -> Option<Finding> {
    let (found, stripe) = (*believed.stripe_bytes.known()?, chunk.checked_mul(u64::from(data))?);
    if found == stripe {
        return None;
    }
    let text = format!(
        "{} on {} believes in a stripe of {}, {} ({}) has {} × {data}",
        fs.kind,
        fs.mount_point.display(),
        show_size(found),
        volume.name,
        array.level,
        show_size(chunk)
    );
    let evidence = json!({
        "devices": [volume.name], "file_system_stripe_bytes": found, "array_chunk_bytes": chunk, "array_data_disks": data,
    });
    let remedy = format!(
        "`tune2fs -E stride={},stripe_width={} {}` (blocks of 4 KiB), then mount it again",
        chunk / 4096,
        stripe / 4096,
        fs.source
    );
    Some(Finding::note("stripe-mismatch", text).evidence(evidence).remedy(remedy))
}

/// `misaligned`: a partition or volume starts in the middle of what the device below reads and writes as one.
pub(in crate::diagnose::findings) fn alignment(machine: &Machine) -> Vec<Finding> {
    let off = machine
        .disks
        .iter()
        .filter_map(|disk| Some((disk, *disk.misaligned_bytes.known()?)))
        .filter(|(_, bytes)| *bytes > 0);
    let finding = |(disk, bytes): (&Disk, u64)| {
        Finding::slow(
            "misaligned",
            format!(
                "{} starts {bytes} bytes off what the device below likes: blocks at its edges touch two",
                disk.name
            ),
        )
        .evidence(json!({ "devices": [disk.name], "misaligned_bytes": bytes }))
        .remedy(match disk.members.as_slice() {
            [whole] => {
                format!(
                    "partition it again at whole MiB (`parted /dev/{whole} align-check optimal N` \
                         checks)"
                )
            }
            _ => "make it again at whole MiB".into(),
        })
    };
    off.map(finding).collect()
}

/// `checksum-generic`: btrfs computes its checksums byte by byte, where the processor has an instruction for
/// them. SARA read 1517 MiB/s with “CRC checksumming in hardware”, 932 untuned (D1.3 table 8).
pub(super) fn checksum(machine: &Machine) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let without =
        |options: &str| options.split(',').any(|option| option == "nodatasum" || option == "nodatacow");
    let generic = machine.file_systems.iter().filter(|fs| {
        fs.checksum.as_ref().is_some_and(|driver| driver.ends_with("-generic)")) && !without(&fs.options)
    });
    let finding = |fs: &FileSystem| {
        let driver = fs.checksum.as_deref().unwrap_or_default();
        let text = format!(
            "{} on {} computes its checksums in software, {driver}: a processor's own instruction is several \
             times as fast",
            fs.kind,
            fs.mount_point.display()
        );
        Finding::slow("checksum-generic", text)
            .evidence(json!({ "devices": fs.devices, "checksum": driver }))
            .remedy(
                "load the driver before the mount (`modprobe crc32c_intel`; on ARM `crc32_ce`), then unmount and \
                 mount again; where the programs check what they read, `nodatasum` leaves them out",
            )
    };
    generic.filter(|fs| seen.insert(fs.devices.clone())).map(finding).collect()
}

/// `never-trimmed`: since the host started, for more than the week of `fstrim.timer`, a drive that takes TRIM was
/// written and learned of no block that became free. A drive that believes itself full writes 10 to 20 % slower
/// (D1.3, §9.3).
pub(super) fn never_trimmed(machine: &Machine) -> Vec<Finding> {
    let mut devices = BTreeSet::new();
    let writable = |fs: &&FileSystem| {
        let has = |word: &str| fs.options.split(',').any(|option| option.split('=').next() == Some(word));
        !has("ro") && !has("discard")
    };
    let systems = machine.file_systems.iter().filter(writable).filter(|fs| devices.insert(&fs.devices));
    systems.filter_map(|fs| untrimmed(machine, fs)).collect()
}

fn untrimmed(machine: &Machine, fs: &FileSystem) -> Option<Finding> {
    let layers = layers_below(machine, fs);
    let drives: Vec<&str> = layers
        .iter()
        .filter(|disk| disk.discard.known() == Some(&true) && disk.trimmed.known() == Some(&false))
        .filter(|disk| disk.members.is_empty())
        .map(|disk| disk.name.as_str())
        .collect();
    if drives.is_empty() {
        return None;
    }
    let stopped = layers.iter().find(|disk| !disk.members.is_empty() && disk.discard.known() == Some(&false));
    let (why, remedy) = match stopped {
        Some(layer) => (
            format!(": {} between them passes no TRIM on", layer.name),
            "let that layer pass it on (`cryptsetup --allow-discards`; `lsblk --discard` shows which layer does \
             not), then `systemctl enable --now fstrim.timer`",
        ),
        None => (
            String::new(),
            "`systemctl enable --now fstrim.timer`, or `fstrim --all` once a week; the mount option `discard` \
             costs writes their time",
        ),
    };
    let text = format!(
        "{} on {}: {} can TRIM, was written, and in the eight days or more since the host started learned \
         of no block that became free{why}; a drive that believes itself full writes slower",
        fs.kind,
        fs.mount_point.display(),
        listed(&drives)
    );
    Some(Finding::note("never-trimmed", text).evidence(json!({ "devices": drives })).remedy(remedy))
}

/// The devices of a file system and all below them.
fn layers_below<'a>(machine: &'a Machine, fs: &FileSystem) -> Vec<&'a Disk> {
    let named = |name: &String| machine.disk(name);
    let mut found: Vec<&Disk> = Vec::new();
    let mut pending: Vec<&Disk> = fs.devices.iter().filter_map(named).collect();
    for _ in 0..DEEPEST_VOLUMES {
        pending.retain(|disk| !found.iter().any(|met| met.name == disk.name));
        found.extend(&pending);
        pending = pending.iter().flat_map(|disk| &disk.members).filter_map(named).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::DiskKind;

    fn disk(name: &str, members: &[&str], discard: bool, trimmed: Option<bool>) -> Disk {
        Disk {
            name: name.into(),
            kind: DiskKind::Nvme,
            members: members.iter().map(|name| name.to_string()).collect(),
            discard: Fact::Known(discard),
            trimmed: Fact::from_option(trimmed, "not for eight days yet"),
            ..Disk::default()
        }
    }

    fn mounted(devices: &[&str], options: &str, disks: Vec<Disk>) -> Vec<Finding> {
        let devices = devices.iter().map(|name| name.to_string()).collect();
        let fs = FileSystem {
            kind: "xfs".into(),
            mount_point: "/data".into(),
            options: options.into(),
            devices,
            ..FileSystem::default()
        };
        never_trimmed(&Machine { disks, file_systems: vec![fs], ..Machine::default() })
    }

    #[test]
    fn a_drive_that_never_learns_what_is_free_is_named_with_the_layer_that_stops_it() {
        let drive = || disk("nvme0n1", &[], true, Some(false));
        let [plain] = &mounted(&["nvme0n1"], "rw,relatime", vec![drive()])[..] else { panic!("one finding") };
        assert!(
            plain.text.starts_with("xfs on /data: nvme0n1 can TRIM") && plain.remedy.contains("fstrim.timer"),
            "{plain:?}"
        );
        let md = disk("md0", &["nvme0n1"], false, None);
        let [layered] = &mounted(&["md0"], "rw", vec![drive(), md])[..] else { panic!("one finding") };
        assert!(layered.text.contains("md0 between them passes no TRIM on"), "{layered:?}");
        // A partition is on its disk, which counts for it.
        let part = Disk {
            kind: DiskKind::Partition,
            discard: Fact::default(),
            ..disk("nvme0n1p1", &["nvme0n1"], true, None)
        };
        assert_eq!(mounted(&["nvme0n1p1"], "rw", vec![drive(), part]).len(), 1);
    }

    #[test]
    fn what_trims_cannot_or_is_not_known_gives_no_finding() {
        for (discard, trimmed, options) in [
            (true, Some(true), "rw"),
            (true, None, "rw"),
            (false, Some(false), "rw"),
            (true, Some(false), "ro"),
            (true, Some(false), "rw,discard=async,ssd"),
        ] {
            let found = mounted(&["sda"], options, vec![disk("sda", &[], discard, trimmed)]);
            assert!(found.is_empty(), "{discard} {trimmed:?} {options}: {found:?}");
        }
        // A ring of a damaged file, and a network file system.
        assert!(
            mounted(&["a"], "rw", vec![disk("a", &["b"], true, None), disk("b", &["a"], true, None)])
                .is_empty()
        );
        assert!(mounted(&[], "rw", Vec::new()).is_empty());
    }
}
