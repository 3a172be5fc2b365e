//! The words of a machine file made into parts: references resolved, counts written out, numbers held against
//! what can be; volumes over disks, and disks on a NIC, which are another host's.

use super::Wrong;
use super::numbers::{card, catalogue, link_rate, memory_rate, names, number, processors};
use super::tables::{self, File, RemoteTransport, VolumeTable};
use super::values::{PlaceValue, Rate};
use crate::plan::parts::{
    ByteDevice, DeviceKind, Joint, JointKind, MachineParts, Node, PartPlace, RateOrigin, RemotePort,
    SocketLink, Volume, VolumeLimit,
};
use linerate_facts::fact::Fact;
use linerate_machine::rates::memory::efficiency_of;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

pub(super) fn build(file: &File) -> Result<MachineParts, Wrong> {
    let mut builder =
        Builder { parts: MachineParts::default(), kinds: BTreeMap::new(), span: BTreeMap::new() };
    builder.parts.name = file.name.clone().unwrap_or_else(|| "the described machine".into());
    builder.nodes(file)?;
    builder.names(file)?;
    builder.socket_links(file)?;
    builder.joints(file)?;
    builder.devices(file)?;
    builder.volumes(file)?;
    builder.no_circles()?;
    builder.lanes(file)?;
    builder.parts.catalogue = catalogue(&file.catalogue)?;
    Ok(builder.parts)
}

/// A machine in the making.
pub(super) struct Builder {
    pub(super) parts: MachineParts,
    /// What each name stands for: its word (`slot`, `hub` …).
    pub(super) kinds: BTreeMap<String, &'static str>,
    /// Where each name stands.
    pub(super) span: BTreeMap<String, Range<usize>>,
}

impl Builder {
    fn nodes(&mut self, file: &File) -> Result<(), Wrong> {
        let processor = &file.processor;
        let sockets = number(&processor.sockets, "sockets", 1..=256)?.unwrap_or(1);
        let cores = number(&processor.cores, "cores of a socket", 1..=4096)?;
        let nodes = number(&processor.nodes, "nodes", 1..=1024)?.unwrap_or(sockets);
        let speed = number(&file.memory.speed, "MT/s of memory", 100..=30_000)?;
        let channels = number(&file.memory.channels, "memory channels of a node", 1..=64)?;
        if let (Some(rate), true) = (&file.memory.rate, speed.is_some() || channels.is_some()) {
            return Err((rate.span(), "rate replaces speed and channels: give one of them".into()));
        }
        let stated = file.memory.rate.as_ref().map(|rate| rate.get_ref().0);
        let by_clock = speed.zip(channels).map(|(speed, channels)| memory_rate(speed, channels));
        let node = |id| Node {
            id,
            cores: Fact::from_option(
                cores.map(|cores| f64::from(cores) * f64::from(sockets) / f64::from(nodes)),
                "the machine file gives no cores",
            ),
            channels: Fact::from_option(channels, "the machine file gives no memory channels"),
            mt_per_second: Fact::from_option(speed, "the machine file gives no clock of the memory"),
            memory_bytes_per_second: Fact::from_option(
                stated.or(by_clock),
                "the machine file gives no speed and channels of the memory",
            ),
            // A rate that is given is what its owner says that the memory carries.
            memory_efficiency: by_clock.and(file.memory.kind.as_deref().and_then(efficiency_of)),
        };
        self.parts.nodes = (0..nodes).map(node).collect();
        self.parts.processors = processors(file, sockets, cores);
        self.parts.memory_kind = file.memory.kind.clone();
        let cost = &processor.cpu_seconds_per_gb;
        if let Some(cost) = cost.as_ref().filter(|cost| !(1e-4..=1e4).contains(cost.get_ref())) {
            return Err((cost.span(), format!("{} CPU seconds per GB cannot be", cost.get_ref())));
        }
        let why = "the machine file gives no CPU cost of a byte: measure it with `linerate run`";
        self.parts.cpu_seconds_per_gb = Fact::from_option(cost.as_ref().map(|cost| *cost.get_ref()), why);
        Ok(())
    }

    /// Every name once, so that references may point forward.
    fn names(&mut self, file: &File) -> Result<(), Wrong> {
        for hub in &file.hub {
            self.name("hub", &hub.name, &None, &hub.on)?;
        }
        for slot in &file.slot {
            self.name("slot", &slot.name, &slot.count, &slot.on)?;
        }
        for switch in &file.switch {
            self.name("switch", &switch.name, &switch.count, &switch.on)?;
        }
        for bus in &file.bus {
            self.name("bus", &bus.name, &bus.count, &bus.on)?;
        }
        for controller in &file.controller {
            self.name("controller", &controller.name, &controller.count, &controller.on)?;
        }
        for nic in &file.nic {
            self.name("nic", &nic.name, &nic.count, &nic.on)?;
        }
        for disk in &file.disk {
            self.name("disk", &disk.name, &disk.count, &disk.on)?;
        }
        for gpu in &file.gpu {
            self.name("gpu", &gpu.name, &gpu.count, &gpu.on)?;
        }
        for volume in &file.volume {
            self.name("volume", &volume.name, &None, &None)?;
        }
        Ok(())
    }

