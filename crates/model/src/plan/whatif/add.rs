//! A part that is added: `KIND=WHAT[@PLACE]`.

use super::Hindrance;
use super::slots::{find_place, for_disk};
use crate::plan::machine_file::{pcie, rate};
use crate::plan::parts::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, PartPlace};
use linerate_facts::fact::Fact;
use linerate_machine::probe::PciLink;

/// Ports of a card that is added.
const MOST_PORTS: u32 = 64;
/// Disk ports of a controller where none are reported: two connectors of four.
const DEFAULT_DISK_PORTS: u32 = 8;
const HOW: Hindrance = Hindrance::Form(
    "write it like nic=100G:pcie3x16@node1, nic=2x10G:pcie2x8, disk=3.2GB/s:pcie3x4@slot2, \
disk=250MB/s/70MB/s@perc, controller=pcie2x8 or gpu=pcie4x16",
);

pub(super) fn add(parts: &mut MachineParts, text: &str) -> Result<Vec<String>, Hindrance> {
    let (kind, rest) = text.split_once('=').ok_or(HOW)?;
    let (what, place) = rest.split_once('@').map_or((rest, None), |(what, place)| (what, Some(place)));
    match kind {
        "nic" => nic(parts, what, place),
        "disk" => disk(parts, what, place),
        "controller" => controller(parts, what, place),
        "gpu" => {
            let link = pcie(what)?;
            card(parts, "new-gpu", JointKind::Card, link, place, 1, &DeviceKind::Gpu)
        }
        _ => Err(HOW),
    }
}

fn nic(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (port, link) = what.split_once(':').ok_or(HOW)?;
    let (ports, port) = match port.split_once('x') {
        Some((count, port)) => (count.parse::<u32>().map_err(|_| HOW)?, port),
        None => (1, port),
    };
    if !(1..=MOST_PORTS).contains(&ports) {
        return Err(Hindrance::Ports { most: MOST_PORTS });
    }
    let mtu = mtu(parts);
    let what = DeviceKind::Nic {
        rate: Fact::Known(rate(port)?),
        mtu: Fact::from_option(mtu, "no NIC of the machine has one to take"),
        tagged: false,
        ipv6: false,
        down: false,
    };
    let mut notes = card(parts, "new-nic", JointKind::Card, pcie(link)?, place, ports, &what)?;
    notes.push(match mtu {
        Some(mtu) => format!("MTU {mtu}, as the machine's other NICs have or had"),
        None => "MTU unknown: give it with --set mtu=9000".into(),
    });
    Ok(notes)
}

/// The MTU that the machine's NICs have, or those that were taken away: the network's, more likely than the standard
/// one.
fn mtu(parts: &MachineParts) -> Option<u32> {
    parts.devices.iter().filter_map(ByteDevice::mtu).chain(parts.removed_mtu).max()
}

fn disk(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (rates, link) = what.split_once(':').map_or((what, None), |(rates, link)| (rates, Some(link)));
    // A rate has a slash of its own: 3GB/s/2GB/s.
    let at = rates.find("/s/").map(|at| at + 2);
    let (read, write) = at.map_or((rates, None), |at| (&rates[..at], Some(&rates[at + 1..])));
    let read = Fact::Known(rate(read)?);
    let write = match write {
        Some(write) => Fact::Known(rate(write)?),
        None => read.clone(),
    };
    let what = DeviceKind::Disk { read, write };
    match link {
        Some(link) => card(parts, "new-disk", JointKind::Card, pcie(link)?, place, 1, &what),
        None => {
            let place = for_disk(
                parts,
                place.ok_or(Hindrance::Form("say its controller, like @perc, or give it a link"))?,
            )?;
            let name = free_name(parts, "new-disk");
            parts.devices.push(ByteDevice { group: name.clone(), name, place, what });
            Ok(Vec::new())
        }
    }
}

fn controller(parts: &mut MachineParts, what: &str, place: Option<&str>) -> Result<Vec<String>, Hindrance> {
    let (link, ports) = what.split_once(':').map_or((what, None), |(link, ports)| (link, Some(ports)));
    let ports = match ports {
        Some(ports) => ports
            .parse()
            .ok()
            .filter(|ports| (1..=1024).contains(ports))
            .ok_or(Hindrance::Form("disk ports: 1 to 1024"))?,
        None => DEFAULT_DISK_PORTS,
    };
    let link = pcie(link)?;
    let name = free_name(parts, "new-controller");
    let (up, notes) = find_place(parts, place, Some(link), &name)?;
    let mut joint = Joint::new(name, JointKind::Controller, up);
    joint.link = Some(link);
    joint.disk_ports = Some(ports);
    joint.max_payload_bytes = None;
    joint.bytes_per_second = Fact::unknown("no data sheet of the controller is given");
    parts.joints.push(joint);
    Ok(notes)
}

fn card(
    parts: &mut MachineParts,
    beginning: &str,
    kind: JointKind,
    link: PciLink,
    place: Option<&str>,
    ports: u32,
    what: &DeviceKind,
) -> Result<Vec<String>, Hindrance> {
    let name = free_name(parts, beginning);
    let (up, notes) = find_place(parts, place, Some(link), &name)?;
    let mut joint = Joint::new(&name, kind, up);
    joint.link = Some(link);
    parts.joints.push(joint);
    for port in 0..ports {
        parts.devices.push(ByteDevice {
            name: if ports == 1 { name.clone() } else { format!("{name}p{port}") },
            group: name.clone(),
            place: PartPlace::Joint(name.clone()),
            what: what.clone(),
        });
    }
    Ok(notes)
}

/// `new-nic0`, or the next that nobody has.
fn free_name(parts: &MachineParts, beginning: &str) -> String {
    let taken = |name: &str| {
        parts.joint(name).is_some()
            || parts.devices.iter().any(|device| device.name == name || device.group == name)
    };
    let mut number = 0u32;
    loop {
        let name = format!("{beginning}{number}");
        if !taken(&name) {
            return name;
        }
        number = number.saturating_add(1);
    }
}
