//! What a PCI class code says: the one table of names, and what carries bytes (PCI code and ID assignment
//! specification).

/// Class of a PCI-to-PCI bridge, without its programming interface.
const BRIDGE: u32 = 0x0604;
/// Base class of network controllers.
pub(super) const NETWORK: u32 = 0x02;

/// The name of a class that carries bytes, or of a bridge; none for the others.
pub fn class_name(class: u32) -> Option<&'static str> {
    Some(match (class >> 16, class >> 8) {
        (_, BRIDGE) => "bridge",
        (_, 0x0101) => "IDE",
        (_, 0x0104) => "RAID",
        (_, 0x0106) => "SATA",
        (_, 0x0107) => "SAS",
        (_, 0x0108) => "NVMe",
        (0x01, _) => "storage",
        (_, 0x0200) => "Ethernet",
        (_, 0x0207 | 0x0c06) => "InfiniBand",
        (_, 0x0c04) => "Fibre Channel",
        (0x02, _) => "network",
        (_, 0x0302) => "GPU",
        (0x03, _) => "display",
        (_, 0x0b40) => "co-processor",
        (0x12, _) => "accelerator",
        _ => return None,
    })
}

/// Storage, network, graphics, co-processors, accelerators: all that a flow may end at.
pub fn carries_bytes(class: u32) -> bool {
    class_name(class).is_some() && !is_bridge(class)
}

/// A bridge to a further bus: a root port, a port of a switch, a bridge to conventional PCI.
pub(super) fn is_bridge(class: u32) -> bool {
    class >> 8 == BRIDGE
}

/// Graphics cards, co-processors and accelerators: their drivers lower the speed of a link while it is idle.
pub fn is_accelerator(class: u32) -> bool {
    matches!(class >> 16, 0x03 | 0x12) || class >> 8 == 0x0b40
}

/// A graphics card on the board has this class, too.
pub(super) fn is_vga(class: u32) -> bool {
    class >> 8 == 0x0300
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_one_name() {
        let names = [
            (0x01_0802, "NVMe"),
            (0x01_0400, "RAID"),
            (0x01_8000, "storage"),
            (0x02_0000, "Ethernet"),
            (0x02_0700, "InfiniBand"),
            (0x0c_0400, "Fibre Channel"),
            (0x03_0000, "display"),
            (0x03_0200, "GPU"),
            (0x0b_4000, "co-processor"),
            (0x12_0000, "accelerator"),
        ];
        for (class, name) in names {
            assert_eq!((class_name(class), carries_bytes(class)), (Some(name), true), "{class:06x}");
        }
        assert_eq!((class_name(0x06_0400), carries_bytes(0x06_0400)), (Some("bridge"), false));
        assert_eq!((class_name(0x0c_0330), carries_bytes(0x0c_0330)), (None, false), "USB");
        assert!(is_accelerator(0x0b_4000) && is_accelerator(0x12_0000) && !is_accelerator(0x02_0000));
    }
}
