//! What changes seldom and may keep a reader waiting: link rates and states, names and sizes of disks, PCIe
//! links, the control group's quota.

use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::Throttle;
use linerate_machine::probe::pci;
use linerate_machine::probe::{
    Disk, Machine, Nic, NicLink, PciLink, cpu_list, nic_drivers, nic_link, virtualisation,
};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology};
use std::collections::BTreeMap;
use std::path::Path;

/// More than any machine has.
const MOST: usize = 4096;

/// All of it, at one time.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub nics: BTreeMap<String, NicLink>,
    /// By the kernel's name, partitions too.
    pub disks: BTreeMap<String, DiskDetails>,
    /// NUMA node by core.
    pub nodes: BTreeMap<u32, u32>,
    /// Links of NICs and disks, and those above them.
    pub links: Vec<LinkNow>,
    pub throttle: Throttle,
}

/// What a disk is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskDetails {
    pub model: Option<String>,
    pub size_bytes: Option<u64>,
    pub partition: bool,
    /// It has no device of its own (loop, zram, dm, md).
    pub is_virtual: bool,
    /// Name of its device on its bus (`nvme0`, `virtio1`).
    pub bus_name: Option<String>,
    /// Address of its PCI function.
    pub pci: Option<String>,
}

/// A PCIe link as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkNow {
    /// Of its end away from the processor.
    pub address: String,
    /// What is behind it.
    pub devices: Vec<String>,
    pub runs: PciLink,
    pub able: PciLink,
    /// Below what both ends can, and not to save power.
    pub below: bool,
}

pub(crate) fn details(sysroot: &Sysroot) -> impl FnMut() -> Details + Send + 'static {
    let sysroot = sysroot.clone();
    let ethtool = nic_drivers(&sysroot);
    let mut last = Details::default();
    // What the links' files said when the links were judged last: judging reads configuration space, which is
    // dear.
    let mut judged: Option<Vec<String>> = None;
    move || {
        let nics = names(&sysroot, "/sys/class/net").filter(|name| name != "lo");
        let nics: BTreeMap<String, NicLink> =
            nics.map(|name| (name.clone(), nic_link(&sysroot, &ethtool, &name))).collect();
        let known = std::mem::take(&mut last.disks);
        let disks: BTreeMap<String, DiskDetails> = names(&sysroot, "/sys/class/block")
            .map(|name| (name.clone(), known.get(&name).cloned().unwrap_or_else(|| disk(&sysroot, &name))))
            .collect();
        let behind = behind(&nics, &disks);
        let link_states = link_states(&sysroot, &behind, &nics);
        let mut links = std::mem::take(&mut last.links);
        if judged.as_ref() != Some(&link_states) {
            links = judge(&machine(&sysroot, &nics, &disks), &behind);
            judged = Some(link_states);
        }
        if last.nodes.is_empty() {
            last.nodes = nodes(&sysroot);
        }
        let throttle = Throttle::read(&sysroot);
        last = Details { nics, disks, links, throttle, nodes: std::mem::take(&mut last.nodes) };
        last.clone()
    }
}

fn names(sysroot: &Sysroot, folder: &str) -> impl Iterator<Item = String> {
    sysroot.list(folder).into_iter().take(MOST)
}

fn disk(sysroot: &Sysroot, name: &str) -> DiskDetails {
    let place = Path::new("/sys/class/block").join(name);
    let model = sysroot.text(place.join("device/model")).unwrap_or_default();
    let model = model.split_whitespace().collect::<Vec<_>>().join(" ");
    DiskDetails {
        model: (!model.is_empty()).then_some(model),
        size_bytes: sysroot
            .parse::<u64>(place.join("size"))
            .known()
            .map(|sectors| sectors.saturating_mul(512)),
        partition: sysroot.exists(place.join("partition")),
        is_virtual: !sysroot.exists(place.join("device")),
        bus_name: sysroot.link_name(place.join("device")),
        pci: sysroot.follow(&place).and_then(|path| pci::nearest(&path)),
    }
}