    fn socket_links(&mut self, file: &File) -> Result<(), Wrong> {
        for link in &file.socket_link {
            let (a, b) = match link.between.get_ref().as_slice() {
                [a, b] if a != b => (*a, *b),
                _ => return Err((link.between.span(), "between names two nodes, like [0, 1]".into())),
            };
            if let Some(absent) = [a, b].into_iter().find(|id| self.parts.node(*id).is_none()) {
                let message = format!("there is no node{absent}: {}", self.nodes_there());
                return Err((link.between.span(), message));
            }
            let count = f64::from(number(&link.links, "links", 1..=16)?.unwrap_or(1));
            let (rate, words) = link_rate(&link.link, &link.rate, link.between.span())?;
            let words = if count > 1.0 { format!("{count} × {words}") } else { words };
            self.parts.socket_links.push(SocketLink {
                between: (a, b),
                bytes_per_second: Fact::Known(rate * count),
                words,
            });
        }
        self.connected(file)
    }

    fn joints(&mut self, file: &File) -> Result<(), Wrong> {
        for hub in &file.hub {
            let mut joint = Joint::new(hub.name.get_ref(), JointKind::Hub, PartPlace::Unknown);
            if hub.link.is_some() || hub.rate.is_some() {
                let (rate, words) = link_rate(&hub.link, &hub.rate, hub.name.span())?;
                joint.bytes_per_second = Fact::Known(rate);
                joint.words = words;
            }
            self.add("hub", &hub.name, &None, &hub.on, joint)?;
        }
        for slot in &file.slot {
            let mut joint = Joint::new("", JointKind::Slot, PartPlace::Unknown);
            joint.link = Some(slot.pcie.get_ref().0);
            self.add("slot", &slot.name, &slot.count, &slot.on, joint)?;
        }
        for switch in &file.switch {
            let joint = card(JointKind::Switch, &Some(&switch.pcie), &switch.max_payload)?;
            self.add("switch", &switch.name, &switch.count, &switch.on, joint)?;
        }
        for bus in &file.bus {
            let mut joint = Joint::new("", JointKind::Bus, PartPlace::Unknown);
            joint.bytes_per_second = Fact::Known(bus.rate.get_ref().0);
            joint.half_duplex = !bus.full_duplex;
            joint.words = bus.kind.clone().unwrap_or_default();
            self.add("bus", &bus.name, &bus.count, &bus.on, joint)?;
        }
        for controller in &file.controller {
            let mut joint = card(JointKind::Controller, &controller.pcie.as_ref(), &controller.max_payload)?;
            let rate = controller.rate.as_ref().map(|rate| rate.get_ref().0);
            joint.bytes_per_second = Fact::from_option(rate, "no data sheet of the controller is given");
            joint.rate_origin = RateOrigin::DataSheet;
            joint.disk_ports = number(&controller.disk_ports, "disk_ports", 1..=1024)?;
            joint.words = controller.kind.clone().unwrap_or_default();
            self.add("controller", &controller.name, &controller.count, &controller.on, joint)?;
        }
        Ok(())
    }

    fn devices(&mut self, file: &File) -> Result<(), Wrong> {
        for nic in &file.nic {
            let ports = number(&nic.ports, "ports", 1..=64)?.unwrap_or(1);
            let mtu = number(&nic.mtu, "mtu", 576..=65_535)?;
            let what = DeviceKind::Nic {
                rate: Fact::Known(nic.rate.get_ref().0),
                mtu: Fact::from_option(mtu, "the machine file gives no MTU"),
                tagged: nic.vlan,
                ipv6: false,
                down: false,
            };
            let joint = card(JointKind::Card, &nic.pcie.as_ref(), &nic.max_payload)?;
            let cards = self.add("nic", &nic.name, &nic.count, &nic.on, joint)?;
            self.ends(nic.name.get_ref(), &cards, ports, &what);
        }
        for disk in &file.disk {
            let rate = |rate: &Option<Spanned<Rate>>, what: &str| {
                let stated = rate.as_ref().map(|rate| rate.get_ref().0);
                Fact::from_option(stated, format!("the machine file gives no {what} rate of the disk"))
            };
            let what = DeviceKind::Disk { read: rate(&disk.read, "read"), write: rate(&disk.write, "write") };
            self.disk(disk, &what)?;
        }
        for gpu in &file.gpu {
            let joint = card(JointKind::Card, &Some(&gpu.pcie), &gpu.max_payload)?;
            let cards = self.add("gpu", &gpu.name, &gpu.count, &gpu.on, joint)?;
            self.ends(gpu.name.get_ref(), &cards, 1, &DeviceKind::Gpu);
        }
        Ok(())
    }

