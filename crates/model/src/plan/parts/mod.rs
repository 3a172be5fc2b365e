//! A machine as parts: nodes with memory and cores, what hangs from them (hubs, slots, switches, cards,
//! controllers, buses), and the devices at the ends. A machine that was probed and one that is described in a
//! file both become this; flows, what-ifs and sizing work on it alone.
//!
//! Parts know each other by name, so that one can be added, moved or taken away without touching the others.

mod carried;
mod measured;
mod probed;
mod remote;

pub(super) use carried::crossings;
pub use carried::{Volume, VolumeLimit};
use linerate_facts::fact::Fact;
use linerate_machine::probe::PciLink;
use linerate_machine::topology::DEEPEST;
pub use measured::{MeasuredDevice, MeasuredParts};
pub(super) use probed::ProbedParts;
pub use probed::from_machine;
pub use remote::RemotePort;
pub(super) use remote::is_received_by_tcp as disk_is_received_by_tcp;

/// What the machine is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineParts {
    /// What it is called on screens.
    pub name: String,
    /// Its processors, for people: `2 × Xeon X5677, 4 cores at 3.46 GHz`; may be empty.
    pub processors: String,
    /// Of the DIMMs (`DDR4`); none where they are of several kinds or not read.
    pub memory_kind: Option<String>,
    /// NUMA nodes, ascending; at least one.
    pub nodes: Vec<Node>,
    /// Links between nodes.
    pub socket_links: Vec<SocketLink>,
    /// Hubs, slots, switches, cards, controllers, buses.
    pub joints: Vec<Joint>,
    /// Disks, NIC ports, GPUs.
    pub devices: Vec<ByteDevice>,
    /// RAID, volume managers and file systems over disks, as a description has them.
    pub volumes: Vec<Volume>,
    /// CPU time of one gigabyte (10⁹ bytes) through the whole path, seconds.
    pub cpu_seconds_per_gb: Fact<f64>,
    /// Parts that may be bought, for sizing; what is absent has a documented default.
    pub catalogue: Catalogue,
    /// Storage controllers of which no disk is listed: disks may be behind them.
    pub controllers_without_disks: Vec<String>,
    /// MTU of NICs that a change took away: those that replace them have it.
    pub removed_mtu: Option<u32>,
    /// What a run has measured of them, where the plan shall count that.
    pub measured: MeasuredParts,
}

/// A NUMA node: memory and the cores beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Number.
    pub id: u32,
    /// Physical cores.
    pub cores: Fact<f64>,
    /// Channels that hold a DIMM.
    pub channels: Fact<u32>,
    /// Configured clock, mega-transfers per second, by its nominal figure (1333).
    pub mt_per_second: Fact<u32>,
    /// All channels together, bytes per second.
    pub memory_bytes_per_second: Fact<f64>,
    /// Share of that which memory of its generation reaches; none where the generation is not known.
    pub memory_efficiency: Option<f64>,
}

/// A link between two nodes; each direction carries its rate.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketLink {
    /// The two nodes.
    pub between: (u32, u32),
    /// Bytes per second and direction.
    pub bytes_per_second: Fact<f64>,
    /// What it is, for people: `QPI 6.4 GT/s`.
    pub words: String,
}

/// Where a part is plugged in.
#[derive(Clone, Debug, PartialEq)]
pub enum PartPlace {
    /// At the node itself: its root complex, or the chip.
    Node(u32),
    /// At another part, by name.
    Joint(String),
    /// Not reported by the machine.
    Unknown,
}

