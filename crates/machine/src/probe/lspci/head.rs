//! The first line of a function: `0000:04:00.0 Ethernet controller [0200]: Intel Corporation 82598EB
//! [8086:10c7] (rev 01)`.
//!
//! A listing without `-nn` has names in the place of class codes: they are those of the list that `lspci` uses
//! (`pci.ids`, section C), old and new spelling.
//!
//! The forms for programs, `-mm` and `-vmm`, are written again as the forms for people are.

use crate::probe::pci::address::{Address, hexadecimal};

/// What a first line reports beside the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Class code, 24 bits; without `-v` the programming interface is not known, and 0 here.
    pub(super) class: Option<u32>,
    pub(super) vendor: Option<u32>,
    pub(super) device: Option<u32>,
    pub(super) name: Option<String>,
}

/// The address that a line begins with, and the rest of it.
pub(super) fn address(line: &str) -> Option<(Address, &str)> {
    let (word, rest) = line.trim_start().split_once(' ')?;
    Address::parse(word).or_else(|| Address::parse_short(word)).map(|address| (address, rest))
}

/// Class, ids and name.
pub(super) fn parse(rest: &str) -> Head {
    let (class, mut name) = rest.split_once(": ").unwrap_or((rest, ""));
    let mut interface = 0;
    // From the end: `(prog-if 02 [NVM Express])`, `(rev 01)`.
    if let Some((before, after)) = name.rsplit_once(" (prog-if ") {
        interface = after.get(..2).and_then(|digits| hexadecimal(digits, 2..=2)).unwrap_or(0);
        name = before;
    }
    if let Some((before, _)) = name.rsplit_once(" (rev ") {
        name = before;
    }
    Head { class: class_code(class).map(|code| code << 8 | interface), ..named(name) }
}

/// Ids and name, from the text of a first line or of the tree.
pub(super) fn named(name: &str) -> Head {
    let (vendor, device) = ids(name);
    let shown = name.rsplit_once(" [").filter(|(_, last)| pair(last.trim_end_matches(']')).is_some());
    let shown = shown.map_or(name, |(before, _)| before).trim();
    Head { class: None, vendor, device, name: (!shown.is_empty()).then(|| shown.to_string()) }
}

impl Head {
    /// What this one does not report, from another.
    pub(super) fn or(self, other: Head) -> Head {
        Head {
            class: self.class.or(other.class),
            vendor: self.vendor.or(other.vendor),
            device: self.device.or(other.device),
            name: self.name.or(other.name),
        }
    }
}

/// `PCI bridge [0604]`, `Class 0604`, `0604` or a name alone.
fn class_code(class: &str) -> Option<u32> {
    let bracketed = class.rsplit_once('[').map(|(_, code)| code.trim_end_matches(']'));
    let bare = class.strip_prefix("Class ").unwrap_or(class).trim();
    bracketed
        .and_then(|code| hexadecimal(code, 4..=4))
        .or_else(|| hexadecimal(bare, 4..=4))
        .or_else(|| code_of_class(class.trim()))
}

/// Vendor and device: `… [8086:10c7]` (-nn), `8086:10c7` (-n), `Device 8086:6f00` and `Intel Corporation
/// Device 9d10` (not in the list of names).
fn ids(name: &str) -> (Option<u32>, Option<u32>) {
    let last = name.rsplit(' ').next().unwrap_or("");
    if let Some((vendor, device)) = pair(last.trim_start_matches('[').trim_end_matches(']')) {
        return (Some(vendor), Some(device));
    }
    let before = name.strip_suffix(last).map(str::trim_end).unwrap_or("");
    let is_unnamed = before.ends_with("Device") || before.ends_with("Unknown device");
    (None, hexadecimal(last, 4..=4).filter(|_| is_unnamed))
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (vendor, device) = text.split_once(':')?;
    Some((hexadecimal(vendor, 4..=4)?, hexadecimal(device, 4..=4)?))
}

