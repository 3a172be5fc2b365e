//! Machines that one does not own: what other tools wrote about a server, put together into one machine, and
//! what its counters show. Each listing is known by its content.
//!
//! Listings may also lie beside a recorded `/proc` and `/sys`: they are the command files of a sosreport.

mod block;
mod hardware;
mod interfaces;
mod listing;
pub mod lstopo;
pub mod nccl;
mod places;
mod processors;
mod topology_xml;

pub use topology_xml::TopologyError;

use super::lspci::{self, LspciError};
use super::smbios::{self, FirmwareError};
use super::{Machine, cloud, fill, nic, pci};
use linerate_facts::counters::listed::{self, CountedListings};
use linerate_facts::counters::{NetworkCounters, parse_flat, parse_groups, parse_softnet};
use linerate_facts::fact::{Fact, NOT_RECORDED};
use linerate_facts::printable::utf8;
use linerate_facts::sysroot::Sysroot;
use listing::{Listing, ListingKind, listings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file's content and where it came from, for messages.
#[derive(Clone, Debug)]
pub struct NamedText {
    /// The file's name.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What is known of a machine, in any mixture.
#[derive(Clone, Debug, Default)]
pub struct ForeignSources {
    /// A recorded tree (or this machine's own), and the listings beside it. It is believed before all else but `dmidecode`,
    /// since often only root may read the firmware's table.
    pub tree: Option<Sysroot>,
    /// Listings, in the order of their time where two are of one kind.
    pub files: Vec<NamedText>,
}

/// What came of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribedMachine {
    pub machine: Machine,
    /// Counters of the listings: since the boot, and between two of one kind.
    pub counted: CountedListings,
}

/// A file that says nothing of a machine: a sentence with the file, the line, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: {why}")]
pub struct SourceError {
    pub file: String,
    pub why: SourceFault,
}

/// What is wrong with a file, by the tool that should have written it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceFault {
    #[error(transparent)]
    Lspci(#[from] LspciError),
    #[error(transparent)]
    Firmware(#[from] FirmwareError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("is neither text nor a table of dmidecode; save what the tool prints, `lspci -vv > lspci.txt`")]
    NoText,
    #[error("is empty; save what the tool prints, `lspci -vv > lspci.txt`")]
    Empty,
    #[error(
        "begins as JSON or XML, but ends before its end, or is of no tool that is known here; save the listing whole"
    )]
    NoDocument,
    #[error(
        "holds no listing that is known here: “{begins}”; wanted is what lspci, lshw, dmidecode, lstopo, lscpu, numactl, \
         lsblk -J, nvme list -o json, mdadm --detail, ip, ethtool, netstat -s, nstat, ss, tc or sysctl -a print"
    )]
    Unknown {
        /// How its first line begins.
        begins: String,
    },
}

/// A file is a listing: it holds at least one, or the firmware's table.
pub fn is_listing(file: &NamedText) -> bool {
    Sources::default().take(file).is_ok()
}

/// One machine of all sources, with what its counters show.
pub fn described(sources: &ForeignSources) -> Result<DescribedMachine, SourceError> {
    let mut all = Sources::default();
    for file in &sources.files {
        all.take(file).map_err(|why| SourceError { file: file.name.clone(), why })?;
    }
    for file in sources.tree.as_ref().map(files_beside_tree).unwrap_or_default() {
        // Most files of a report are of no tool that is read here.
        let _ = all.take(&file);
    }
    let tree = sources.tree.as_ref().map(super::probe);
    Ok(DescribedMachine { machine: all.machine(tree)?, counted: all.counted() })
}

/// All listings, each with the file that it is in.
#[derive(Default)]
struct Sources {
    listings: Vec<(String, Listing)>,
    firmware: Option<(String, smbios::Firmware)>,
}

impl Sources {
    fn take(&mut self, file: &NamedText) -> Result<(), SourceFault> {
        let text = utf8(&file.bytes);
        if text.contains(&0) {
            let firmware = smbios::from_table(&text).map_err(|_| SourceFault::NoText)?;
            if firmware.modules.is_empty() && firmware.sockets.is_empty() {
                return Err(SourceFault::NoText);
            }
            self.firmware.get_or_insert((file.name.clone(), firmware));
            return Ok(());
        }
        let text = String::from_utf8_lossy(&text);
        let found = listings(&file.name, &text);
        if found.is_empty() {
            return Err(nothing_in(&text));
        }
        self.listings.extend(found.into_iter().map(|one| (file.name.clone(), one)));
        Ok(())
    }

    fn of(&self, kind: ListingKind) -> impl Iterator<Item = &(String, Listing)> {
        self.listings.iter().filter(move |(_, one)| one.kind == kind)
    }

