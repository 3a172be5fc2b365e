//! File systems whose drives never learn which blocks are free.

use super::super::super::product::Finding;
use super::listed;
use linerate_machine::probe::{Disk, FileSystem, Machine};
use linerate_machine::topology::DEEPEST_VOLUMES;
use serde_json::json;
use std::collections::BTreeSet;

/// `never-trimmed`: since the host started, for more than the week of `fstrim.timer`, a drive that takes TRIM was
/// written and learned of no block that became free. A drive that believes itself full writes 10 to 20 % slower
/// (D1.3, §9.3).
pub(super) fn never(machine: &Machine) -> Vec<Finding> {
    let mut devices = BTreeSet::new();
    let writable = |fs: &&FileSystem| {
        let has = |word: &str| fs.options.split(',').any(|option| option.split('=').next() == Some(word));
        !has("ro") && !has("discard")
    };
    let systems = machine.file_systems.iter().filter(writable).filter(|fs| devices.insert(&fs.devices));
    systems.filter_map(|fs| finding(machine, fs)).collect()
}

fn finding(machine: &Machine, fs: &FileSystem) -> Option<Finding> {
    let layers = layers(machine, fs);
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
fn layers<'a>(machine: &'a Machine, fs: &FileSystem) -> Vec<&'a Disk> {
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
        never(&Machine { disks, file_systems: vec![fs], ..Machine::default() })
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
