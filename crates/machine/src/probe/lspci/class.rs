//! Class codes by the names of the list that `lspci` uses (`pci.ids`, section C), old and new spelling, for
//! listings without `-nn`.

/// Base and sub class by name, in any case of letters.
pub(super) fn code(name: &str) -> Option<u32> {
    let mut known = NAMES.lines().filter_map(|line| line.split_once(' '));
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
    DEVICES.iter().find(|(marks, _)| has(marks)).map(|(_, code)| *code)
}

/// Words of such names, lower case; the first that fits counts.
const DEVICES: [(&[&str], u32); 7] = [
    (&["nvme", "nvm express", "non-volatile memory controller"], 0x0108),
    (&["fibre channel"], 0x0c04),
    (&["infiniband"], 0x0207),
    (&["ethernet", "network connection", "network adapter", "connectx"], 0x0200),
    (&["megaraid", "smart array", "raid bus controller", "raid controller"], 0x0104),
    (&["serial attached scsi", "sas controller", " sas-"], 0x0107),
    (&["sata ahci", "sata controller"], 0x0106),
];

/// Hexadecimal code and name.
const NAMES: &str = include_str!("classes.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_spelling() {
        assert_eq!(code("USB Controller"), Some(0x0c03));
        assert_eq!(code("USB controller"), Some(0x0c03));
        assert_eq!(code("Strange thing"), None);
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
