//! A machine file as devices of QEMU, one line each: `nodes N`, `cores N` (of a node), `device WORDS`, `disk ID`,
//! `nic ID`, `note SENTENCE`.
//!
//! Each node is a root of its own (`pxb-pcie`). A slot is a port with its width and speed, a switch is TI's X3130,
//! a disk with a link of its own is an NVMe drive, a NIC's port an Intel 82574L, a controller AHCI where its `kind`
//! says SATA, MegaRAID SAS otherwise.

use linerate_model::plan::parts::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, PartPlace};
use std::collections::BTreeMap;

/// Cores of a node: plain emulation gets slower with each.
const MOST_CORES: f64 = 2.0;
const MOST_NODES: usize = 8;
/// `pxb-pcie` is a bus of 32 slots.
const MOST_PORTS_OF_A_NODE: usize = 32;
/// The X3130's internal bus, likewise.
const MOST_PORTS_OF_A_SWITCH: usize = 32;
/// Buses of one PCI domain, less those below the first root.
const MOST_BUSES: usize = 240;
const FIRST_BUS: usize = 16;
/// QEMU 7.2's ports are drawn up to PCIe 4.0.
const FASTEST_PORT: f64 = 16.0;
const AHCI_PORTS: usize = 6;
const MEGARAID_DISKS: usize = 64;
/// Of an NVMe serial number, characters.
const LONGEST_SERIAL: usize = 20;

/// Why QEMU cannot build this machine.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum NotBuildable {
    #[error("QEMU cannot build {0}: it has no GPU that moves bytes; take it out of the file")]
    Gpu(String),
    #[error("QEMU cannot build {0}: it has no disks of another host; take them out of the file")]
    Remote(String),
    #[error("QEMU cannot build {0}: it has no bus that several cards share; give each a slot")]
    Bus(String),
    #[error("{0} has no place that QEMU can build: give it pcie = \"3x4\", or a controller")]
    NoPlace(String),
    #[error("{nodes} nodes are more than QEMU builds here: at most {MOST_NODES}")]
    Nodes { nodes: usize },
    #[error("node{node} has {ports} cards and slots: QEMU's root has room for {MOST_PORTS_OF_A_NODE}")]
    PortsOfNode { node: u32, ports: usize },
    #[error("{switch} has {ports} cards and slots: QEMU's switch has room for {MOST_PORTS_OF_A_SWITCH}")]
    PortsOfSwitch { switch: String, ports: usize },
    #[error("{buses} PCI buses are more than QEMU builds: at most {MOST_BUSES}; leave some slots out")]
    Buses { buses: usize },
    #[error("{controller} has {disks} disks: QEMU's {kind} takes {most}")]
    Disks { controller: String, disks: usize, kind: &'static str, most: usize },
}

/// The lines for the lab, or why there are none.
pub(crate) fn lines(parts: &MachineParts) -> Result<Vec<String>, NotBuildable> {
    if parts.nodes.len() > MOST_NODES {
        return Err(NotBuildable::Nodes { nodes: parts.nodes.len() });
    }
    if let Some(port) = parts.joints.iter().find(|joint| joint.kind == JointKind::Port) {
        return Err(NotBuildable::Remote(port.name.clone()));
    }
    if let Some(bus) = parts.joints.iter().find(|joint| joint.kind == JointKind::Bus) {
        return Err(NotBuildable::Bus(bus.name.clone()));
    }
    if let Some(device) = parts.devices.iter().find(|device| !is_placed(parts, device)) {
        return Err(NotBuildable::NoPlace(device.name.clone()));
    }
    let mut server = Server {
        parts,
        lines: Vec::new(),
        notes: Vec::new(),
        buses: 0,
        slowed_ports: 0,
        ids: BTreeMap::new(),
    };
    server.cores();
    for index in 0..parts.nodes.len() {
        server.node(index)?;
    }
    server.other_notes();
    let buses = server.buses + parts.nodes.len();
    if buses > MOST_BUSES {
        return Err(NotBuildable::Buses { buses });
    }
    server.lines.extend(server.notes.into_iter().map(|note| format!("note {note}")));
    Ok(server.lines)
}

