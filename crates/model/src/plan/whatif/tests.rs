//! Changes to a small machine.

use super::*;
use crate::plan::flow::{Flow, Method, plan_flow};
use crate::plan::machine_file::parse;
use crate::plan::parts::DeviceKind;
use linerate_facts::protocol::Protocol;
use proptest::prelude::*;

/// Two nodes; a 10GE card in an x4 slot of node 0, an x8 slot free there, an x16 slot free at node 1; four
/// disks.
fn machine() -> MachineParts {
    parse(include_str!("two_nodes.toml")).expect("a machine")
}

fn gigabits(parts: &MachineParts) -> f64 {
    let flow = Flow::between(parts, [&["disk"], &["nic"]], Protocol::Udp, Method::Direct).expect("ends");
    plan_flow(parts, &flow).ceiling.likely_bytes_per_second.expect("a likely rate") * 8.0 / 1e9
}

fn after(changes: &[WhatIfChange]) -> Result<(MachineParts, Vec<String>), WhatIfError> {
    let mut parts = machine();
    let mut notes = Vec::new();
    for change in changes {
        notes.extend(apply(&mut parts, change)?);
    }
    Ok((parts, notes))
}

fn one(change: WhatIfChange) -> Result<(MachineParts, Vec<String>), WhatIfError> {
    after(&[change])
}

#[test]
fn a_card_in_a_wider_slot_sends_at_line_rate() {
    assert!((gigabits(&machine()) - 6.887).abs() < 0.01, "{}", gigabits(&machine()));
    let (moved, _) = one(WhatIfChange::Move("eth0=middle".into())).expect("a free slot");
    assert!((gigabits(&moved) - 9.927).abs() < 0.01);
    let (moved, notes) = one(WhatIfChange::Move("eth0=node1".into())).expect("a free slot");
    assert_eq!((moved.node_of(&moved.devices[0].place), notes[0].as_str()), (Some(1), "in wide"));
}

#[test]
fn a_card_in_place_of_others_has_their_mtu_and_one_without_others_none() {
    let mut parts = machine();
    let nics: Vec<String> = parts
        .devices
        .iter()
        .filter(|device| device.what.word() == "nic")
        .map(|nic| nic.name.clone())
        .collect();
    for nic in nics {
        apply(&mut parts, &WhatIfChange::Remove(nic)).expect("a NIC");
    }
    let add = WhatIfChange::Add("nic=10G:pcie2x8".into());
    let notes = apply(&mut parts, &add).expect("a slot");
    assert!(notes[1].starts_with("MTU 9000, as"), "{notes:?}");
    assert_eq!(parts.device("new-nic0").and_then(ByteDevice::mtu), Some(9000));
    let mut bare =
        crate::plan::machine_file::parse("[[slot]]\nname = \"s\"\npcie = \"3x16\"").expect("a machine");
    let notes = apply(&mut bare, &add).expect("a slot");
    assert!(notes[1].contains("MTU unknown") && bare.device("new-nic0").and_then(ByteDevice::mtu).is_none());
}

#[test]
fn a_card_that_is_added_takes_the_narrowest_slot_that_carries_it() {
    let (parts, notes) = one(WhatIfChange::Add("nic=2x10G:pcie2x8".into())).expect("a slot");
    assert_eq!(notes, ["in middle", "MTU 9000, as the machine's other NICs have or had"]);
    assert!((gigabits(&parts) - 6.887 - 2.0 * 9.927).abs() < 0.02, "{}", gigabits(&parts));
    let ports: Vec<&str> = parts
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .filter(|name| name.starts_with("new"))
        .collect();
    assert_eq!(ports, ["new-nic0p0", "new-nic0p1"]);
    let (parts, _) = after(&[
        WhatIfChange::Add("nic=10G:pcie2x4@node1".into()),
        WhatIfChange::Add("nic=10G:pcie2x4@middle".into()),
        WhatIfChange::Remove("new-nic0".into()),
        WhatIfChange::Add("nic=25G:pcie3x8@wide".into()),
    ])
    .expect("slots");
    assert_eq!(parts.occupant("wide").map(|card| card.name.as_str()), Some("new-nic0"));
}

#[test]
fn slots_that_cannot_carry_a_part_are_named() {
    let refused = |change| one(change).map(|_| ()).expect_err("no place").to_string();
    let full = refused(WhatIfChange::Add("nic=10G:pcie2x8@narrow".into()));
    assert_eq!(full, "add nic=10G:pcie2x8@narrow: narrow is full: eth0 is in it; remove or move that first");
    let none = refused(WhatIfChange::Add("nic=100G:pcie3x16@node0".into()));
    assert!(
        none.contains("no free slot of node0 carries PCIe 3.0 x16: narrow holds eth0; middle is PCIe 3.0 x8"),
        "{none}"
    );
    assert!(refused(WhatIfChange::Add("nic=400G:pcie5x16".into())).contains("wide is PCIe 3.0 x16"));
    assert!(refused(WhatIfChange::Add("gpu=pcie3x16@node4".into())).contains("nodes 0 to 1"));
    assert!(refused(WhatIfChange::Add("gpu=pcie3x16@hba".into())).contains("is a card"));
    assert!(refused(WhatIfChange::Move("eth0=nowhere".into())).contains("there is narrow, middle and wide"));
    assert!(
        refused(WhatIfChange::Move("eth7=wide".into()))
            .contains("no part is called “eth7”; there is eth0, hba, sd0")
    );
    assert!(refused(WhatIfChange::Move("sd0=wide".into())).contains("controller or bus; there is hba"));
    assert!(refused(WhatIfChange::Remove("eth7".into())).contains("no part"));
    // Named outright a slot that is too narrow is taken, as SARA's was, and it is said what that costs.
    let (_, notes) = one(WhatIfChange::Add("gpu=pcie3x16@middle".into())).expect("it goes in");
    assert_eq!(notes, ["middle is PCIe 3.0 x8: a card of PCIe 3.0 x16 runs at PCIe 3.0 x8 there"]);
}