/// Base and sub class by name, in any case of letters.
pub(super) fn code_of_class(name: &str) -> Option<u32> {
    let mut known = CLASS_NAMES.lines().filter_map(|line| line.split_once(' '));
    let (code, _) = known.find(|(_, known)| known.eq_ignore_ascii_case(name))?;
    u32::from_str_radix(code, 16).ok()
}

/// Base and sub class of what carries bytes, by the name of the device, where a tree has no class.
pub(super) fn of_device(name: &str) -> Option<u32> {
    let words = name.to_ascii_lowercase();
    let has = |marks: &[&str]| marks.iter().any(|mark| words.contains(mark));
    if has(&["wireless", "wi-fi", "bridge", "virtual function"]) {
        return None;
    }
    DEVICE_WORDS.iter().find(|(marks, _)| has(marks)).map(|(_, code)| *code)
}

/// Words of such names, lower case; the first that fits counts.
const DEVICE_WORDS: [(&[&str], u32); 7] = [
    (&["nvme", "nvm express", "non-volatile memory controller"], 0x0108),
    (&["fibre channel"], 0x0c04),
    (&["infiniband"], 0x0207),
    (&["ethernet", "network connection", "network adapter", "connectx"], 0x0200),
    (&["megaraid", "smart array", "raid bus controller", "raid controller"], 0x0104),
    (&["serial attached scsi", "sas controller", " sas-"], 0x0107),
    (&["sata ahci", "sata controller"], 0x0106),
];

/// Hexadecimal code and name.
const CLASS_NAMES: &str = include_str!("classes.txt");

/// `00:1f.2 "SATA controller [0106]" "Intel [8086]" "A chip [2922]" -r02 -p01 "Dell" "A board"`: the same in the form for people.
/// None: it is not such a line.
pub(super) fn line(text: &str) -> Option<String> {
    let (address, rest) = text.split_once(" \"")?;
    let mut quoted = rest.split('"').step_by(2);
    let (class, vendor, device) = (quoted.next()?, quoted.next()?, quoted.next()?);
    Some(format!("{address} {}", function_line(class, vendor, device)))
}

/// Class, vendor and device as the first line of a function has them.
fn function_line(class: &str, vendor: &str, device: &str) -> String {
    let (vendor_name, vendor_id) = id(vendor);
    let (device_name, device_id) = id(device);
    let name = format!("{vendor_name} {device_name}");
    match vendor_id.zip(device_id) {
        Some((vendor, device)) if name.trim().is_empty() => format!("{class}: {vendor}:{device}"),
        Some((vendor, device)) => format!("{class}: {name} [{vendor}:{device}]"),
        None => format!("{class}: {name}"),
    }
}

/// `Intel Corporation [8086]`, `8086` or a name alone: the name, and the number.
fn id(text: &str) -> (&str, Option<&str>) {
    let bracketed = text.rsplit_once(" [").and_then(|(name, last)| Some((name, last.strip_suffix(']')?)));
    let (name, number) =
        bracketed.unwrap_or(if hexadecimal(text, 4..=4).is_some() { ("", text) } else { (text, "") });
    (name, Some(number).filter(|number| hexadecimal(number, 4..=4).is_some()))
}

/// The lines `Slot:`, `Class:`, … of `-vmm`, gathered until a function is whole.
#[derive(Default)]
pub(super) struct Records {
    slot: Option<String>,
    class: String,
    vendor: String,
    device: String,
}