/// It is at a card or a controller.
fn is_placed(parts: &MachineParts, device: &ByteDevice) -> bool {
    let PartPlace::Joint(name) = &device.place else { return false };
    parts.joint(name).is_some_and(|joint| matches!(joint.kind, JointKind::Card | JointKind::Controller))
}

/// A server in the making.
struct Server<'a> {
    parts: &'a MachineParts,
    lines: Vec<String>,
    notes: Vec<String>,
    /// Below all roots so far.
    buses: usize,
    /// Ports that are faster in the file.
    slowed_ports: usize,
    /// How many of each kind there are: QEMU's own names, whatever the file's are.
    ids: BTreeMap<&'static str, usize>,
}

impl<'a> Server<'a> {
    fn cores(&mut self) {
        let given = self.parts.nodes.first().and_then(|node| node.cores.known().copied());
        let cores = given.unwrap_or(MOST_CORES).clamp(1.0, MOST_CORES).floor();
        if let Some(given) = given.filter(|given| *given > cores) {
            self.notes.push(format!("{cores} of the {given} cores of each node: emulation is slow"));
        }
        self.lines.push(format!("nodes {}", self.parts.nodes.len()));
        self.lines.push(format!("cores {cores}"));
    }

    /// A root and what is below it.
    fn node(&mut self, index: usize) -> Result<(), NotBuildable> {
        let node = self.parts.nodes[index].id;
        let below = self.at_node(node);
        let (root, at) = (format!("node{index}"), self.lines.len());
        let number = FIRST_BUS + index + self.buses;
        self.device(&format!("pxb-pcie,id={root},bus=pcie.0,bus_nr={number},numa_node={index}"));
        if below.len() > MOST_PORTS_OF_A_NODE {
            return Err(NotBuildable::PortsOfNode { node, ports: below.len() });
        }
        for joint in below {
            let port = self.root_port(joint, &root);
            self.plugged(joint, &port)?;
        }
        // A root without any port makes SeaBIOS stop.
        if self.lines.len() == at + 1 {
            self.lines.truncate(at);
        }
        Ok(())
    }