    fn machine(&self, mut machine: Option<Machine>) -> Result<Machine, SourceError> {
        let on_function = |machine: &Machine| machine.nics.iter().any(|nic| nic.pci.is_some());
        let has = |kind| self.of(kind).next().is_some();
        let mut interfaces_are_listed = machine.as_ref().is_some_and(on_function) || has(ListingKind::IpLink);
        for part in self.parts()? {
            machine = match machine {
                None => Machine::of_json(&part).ok(),
                Some(machine) => Some(fill::fill(machine, &part)),
            };
        }
        let mut machine = machine.unwrap_or_default();
        pci::name(&mut machine.pci);
        if !self.listings.is_empty() {
            machine = places::fill_in(machine);
            // One of the functions is its own: each would count twice.
            interfaces_are_listed |= machine.nics.iter().any(places::is_unplaced);
        }
        nic::by_class::add(&mut machine, interfaces_are_listed);
        let printed = self.of(ListingKind::Dmidecode).next();
        if let Some((file, listing)) = printed {
            let why = |why: FirmwareError| SourceError { file: file.clone(), why: why.into() };
            smbios::apply(Ok(smbios::from_dmidecode(listing.text()).map_err(why)?), &mut machine);
        } else if let Some((_, firmware)) = &self.firmware {
            smbios::apply(Ok(firmware.clone()), &mut machine);
        }
        cloud::apply(&mut machine);
        Ok(machine)
    }

    /// What each reports, as a part of the machine's JSON, those that are believed first before the others.
    fn parts(&self) -> Result<Vec<Value>, SourceError> {
        let mut parts = Vec::new();
        // The tree, the words and the bytes of `lspci` are about the same functions.
        let lspci: String = self.of(ListingKind::Lspci).map(|(_, one)| one.text()).collect();
        if let Some((file, _)) = self.of(ListingKind::Lspci).next() {
            let pci = lspci::from_lspci(&lspci)
                .map_err(|why| SourceError { file: file.clone(), why: why.into() })?;
            parts.push(told_by(Machine { pci, ..Machine::default() }, "lspci"));
        }
        let mut sorted: Vec<&(String, Listing)> = self.listings.iter().collect();
        sorted.sort_by_key(|(_, one)| one.kind);
        for (file, listing) in sorted {
            let read = part(listing).map_err(|why| SourceError { file: file.clone(), why })?;
            parts.extend(read.map(|(machine, tool)| told_by(machine, tool)));
        }
        let files = self.kernel_files();
        if !files.is_empty() {
            parts.push(told_by(super::probe(&Sysroot::files(files)), "/proc"));
        }
        Ok(parts)
    }

    /// Files of the kernel's that are in the pile, and those that `sysctl -a` stands for.
    fn kernel_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for (_, listing) in &self.listings {
            match listing.kind {
                ListingKind::KernelFile(path) => {
                    files.entry(PathBuf::from(path)).or_insert_with(|| listing.text().as_bytes().to_vec());
                }
                ListingKind::Sysctl => {
                    for (path, value) in listing.text().lines().filter_map(setting) {
                        files.entry(path).or_insert_with(|| format!("{value}\n").into_bytes());
                    }
                }
                _ => {}
            }
        }
        files
    }

    fn counted(&self) -> CountedListings {
        let counters = |(_, listing): &(String, Listing)| counters(listing);
        let all: Vec<(&str, NetworkCounters)> = self.listings.iter().filter_map(counters).collect();
        let sockets = self.of(ListingKind::SsSockets).last();
        CountedListings {
            sockets: sockets.and_then(|(_, one)| listed::ss_sockets(one.text())),
            ..listed::over_time(&all)
        }
    }
}

fn nothing_in(text: &str) -> SourceFault {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    match first {
        None => SourceFault::Empty,
        Some(line) if line.starts_with(['{', '[', '<']) => SourceFault::NoDocument,
        Some(line) => SourceFault::Unknown {
            begins: line.chars().filter(|letter| !letter.is_control()).take(60).collect(),
        },
    }
}

/// `net.core.rmem_max = 212992` as the file that holds it; a dot within a name is a slash there.
fn setting(line: &str) -> Option<(PathBuf, &str)> {
    let (name, value) = line.split_once('=')?;
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = name.trim().chars().map(swap).collect();
    let plain = !path.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    plain.then(|| (PathBuf::from("/proc/sys").join(path), value.trim()))
}