    /// A disk with a link of its own is a card; one without is plugged into a controller or bus.
    fn disk(&mut self, disk: &tables::Disk, what: &DeviceKind) -> Result<(), Wrong> {
        self.check_local_or_remote(disk)?;
        if disk.pcie.is_some() {
            let joint = card(JointKind::Card, &disk.pcie.as_ref(), &disk.max_payload)?;
            let cards = self.add("disk", &disk.name, &disk.count, &disk.on, joint)?;
            self.ends(disk.name.get_ref(), &cards, 1, what);
            return Ok(());
        }
        let one: Vec<String> = names(disk.name.get_ref(), &disk.count, &disk.on)?;
        for (index, name) in one.iter().enumerate() {
            let mut place = self.place("disk", &disk.name, &disk.on, index, one.len())?;
            if let PartPlace::Joint(up) = &place {
                self.room_for_disk(up, disk)?;
                if self.kinds.get(up) == Some(&"nic") {
                    place = self.behind_port(&up.clone(), index, disk)?;
                }
            }
            self.parts.devices.push(ByteDevice {
                name: name.clone(),
                group: disk.name.get_ref().clone(),
                place,
                what: what.clone(),
            });
        }
        Ok(())
    }

    fn room_for_disk(&self, up: &str, disk: &tables::Disk) -> Result<(), Wrong> {
        let span = disk.on.as_ref().map_or(disk.name.span(), Spanned::span);
        if self.kinds.get(up) == Some(&"slot") {
            let message =
                format!("a disk in {up} needs its own link: add pcie = \"3x4\", or name its controller");
            return Err((span, message));
        }
        let place = PartPlace::Joint(up.to_string());
        let there = self.parts.devices.iter().filter(|other| other.place == place).count();
        let ports = self.parts.joint(up).and_then(|joint| joint.disk_ports);
        match ports {
            Some(ports) if there >= ports as usize => Err((
                span,
                format!("{up} has {ports} disk_ports, and more disks than that: add a controller"),
            )),
            _ => Ok(()),
        }
    }

    /// The ports of these cards, or what else is at their end.
    fn ends(&mut self, group: &str, cards: &[String], ports: u32, what: &DeviceKind) {
        for card in cards {
            for port in 0..ports {
                let name = if ports == 1 { card.clone() } else { format!("{card}p{port}") };
                self.parts.devices.push(ByteDevice {
                    name,
                    group: group.to_string(),
                    place: PartPlace::Joint(card.clone()),
                    what: what.clone(),
                });
            }
        }
    }

    /// One joint for each part of an entry; gives their names.
    fn add(
        &mut self,
        word: &'static str,
        name: &Spanned<String>,
        count: &Option<Spanned<u32>>,
        on: &Option<Spanned<PlaceValue>>,
        joint: Joint,
    ) -> Result<Vec<String>, Wrong> {
        let one = names(name.get_ref(), count, on)?;
        for (index, name_here) in one.iter().enumerate() {
            let up = self.place(word, name, on, index, one.len())?;
            if let PartPlace::Joint(slot) = &up
                && self.kinds.get(slot) == Some(&"slot")
                && let Some(other) = self.parts.occupant(slot)
            {
                let span = on.as_ref().map_or(name.span(), Spanned::span);
                return Err((span, format!("{slot} holds {} already: a slot takes one card", other.name)));
            }
            self.parts.joints.push(Joint { name: name_here.clone(), up, ..joint.clone() });
        }
        Ok(one)
    }
}

impl Builder {
    pub(super) fn volumes(&mut self, file: &File) -> Result<(), Wrong> {
        for table in &file.volume {
            let disks = self.disks_of(&table.over)?;
            let (mut read, write) = limits(table)?;
            if let Some(tiers) = self.tiers(table, &disks)? {
                read = tiers;
            }
            let words = table.kind.clone().unwrap_or_default();
            self.parts.volumes.push(Volume { name: table.name.get_ref().clone(), words, disks, read, write });
        }
        Ok(())
    }

