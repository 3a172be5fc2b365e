//! What each setting is now, what it should be, and why. Nothing is changed. And what bears on the rate and is not
//! linerate's to change (it holds from a boot or a mount on, or no journal can watch it), said with what to do.

use crate::catalogue::{self, Advice, CatalogueContext, Risk, Setting, SettingStage, Spot};
use crate::goal::{GoalFacts, TuneGoal};
use crate::kernel_access::{AccessRefusal, KernelAccess};
use crate::process::{self, OwnItem};
use crate::setting_place::{NamedDevice, SettingPlace};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{DiskKind, Machine};
use linerate_measure::run::again::FigureKind;
use serde::Serialize;
use std::path::Path;

/// What the settings are and should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunePlan {
    pub schema: u32,
    /// Bytes per second that the machine is tuned for.
    pub bytes_per_second: Fact<f64>,
    /// Round trip that it is tuned for, seconds.
    pub round_trip_seconds: f64,
    /// What a process does for itself: tried first, never written to the machine.
    pub process: Vec<OwnItem>,
    pub settings: Vec<Item>,
    /// What linerate does not change, with what to do about it.
    pub advice: Vec<TuneNote>,
    /// What would undo it again: irqbalance.
    pub notes: Vec<String>,
}

/// One setting at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// `read-ahead:vda`.
    pub id: String,
    pub what: &'static str,
    /// `net.core.rmem_max`, a path, or an `ethtool` command.
    pub place: String,
    pub stage: SettingStage,
    /// Value now.
    pub now: Fact<String>,
    pub verdict: SettingVerdict,
    /// Value that it should have, where that is another.
    pub wanted: Option<String>,
    pub why: String,
    pub source: &'static str,
    pub risk: Risk,
    /// What may go wrong.
    pub harm: &'static str,
    /// Findings of a run that it cures.
    pub findings: &'static [&'static str],
    /// Share by which the flow grows by the model; absent where only a measurement shows it.
    pub gain: Option<f64>,
    #[serde(skip)]
    pub(super) at: At,
}

/// What a change needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct At {
    pub entry: &'static str,
    /// NIC, disk, CPU policy; empty for the whole machine.
    pub of: String,
    pub figure: FigureKind,
    pub place: SettingPlace,
    pub device: Option<NamedDevice>,
}

/// What is said about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingVerdict {
    /// Another value is better.
    Change,
    /// Another value is better: the current one follows advice that is wrong here.
    Stale,
    /// It is right.
    Right,
    /// It is the user's to choose.
    Leave,
    /// It cannot be read, or something is missing to tell.
    Unknown,
}

/// Reads all settings and says what to do about each.
pub fn plan(sysroot: &Sysroot, machine: Machine, goal: TuneGoal, access: &dyn KernelAccess) -> TunePlan {
    let facts = GoalFacts { sysroot: sysroot.clone(), machine, goal };
    let mut settings = Vec::new();
    for entry in catalogue::all() {
        settings.extend(entry.at.spots(&facts).into_iter().map(|spot| item(&facts, access, entry, spot)));
    }
    let irqbalance = facts.machine.kernel.irqbalance.known().copied().unwrap_or(false);
    let moved = settings.iter().any(|item| item.at.entry.ends_with("irq-affinity") && item.wanted.is_some());
    let notes = (irqbalance && moved).then(|| {
        "irqbalance runs: it moves interrupts back within seconds; stop it (systemctl stop irqbalance) or \
         ban those that were set (IRQBALANCE_ARGS=--banirq=N)"
            .to_string()
    });
    TunePlan {
        schema: 1,
        bytes_per_second: facts.rate().into(),
        round_trip_seconds: facts.round_trip(),
        process: process::look(&facts),
        settings,
        advice: remarks(&facts),
        notes: notes.into_iter().collect(),
    }
}

fn item(facts: &GoalFacts, access: &dyn KernelAccess, entry: &'static Setting, spot: Spot) -> Item {
    let now = match access.read(&spot.place) {
        Ok(raw) => Fact::Known(entry.shape.value(&raw.unwrap_or_default())),
        Err(AccessRefusal::Absent(_)) => Fact::unknown("this kernel or device does not have it"),
        Err(AccessRefusal::Refused(why) | AccessRefusal::Hung(why)) => Fact::unknown(why),
    };
    let advice = match &now {
        Fact::Unknown { why } => Advice::Unknown(why.clone()),
        Fact::Known(_) if entry.left.is_some() => Advice::leave(entry.left.unwrap_or_default()),
        Fact::Known(now) => {
            let at = match &spot.place {
                SettingPlace::Attribute(path) | SettingPlace::DropIn(path) => path.as_path(),
                SettingPlace::Driver { .. } => Path::new(""),
            };
            (entry.advice)(&CatalogueContext { facts, device: &spot.of, queue: spot.queue, at, now })
        }
    };
    let (verdict, wanted, why, gain) = match advice {
        Advice::Change { value, why, stale, gain } => {
            (if stale { SettingVerdict::Stale } else { SettingVerdict::Change }, Some(value), why, gain)
        }
        Advice::Right => (SettingVerdict::Right, None, String::new(), None),
        Advice::Leave(why) => (SettingVerdict::Leave, None, why, None),
        Advice::Unknown(why) => (SettingVerdict::Unknown, None, why, None),
    };
    Item {
        id: if spot.name.is_empty() { entry.id.to_string() } else { format!("{}:{}", entry.id, spot.name) },
        what: entry.what,
        place: spot.place.to_string(),
        stage: entry.stage,
        now,
        verdict,
        wanted,
        why,
        source: entry.source,
        risk: entry.risk,
        harm: entry.harm,
        findings: entry.findings,
        gain,
        at: At { entry: entry.id, of: spot.of, figure: entry.figure, place: spot.place, device: spot.device },
    }
}

impl Item {
    /// `rps`, `rps:eth0` for all queues of the card, `rps:eth0/rx-3` for one.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let at = &self.at;
        name == self.id || name == at.entry || name.split_once(':') == Some((at.entry, &at.of))
    }
}

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
fn remarks(facts: &GoalFacts) -> Vec<TuneNote> {
    let groups: [fn(&GoalFacts) -> Vec<TuneNote>; 4] =
        [remarks_on_mounts, read_requests, remarks_on_iommu, poll_queues];
    groups.iter().flat_map(|group| group(facts)).collect()
}

/// Options of file systems on disks that were mounted for something else than to serve bulk.
fn remarks_on_mounts(facts: &GoalFacts) -> Vec<TuneNote> {
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

fn remarks_on_iommu(facts: &GoalFacts) -> Vec<TuneNote> {
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
    use super::*;
    use crate::goal::TuneGoal;
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