/// The part of the machine that one listing reports, and the tool.
fn part(listing: &Listing) -> Result<Option<(Machine, &'static str)>, SourceFault> {
    let text = listing.text();
    let json = || listing.json();
    let (machine, tool) = match listing.kind {
        ListingKind::Lstopo => (Some(lstopo::from_lstopo(text)?), "lstopo"),
        ListingKind::Nccl => (Some(nccl::from_nccl(text)?), "NCCL"),
        ListingKind::EthtoolDriver => {
            (interfaces::from_driver(text, listing.interface.as_deref()), "ethtool")
        }
        ListingKind::Ethtool => (interfaces::from_ethtool(text), "ethtool"),
        ListingKind::IpLink => (interfaces::from_ip(text), "ip"),
        ListingKind::LscpuTable => (processors::from_table(text), "lscpu"),
        ListingKind::Lscpu => (processors::from_lscpu(listing), "lscpu"),
        ListingKind::Numactl => (processors::from_numactl(text), "numactl"),
        ListingKind::NvmeList => (json().and_then(block::from_nvme), "nvme list"),
        ListingKind::Lsblk => (json().and_then(block::from_lsblk), "lsblk"),
        ListingKind::Mdadm => (block::from_mdadm(text), "mdadm"),
        ListingKind::Links => (places::from_links(text), "ls"),
        ListingKind::Lshw => (hardware::from_lshw(listing)?, "lshw"),
        _ => (None, ""),
    };
    Ok(machine.map(|machine| (machine, tool)))
}

/// The counters that one listing has, and the tool.
fn counters(listing: &Listing) -> Option<(&'static str, NetworkCounters)> {
    let text = listing.text();
    let nic = listing.interface.as_deref().unwrap_or("NIC");
    let protocols = |groups| NetworkCounters { snmp: groups, ..NetworkCounters::default() };
    let (tool, counters) = match listing.kind {
        ListingKind::Netstat => ("netstat", listed::netstat(text)),
        ListingKind::Nstat => {
            let json = listing.json().map(Value::to_string);
            ("nstat", listed::nstat(json.as_deref().unwrap_or(text)))
        }
        ListingKind::EthtoolStatistics => ("ethtool", listed::driver_counters(nic, text)),
        ListingKind::IpLink => ("ip", listed::ip_links(text)),
        ListingKind::TcQdisc => ("tc", listed::tc_qdiscs(text)),
        ListingKind::KernelFile("/proc/net/snmp") => {
            ("snmp", parse_groups(text).map(Fact::Known).map(protocols))
        }
        ListingKind::KernelFile("/proc/net/netstat") => {
            ("netstat file", parse_groups(text).map(Fact::Known).map(protocols))
        }
        ListingKind::KernelFile("/proc/net/snmp6") => {
            let flat = parse_flat(text).map(Fact::Known);
            ("snmp6", flat.map(|snmp6| NetworkCounters { snmp6, ..NetworkCounters::default() }))
        }
        ListingKind::KernelFile("/proc/net/softnet_stat") => {
            let cores = parse_softnet(text).map(Fact::Known);
            ("softnet", cores.map(|softnet| NetworkCounters { softnet, ..NetworkCounters::default() }))
        }
        _ => return None,
    };
    Some((tool, counters?))
}

/// The machine's JSON with a reason where the reader had none.
fn told_by(machine: Machine, tool: &str) -> Value {
    fn give_reason(value: &mut Value, why: &str) {
        match value {
            Value::Object(fields) => match fields.get_mut("unknown") {
                Some(Value::String(text)) if text == NOT_RECORDED => *text = why.to_string(),
                _ => fields.values_mut().for_each(|value| give_reason(value, why)),
            },
            Value::Array(list) => list.iter_mut().for_each(|value| give_reason(value, why)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(machine).unwrap_or_default();
    give_reason(&mut value, &format!("{tool} does not report"));
    value
}

/// Folders of `sos_commands` with what is read here.
const FOLDERS: [&str; 10] =
    ["pci", "hardware", "devices", "networking", "block", "processor", "md", "nvme", "numa", "kernel"];
/// Files of one report: a host of 64 interfaces has some 700 of `ethtool` alone.
const MOST_FILES: usize = 4096;

/// Their names and contents; at the top only where there is no folder of commands, since links to it lie there.
fn files_beside_tree(tree: &Sysroot) -> Vec<NamedText> {
    if tree.is_live() {
        return Vec::new();
    }
    let commands = Path::new("/sos_commands");
    let folders: Vec<_> = match tree.is_directory(commands) {
        true => FOLDERS.iter().map(|folder| commands.join(folder)).collect(),
        false => vec![Path::new("/").to_path_buf()],
    };
    let paths = folders.iter().flat_map(|folder| tree.list(folder).into_iter().map(|name| folder.join(name)));
    let files = paths.filter(|path| tree.exists(path) && !tree.is_directory(path)).take(MOST_FILES);
    files
        .filter_map(|path| {
            Some(NamedText { name: path.display().to_string(), bytes: tree.bytes(&path).ok()? })
        })
        .collect()
}

#[cfg(test)]
mod tests;
