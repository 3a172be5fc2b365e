//! What bears on the rate and is not linerate's to change: it holds from a boot or a mount on, or no journal
//! can watch it. Said, with what to do.

use super::goal::GoalFacts;
use linerate_machine::probe::DiskKind;
use serde::Serialize;

/// One thing that is otherwise than it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuneNote {
    pub id: &'static str,
    /// What it is about: a mount point, an address, empty for the machine.
    pub at: String,
    pub now: String,
    pub why: String,
    /// A command, or what to write where.
    pub remedy: String,
    pub source: &'static str,
}

/// All of them on this machine.
pub fn remarks(facts: &GoalFacts) -> Vec<TuneNote> {
    let groups: [fn(&GoalFacts) -> Vec<TuneNote>; 4] = [mounts, read_requests, iommu, poll_queues];
    groups.iter().flat_map(|group| group(facts)).collect()
}

/// Options of file systems on disks that were mounted for something else than to serve bulk.
fn mounts(facts: &GoalFacts) -> Vec<TuneNote> {
    const MOUNT: &str = "https://man7.org/linux/man-pages/man8/mount.8.html";
    let mut on_disks: Vec<_> =
        facts.machine.file_systems.iter().filter(|one| !one.devices.is_empty()).collect();
    // A file system that is mounted in several places is said once, at the place that is nearest the root.
    on_disks.sort_by_key(|one| one.mount_point.as_os_str().len());
    let mut named = std::collections::BTreeSet::new();
    on_disks.retain(|one| named.insert(one.devices.clone()));
    let remark = |one: &linerate_machine::probe::FileSystem| {
        let has = |option: &str| one.options.split(',').any(|other| other == option);
        let at = one.mount_point.display().to_string();
        let advice = |now: &str, why: &str, remedy: String| TuneNote {
            id: "mount-options",
            at: at.clone(),
            now: now.into(),
            why: why.into(),
            remedy,
            source: MOUNT,
        };
        let mut said_all = Vec::new();
        if has("discard") && one.kind != "btrfs" {
            said_all.push(advice(
                "discard",
                "each deletion waits for the disk to forget its blocks; a weekly fstrim does it at once",
                format!(
                    "systemctl enable --now fstrim.timer; mount -o remount,nodiscard {at}, and in /etc/fstab"
                ),
            ));
        }
        if has("sync") || has("dirsync") {
            said_all.push(advice(
                "sync",
                "each write waits for the disk",
                format!("mount -o remount,async {at}, and in /etc/fstab"),
            ));
        }
        if has("strictatime") {
            said_all.push(advice(
                "strictatime",
                "each read of a file writes to its inode",
                format!("mount -o remount,relatime {at}, and in /etc/fstab"),
            ));
        }
        said_all
    };
    on_disks.into_iter().flat_map(remark).collect()
}

/// A card that asks memory for little at a time cannot fill a fast link; only setpci changes it, and no
/// journal can watch it.
fn read_requests(facts: &GoalFacts) -> Vec<TuneNote> {
    const LEAST: u32 = 512;
    let remark =
        |nic: &linerate_machine::probe::Nic| {
            let address = nic.pci.as_ref()?;
            let device = facts.machine.pci.iter().find(|device| device.address == *address)?;
            let bytes = *device.express.max_read_request_bytes.known().filter(|bytes| **bytes < LEAST)?;
            Some(TuneNote {
            id: "max-read-request",
            at: format!("{} ({address})", nic.name),
            now: bytes.to_string(),
            why: "the card fetches what it sends in requests of this many bytes; 512 is what a reset leaves, \
                  fast cards like 4096".into(),
            remedy: format!("setpci -s {address} CAP_EXP+8.w=2000:7000 (512 bytes) until the next reset; the \
                             BIOS sets it for good"),
            source: "https://man7.org/linux/man-pages/man8/setpci.8.html",
        })
        };
    facts.machine.nics.iter().filter_map(remark).collect()
}

fn iommu(facts: &GoalFacts) -> Vec<TuneNote> {
    let kernel = &facts.machine.kernel;
    let translates = kernel.iommu.known().is_some_and(|kinds| kinds.iter().any(|kind| kind == "DMA"));
    let fast = facts.rate().is_ok_and(|rate| rate >= 5e9);
    let remark = TuneNote {
        id: "iommu",
        at: String::new(),
        now: "DMA, strict".into(),
        why: "each buffer is mapped and unmapped for the card, with a flush; at 40 Gb/s and more it shows"
            .into(),
        remedy:
            "iommu=pt on the kernel's command line, where no guest gets a device: it gives up some isolation"
                .into(),
        source: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    };
    if translates && fast { vec![remark] } else { Vec::new() }
}

/// Polled reads need queues that exist from the start of the driver.
fn poll_queues(facts: &GoalFacts) -> Vec<TuneNote> {
    let queues = facts.sysroot.parse::<u64>("/sys/module/nvme/parameters/poll_queues");
    let drives = facts.machine.disks.iter().filter(|disk| disk.kind == DiskKind::Nvme).count();
    let many = drives >= 4 && facts.rate().is_ok_and(|rate| rate >= 12.5e9);
    let remark = TuneNote {
        id: "nvme-poll-queues",
        at: String::new(),
        now: "0".into(),
        why: format!(
            "{drives} NVMe drives at 100 Gb/s complete a hundred thousand requests a second: \
                      polling saves their interrupts"
        ),
        remedy: "nvme.poll_queues=N on the kernel's command line, N half of the cores; only programs with \
                 IORING_SETUP_IOPOLL use them"
            .into(),
        source: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    };
    if many && queues.known() == Some(&0) { vec![remark] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::goal::TuneGoal;
    use super::*;
    use linerate_facts::fact::Fact;
    use linerate_facts::sysroot::Sysroot;
    use linerate_machine::probe::{FileSystem, Machine};

    fn advice(machine: Machine, rate: f64) -> Vec<(&'static str, String, String)> {
        let root = tempfile::tempdir().expect("a temporary directory");
        let goal = TuneGoal { rate: Some(rate), round_trip: None };
        let facts = GoalFacts { sysroot: Sysroot::recorded(root.path()), machine, goal };
        remarks(&facts).into_iter().map(|remark| (remark.id, remark.at, remark.now)).collect()
    }

    fn mounted(at: &str, options: &str) -> FileSystem {
        FileSystem {
            mount_point: at.into(),
            kind: "ext4".into(),
            options: options.into(),
            devices: vec!["vda".into()],
            ..FileSystem::default()
        }
    }

    #[test]
    fn a_mount_is_said_once_and_a_usual_one_not_at_all() {
        let twice = vec![mounted("/data/inner", "rw,discard"), mounted("/data", "rw,discard")];
        let machine = Machine { file_systems: twice, ..Machine::default() };
        assert_eq!(advice(machine, 1e9), [("mount-options", "/data".into(), "discard".into())]);
        let usual =
            Machine { file_systems: vec![mounted("/", "rw,relatime,nodiscard")], ..Machine::default() };
        assert!(advice(usual, 1e9).is_empty());
    }

    #[test]
    fn a_strict_iommu_is_said_of_fast_machines() {
        let machine = || {
            let mut machine = Machine::default();
            machine.kernel.iommu = Fact::Known(vec!["DMA".into()]);
            machine
        };
        assert!(advice(machine(), 1.25e9).is_empty(), "10 Gb/s");
        assert_eq!(advice(machine(), 12.5e9).len(), 1, "100 Gb/s");
    }
}