/// Something that bytes pass between a device and memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Joint {
    /// Unique among joints.
    pub name: String,
    /// What it is.
    pub kind: JointKind,
    /// What it is plugged into.
    pub up: PartPlace,
    /// The fastest PCIe link that it can do; of a hub or bus none.
    pub link: Option<PciLink>,
    /// The link as it runs now, where that was read: it may be below what card and slot can do.
    pub running: Option<PciLink>,
    /// Its PCIe link is a formality that never binds; why.
    pub formality: Option<String>,
    /// Why nothing is known of its PCIe link, though it has one.
    pub unknown_link: Option<String>,
    /// It exchanges bytes with GPUs, or NICs, without the host's memory (GPUDirect RDMA); none: not reported.
    pub gpu_direct: Option<bool>,
    /// MaxPayload, bytes; none: it could not be read.
    pub max_payload_bytes: Option<u32>,
    /// What it carries besides its PCIe link, bytes per second and direction: a hub's link, a bus, a
    /// controller's own limit.
    pub bytes_per_second: Fact<f64>,
    /// Where that rate comes from.
    pub rate_origin: RateOrigin,
    /// Both directions share that rate.
    pub half_duplex: bool,
    /// The port that it is, where remote disks come in through it.
    pub remote: Option<RemotePort>,
    /// Disks that can be plugged in, where it is a controller and that is reported.
    pub disk_ports: Option<u32>,
    /// What it is, for people: `QPI 6.4 GT/s`, `Ultra320 SCSI`; may be empty.
    pub words: String,
}

/// Where a joint's rate comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateOrigin {
    /// A clock, which nothing passes.
    #[default]
    Clock,
    /// A data sheet, which is a promise.
    DataSheet,
    /// A measurement that somebody made elsewhere with such a part, and that was given with `--set`.
    Elsewhere,
}

/// Kind of joint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JointKind {
    /// An I/O hub beside the processor.
    Hub,
    /// Takes one card.
    Slot,
    /// A PCIe switch, or a bridge that several cards share.
    Switch,
    /// A card with a PCIe link.
    Card,
    /// A card with a PCIe link and disks behind it.
    Controller,
    /// Several devices share it: SCSI, PCI-X, a port expander.
    Bus,
    /// A NIC's port that disks of another host come in through.
    Port,
}

/// A source or sink of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteDevice {
    /// Unique among devices of its kind.
    pub name: String,
    /// Name of the entry that it came from, where that stands for several (`ssd` for `ssd0` to `ssd5`).
    pub group: String,
    /// What it is plugged into.
    pub place: PartPlace,
    /// What it is.
    pub what: DeviceKind,
}

/// What a device does.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// Reads and writes its medium, bytes per second by its data sheet.
    Disk { read: Fact<f64>, write: Fact<f64> },
    /// A port: link rate in bytes per second, MTU in bytes, frames carry an 802.1Q tag, packets are IPv6,
    /// no cable is in it.
    Nic { rate: Fact<f64>, mtu: Fact<u32>, tagged: bool, ipv6: bool, down: bool },
    /// Takes bytes over its link.
    Gpu,
}

/// Parts that may be bought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// A network card.
    pub nic: Option<CatalogueNic>,
    /// A disk controller.
    pub controller: Option<CatalogueController>,
    /// A disk.
    pub disk: Option<CatalogueDisk>,
}

/// A network card that may be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueNic {
    /// Rate of a port, bytes per second.
    pub rate: f64,
    pub ports: u32,
    pub link: PciLink,
}

/// A disk controller that may be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueController {
    pub link: PciLink,
    pub disk_ports: u32,
    /// Its own limit, bytes per second, where it has one.
    pub rate: Option<f64>,
}

/// A disk that may be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueDisk {
    /// By its data sheet, bytes per second.
    pub read: f64,
    pub write: f64,
    /// What others reached with it in practice, bytes per second.
    pub in_practice: Option<f64>,
    /// Its own PCIe link; none: it goes behind a controller.
    pub link: Option<PciLink>,
}

impl ByteDevice {
    /// MTU of a NIC that reports it.
    pub fn mtu(&self) -> Option<u32> {
        match &self.what {
            DeviceKind::Nic { mtu, .. } => mtu.known().copied(),
            _ => None,
        }
    }

    /// `disk:ssd0`, the id of its resource.
    pub fn id(&self) -> String {
        format!("{}:{}", self.what.word(), self.name)
    }
}