/// NICs and whole disks by the address of their PCI function.
fn behind(
    nics: &BTreeMap<String, NicLink>,
    disks: &BTreeMap<String, DiskDetails>,
) -> BTreeMap<String, Vec<String>> {
    let nics = nics.iter().map(|(name, nic)| (name, nic.pci.as_ref()));
    let whole = disks.iter().filter(|(_, disk)| !disk.partition && !disk.is_virtual);
    let disks = whole.map(|(name, disk)| (name, disk.pci.as_ref()));
    let mut behind: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, pci) in nics.chain(disks) {
        if let Some(pci) = pci {
            behind.entry(pci.clone()).or_default().push(name.clone());
        }
    }
    behind
}

/// What the judgement of the links follows from and changes: two small files for each, and which NICs are up.
fn link_states(
    sysroot: &Sysroot,
    behind: &BTreeMap<String, Vec<String>>,
    nics: &BTreeMap<String, NicLink>,
) -> Vec<String> {
    let link = |address: &String| {
        let place = Path::new("/sys/bus/pci/devices").join(address);
        let text = |name: &str| sysroot.text(place.join(name)).unwrap_or_default();
        format!("{address} {} {}", text("current_link_speed"), text("current_link_width"))
    };
    let nic = |(name, nic): (&String, &NicLink)| format!("{name} {:?}", nic.state);
    behind.keys().map(link).chain(nics.iter().map(nic)).collect()
}

/// As much of the machine as its links follow from.
fn machine(
    sysroot: &Sysroot,
    nics: &BTreeMap<String, NicLink>,
    disks: &BTreeMap<String, DiskDetails>,
) -> Machine {
    let virtualisation = virtualisation(sysroot);
    let is_guest = virtualisation.known().is_some_and(|name| name != "none");
    let nic = |(name, link): (&String, &NicLink)| Nic {
        name: name.clone(),
        speed_bits_per_second: link.speed_bits_per_second.clone(),
        driver: link.driver.clone(),
        state: link.state.clone(),
        pci: link.pci.clone(),
        ..Nic::default()
    };
    let disk = |(name, disk): (&String, &DiskDetails)| Disk {
        name: name.clone(),
        pci: disk.pci.clone(),
        ..Disk::default()
    };
    Machine {
        pci: pci::read(sysroot, is_guest),
        virtualisation,
        nics: nics.iter().map(nic).collect(),
        disks: disks.iter().filter(|(_, disk)| !disk.partition && !disk.is_virtual).map(disk).collect(),
        ..Machine::default()
    }
}

/// The links on the way from each NIC and disk to the processor, each once.
fn judge(machine: &Machine, behind: &BTreeMap<String, Vec<String>>) -> Vec<LinkNow> {
    let tree = Topology::new(machine);
    let mut found: BTreeMap<String, LinkNow> = BTreeMap::new();
    for (address, names) in behind {
        let Some(device) = tree.find(address) else { continue };
        for one in std::iter::once(device).chain(tree.above(device)) {
            let Some(link) = tree.link(one).and_then(link_now) else { continue };
            let entry = found.entry(link.address.clone()).or_insert(link);
            for name in names {
                if !entry.devices.contains(name) {
                    entry.devices.push(name.clone());
                }
            }
        }
    }
    found.into_values().collect()
}

fn link_now(link: LinkEnds) -> Option<LinkNow> {
    Some(LinkNow {
        address: link.device.address.clone(),
        devices: Vec::new(),
        runs: link.runs?,
        able: link.able?,
        below: matches!(link.condition, LinkCondition::Below { .. }),
    })
}

fn nodes(sysroot: &Sysroot) -> BTreeMap<u32, u32> {
    let place = Path::new("/sys/devices/system/node");
    let numbered = |name: String| Some((name.strip_prefix("node")?.parse::<u32>().ok()?, name));
    let nodes = sysroot.list(place).into_iter().filter_map(numbered).take(MOST);
    let cores = |(node, name): (u32, String)| {
        let text = sysroot.text(place.join(name).join("cpulist")).unwrap_or_default();
        let cores = cpu_list::parse_list(&text).unwrap_or_default();
        cores.into_iter().map(move |core| (core, node)).collect::<Vec<_>>()
    };
    nodes.flat_map(cores).collect()
}
