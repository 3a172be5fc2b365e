//! The first line of a function: `0000:04:00.0 Ethernet controller [0200]: Intel Corporation 82598EB
//! [8086:10c7] (rev 01)`.

use super::class;
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
        .or_else(|| class::code(class.trim()))
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
        // “Ultra 3000” is no device id.
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
}
