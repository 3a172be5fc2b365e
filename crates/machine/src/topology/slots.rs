//! Slots that a card could be put into: ports with nothing below them, and slots that the firmware lists as free
//! (SMBIOS type 9) and whose port no list shows, for much firmware switches the port of an empty slot off.

use super::Topology;
use crate::probe::{CardSlot, PciDevice, PciLink};
use linerate_facts::fact::Fact;

/// The longest name that is made of what is printed on a board.
const LONGEST_NAME: usize = 40;

/// A slot that is free.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeSlot<'a> {
    /// `slot3` by its number, `port-0000:00:03.0`, or what is printed on the board, in small letters.
    pub name: String,
    /// What is printed on the board; may be empty.
    pub designation: String,
    /// The fastest link that it can do; none where its width is not reported.
    pub link: Option<PciLink>,
    /// Much firmware does not report a slot's generation: the link is then that of the fastest port here.
    pub speed_is_taken: bool,
    /// The port above it, where one is listed.
    pub port: Option<&'a PciDevice>,
    /// The node, where it is known.
    pub node: Fact<u32>,
}

impl<'a> Topology<'a> {
    /// What the slot below a port is called: `slot3`, as printed on the board, or `port-0000:00:01.0`.
    pub fn slot_name(&self, port: &PciDevice) -> String {
        let same = |other: &&PciDevice| other.express.slot.known() == port.express.slot.known();
        match port.express.slot.known() {
            // Some firmwares number several ports alike.
            Some(number) if *number > 0 && self.machine.pci.iter().filter(same).count() == 1 => {
                format!("slot{number}")
            }
            _ => format!("port-{}", port.address),
        }
    }

    /// All free slots: those of ports first, in the order of their addresses.
    pub fn free_slots(&self) -> Vec<FreeSlot<'a>> {
        let empty = self.machine.pci.iter().filter(|port| self.is_empty_port(port));
        let of_port = |port: &'a PciDevice| {
            let listed = self.machine.slots.iter().find(|slot| self.port_of(slot) == Some(port));
            FreeSlot {
                name: self.slot_name(port),
                designation: listed.map_or(String::new(), |slot| slot.designation.clone()),
                link: port.link_max.known().copied(),
                speed_is_taken: false,
                port: Some(port),
                node: port.node.clone(),
            }
        };
        let mut found: Vec<FreeSlot> = empty.map(of_port).collect();
        let speeds = self.machine.pci.iter().filter_map(|device| device.link_max.known());
        let fastest = speeds.map(|link| link.gt_per_second).reduce(f64::max);
        for slot in &self.machine.slots {
            if slot.in_use.known() != Some(&false) || self.port_of(slot).is_some() {
                continue;
            }
            let name = self.name_by_firmware(slot);
            // Of several that are called alike nobody could tell which is meant.
            if name.is_empty() || found.iter().any(|other| other.name == name) {
                continue;
            }
            found.push(FreeSlot {
                name,
                designation: slot.designation.clone(),
                link: slot
                    .link()
                    .or_else(|| Some(PciLink { gt_per_second: fastest?, width: *slot.lanes.known()? })),
                speed_is_taken: slot.link().is_none(),
                port: None,
                node: self.node_by_firmware(slot),
            });
        }
        found
    }

    /// The port of a slot that the firmware lists: at its address, above what is at its address, or of its number.
    fn port_of(&self, slot: &CardSlot) -> Option<&'a PciDevice> {
        let there = slot.address.known().and_then(|address| self.find(address));
        if let Some(there) = there {
            return if self.is_bridge(there) { Some(there) } else { self.parent(there) };
        }
        let number = slot.number.known()?;
        let numbered = |port: &&PciDevice| self.is_bridge(port) && port.express.slot.known() == Some(number);
        let mut ports = self.machine.pci.iter().filter(numbered);
        // Of several with one number nobody could tell which is meant.
        ports.next().filter(|_| ports.next().is_none() && self.listed_with(number) == 1)
    }

    /// How many slots of the firmware have this number.
    fn listed_with(&self, number: &u32) -> usize {
        self.machine.slots.iter().filter(|slot| slot.number.known() == Some(number)).count()
    }

    fn name_by_firmware(&self, slot: &CardSlot) -> String {
        let number = slot.number.known().filter(|number| self.listed_with(number) == 1);
        let by_number = number.map(|number| format!("slot{number}"));
        let is_taken = |name: &String| self.machine.pci.iter().any(|port| self.slot_name(port) == *name);
        by_number.filter(|name| !is_taken(name)).unwrap_or_else(|| {
            let words = slot.designation.to_ascii_lowercase();
            let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join("-").chars().take(LONGEST_NAME).collect()
        })
    }

    /// The node of the bus that it is on, the only one, or that of the processor which its name has.
    fn node_by_firmware(&self, slot: &CardSlot) -> Fact<u32> {
        let nodes = &self.machine.memory.nodes;
        if let [only] = nodes.as_slice() {
            return Fact::Known(only.id);
        }
        let bus = slot.address.known().and_then(|address| address.rsplit_once(':')).map(|(bus, _)| bus);
        let on_bus = |device: &&PciDevice| device.address.rsplit_once(':').map(|(bus, _)| bus) == bus;
        if let Some(node) = self.all().filter(on_bus).find_map(|device| device.node.known()) {
            return Fact::Known(*node);
        }
        let whole = self.machine.cpu.packages.known().map(|count| *count as usize) == Some(nodes.len());
        let socket =
            socket_in_words(&slot.designation).filter(|_| whole).and_then(|socket| nodes.get(socket));
        Fact::from_option(
            socket.map(|node| node.id),
            "the firmware does not say at which processor the slot is",
        )
    }
}

