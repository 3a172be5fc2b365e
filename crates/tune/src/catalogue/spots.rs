//! Where the settings of the catalogue are on a machine: once, or once for each NIC, queue, disk, CPU policy, interrupt.

use super::super::goal::{GoalFacts, without_wire};
use super::super::setting_place::{DeviceClass, Knob, NamedDevice, SettingPlace};
use linerate_machine::probe::{Disk, DiskKind, Interrupt, Nic};
use std::path::{Component, Path, PathBuf};

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// `net.core.rmem_max`.
    Sysctl(&'static str),
    /// One file.
    File(&'static str),
    /// `/sys/class/net/NIC/…`.
    Nic(&'static str),
    /// `/sys/class/net/NIC/queues/rx-N/…`.
    RxQueue(&'static str),
    /// `/sys/class/net/NIC/queues/tx-N/…`.
    TxQueue(&'static str),
    /// What the driver of a NIC keeps: receive ring.
    RxRing,
    TxRing,
    CombinedChannels,
    AdaptiveRx,
    RxPause,
    TxPause,
    /// An offload by the kernel's name.
    Feature(&'static str),
    /// `/proc/irq/N/smp_affinity_list` of the interrupts of NICs.
    NicInterrupt,
    /// The same of disks' queues.
    DiskInterrupt,
    /// `/sys/block/DISK/…` of whole disks and arrays.
    Disk(&'static str),
    /// `/sys/block/mdN/md/…`.
    Md(&'static str),
    /// `/sys/devices/system/cpu/cpufreq/policyN/…`.
    CpuPolicy(&'static str),
    /// An attribute of each entry of a folder that has it.
    Each(&'static str, &'static str),
    /// `/sys/bus/pci/devices/ADDRESS/…` of NICs and of disks' controllers.
    Pci(&'static str),
}

/// One place of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spot {
    /// What distinguishes it from the entry's others (`eth0`, `eth0/rx-3`); empty for one of the whole machine.
    pub name: String,
    /// Device, empty for the whole machine.
    pub of: String,
    pub queue: Option<u32>,
    pub place: SettingPlace,
    pub device: Option<NamedDevice>,
}

impl Where {
    /// The places on this machine.
    pub(crate) fn spots(self, facts: &GoalFacts) -> Vec<Spot> {
        match self {
            Where::Sysctl(name) => vec![spot("", Path::new("/proc/sys").join(name.replace('.', "/")))],
            Where::File(path) => vec![spot("", path.into())],
            Where::Nic(attribute) => each_nic(facts, |nic| {
                vec![of_nic(facts, nic, None, SettingPlace::Attribute(nic_folder(nic).join(attribute)))]
            }),
            Where::RxQueue(attribute) => queues(facts, "rx-", attribute),
            Where::TxQueue(attribute) => queues(facts, "tx-", attribute),
            Where::RxRing
            | Where::TxRing
            | Where::CombinedChannels
            | Where::AdaptiveRx
            | Where::RxPause
            | Where::TxPause
            | Where::Feature(_) => self.knob().map_or_else(Vec::new, |knob| knobs(facts, &knob)),
            Where::NicInterrupt => interrupts(facts),
            Where::DiskInterrupt => disk_interrupts(facts),
            Where::Disk(attribute) => disks(facts, |kind| kind != DiskKind::Partition, attribute),
            Where::Md(attribute) => disks(facts, |kind| kind == DiskKind::Md, attribute),
            Where::CpuPolicy(attribute) => policies(facts, attribute),
            Where::Each(folder, attribute) => spots_in(facts, folder, attribute),
            Where::Pci(attribute) => functions(facts, attribute),
        }
    }

    /// The place is one of these, on whichever machine.
    pub(crate) fn holds(self, place: &SettingPlace) -> bool {
        match place {
            SettingPlace::Attribute(path) => {
                self.pattern().is_some_and(|pattern| fits(Path::new(&pattern), path))
            }
            SettingPlace::Driver { knob, .. } => self.knob().as_ref() == Some(knob),
            SettingPlace::DropIn(_) => false,
        }
    }

    /// The files, with `*` for what machines name each in its own way.
    fn pattern(self) -> Option<String> {
        Some(match self {
            Where::Sysctl(name) => format!("/proc/sys/{}", name.replace('.', "/")),
            Where::File(path) => path.to_string(),
            Where::Nic(attribute) => format!("/sys/class/net/*/{attribute}"),
            Where::RxQueue(attribute) | Where::TxQueue(attribute) => {
                format!("/sys/class/net/*/queues/*/{attribute}")
            }
            Where::NicInterrupt | Where::DiskInterrupt => "/proc/irq/*/smp_affinity_list".into(),
            Where::Disk(attribute) | Where::Md(attribute) => format!("/sys/block/*/{attribute}"),
            Where::CpuPolicy(attribute) => format!("/sys/devices/system/cpu/cpufreq/*/{attribute}"),
            Where::Each(folder, attribute) => format!("{folder}/*/{attribute}"),
            Where::Pci(attribute) => format!("/sys/bus/pci/devices/*/{attribute}"),
            _ => return None,
        })
    }

    /// What the driver keeps, where it is that.
    fn knob(self) -> Option<Knob> {
        Some(match self {
            Where::RxRing => Knob::RxRing,
            Where::TxRing => Knob::TxRing,
            Where::CombinedChannels => Knob::CombinedChannels,
            Where::AdaptiveRx => Knob::AdaptiveRx,
            Where::RxPause => Knob::RxPause,
            Where::TxPause => Knob::TxPause,
            Where::Feature(name) => Knob::Feature(name.to_string()),
            _ => return None,
        })
    }
}

/// A path part by part; a `*` is one name, never `..`.
fn fits(pattern: &Path, path: &Path) -> bool {
    let any = Component::Normal("*".as_ref());
    pattern.components().count() == path.components().count()
        && pattern
            .components()
            .zip(path.components())
            .all(|(wanted, part)| wanted == part || wanted == any && matches!(part, Component::Normal(_)))
}

/// A file of one device that nothing else names; an empty name for the whole machine.
fn spot(name: &str, path: PathBuf) -> Spot {
    let place = SettingPlace::Attribute(path);
    Spot { name: name.into(), of: name.into(), queue: None, place, device: None }
}

fn each_nic(facts: &GoalFacts, spots: impl Fn(&Nic) -> Vec<Spot>) -> Vec<Spot> {
    facts.machine.nics.iter().filter(|nic| !nic.loopback).flat_map(spots).collect()
}

fn nic_folder(nic: &Nic) -> PathBuf {
    Path::new("/sys/class/net").join(&nic.name)
}

fn of_nic(facts: &GoalFacts, nic: &Nic, queue: Option<(&str, u32)>, place: SettingPlace) -> Spot {
    let name = match queue {
        Some((queue, _)) => format!("{}/{queue}", nic.name),
        None => nic.name.clone(),
    };
    let device = Some(NamedDevice::look(&facts.sysroot, DeviceClass::Nic, &nic.name));
    Spot { name, of: nic.name.clone(), queue: queue.map(|(_, number)| number), place, device }
}

fn knobs(facts: &GoalFacts, knob: &Knob) -> Vec<Spot> {
    each_nic(facts, |nic| {
        let place = SettingPlace::Driver { interface: nic.name.clone(), knob: knob.clone() };
        vec![of_nic(facts, nic, None, place)]
    })
}

fn queues(facts: &GoalFacts, prefix: &str, attribute: &str) -> Vec<Spot> {
    each_nic(facts, |nic| {
        let folder = nic_folder(nic).join("queues");
        let mut numbers: Vec<u32> = facts
            .sysroot
            .list(&folder)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let spot = |number: u32| {
            let queue = format!("{prefix}{number}");
            let place = SettingPlace::Attribute(folder.join(&queue).join(attribute));
            of_nic(facts, nic, Some((&queue, number)), place)
        };
        numbers.into_iter().map(spot).collect()
    })
}

/// Interrupts of NICs, each with its place among those of its NIC.
fn interrupts(facts: &GoalFacts) -> Vec<Spot> {
    let with_wire = facts.machine.nics.iter().filter(|nic| !without_wire(nic) && nic.pci.is_some());
    let spots = with_wire.flat_map(|nic| {
        let own = facts.machine.interrupts.iter().filter(|interrupt| interrupt.pci == nic.pci);
        let single = facts.machine.nics.iter().filter(|other| other.pci == nic.pci).count() == 1;
        // A card of several ports reports the interface in the name of the interrupt; what belongs to no queue
        // is left alone.
        let own = own.filter(move |one| is_queue(&one.name, &nic.name, single));
        own.enumerate()
            .map(move |(index, one)| of_interrupt(facts, one, &nic.name, u32::try_from(index).ok()))
    });
    spots.collect()
}

fn of_interrupt(facts: &GoalFacts, interrupt: &Interrupt, device: &str, queue: Option<u32>) -> Spot {
    let number = interrupt.number.to_string();
    Spot {
        name: format!("{device}/{number}"),
        of: device.into(),
        queue,
        place: SettingPlace::Attribute(Path::new("/proc/irq").join(&number).join("smp_affinity_list")),
        device: Some(NamedDevice::look(&facts.sysroot, DeviceClass::Interrupt, &number)),
    }
}

/// Interrupts of disks' queues. Where a controller has several disks (namespaces, SAS), its queues are theirs
/// together: the first is taken for all.
fn disk_interrupts(facts: &GoalFacts) -> Vec<Spot> {
    let mut met = std::collections::BTreeSet::new();
    let whole = |kind: DiskKind| matches!(kind, DiskKind::Nvme | DiskKind::Scsi | DiskKind::Virtio);
    let disks = facts.machine.disks.iter().filter(|disk| whole(disk.kind) && disk.pci.is_some());
    let spots = disks.filter(|disk| met.insert(disk.pci.clone())).flat_map(|disk| {
        let own = facts.machine.interrupts.iter().filter(|interrupt| interrupt.pci == disk.pci);
        let queues = own.filter_map(|one| Some((one, disk_queue(&one.name)?)));
        queues.map(|(one, queue)| of_interrupt(facts, one, &disk.name, Some(queue)))
    });
    spots.collect()
}

/// The hardware queue of an interrupt, from 0: `nvme0q3` is the third (`nvme0q0` takes commands for the
/// controller itself), `virtio1-req.2` and `mpt3sas0-msix2` count from 0.
fn disk_queue(name: &str) -> Option<u32> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (word, number) = (&name[..digits], name[digits..].parse::<u32>().ok()?);
    match word {
        _ if word.starts_with("nvme") && word.ends_with('q') => number.checked_sub(1),
        _ if word.ends_with("-req.") || word.ends_with("-msix") => Some(number),
        _ => None,
    }
}

/// The interrupt is a queue's: `eth0-TxRx-3`, `mlx5_comp3@pci:…`, `virtio0-input.0`, `i40e-eth0-TxRx-3`.
fn is_queue(name: &str, nic: &str, single: bool) -> bool {
    let name = name.to_ascii_lowercase();
    let names_queue = ["txrx", "comp", "input", "output", "rx", "tx"].iter().any(|word| name.contains(word));
    names_queue && (single || name.contains(&nic.to_ascii_lowercase()))
}

fn disks(facts: &GoalFacts, wanted: impl Fn(DiskKind) -> bool, attribute: &str) -> Vec<Spot> {
    let of_disk = |disk: &Disk| Spot {
        device: Some(NamedDevice::look(&facts.sysroot, DeviceClass::Disk, &disk.name)),
        ..spot(&disk.name, Path::new("/sys/block").join(&disk.name).join(attribute))
    };
    facts.machine.disks.iter().filter(|disk| wanted(disk.kind)).map(of_disk).collect()
}

fn policies(facts: &GoalFacts, attribute: &str) -> Vec<Spot> {
    let folder = Path::new("/sys/devices/system/cpu/cpufreq");
    let names = facts.sysroot.list(folder).into_iter().filter(|name| name.starts_with("policy"));
    names.map(|name| spot(&name, folder.join(&name).join(attribute))).collect()
}

fn spots_in(facts: &GoalFacts, folder: &str, attribute: &str) -> Vec<Spot> {
    let folder = Path::new(folder);
    let mut names = facts.sysroot.list(folder);
    names.retain(|name| facts.sysroot.exists(folder.join(name).join(attribute)));
    names.sort();
    names.iter().map(|name| spot(name, folder.join(name).join(attribute))).collect()
}

fn functions(facts: &GoalFacts, attribute: &str) -> Vec<Spot> {
    let nics = facts.machine.nics.iter().filter_map(|nic| nic.pci.as_ref());
    let disks = facts.machine.controllers.iter().filter_map(|controller| controller.pci.as_ref());
    let addresses: std::collections::BTreeSet<&String> = nics.chain(disks).collect();
    let folder = Path::new("/sys/bus/pci/devices");
    addresses.into_iter().map(|address| spot(address, folder.join(address).join(attribute))).collect()
}

#[cfg(test)]
mod tests {
    use super::disk_queue;

    #[test]
    fn an_interrupt_names_its_queue() {
        for (name, queue) in [
            ("nvme0q1", Some(0)),
            ("nvme12q64", Some(63)),
            ("nvme0q0", None),
            ("virtio1-req.0", Some(0)),
            ("mpt3sas0-msix7", Some(7)),
            ("virtio1-config", None),
            ("ahci[0000:00:1f.2]", None),
            ("nvme0q99999999999", None),
            ("", None),
        ] {
            assert_eq!(disk_queue(name), queue, "{name}");
        }
    }
}
