//! Memory, sockets and slots for cards as the firmware describes them: SMBIOS types 4, 9, 16 and 17, from the
//! kernel's table, a dump, or `dmidecode`'s text.
//!
//! `read(&Sysroot)`, [`from_table`], [`from_dmidecode`] → [`Firmware`]; [`apply`] puts it into a `Machine`,
//! with channels and bandwidth.

mod bandwidth;
mod channels;
mod decode;
mod locator;
mod processor;
mod slot;
mod text;

use super::{ChannelState, Machine, Socket, cloud};
use crate::probe::{CardSlot, MemoryArray, MemoryModule};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, UnreadReason, Unreadable};
use std::collections::BTreeSet;
use thiserror::Error;

const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

/// Reads an SMBIOS table: the bytes of `/sys/firmware/dmi/tables/DMI`, or an entry point and a table as
/// `dmidecode --dump-bin` writes them.
/// A table that breaks off is not an error: see [`Firmware::damage`].
pub fn from_table(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    decode::read(bytes)
}

/// Reads the text that `dmidecode` prints.
pub fn from_dmidecode(text: &str) -> Result<Firmware, FirmwareError> {
    text::read(text)
}

/// Reads either: a file that somebody gave as `dmidecode`'s output may be the table itself.
pub fn from_bytes(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    if bytes.starts_with(b"_SM") || bytes.contains(&0) {
        return from_table(bytes);
    }
    from_dmidecode(&String::from_utf8_lossy(bytes))
}

/// Reads the table of this machine or of a recorded tree. What the
/// processor reports of a hypervisor counts where the table looks like a real machine's.
pub(super) fn read(sysroot: &Sysroot, virtualisation: &Fact<String>) -> Result<Firmware, FirmwareError> {
    if !sysroot.exists(TABLE) {
        return Err(FirmwareError::NoTable);
    }
    let mut firmware = from_table(&sysroot.bytes(TABLE)?)?;
    let by_processor = virtualisation.known().filter(|name| *name != "none").cloned();
    firmware.hypervisor = firmware.hypervisor.or(by_processor);
    Ok(firmware)
}

/// Puts what the firmware tells into a machine: sockets, slots, channels, bandwidth; or why it reports nothing.
/// What else the machine holds stays.
pub fn apply(firmware: Result<Firmware, FirmwareError>, machine: &mut Machine) {
    let known = firmware.as_ref().ok().filter(|_| machine.instance.known().is_none());
    if let Some(firmware) = known {
        machine.instance = cloud::by_firmware(&firmware.maker, &firmware.product);
    }
    let memory = &mut machine.memory;
    let mut firmware = match firmware {
        Ok(firmware) => firmware,
        Err(why) => {
            memory.rated_bytes_per_second = Fact::unknown(&why);
            memory.channels = Fact::unknown(why);
            return;
        }
    };
    for socket in &mut firmware.sockets {
        let version = socket.version.known().map(String::as_str).unwrap_or_default();
        socket.memory_channels = Fact::from_option(
            processor::channels(version).own(),
            "no data sheet of this processor is known here",
        );
    }
    let inferred = channels::infer(&firmware);
    for (module, channel) in firmware.modules.iter_mut().zip(inferred.of_modules) {
        module.channel = channel;
    }
    let processor = processor::of(&firmware.sockets);
    let states = bandwidth::states(&firmware.modules);
    memory.rated_bytes_per_second =
        bandwidth::rated(&firmware.modules, &states, &inferred.populated, processor);
    memory.channel_states = without_empty_sockets(states, &firmware.sockets);
    memory.channels = inferred.populated;
    memory.channels_confidence = inferred.confidence;
    memory.modules = firmware.modules;
    memory.arrays = firmware.arrays;
    machine.cpu.sockets = firmware.sockets;
    // A hypervisor makes them up.
    if firmware.hypervisor.is_none() {
        machine.slots = firmware.slots;
    }
}

/// Slots of a socket without a processor cannot be used: their channels are not empty, they are not there.
/// Such sockets are those that hold no module, where as many processors are missing.
fn without_empty_sockets(states: Vec<ChannelState>, sockets: &[Socket]) -> Vec<ChannelState> {
    let with_modules: BTreeSet<u32> =
        states.iter().filter(|state| state.populated > 0).map(|state| state.channel.socket).collect();
    let all: BTreeSet<u32> = states.iter().map(|state| state.channel.socket).collect();
    let missing = sockets.iter().filter(|socket| !socket.populated).count();
    match all.len() - with_modules.len() <= missing {
        true => states.into_iter().filter(|state| with_modules.contains(&state.channel.socket)).collect(),
        false => states,
    }
}