impl DeviceKind {
    /// The word before the colon of its id.
    pub fn word(&self) -> &'static str {
        match self {
            DeviceKind::Disk { .. } => "disk",
            DeviceKind::Nic { .. } => "nic",
            DeviceKind::Gpu => "gpu",
        }
    }
}

impl Joint {
    /// A joint with nothing known but its name, kind and place.
    pub fn new(name: impl Into<String>, kind: JointKind, up: PartPlace) -> Self {
        Joint {
            name: name.into(),
            kind,
            up,
            link: None,
            running: None,
            formality: None,
            unknown_link: None,
            gpu_direct: None,
            max_payload_bytes: None,
            bytes_per_second: Fact::unknown("no rate is given"),
            rate_origin: RateOrigin::Clock,
            half_duplex: false,
            remote: None,
            disk_ports: None,
            words: String::new(),
        }
    }
}

impl MachineParts {
    /// A joint by its name.
    pub fn joint(&self, name: &str) -> Option<&Joint> {
        self.joints.iter().find(|joint| joint.name == name)
    }

    /// A device by its id (`nic:eth0`), or by its name alone where only one kind has it.
    pub fn device(&self, word: &str) -> Option<&ByteDevice> {
        let by_id = self.devices.iter().find(|device| device.id() == word);
        by_id.or_else(|| {
            let mut named = self.devices.iter().filter(|device| device.name == word);
            named.next().filter(|_| named.next().is_none())
        })
    }

    /// A node by its number.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// What stands between a place and its node, nearest to the place first.
    pub fn above<'a>(&'a self, place: &PartPlace) -> Vec<&'a Joint> {
        let mut found: Vec<&Joint> = Vec::new();
        let mut at = place.clone();
        while let PartPlace::Joint(name) = &at {
            let Some(joint) = self.joint(name).filter(|_| found.len() < DEEPEST) else { break };
            found.push(joint);
            at = joint.up.clone();
        }
        found
    }

    /// The node that a place hangs from; none where that is not known.
    pub fn node_of(&self, place: &PartPlace) -> Option<u32> {
        let last = self.above(place).last().map(|joint| joint.up.clone()).unwrap_or_else(|| place.clone());
        match last {
            PartPlace::Node(id) => Some(id),
            _ => None,
        }
    }

    /// The card in a slot.
    pub(crate) fn occupant(&self, slot: &str) -> Option<&Joint> {
        self.joints.iter().find(|joint| joint.up == PartPlace::Joint(slot.to_string()))
    }

    /// The link of a joint: as it runs, or the best that it and its slot can do together.
    pub fn link_of(&self, joint: &Joint) -> Option<PciLink> {
        let own = joint.running.or(joint.link)?;
        let slot = match &joint.up {
            PartPlace::Joint(name) if joint.running.is_none() => {
                self.joint(name).filter(|up| up.kind == JointKind::Slot).and_then(|slot| slot.link)
            }
            _ => None,
        };
        Some(slot.map_or(own, |slot| slower(own, slot)))
    }
}

/// The link of two ends: the lower speed, the fewer lanes.
pub fn slower(a: PciLink, b: PciLink) -> PciLink {
    PciLink { gt_per_second: a.gt_per_second.min(b.gt_per_second), width: a.width.min(b.width) }
}

/// A PCIe link as people write it: `PCIe 2.0 x8`.
pub(crate) fn show_link(link: PciLink) -> String {
    let generation = GENERATIONS.iter().find(|(_, speed)| *speed == link.gt_per_second);
    match generation {
        Some((generation, _)) => format!("PCIe {generation}.0 x{}", link.width),
        None => format!("PCIe {link}"),
    }
}

/// PCIe generations and giga-transfers a second per lane.
pub(super) const GENERATIONS: [(u32, f64); 7] =
    [(1, 2.5), (2, 5.0), (3, 8.0), (4, 16.0), (5, 32.0), (6, 64.0), (7, 128.0)];
