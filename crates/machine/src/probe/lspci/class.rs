//! Class codes by the names of the list that `lspci` uses (`pci.ids`, section C), old and new spelling, for
//! listings without `-nn`.

/// Base and sub class by name, in any case of letters.
pub(super) fn code(name: &str) -> Option<u32> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, code)| *code)
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

const NAMES: [(&str, u32); 71] = [
    ("Non-VGA unclassified device", 0x0000),
    ("VGA compatible unclassified device", 0x0001),
    ("Unclassified device", 0x0000),
    ("SCSI storage controller", 0x0100),
    ("IDE interface", 0x0101),
    ("Floppy disk controller", 0x0102),
    ("RAID bus controller", 0x0104),
    ("ATA controller", 0x0105),
    ("SATA controller", 0x0106),
    ("Serial Attached SCSI controller", 0x0107),
    ("Non-Volatile memory controller", 0x0108),
    ("Universal Flash Storage controller", 0x0109),
    ("Mass storage controller", 0x0180),
    ("Ethernet controller", 0x0200),
    ("Token ring network controller", 0x0201),
    ("FDDI network controller", 0x0202),
    ("ATM network controller", 0x0203),
    ("InfiniBand controller", 0x0207),
    ("Fabric controller", 0x0208),
    ("Network controller", 0x0280),
    ("VGA compatible controller", 0x0300),
    ("XGA compatible controller", 0x0301),
    ("3D controller", 0x0302),
    ("Display controller", 0x0380),
    ("Multimedia video controller", 0x0400),
    ("Multimedia audio controller", 0x0401),
    ("Audio device", 0x0403),
    ("Multimedia controller", 0x0480),
    ("RAM memory", 0x0500),
    ("FLASH memory", 0x0501),
    ("CXL", 0x0502),
    ("Memory controller", 0x0580),
    ("Host bridge", 0x0600),
    ("ISA bridge", 0x0601),
    ("EISA bridge", 0x0602),
    ("PCI bridge", 0x0604),
    ("CardBus bridge", 0x0607),
    ("Semi-transparent PCI-to-PCI bridge", 0x0609),
    ("InfiniBand to PCI host bridge", 0x060a),
    ("Bridge", 0x0680),
    ("Serial controller", 0x0700),
    ("Parallel controller", 0x0701),
    ("Modem", 0x0703),
    ("Communication controller", 0x0780),
    ("PIC", 0x0800),
    ("DMA controller", 0x0801),
    ("Timer", 0x0802),
    ("RTC", 0x0803),
    ("PCI Hot-plug controller", 0x0804),
    ("SD Host controller", 0x0805),
    ("IOMMU", 0x0806),
    ("System peripheral", 0x0880),
    ("Generic system peripheral", 0x0880),
    ("Keyboard controller", 0x0900),
    ("Input device controller", 0x0980),
    ("Processor", 0x0b80),
    ("Power PC", 0x0b20),
    ("Co-processor", 0x0b40),
    ("FireWire (IEEE 1394)", 0x0c00),
    ("USB controller", 0x0c03),
    ("Fibre Channel", 0x0c04),
    ("SMBus", 0x0c05),
    ("InfiniBand", 0x0c06),
    ("IPMI Interface", 0x0c07),
    ("Serial bus controller", 0x0c80),
    ("Intelligent controller", 0x0e80),
    ("Encryption controller", 0x1080),
    ("Network and computing encryption device", 0x1000),
    ("Signal processing controller", 0x1180),
    ("Processing accelerators", 0x1200),
    ("Non-Essential Instrumentation", 0x1300),
];

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
