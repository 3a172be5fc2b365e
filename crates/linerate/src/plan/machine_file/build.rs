//! The words of a machine file made into parts: references resolved, counts written out, numbers held against what can be.

use super::values::{Link, OnWords, Pcie, Rate};
use super::words::{self, File};
use crate::fact::Fact;
use crate::plan::parts::{
    Catalogue, CatalogueController, CatalogueDisk, CatalogueNic, DEEPEST, Device, DeviceKind, Joint,
    JointKind, Node, Parts, Place, SocketLink, show_link,
};
use crate::rates::pcie as pcie_rates;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// Where, and what is wrong with it.
type Wrong = (Range<usize>, String);

/// Parts that one entry may stand for, and parts of a machine.
const MOST_OF_ONE: u32 = 1024;
const MOST_PARTS: usize = 4096;
/// MTU where the file tells none: standard Ethernet.
const DEFAULT_MTU: u32 = 1500;
/// Longest name.
const LONGEST_NAME: usize = 64;

pub(super) fn build(file: &File) -> Result<Parts, Wrong> {
    let mut builder = Builder { parts: Parts::default(), kinds: BTreeMap::new(), span: BTreeMap::new() };
    builder.parts.name = file.name.clone().unwrap_or_else(|| "the described machine".into());
    builder.nodes(file)?;
    builder.names(file)?;
    builder.socket_links(file)?;
    builder.joints(file)?;
    builder.devices(file)?;
    builder.no_circles()?;
    builder.lanes(file)?;
    builder.parts.catalogue = catalogue(&file.catalogue)?;
    Ok(builder.parts)
}

struct Builder {
    parts: Parts,
    /// What each name stands for: its word (`slot`, `hub` …).
    kinds: BTreeMap<String, &'static str>,
    /// Where each name stands.
    span: BTreeMap<String, Range<usize>>,
}