#[test]
fn disks_go_behind_controllers_with_free_ports() {
    let (parts, _) = one(WhatIfChange::Add("disk=2GB/s/1GB/s@hba".into())).expect("a port");
    let disk = parts.device("new-disk0").expect("the disk");
    assert!(
        matches!(&disk.what, DeviceKind::Disk { read, write } if read.known() == Some(&2e9) && write.known() == Some(&1e9))
    );
    let more = vec![WhatIfChange::Add("disk=2GB/s@hba".into()); 2];
    assert!(
        after(&more).expect_err("five ports").to_string().contains("hba is full: its 5 ports have disks")
    );
    let (parts, _) = one(WhatIfChange::Add("disk=3GB/s:pcie3x4".into())).expect("a slot");
    assert_eq!(parts.above(&parts.device("new-disk0").expect("it").place)[1].name, "middle");
    assert!(
        one(WhatIfChange::Add("disk=3GB/s".into()))
            .is_err_and(|why| why.to_string().contains("say its controller"))
    );
}

#[test]
fn figures_are_set_on_all_or_on_one() {
    let set = |words: &str| one(WhatIfChange::Set(words.into()));
    let mtu = |parts: &MachineParts| match &parts.device("eth0").expect("it").what {
        DeviceKind::Nic { mtu, .. } => mtu.known().copied(),
        _ => None,
    };
    assert_eq!(mtu(&set("mtu=1500").expect("set").0), Some(1500));
    assert_eq!(mtu(&set("eth0.mtu=4000").expect("set").0), Some(4000));
    let wide = set("narrow.pcie=2x8").expect("set").0;
    assert!((gigabits(&wide) - 9.927).abs() < 0.01);
    let large = set("maxpayload=256").expect("set").0;
    assert!(gigabits(&large) > gigabits(&machine()));
    let slow = set("sd.read=100MB/s").expect("set").0;
    assert!((gigabits(&slow) - 3.2).abs() < 1e-6, "{}", gigabits(&slow));
    let memory = set("memory.clock=800").expect("set").0;
    assert_eq!(memory.nodes[0].memory_bytes_per_second.known(), Some(&25.6e9));
    assert_eq!(
        set("memory.channels=1").expect("set").0.nodes[1].memory_bytes_per_second.known(),
        Some(&12.8e9)
    );
    assert!((gigabits(&set("cpu.cost=8").expect("set").0) - 4.0).abs() < 1e-6);
    for (wrong, words) in [
        ("mtu", "write"),
        ("mtu=9", "576 to 65535"),
        ("eth9.mtu=9000", "no part is called “eth9”"),
        ("sd0.mtu=9000", "has no such figure"),
        ("maxpayload=300", "128, 256"),
        ("memory.colour=3", "memory has no colour"),
        ("sd.read=fast", "not a rate"),
        ("cpu.cost=nan", "like 1.2"),
        ("volume=11", "nothing to set"),
    ] {
        let why = set(wrong).map(|_| ()).expect_err(wrong).to_string();
        assert!(why.contains(words), "{wrong}: {why}");
    }
}

#[test]
fn what_is_removed_takes_with_it_what_hangs_from_it() {
    let (parts, _) = one(WhatIfChange::Remove("hba".into())).expect("removed");
    assert!(parts.devices.iter().all(|device| device.name == "eth0"));
    let (parts, _) = one(WhatIfChange::Remove("disk:sd".into())).expect("removed");
    assert!(parts.devices.len() == 1 && parts.joint("hba").is_some(), "the controller stays");
    let (parts, _) = one(WhatIfChange::Remove("eth0".into())).expect("removed");
    assert!(parts.occupant("narrow").is_none());
}

proptest! {
    #[test]
    fn no_words_make_a_panic(words in "[a-z0-9=:@./x-]{0,24}", kind in 0..4) {
        let change = match kind {
            0 => WhatIfChange::Add(words),
            1 => WhatIfChange::Move(words),
            2 => WhatIfChange::Remove(words),
            _ => WhatIfChange::Set(words),
        };
        let mut parts = machine();
        if apply(&mut parts, &change).is_ok() {
            prop_assert!(parts.joints.iter().all(|joint| parts.node_of(&joint.up).is_some()));
        }
    }
}