impl Records {
    /// A line of such a record as a line of the form for people: empty where it waits for others. None: it is no such line.
    pub(super) fn line(&mut self, text: &str) -> Option<String> {
        let (key, value) = text.split_once(":\t")?;
        match key {
            "Slot" => self.slot = Some(value.to_string()),
            "Class" => self.class = value.to_string(),
            "Vendor" => self.vendor = value.to_string(),
            "Device" => {
                self.device = value.to_string();
                let slot = self.slot.take()?;
                return Some(format!("{slot} {}", function_line(&self.class, &self.vendor, &self.device)));
            }
            "Driver" => return Some(format!("\tKernel driver in use: {value}")),
            "NUMANode" => return Some(format!("\tNUMA node: {value}")),
            "PhySlot" => return Some(format!("\tPhysical Slot: {value}")),
            "SVendor" | "SDevice" | "Rev" | "ProgIf" | "Module" | "IOMMUGroup" => {}
            _ => return None,
        }
        Some(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, Head) {
        let (address, rest) = address(line).expect("an address");
        (address.to_string(), parse(rest))
    }

    #[test]
    fn names_alone() {
        let (address, head) = of(
            "04:00.0 Ethernet controller: Intel Corporation 82598EB 10-Gigabit AF Network Connection (rev \
             01)",
        );
        assert_eq!(address, "0000:04:00.0");
        assert_eq!((head.class, head.vendor, head.device), (Some(0x020000), None, None));
        assert_eq!(head.name.as_deref(), Some("Intel Corporation 82598EB 10-Gigabit AF Network Connection"));
    }

    #[test]
    fn names_and_numbers() {
        let (address, head) =
            of("10000:01:00.0 Non-Volatile memory controller [0108]: Intel Corporation NVMe \
            Datacenter SSD [Optane] [8086:2701] (prog-if 02 [NVM Express])");
        assert_eq!(address, "10000:01:00.0");
        assert_eq!((head.class, head.vendor, head.device), (Some(0x010802), Some(0x8086), Some(0x2701)));
        assert_eq!(head.name.as_deref(), Some("Intel Corporation NVMe Datacenter SSD [Optane]"));
    }

    #[test]
    fn numbers_alone_and_devices_without_a_name() {
        let (_, head) = of("00:00.0 0600: 8086:3405 (rev 12)");
        assert_eq!((head.class, head.vendor, head.device), (Some(0x060000), Some(0x8086), Some(0x3405)));
        let (_, head) = of("00:00.0 Class 0600: Device 8086:6f00 (rev 01)");
        assert_eq!((head.class, head.vendor, head.device), (Some(0x060000), Some(0x8086), Some(0x6f00)));
        let (_, head) = of("0000:00:01.0 Co-processor: IBM: Unknown device 00e0 (rev 01)");
        assert_eq!((head.class, head.vendor, head.device), (Some(0x0b4000), None, Some(0x00e0)));
        let (_, head) = of("6b:00.0 Unassigned class [ff00]: Intel Corporation Device 0d93");
        assert_eq!((head.class, head.device), (Some(0xff0000), Some(0x0d93)));
        // “Ultra 3000” is not a device id.
        let (_, head) = of("00:00.0 Strange thing: Maker Ultra 3000");
        assert_eq!((head.class, head.device), (None, None));
    }

    #[test]
    fn what_is_no_first_line() {
        for line in
            ["", "00: 86 80 05 34", "04:00.0", "\tStatus: Dev=00:02.0 64bit-", "-[0000:00]-+-00.0  Intel"]
        {
            assert_eq!(address(line), None, "{line}");
        }
    }

    #[test]
    fn old_and_new_spelling() {
        assert_eq!(code_of_class("USB Controller"), Some(0x0c03));
        assert_eq!(code_of_class("USB controller"), Some(0x0c03));
        assert_eq!(code_of_class("Strange thing"), None);
    }

    #[test]
    fn a_device_by_its_name_alone() {
        let nic = "Broadcom Inc. and subsidiaries NetXtreme II BCM57810 10 Gigabit Ethernet";
        assert_eq!(of_device(nic), Some(0x0200));
        assert_eq!(of_device("Samsung Electronics Co Ltd NVMe SSD Controller PM173X"), Some(0x0108));
        assert_eq!(of_device("Intel Corporation I350 Gigabit Network Connection"), Some(0x0200));
        for other in ["Xeon E7 v2/Xeon E5 v2/Core i7 DMI2", "Wireless Network Adapter", ""] {
            assert_eq!(of_device(other), None, "{other}");
        }
    }
}