    /// A cache or a pool of its own before slower disks.
    fn tiers(&self, table: &VolumeTable, disks: &[String]) -> Result<Option<VolumeLimit>, Wrong> {
        let (tier, hits) = match (&table.tier, &table.hits) {
            (None, None) => return Ok(None),
            (Some(tier), Some(hits)) => (tier, hits),
            (Some(one), None) => {
                return Err((one.span(), "say with hits what share comes from the tier".into()));
            }
            (None, Some(one)) => return Err((one.span(), "say with tier which disks these are".into())),
        };
        if table.read.is_some() || table.efficiency.is_some() {
            return Err((hits.span(), "hits replaces read and efficiency: give one of them".into()));
        }
        let share = *hits.get_ref();
        if !(share > 0.0 && share < 1.0) {
            return Err((hits.span(), format!("hits of {share} cannot be: a share is above 0 and below 1")));
        }
        let faster = self.disks_of(tier)?;
        if let Some(absent) = faster.iter().find(|name| !disks.contains(name)) {
            return Err((tier.span(), format!("{absent} is not one of the volume's disks: add it to over")));
        }
        if faster.len() == disks.len() {
            return Err((tier.span(), "the tier has all disks of the volume: name the faster ones".into()));
        }
        Ok(Some(VolumeLimit::Tiers { faster, share }))
    }

    /// The names of these disks, each once.
    fn disks_of(&self, over: &Spanned<PlaceValue>) -> Result<Vec<String>, Wrong> {
        let is_disk = |device: &&ByteDevice| matches!(device.what, DeviceKind::Disk { .. });
        let mut disks: Vec<String> = Vec::new();
        for word in &over.get_ref().0 {
            let called = |device: &&ByteDevice| device.name == *word || device.group == *word;
            let found =
                self.parts.devices.iter().filter(is_disk).filter(called).map(|disk| disk.name.clone());
            let before = disks.len();
            disks.extend(found);
            if disks.len() == before {
                let shown: String = word.escape_debug().take(super::LONGEST_NAME).collect();
                let message = format!("there is no [[disk]] called “{shown}”: a volume lies over disks");
                return Err((over.span(), message));
            }
        }
        disks.sort_unstable();
        disks.dedup();
        if disks.is_empty() {
            return Err((over.span(), "name at least one disk".into()));
        }
        Ok(disks)
    }
}

/// What it reads and writes.
fn limits(table: &VolumeTable) -> Result<(VolumeLimit, VolumeLimit), Wrong> {
    let rate = |rate: &Option<Spanned<Rate>>| {
        rate.as_ref().map_or(VolumeLimit::Unknown, |rate| VolumeLimit::Rate(rate.get_ref().0))
    };
    let Some(share) = &table.efficiency else { return Ok((rate(&table.read), rate(&table.write))) };
    if table.read.is_some() || table.write.is_some() {
        return Err((share.span(), "efficiency replaces read and write: give one of them".into()));
    }
    let stated = *share.get_ref();
    if !(stated > 0.0 && stated <= 1.0) {
        let message =
            format!("an efficiency of {stated} cannot be: a share of its disks is above 0 and at most 1");
        return Err((share.span(), message));
    }
    Ok((VolumeLimit::Share(stated), VolumeLimit::Share(stated)))
}

impl Builder {
    /// A disk on a NIC has no link of its own; one elsewhere has no transport.
    pub(super) fn check_local_or_remote(&self, disk: &tables::Disk) -> Result<(), Wrong> {
        let places = disk.on.as_ref().map(|on| on.get_ref().0.as_slice()).unwrap_or_default();
        let nic = places.iter().find(|place| self.kinds.get(*place) == Some(&"nic"));
        match (nic, &disk.pcie, &disk.transport) {
            (Some(nic), Some(pcie), _) => {
                let message = format!("{nic} is a NIC, and a disk on it is another host's: leave pcie out");
                Err((pcie.span(), message))
            }
            (None, _, Some(transport)) => {
                let message =
                    "transport is of remote disks: put the disk on the NIC that it comes in through";
                Err((transport.span(), message.into()))
            }
            _ => Ok(()),
        }
    }

    /// Where the disks that come in through a NIC are plugged in: dealt over its ports.
    pub(super) fn behind_port(
        &mut self,
        nic: &str,
        index: usize,
        disk: &tables::Disk,
    ) -> Result<PartPlace, Wrong> {
        let card = PartPlace::Joint(nic.to_string());
        let is_port =
            |device: &&ByteDevice| device.place == card && matches!(device.what, DeviceKind::Nic { .. });
        let ports: Vec<ByteDevice> = self.parts.devices.iter().filter(is_port).cloned().collect();
        let Some(port) = ports.get(index % ports.len().max(1)).cloned() else { return Ok(card) };
        let rdma = disk.transport.as_ref().is_some_and(|one| *one.get_ref() == RemoteTransport::Rdma);
        let joint = RemotePort { port, rdma }.joint();
        let name = joint.name.clone();
        match self.parts.joint(&name) {
            None => self.parts.joints.push(joint),
            Some(there) if there.remote != joint.remote => {
                let span = disk.transport.as_ref().map_or(disk.name.span(), Spanned::span);
                return Err((span, format!("the remote disks on {nic} have two transports: give them one")));
            }
            Some(_) => {}
        }
        Ok(PartPlace::Joint(name))
    }
}