    /// What is plugged into the node itself, or into a hub of it: QEMU has no hubs.
    fn at_node(&self, node: u32) -> Vec<&'a Joint> {
        let of_node = |joint: &&Joint| {
            joint.kind != JointKind::Hub
                && match &joint.up {
                    PartPlace::Node(id) => *id == node,
                    PartPlace::Joint(up) => {
                        self.parts.joint(up).is_some_and(|up| up.kind == JointKind::Hub)
                            && self.parts.node_of(&joint.up) == Some(node)
                    }
                    PartPlace::Unknown => node == self.parts.nodes[0].id,
                }
        };
        let parts = self.parts;
        parts.joints.iter().filter(of_node).collect()
    }

    fn at_joint(&self, name: &str) -> Vec<&'a Joint> {
        let place = PartPlace::Joint(name.to_string());
        self.parts.joints.iter().filter(|joint| joint.up == place).collect()
    }

    /// A port with the width and speed of a slot, or of the card that is soldered there.
    fn root_port(&mut self, joint: &Joint, root: &str) -> String {
        let id = self.id("port");
        let slot = self.ids["port"];
        let mut words = format!("pcie-root-port,id={id},bus={root},chassis={slot},slot={slot}");
        if let Some(link) = joint.link {
            let speed = link.gt_per_second.min(FASTEST_PORT);
            self.slowed_ports += usize::from(speed < link.gt_per_second);
            let speed = if speed == 2.5 { "2_5".to_string() } else { speed.to_string() };
            words += &format!(",x-speed={speed},x-width={}", link.width);
        }
        self.device(&words);
        self.buses += 1;
        id
    }

    /// What is in this slot, or the card itself, on that bus.
    fn plugged(&mut self, joint: &Joint, bus: &str) -> Result<(), NotBuildable> {
        match joint.kind {
            JointKind::Slot => {
                for card in self.at_joint(&joint.name) {
                    self.plugged(card, bus)?;
                }
                Ok(())
            }
            JointKind::Switch => self.switch(joint, bus),
            JointKind::Controller => self.controller(joint, bus),
            JointKind::Card => self.card(joint, bus),
            JointKind::Hub | JointKind::Bus => Err(NotBuildable::Bus(joint.name.clone())),
            JointKind::Port => Err(NotBuildable::Remote(joint.name.clone())),
        }
    }

    fn switch(&mut self, joint: &Joint, bus: &str) -> Result<(), NotBuildable> {
        let up = self.id("switch");
        self.device(&format!("x3130-upstream,id={up},bus={bus}"));
        self.buses += 1;
        let below = self.at_joint(&joint.name);
        if below.len() > MOST_PORTS_OF_A_SWITCH {
            return Err(NotBuildable::PortsOfSwitch { switch: joint.name.clone(), ports: below.len() });
        }
        for part in below {
            let id = self.id("port");
            let slot = self.ids["port"];
            self.device(&format!("xio3130-downstream,id={id},bus={up},chassis={slot},slot={slot}"));
            self.buses += 1;
            self.plugged(part, &id)?;
        }
        Ok(())
    }

    fn controller(&mut self, joint: &Joint, bus: &str) -> Result<(), NotBuildable> {
        let id = self.id("controller");
        let words = joint.words.to_ascii_lowercase();
        let sata = words.contains("sata") || words.contains("ahci");
        let (model, kind, most) = if sata {
            ("ich9-ahci", "AHCI", AHCI_PORTS)
        } else {
            ("megasas-gen2", "MegaRAID", MEGARAID_DISKS)
        };
        self.device(&format!("{model},id={id},bus={bus}"));
        let disks = self.ends(&joint.name);
        if disks.len() > most {
            return Err(NotBuildable::Disks {
                controller: joint.name.clone(),
                disks: disks.len(),
                kind,
                most,
            });
        }
        for (index, disk) in disks.into_iter().enumerate() {
            let drive = self.disk();
            let place = match sata {
                true => format!("ide-hd,bus={id}.{index}"),
                false => format!("scsi-hd,bus={id}.0,scsi-id={index}"),
            };
            self.device(&format!("{place},drive={drive},serial={},rotation_rate=1", serial(&disk.name)));
        }
        Ok(())
    }

    fn card(&mut self, joint: &Joint, bus: &str) -> Result<(), NotBuildable> {
        let ends = self.ends(&joint.name);
        let several = if ends.len() > 1 { ",multifunction=on" } else { "" };
        for (function, device) in ends.into_iter().enumerate() {
            let place = format!("bus={bus},addr=0.{function}{several}");
            match &device.what {
                DeviceKind::Disk { .. } => {
                    let drive = self.disk();
                    self.device(&format!("nvme,{place},drive={drive},serial={}", serial(&device.name)));
                }
                DeviceKind::Nic { .. } => {
                    let end = self.id("nic");
                    self.lines.push(format!("nic {end}"));
                    self.device(&format!("e1000e,{place},netdev={end},romfile="));
                }
                DeviceKind::Gpu => return Err(NotBuildable::Gpu(device.name.clone())),
            }
        }
        Ok(())
    }

    fn other_notes(&mut self) {
        if self.slowed_ports > 0 {
            self.notes
                .push(format!("{FASTEST_PORT} GT/s at {} ports: QEMU draws none faster", self.slowed_ports));
        }
        if !self.parts.volumes.is_empty() {
            self.notes.push("volumes are not made: mdadm and LVM run in the guest".into());
        }
    }

    fn ends(&self, name: &str) -> Vec<&'a ByteDevice> {
        let place = PartPlace::Joint(name.to_string());
        self.parts.devices.iter().filter(|device| device.place == place).collect()
    }

    fn disk(&mut self) -> String {
        let id = self.id("disk");
        self.lines.push(format!("disk {id}"));
        id
    }

    fn device(&mut self, words: &str) {
        self.lines.push(format!("device {words}"));
    }

    fn id(&mut self, kind: &'static str) -> String {
        let count = self.ids.entry(kind).or_insert(0);
        *count += 1;
        format!("{kind}{}", *count)
    }
}

/// Letters and digits only: a comma would begin another option of QEMU's.
fn serial(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).take(LONGEST_SERIAL).collect()
}