/// A phrase for `Fact::Unknown`, or a sentence for who gave a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FirmwareError {
    #[error("no SMBIOS table describes the DIMMs")]
    NoTable,
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("{0}; run as root, or name a file with the output of dmidecode")]
    NotPermitted(Unreadable),
    /// The bytes hold no structure; with the cause.
    #[error(
        "no SMBIOS table: {0}; give /sys/firmware/dmi/tables/DMI or what `dmidecode --dump-bin FILE` writes"
    )]
    NoStructure(String),
    /// A line of a text that dmidecode did not print.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("more than {MOST} {0}: no such machine is built; the table is broken")]
    TooMany(&'static str),
}

impl From<Unreadable> for FirmwareError {
    fn from(why: Unreadable) -> Self {
        match why.reason {
            UnreadReason::NotPermitted => FirmwareError::NotPermitted(why),
            _ => FirmwareError::Unreadable(why),
        }
    }
}

/// Why a figure of the firmware is unknown.
const NOT_TOLD: &str = "the firmware does not report";

/// More slots, sockets or arrays than this no machine has; the table is broken or hostile.
const MOST: usize = 4096;

/// What the firmware reports of memory, sockets and slots. The channels are not in it: [`apply`] infers them
/// from the locators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Firmware {
    /// Maker of the system (type 1), empty where the firmware does not report.
    pub maker: String,
    /// Product name of the system (type 1), likewise.
    pub product: String,
    /// The hypervisor that made this table up; `None` for a real machine.
    pub hypervisor: Option<String>,
    /// Sockets of central processors (type 4).
    pub sockets: Vec<Socket>,
    /// Slots for cards of PCI Express (type 9).
    pub slots: Vec<CardSlot>,
    /// Groups of slots of system memory (type 16).
    pub arrays: Vec<MemoryArray>,
    /// Slots (type 17).
    pub modules: Vec<MemoryModule>,
    /// What is broken in the table; what is before it was read.
    pub damage: Option<String>,
    /// Makers of the firmware (type 0) and of the board (type 2): rebranded servers still name the builder
    /// there.
    builders: String,
}

impl Firmware {
    fn add_builder(&mut self, name: &str) {
        if self.builders.len() < decode::LONGEST_STRING {
            self.builders = format!("{} {name}", self.builders);
        }
    }

    fn add_socket(&mut self, socket: Option<Socket>) -> Result<(), FirmwareError> {
        add(&mut self.sockets, socket, "processor sockets (type 4)")
    }

    fn add_slot(&mut self, slot: Option<CardSlot>) -> Result<(), FirmwareError> {
        add(&mut self.slots, slot, "system slots (type 9)")
    }

    fn add_array(&mut self, array: Option<MemoryArray>) -> Result<(), FirmwareError> {
        add(&mut self.arrays, array, "memory arrays (type 16)")
    }

    fn add_module(&mut self, module: Option<MemoryModule>) -> Result<(), FirmwareError> {
        add(&mut self.modules, module, "memory devices (type 17)")
    }

    /// A maker or the product has one of these words (lower case) in its name.
    fn is_of(&self, words: &[&str]) -> bool {
        let name = format!("{} {} {}", self.maker, self.product, self.builders).to_ascii_lowercase();
        words.iter().any(|word| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == *word))
    }
}

fn add<T>(to: &mut Vec<T>, one: Option<T>, what: &'static str) -> Result<(), FirmwareError> {
    if to.len() >= MOST {
        return Err(FirmwareError::TooMany(what));
    }
    to.extend(one);
    Ok(())
}

/// Maker and part number in one text.
fn part(maker: Option<&str>, number: Option<&str>) -> Fact<String> {
    let words: Vec<&str> = [maker, number].into_iter().flatten().filter_map(decode::stated).collect();
    Fact::from_option((!words.is_empty()).then(|| words.join(" ")), NOT_TOLD)
}

/// The hypervisor by what the table calls the machine: its DIMMs are made up and say nothing of the host's.
fn by_identity(firmware: &Firmware) -> Option<String> {
    const MAKERS: [(&str, &str); 8] = [
        ("QEMU", "QEMU"),
        ("VMware", "VMware"),
        ("innotek", "VirtualBox"),
        ("Xen", "Xen"),
        ("Parallels", "Parallels"),
        ("BHYVE", "bhyve"),
        ("OpenStack", "OpenStack"),
        ("Red Hat", "KVM"),
    ];
    // The flag "system is a virtual machine" of type 0 is not a sign: real boards (Supermicro X9DRi) set it.
    let Firmware { maker, product, .. } = firmware;
    let by_maker = MAKERS.iter().find(|(begin, _)| maker.starts_with(begin)).map(|(_, name)| *name);
    let by_product = match product.as_str() {
        "Virtual Machine" if maker.starts_with("Microsoft") => Some("Hyper-V"),
        "Google Compute Engine" => Some("Google Compute Engine"),
        "KVM" | "RHEV Hypervisor" => Some("KVM"),
        // Whole machines are rented under the same maker: m5.metal, c7g.metal-48xl.
        product if maker == "Amazon EC2" && !product.contains(".metal") => Some("Amazon EC2"),
        _ => None,
    };
    by_maker.or(by_product).map(String::from)
}

#[cfg(test)]
mod tests;
