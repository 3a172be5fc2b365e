//! The picture is well formed, nothing in it overlaps, every interface and disk is in it, and no name becomes
//! markup.

use super::layout::{MapLayout, PlacedBranch, layout};
use super::parts::Part;
use super::{picture, svg};
use crate::markup::{Rect, finished, html};
use linerate_facts::fact::Fact;
use linerate_machine::probe::*;
use linerate_testing::server::{card, drive, link, nic, port, server};
use proptest::prelude::*;

fn known<T>(value: T) -> Fact<T> {
    Fact::Known(value)
}

fn overlap(a: &Rect, b: &Rect) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

/// All boxes that may not overlap, and those that hold others.
fn boxes(layout: &MapLayout) -> (Vec<Rect>, Vec<Rect>) {
    fn tree(placed: &PlacedBranch, all: &mut Vec<Rect>) {
        all.push(placed.rect);
        all.extend(&placed.leaves);
        placed.below.iter().for_each(|below| tree(below, all));
    }
    let mut inner: Vec<Rect> = Vec::new();
    for node in &layout.nodes {
        if !node.node.cpu.is_empty() {
            inner.extend([node.cpu, node.memory]);
        }
        node.roots.iter().for_each(|root| tree(root, &mut inner));
    }
    let mut outer: Vec<Rect> = layout.nodes.iter().map(|node| node.rect).collect();
    outer.extend(&layout.bars);
    outer.extend(
        layout.strips.iter().flat_map(|(title, chips)| [*title].into_iter().chain(chips.iter().copied())),
    );
    outer.push(layout.legend);
    (inner, outer)
}

/// No box lies over another, or out of the picture; those that lie in a node.
fn apart(layout: &MapLayout) -> Vec<Rect> {
    let (inner, outer) = boxes(layout);
    for group in [&inner, &outer] {
        for (index, one) in group.iter().enumerate() {
            let other = group[index + 1..].iter().find(|other| overlap(one, other));
            assert!(other.is_none(), "{one:?} overlaps {other:?}");
            assert!(
                one.x >= 0.0 && one.y >= 0.0 && one.right() <= layout.width && one.bottom() <= layout.height
            );
        }
    }
    inner
}

/// A text as it is in the picture.
fn shown(text: &str) -> String {
    finished(html! { (text) })
}

fn checked(machine: &Machine) -> String {
    let picture = picture(machine);
    let layout = layout(&picture);
    for one in &apart(&layout) {
        let within = |node: &Rect| {
            one.x >= node.x && one.right() <= node.right() && one.y >= node.y && one.bottom() <= node.bottom()
        };
        assert!(layout.nodes.iter().any(|node| within(&node.rect)), "{one:?} stands in no node");
    }
    let svg = svg(machine);
    roxmltree::Document::parse(&svg).expect("well-formed XML");
    for nic in &machine.nics {
        assert!(svg.contains(&shown(&nic.name)), "{} is missing", nic.name);
    }
    for disk in machine.disks.iter().filter(|disk| {
        disk.kind != DiskKind::Partition && disk.size_bytes.known().is_some_and(|bytes| *bytes > 0)
    }) {
        assert!(svg.contains(&shown(&disk.name)), "{} is missing", disk.name);
    }
    svg
}

#[test]
fn a_server_with_everything() {
    let svg = checked(&server());
    let said = "16 GT/s x16 · 252 Gb/s | payload 234 Gb/s | could do 8 GT/s x8 | idle, can 16 GT/s x16 | 4 × NVMe | 8 × sda – sdh | \
                8 × 32 GiB DDR4-2933 | 188 GB/s | socket links · distance 21 | raid6 of 8 | slot 1 | eth0 · 100 Gb/s | \
                prefers-color-scheme:dark";
    for words in said.split(" | ") {
        assert!(svg.contains(words), "{words} is missing");
    }
    assert!(!svg.contains("<script") && !svg.contains("href"));
}

#[test]
fn a_virtual_machine() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/virtual-machine");
    let machine = probe(&linerate_facts::sysroot::Sysroot::recorded(recorded));
    let svg = checked(&machine);
    assert!(
        svg.contains("vda") && svg.contains("virtual machine (kvm)") && !svg.contains("On no known node")
    );
    // Nothing at all is a picture, too.
    checked(&Machine::default());
}

#[test]
fn a_bridge_that_only_passes_a_link_on_is_left_out() {
    let machine = server();
    let parts = |part: Part| {
        fn count(branch: &super::parts::Branch, part: Part) -> usize {
            usize::from(branch.part == part)
                + branch.below.iter().map(|below| count(below, part)).sum::<usize>()
        }
        let picture = picture(&machine);
        picture.nodes.iter().flat_map(|node| &node.roots).map(|root| count(root, part)).sum::<usize>()
    };
    assert_eq!((parts(Part::Switch), parts(Part::Card)), (1, 4));
    // With one drive left, the switch is gone, and its narrower uplink is not.
    let mut machine = machine;
    machine.pci.retain(|device| {
        !["0000:9b:00.0", "0000:9c:00.0", "0000:9d:00.0"].contains(&device.address.as_str())
    });
    let picture = picture(&machine);
    let root = picture.nodes[1].roots.first().expect("the root of the drive");
    assert_eq!(root.below[0].part, Part::Card);
    assert_eq!(root.below[0].edge.above, "16 GT/s x4 · 63.0 Gb/s");
}