/// What a part may be plugged into, by its word.
fn takes(word: &str) -> &'static [&'static str] {
    match word {
        "hub" => &["node"],
        "slot" => &["node", "hub", "switch"],
        "switch" => &["node", "hub", "switch", "slot"],
        "bus" => &["node", "hub", "controller", "bus"],
        "disk" => &["node", "hub", "switch", "slot", "controller", "bus"],
        _ => &["node", "hub", "switch", "slot", "bus"],
    }
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
            return Err((rate.span(), "rate stands in place of speed and channels: give one of both".into()));
        }
        let given = file.memory.rate.as_ref().map(|rate| rate.get_ref().0);
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
                given.or(by_clock),
                "the machine file gives no speed and channels of the memory",
            ),
        };
        self.parts.nodes = (0..nodes).map(node).collect();
        self.parts.processors = processors(file, sockets, cores);
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
        Ok(())
    }

    fn name(
        &mut self,
        word: &'static str,
        name: &Spanned<String>,
        count: &Option<Spanned<u32>>,
        on: &Option<Spanned<OnWords>>,
    ) -> Result<(), Wrong> {
        let text = name.get_ref();
        let letters = text.chars().all(|c| c.is_alphanumeric() || "_-.+".contains(c));
        if text.is_empty() || text.chars().count() > LONGEST_NAME || !letters {
            let message = format!(
                "“{}” is no name: use 1 to {LONGEST_NAME} letters, digits, _ - . +",
                text.escape_debug().take(2 * LONGEST_NAME).collect::<String>()
            );
            return Err((name.span(), message));
        }
        if text == "memory" || text.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok()) {
            return Err((name.span(), format!("“{text}” is the machine's own name for it: choose another")));
        }
        for one in names(text, count, on)? {
            if let Some(other) = self.kinds.insert(one.clone(), word) {
                let message = format!("the name {one} is taken by a {other} above: choose another");
                return Err((name.span(), message));
            }
            self.span.insert(one, name.span());
            if self.kinds.len() > MOST_PARTS {
                return Err((name.span(), format!("more than {MOST_PARTS} parts are no server")));
            }
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

    /// Where some links between nodes are given, each node is reached over them.
    fn connected(&self, file: &File) -> Result<(), Wrong> {
        let Some(first) = file.socket_link.first() else { return Ok(()) };
        let mut reached = vec![self.parts.nodes[0].id];
        let mut at = 0;
        while let Some(here) = reached.get(at).copied() {
            at += 1;
            for link in &self.parts.socket_links {
                let other = match link.between {
                    (a, b) if a == here => b,
                    (a, b) if b == here => a,
                    _ => continue,
                };
                if !reached.contains(&other) {
                    reached.push(other);
                }
            }
        }
        match self.parts.nodes.iter().find(|node| !reached.contains(&node.id)) {
            Some(node) => {
                let message =
                    format!("no [[socket_link]] leads to node{}: give one, or none at all", node.id);
                Err((first.between.span(), message))
            }
            None => Ok(()),
        }
    }

    fn joints(&mut self, file: &File) -> Result<(), Wrong> {
        for hub in &file.hub {
            let mut joint = Joint::new(hub.name.get_ref(), JointKind::Hub, Place::Unknown);
            if hub.link.is_some() || hub.rate.is_some() {
                let (rate, words) = link_rate(&hub.link, &hub.rate, hub.name.span())?;
                joint.bytes_per_second = Fact::Known(rate);
                joint.words = words;
            }
            self.add("hub", &hub.name, &None, &hub.on, joint)?;
        }
        for slot in &file.slot {
            let mut joint = Joint::new("", JointKind::Slot, Place::Unknown);
            joint.link = Some(slot.pcie.get_ref().0);
            self.add("slot", &slot.name, &slot.count, &slot.on, joint)?;
        }
        for switch in &file.switch {
            let joint = card(JointKind::Switch, &Some(&switch.pcie), &switch.max_payload)?;
            self.add("switch", &switch.name, &switch.count, &switch.on, joint)?;
        }
        for bus in &file.bus {
            let mut joint = Joint::new("", JointKind::Bus, Place::Unknown);
            joint.bytes_per_second = Fact::Known(bus.rate.get_ref().0);
            joint.half_duplex = !bus.full_duplex;
            joint.words = bus.kind.clone().unwrap_or_default();
            self.add("bus", &bus.name, &bus.count, &bus.on, joint)?;
        }
        for controller in &file.controller {
            let mut joint = card(JointKind::Controller, &controller.pcie.as_ref(), &controller.max_payload)?;
            let rate = controller.rate.as_ref().map(|rate| rate.get_ref().0);
            joint.bytes_per_second = Fact::from_option(rate, "no data sheet of the controller is given");
            joint.disk_ports = number(&controller.disk_ports, "disk_ports", 1..=1024)?;
            joint.words = controller.kind.clone().unwrap_or_default();
            self.add("controller", &controller.name, &controller.count, &controller.on, joint)?;
        }
        Ok(())
    }

    fn devices(&mut self, file: &File) -> Result<(), Wrong> {
        for nic in &file.nic {
            let ports = number(&nic.ports, "ports", 1..=64)?.unwrap_or(1);
            let mtu = number(&nic.mtu, "mtu", 576..=65_535)?.unwrap_or(DEFAULT_MTU);
            let what = DeviceKind::Nic {
                rate: Fact::Known(nic.rate.get_ref().0),
                mtu: Fact::Known(mtu),
                tagged: nic.vlan,
                down: false,
            };
            let joint = card(JointKind::Card, &nic.pcie.as_ref(), &nic.max_payload)?;
            let cards = self.add("nic", &nic.name, &nic.count, &nic.on, joint)?;
            self.ends(nic.name.get_ref(), &cards, ports, &what);
        }
        for disk in &file.disk {
            let rate = |rate: &Option<Spanned<Rate>>, what: &str| {
                let given = rate.as_ref().map(|rate| rate.get_ref().0);
                Fact::from_option(given, format!("the machine file gives no {what} rate of the disk"))
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
    fn disk(&mut self, disk: &words::Disk, what: &DeviceKind) -> Result<(), Wrong> {
        if disk.pcie.is_some() {
            let joint = card(JointKind::Card, &disk.pcie.as_ref(), &disk.max_payload)?;
            let cards = self.add("disk", &disk.name, &disk.count, &disk.on, joint)?;
            self.ends(disk.name.get_ref(), &cards, 1, what);
            return Ok(());
        }
        let one: Vec<String> = names(disk.name.get_ref(), &disk.count, &disk.on)?;
        for (index, name) in one.iter().enumerate() {
            let place = self.place("disk", &disk.name, &disk.on, index, one.len())?;
            if let Place::Joint(up) = &place {
                self.room_for_disk(up, disk)?;
            }
            self.parts.devices.push(Device {
                name: name.clone(),
                group: disk.name.get_ref().clone(),
                place,
                what: what.clone(),
            });
        }
        Ok(())
    }

    fn room_for_disk(&self, up: &str, disk: &words::Disk) -> Result<(), Wrong> {
        let span = disk.on.as_ref().map_or(disk.name.span(), Spanned::span);
        if self.kinds.get(up) == Some(&"slot") {
            let message =
                format!("a disk in {up} needs its own link: add pcie = \"3x4\", or name its controller");
            return Err((span, message));
        }
        let there =
            self.parts.devices.iter().filter(|other| other.place == Place::Joint(up.to_string())).count();
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
                self.parts.devices.push(Device {
                    name,
                    group: group.to_string(),
                    place: Place::Joint(card.clone()),
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
        on: &Option<Spanned<OnWords>>,
        joint: Joint,
    ) -> Result<Vec<String>, Wrong> {
        let one = names(name.get_ref(), count, on)?;
        for (index, name_here) in one.iter().enumerate() {
            let up = self.place(word, name, on, index, one.len())?;
            if let Place::Joint(slot) = &up
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

    /// Where part `index` of `count` goes: places are filled evenly and in order.
    fn place(
        &self,
        word: &'static str,
        name: &Spanned<String>,
        on: &Option<Spanned<OnWords>>,
        index: usize,
        count: usize,
    ) -> Result<Place, Wrong> {
        let Some(on) = on else {
            return match self.parts.nodes.as_slice() {
                [only] => Ok(Place::Node(only.id)),
                _ => Err((name.span(), format!("say what {} is on, like on = \"node0\"", name.get_ref()))),
            };
        };
        let places = &on.get_ref().0;
        let Some(place) = places.get(index.saturating_mul(places.len()) / count.max(1)) else {
            return Err((on.span(), "name at least one place".into()));
        };
        let kind = match place.strip_prefix("node").and_then(|id| id.parse::<u32>().ok()) {
            Some(id) if self.parts.node(id).is_some() => "node",
            Some(_) => return Err((on.span(), format!("there is no {place}: {}", self.nodes_there()))),
            None => match self.kinds.get(place) {
                Some(kind) => kind,
                None => return Err((on.span(), self.nothing_called(place, word))),
            },
        };
        if !takes(word).contains(&kind) {
            let message = format!(
                "{place} is a {kind}, and a {word} goes on a {}",
                takes(word).join(" or a ").replace("a hub or", "hub or")
            );
            return Err((on.span(), message));
        }
        Ok(match kind {
            "node" => Place::Node(place["node".len()..].parse().unwrap_or(0)),
            _ => Place::Joint(place.clone()),
        })
    }

    fn nothing_called(&self, place: &str, word: &str) -> String {
        let like: Vec<&str> = self
            .kinds
            .iter()
            .filter(|(_, kind)| takes(word).contains(*kind))
            .map(|(name, _)| name.as_str())
            .take(8)
            .collect();
        let shown: String = place.escape_debug().take(LONGEST_NAME).collect();
        let there = if like.is_empty() { "nothing that could hold it".to_string() } else { like.join(", ") };
        format!("nothing is called “{shown}”; there is {there}, and node0")
    }

    fn nodes_there(&self) -> String {
        match self.parts.nodes.len() {
            1 => "the machine has one node, node0".into(),
            many => format!("the machine has node0 to node{}", many - 1),
        }
    }

    fn no_circles(&self) -> Result<(), Wrong> {
        for joint in &self.parts.joints {
            let place = Place::Joint(joint.name.clone());
            if self.parts.node_of(&place).is_none() {
                let span = self.span.get(&joint.name).cloned().unwrap_or(0..0);
                let message = format!(
                    "{} does not hang from a node: what it is on leads in a circle, or is more than {DEEPEST} deep",
                    joint.name
                );
                return Err((span, message));
            }
        }
        Ok(())
    }

    /// The slots of a hub have no more lanes than it.
    fn lanes(&self, file: &File) -> Result<(), Wrong> {
        for hub in &file.hub {
            let Some(lanes) = number(&hub.lanes, "lanes", 1..=1024)? else { continue };
            let on_hub = |joint: &&Joint| joint.up == Place::Joint(hub.name.get_ref().clone());
            let width = |joint: &Joint| joint.link.map_or(0, |link| link.width);
            let used: u32 = self.parts.joints.iter().filter(on_hub).map(width).sum();
            if let (true, Some(given)) = (used > lanes, &hub.lanes) {
                let name = hub.name.get_ref();
                let message = format!("{name} has {lanes} lanes, and what is on it takes {used}");
                return Err((given.span(), message));
            }
        }
        Ok(())
    }
}

/// The names of an entry's parts: the name alone, or numbered from 0.
fn names(
    name: &str,
    count: &Option<Spanned<u32>>,
    on: &Option<Spanned<OnWords>>,
) -> Result<Vec<String>, Wrong> {
    let places = on.as_ref().map_or(1, |on| on.get_ref().0.len());
    let given = number(count, "count", 1..=MOST_OF_ONE)?;
    if let (Some(on), true) = (on, given.is_some_and(|count| places > count as usize)) {
        return Err((on.span(), format!("{places} places for fewer parts: drop some, or raise count")));
    }
    if let Some(on) = on.as_ref().filter(|_| places > MOST_OF_ONE as usize) {
        return Err((on.span(), format!("more than {MOST_OF_ONE} places")));
    }
    Ok(match given {
        None if places <= 1 => vec![name.to_string()],
        None => (0..places).map(|index| format!("{name}{index}")).collect(),
        Some(count) => (0..count).map(|index| format!("{name}{index}")).collect(),
    })
}

fn card(
    kind: JointKind,
    pcie: &Option<&Spanned<Pcie>>,
    max_payload: &Option<Spanned<u32>>,
) -> Result<Joint, Wrong> {
    let mut joint = Joint::new("", kind, Place::Unknown);
    joint.link = pcie.map(|pcie| pcie.get_ref().0);
    if let Some(given) = max_payload {
        let bytes = *given.get_ref();
        if !is_max_payload(bytes) {
            let message = format!("MaxPayload is 128, 256, 512, 1024, 2048 or 4096 bytes, not {bytes}");
            return Err((given.span(), message));
        }
        joint.max_payload_bytes = Some(bytes);
    }
    let rate = joint.link.and_then(|link| pcie_rates::raw_bytes_per_second(link.gt_per_second, link.width));
    if let (Some(link), None, Some(pcie)) = (joint.link, rate, pcie) {
        return Err((pcie.span(), format!("{} has no rate", show_link(link))));
    }
    Ok(joint)
}

/// The values that the specification allows.
pub(in crate::plan) fn is_max_payload(bytes: u32) -> bool {
    bytes.is_power_of_two() && (128..=4096).contains(&bytes)
}

fn number(
    given: &Option<Spanned<u32>>,
    what: &str,
    range: RangeInclusive<u32>,
) -> Result<Option<u32>, Wrong> {
    let Some(given) = given else { return Ok(None) };
    let value = *given.get_ref();
    if range.contains(&value) {
        return Ok(Some(value));
    }
    Err((given.span(), format!("{value} {what} cannot be: {} to {}", range.start(), range.end())))
}

/// A link by its kind or by its rate, and what to call it.
fn link_rate(
    link: &Option<Spanned<Link>>,
    rate: &Option<Spanned<Rate>>,
    span: Range<usize>,
) -> Result<(f64, String), Wrong> {
    match (link, rate) {
        (Some(link), None) => Ok((link.get_ref().bytes_per_second, link.get_ref().words.clone())),
        (None, Some(rate)) => Ok((rate.get_ref().0, "as the file says".into())),
        (Some(_), Some(rate)) => Err((rate.span(), "give link or rate, not both".into())),
        (None, None) => Err((span, "give link = \"qpi 6.4\" or a rate".into())),
    }
}

/// All channels of a node: 8 bytes a transfer, at the exact clock behind the nominal one (1333 is 1333⅓: JEDEC's clocks are multiples
/// of 33⅓ MHz).
pub(in crate::plan) fn memory_rate(mt_per_second: u32, channels: u32) -> f64 {
    let nominal = f64::from(mt_per_second);
    let exact = (nominal * 3.0 / 200.0).round() * 200.0 / 3.0;
    let clock = if (exact - nominal).abs() < 1.0 { exact } else { nominal };
    clock * 1e6 * 8.0 * f64::from(channels)
}

fn processors(file: &File, sockets: u32, cores: Option<u32>) -> String {
    let model = file.processor.model.clone().unwrap_or_else(|| "processor".into());
    let mut words = format!("{sockets} × {model}");
    if let Some(cores) = cores {
        words.push_str(&format!(", {cores} cores each"));
    }
    if let Some(clock) = &file.processor.clock {
        words.push_str(&format!(", {} GHz", clock.get_ref().0));
    }
    if let Some(kind) = &file.memory.kind {
        words.push_str(&format!("; {kind}"));
    }
    words
}

fn catalogue(words: &words::Catalogue) -> Result<Catalogue, Wrong> {
    let mut catalogue = Catalogue::default();
    if let Some(nic) = &words.nic {
        let ports = number(&nic.ports, "ports", 1..=64)?.unwrap_or(1);
        catalogue.nic = Some(CatalogueNic { rate: nic.rate.get_ref().0, ports, link: nic.pcie.get_ref().0 });
    }
    if let Some(controller) = &words.controller {
        let ports = Some(controller.disk_ports.clone());
        catalogue.controller = Some(CatalogueController {
            link: controller.pcie.get_ref().0,
            disk_ports: number(&ports, "disk_ports", 1..=1024)?.unwrap_or(1),
            rate: controller.rate.as_ref().map(|rate| rate.get_ref().0),
        });
    }
    if let Some(disk) = &words.disk {
        let read = disk.read.get_ref().0;
        catalogue.disk = Some(CatalogueDisk {
            read,
            write: disk.write.as_ref().map_or(read, |rate| rate.get_ref().0),
            in_practice: disk.in_practice.as_ref().map(|rate| rate.get_ref().0),
            link: disk.pcie.as_ref().map(|pcie| pcie.get_ref().0),
        });
    }
    Ok(catalogue)
}