/// `CPU2 SLOT4 PCI-E 3.0 X8` is at the second socket: boards count them from 1.
fn socket_in_words(designation: &str) -> Option<usize> {
    let upper = designation.to_ascii_uppercase();
    let (_, rest) = upper.split_once("CPU")?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Machine, NumaNode, PortKind, probe};

    fn port(address: &str, slot: u32, link: PciLink) -> PciDevice {
        let mut port =
            PciDevice { address: address.into(), class: Fact::Known(0x06_0400), ..PciDevice::default() };
        port.express.port = Fact::Known(PortKind::RootPort);
        port.express.slot = Fact::Known(slot);
        port.link_max = Fact::Known(link);
        port.node = Fact::Known(1);
        port
    }

    fn slot(designation: &str, number: u32, in_use: bool) -> CardSlot {
        CardSlot {
            designation: designation.into(),
            number: Fact::Known(number),
            lanes: Fact::Known(8),
            gt_per_second: Fact::Known(8.0),
            in_use: Fact::Known(in_use),
            ..CardSlot::default()
        }
    }

    fn node(id: u32) -> NumaNode {
        NumaNode { id, ..NumaNode::default() }
    }

    #[test]
    fn the_firmwares_slots_complete_those_of_ports() {
        let x8 = PciLink { gt_per_second: 8.0, width: 8 };
        let mut machine = Machine::default();
        machine.memory.nodes = vec![node(0), node(1)];
        machine.cpu.packages = Fact::Known(2);
        machine.pci = vec![port("0000:00:01.0", 1, x8), port("0000:80:01.0", 2, x8)];
        let mut card = PciDevice {
            address: "0000:81:00.0".into(),
            class: Fact::Known(0x02_0000),
            ..PciDevice::default()
        };
        card.parent = Some("0000:80:01.0".into());
        machine.pci.push(card);
        machine.slots = vec![
            slot("CPU1 SLOT1 PCI-E 3.0 X8", 1, false),
            // The firmware calls it free, and a card is in it.
            slot("CPU2 SLOT2 PCI-E 3.0 X8", 2, false),
            slot("CPU2 SLOT3 PCI-E 3.0 X8", 3, false),
            slot("CPU2 SLOT4 PCI-E 3.0 X8", 4, true),
            // Two of one number are told apart by their names.
            slot("Riser A", 9, false),
            slot("Riser B", 9, false),
        ];
        // Its generation is not reported; then its width neither, and whether it is in use.
        machine.slots.push(CardSlot {
            gt_per_second: Fact::default(),
            lanes: Fact::Known(4),
            ..slot("SLOT6", 6, false)
        });
        machine.slots.push(CardSlot { in_use: Fact::default(), ..slot("SLOT7", 7, false) });
        let tree = Topology::new(&machine);
        let free = tree.free_slots();
        let named: Vec<(&str, &str, Option<u32>, bool)> = free
            .iter()
            .map(|one| {
                (one.name.as_str(), one.designation.as_str(), one.node.known().copied(), one.port.is_some())
            })
            .collect();
        assert_eq!(
            named,
            [
                ("slot1", "CPU1 SLOT1 PCI-E 3.0 X8", Some(1), true),
                ("slot3", "CPU2 SLOT3 PCI-E 3.0 X8", Some(1), false),
                ("riser-a", "Riser A", None, false),
                ("riser-b", "Riser B", None, false),
                ("slot6", "SLOT6", None, false),
            ]
        );
        assert!(free[..4].iter().all(|one| one.link == Some(x8) && !one.speed_is_taken));
        assert_eq!((free[4].link, free[4].speed_is_taken), (Some(PciLink { width: 4, ..x8 }), true));
    }

    #[test]
    fn an_address_finds_the_port_or_what_is_below_it_and_a_machine_without_slots_has_none() {
        let x8 = PciLink { gt_per_second: 8.0, width: 8 };
        let mut machine = Machine { pci: vec![port("0000:00:01.0", 5, x8)], ..Machine::default() };
        machine.slots =
            vec![CardSlot { address: Fact::Known("0000:00:01.0".into()), ..slot("SLOT1", 1, false) }];
        let free = Topology::new(&machine).free_slots();
        assert_eq!((free.len(), free[0].name.as_str(), free[0].designation.as_str()), (1, "slot5", "SLOT1"));
        let empty = probe(&linerate_testing::Tree::new(&[]).sysroot());
        assert!(Topology::new(&empty).free_slots().is_empty());
    }

    #[test]
    fn the_processor_in_a_designation() {
        for (words, socket) in [
            ("CPU2 SLOT3", Some(1)),
            ("SLOT6 (CPU 1)", Some(0)),
            ("PCIe Slot 3", None),
            ("CPU", None),
            ("CPU0", None),
        ] {
            assert_eq!(socket_in_words(words), socket, "{words}");
        }
    }
}
