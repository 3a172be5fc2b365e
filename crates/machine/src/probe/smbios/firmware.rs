//! What the firmware reports of memory and sockets, from whichever form it was read.

use super::{FirmwareError, names};
use crate::probe::{CardSlot, MemoryArray, MemoryModule, Socket};
use linerate_facts::fact::Fact;

/// Why a figure of the firmware is unknown.
pub(super) const NOT_TOLD: &str = "the firmware does not report";

/// More slots, sockets or arrays than this no machine has; the table is broken or hostile.
pub(super) const MOST: usize = 4096;

/// What the firmware reports of memory, sockets and slots. The channels are not in it: [`super::apply`] infers them
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
    pub(super) builders: String,
}

impl Firmware {
    pub(super) fn add_builder(&mut self, name: &str) {
        if self.builders.len() < super::table::LONGEST_STRING {
            self.builders = format!("{} {name}", self.builders);
        }
    }

    pub(super) fn add_socket(&mut self, socket: Option<Socket>) -> Result<(), FirmwareError> {
        add(&mut self.sockets, socket, "processor sockets (type 4)")
    }

    pub(super) fn add_slot(&mut self, slot: Option<CardSlot>) -> Result<(), FirmwareError> {
        add(&mut self.slots, slot, "system slots (type 9)")
    }

    pub(super) fn add_array(&mut self, array: Option<MemoryArray>) -> Result<(), FirmwareError> {
        add(&mut self.arrays, array, "memory arrays (type 16)")
    }

    pub(super) fn add_module(&mut self, module: Option<MemoryModule>) -> Result<(), FirmwareError> {
        add(&mut self.modules, module, "memory devices (type 17)")
    }

    /// A maker or the product has one of these words (lower case) in its name.
    pub(super) fn is_of(&self, words: &[&str]) -> bool {
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
pub(super) fn part(maker: Option<&str>, number: Option<&str>) -> Fact<String> {
    let words: Vec<&str> = [maker, number].into_iter().flatten().filter_map(names::stated).collect();
    Fact::from_option((!words.is_empty()).then(|| words.join(" ")), NOT_TOLD)
}

/// The hypervisor by what the table calls the machine: its DIMMs are made up and say nothing of the host's.
pub(super) fn by_identity(firmware: &Firmware) -> Option<String> {
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
    // The flag "system is a virtual machine" of type 0 is no sign: real boards (Supermicro X9DRi) set it.
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