/// Sixteen nodes, hundreds of drives and virtual functions: alike things are one, and the picture stays a
/// picture.
#[test]
fn a_large_machine_stays_a_picture() {
    let mut machine = server();
    let gen4 = link(16.0, 4);
    for n in 0..200 {
        let (above, own) = (format!("0001:{n:02x}:01.0"), format!("0001:{n:02x}:02.0"));
        machine.pci.push(port(&above, None, PortKind::RootPort, Some(n), Some(gen4), gen4));
        machine.pci.push(card(&own, &above, 0x01_0802, gen4, gen4, n % 2));
        machine.disks.push(drive(&format!("nvme{}n1", n + 10), &own, n % 2));
    }
    machine.pci.push(port("0002:00:01.0", None, PortKind::RootPort, None, Some(gen4), gen4));
    for n in 0..64 {
        let own = format!("0002:01:{:02x}.{}", n / 8, n % 8);
        machine.pci.push(card(&own, "0002:00:01.0", 0x02_0000, gen4, gen4, 1));
        machine.nics.push(nic(&format!("vf{n}"), 25, &own, 1));
    }
    machine.nics.extend((0..300).map(|n| Nic { name: format!("veth{n}"), ..Default::default() }));
    for id in 2..16 {
        machine.memory.nodes.push(NumaNode {
            id,
            cpus: vec![64 + id],
            total_bytes: known(1 << 30),
            ..Default::default()
        });
    }
    machine.memory.nodes.extend((20..24).map(|id| NumaNode {
        id,
        total_bytes: known(16 << 30),
        ..Default::default()
    }));
    let svg = checked(&machine);
    assert!(svg.contains("Nodes 20-23") && svg.contains("and 278 more"), "{}", svg.len());
}

#[test]
fn names_from_outside_are_no_markup() {
    let hostile = "\"/><script>alert('x')</script>\u{202e}\u{1b}[2J&amp";
    let mut machine = server();
    machine.host = known(hostile.into());
    machine.cpu.model = known(hostile.into());
    machine.kernel.release = known(hostile.into());
    for nic in &mut machine.nics {
        nic.name = hostile.into();
        nic.driver = known(hostile.into());
    }
    for disk in &mut machine.disks {
        disk.name = hostile.into();
        disk.model = known(hostile.into());
    }
    for device in &mut machine.pci {
        device.name = known(hostile.into());
        device.driver = known(hostile.into());
    }
    for module in &mut machine.memory.modules {
        module.kind = hostile.into();
    }
    machine.file_systems[0].mount_point = hostile.into();
    let svg = checked(&machine);
    assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\u{1b}'));
}

#[test]
fn a_damaged_file_with_rings_is_drawn_once() {
    let mut machine = server();
    let first = machine.pci[0].address.clone();
    machine.pci[1].parent = Some(machine.pci[2].address.clone());
    machine.pci[2].parent = Some(machine.pci[1].address.clone());
    machine.pci[3].parent = Some(machine.pci[3].address.clone());
    let twin = PciDevice { parent: Some(machine.pci[5].address.clone()), ..machine.pci[0].clone() };
    machine.pci.push(twin);
    let picture = picture(&machine);
    let drawn = finished(super::draw::draw(&picture, &layout(&picture), None));
    roxmltree::Document::parse(&drawn).expect("well-formed XML");
    assert!(!first.is_empty());
}

#[test]
fn described_servers_are_drawn_and_nothing_overlaps() {
    use linerate_model::plan::machine_file::parse;
    for text in [
        include_str!("../../../../examples/machines/dell-t610.toml"),
        include_str!("../../../../examples/machines/streaming-server.toml"),
        include_str!("../../../../examples/machines/sgi-uv300.toml"),
        include_str!("../../../../examples/machines/appro-1224xi.toml"),
        include_str!("../../../../examples/machines/dgx-h100.toml"),
    ] {
        let parts = parse(text).expect("a machine file");
        let picture = super::described::picture(&parts);
        apart(&layout(&picture));
        let drawn = finished(super::draw::draw(&picture, &layout(&picture), Some("")));
        roxmltree::Document::parse(&drawn).expect("well-formed XML");
        for device in &parts.devices {
            let own = drawn.contains(&shown(&device.name));
            assert!(own, "{}: {} is missing", parts.name, device.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Trees of any shape: each function below any other, on any node.
    #[test]
    fn no_tree_makes_boxes_overlap(parents in prop::collection::vec((0usize..40, 0u32..4, 0usize..4, any::<bool>()), 1..60)) {
        let mut machine = server();
        machine.disks.clear();
        machine.nics.clear();
        machine.file_systems.clear();
        machine.pci.clear();
        let address = |n: usize| format!("0000:{n:02x}:00.0");
        for (n, (parent, node, class, told)) in parents.iter().enumerate() {
            let class = [0x06_0400, 0x02_0000, 0x01_0802, 0x03_0200][*class];
            let mut device = card(&address(n), &address(*parent), class, link(8.0, 4), link(16.0, 8), *node);
            device.parent = (*parent < n).then(|| address(*parent));
            if !told {
                device.express = Express::default();
            }
            machine.pci.push(device);
            if class == 0x02_0000 && machine.pci.len().is_multiple_of(3) {
                machine.nics.extend((0..*parent).map(|port| nic(&format!("e{n}p{port}"), 10, &address(n), *node)));
            }
        }
        apart(&layout(&picture(&machine)));
        prop_assert!(roxmltree::Document::parse(&svg(&machine)).is_ok());
    }
}
