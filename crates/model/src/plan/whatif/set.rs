//! A figure of a part that is set: `KEY=VALUE` for all, `NAME.KEY=VALUE` for one part or all of an entry.

use super::Hindrance;
use crate::plan::machine_file::{is_max_payload, memory_rate, pcie, rate};
use crate::plan::parts::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, RateOrigin, VolumeLimit};
use linerate_facts::fact::Fact;

pub(super) const HOW: &str = "write mtu=9000, maxpayload=256, memory.clock=1600, memory.channels=4, memory.rate=50GB/s, \
                   cpu.cores=8, cpu.cost=1.2 \
(CPU seconds per GB), socket-link.rate=20GB/s, or NAME.mtu, NAME.rate, NAME.read, NAME.write (of disks and volumes), \
NAME.pcie=3x16, NAME.maxpayload";

pub(super) fn set(parts: &mut MachineParts, text: &str) -> Result<(), Hindrance> {
    let (key, value) = text.split_once('=').ok_or(Hindrance::Form(HOW))?;
    // A name may have dots itself (`0000:03:00.0`): the key is what is behind the last.
    let (name, key) = key.rsplit_once('.').map_or((None, key), |(name, key)| (Some(name), key));
    match (name, key) {
        (Some("memory"), _) => memory(parts, key, value),
        (Some("cpu"), _) => cpu(parts, key, value),
        (Some("socket-link"), "rate") => {
            let rate = rate(value)?;
            if parts.socket_links.is_empty() {
                return Err(Hindrance::Unknown(
                    "no link between nodes is known: describe the machine in a file",
                ));
            }
            parts.socket_links.iter_mut().for_each(|link| link.bytes_per_second = Fact::Known(rate));
            Ok(())
        }
        (name, "mtu") => {
            let mtu: u32 = value
                .parse()
                .ok()
                .filter(|mtu| (576..=65_535).contains(mtu))
                .ok_or(Hindrance::Form("an MTU is 576 to 65535"))?;
            devices(parts, name, |device| match &mut device.what {
                DeviceKind::Nic { mtu: own, .. } => {
                    *own = Fact::Known(mtu);
                    true
                }
                _ => false,
            })
        }
        (name, "maxpayload") => {
            let bytes = value.parse().ok().filter(|bytes| is_max_payload(*bytes));
            let bytes =
                bytes.ok_or(Hindrance::Form("MaxPayload is 128, 256, 512, 1024, 2048 or 4096 bytes"))?;
            joints(parts, name, |joint| {
                let linked = joint.link.is_some() && joint.kind != JointKind::Slot;
                linked && joint.max_payload_bytes.replace(bytes).is_none_or(|_| true)
            })
        }
        (Some(name), "read" | "write") => {
            let rate = rate(value)?;
            if let Some(volume) = parts.volumes.iter_mut().find(|volume| volume.name == name) {
                *(if key == "read" { &mut volume.read } else { &mut volume.write }) = VolumeLimit::Rate(rate);
                return Ok(());
            }
            devices(parts, Some(name), |device| match &mut device.what {
                DeviceKind::Disk { read, write } => {
                    *(if key == "read" { read } else { write }) = Fact::Known(rate);
                    true
                }
                _ => false,
            })
        }
        (Some(name), "pcie") => {
            let link = pcie(value)?;
            joints(parts, Some(name), |joint| {
                (joint.running, joint.formality, joint.unknown_link) = (None, None, None);
                joint.link.replace(link).is_some() || joint.kind == JointKind::Card
            })
        }
        (Some(name), "rate") => {
            let rate = rate(value)?;
            let of_nic = devices(parts, Some(name), |device| match &mut device.what {
                DeviceKind::Nic { rate: own, .. } => {
                    *own = Fact::Known(rate);
                    true
                }
                _ => false,
            });
            of_nic.or_else(|_| {
                joints(parts, Some(name), |joint| {
                    joint.bytes_per_second = Fact::Known(rate);
                    // No data sheet of a disk controller says what it moves: who gives a rate has measured one.
                    if joint.kind == JointKind::Controller {
                        joint.rate_origin = RateOrigin::Elsewhere;
                    }
                    matches!(joint.kind, JointKind::Hub | JointKind::Bus | JointKind::Controller)
                })
            })
        }
        _ => Err(Hindrance::NoKey),
    }
}

fn devices(
    parts: &mut MachineParts,
    name: Option<&str>,
    mut change: impl FnMut(&mut ByteDevice) -> bool,
) -> Result<(), Hindrance> {
    let called = |device: &ByteDevice| {
        name.is_none_or(|name| device.name == name || device.group == name || device.id() == name)
    };
    let mut changed = 0;
    for device in parts.devices.iter_mut().filter(|device| called(device)) {
        changed += usize::from(change(device));
    }
    if changed == 0 { Err(none_has(parts, name)) } else { Ok(()) }
}

fn joints(
    parts: &mut MachineParts,
    name: Option<&str>,
    mut change: impl FnMut(&mut Joint) -> bool,
) -> Result<(), Hindrance> {
    // `eth0` is a port: its card has the link.
    let card = name.and_then(|name| super::card_of(parts, name));
    let name = card.as_deref().or(name);
    let group = |joint: &Joint, name: &str| {
        joint.name.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut changed = 0;
    for joint in parts.joints.iter_mut().filter(|joint| name.is_none_or(|name| group(joint, name))) {
        changed += usize::from(change(joint));
    }
    if changed == 0 { Err(none_has(parts, name)) } else { Ok(()) }
}

fn none_has(parts: &MachineParts, name: Option<&str>) -> Hindrance {
    match name {
        Some(name) if parts.joint(name).is_none() && parts.device(name).is_none() => {
            super::nothing_called(parts, name)
        }
        Some(name) => no_figure(name, "such figure"),
        None => Hindrance::Unknown("no part has such a figure"),
    }
}

fn no_figure(part: &str, figure: &str) -> Hindrance {
    Hindrance::NoFigure { part: part.into(), figure: figure.into() }
}

fn memory(parts: &mut MachineParts, key: &str, value: &str) -> Result<(), Hindrance> {
    for node in &mut parts.nodes {
        match key {
            "rate" => node.memory_bytes_per_second = Fact::Known(rate(value)?),
            "clock" => {
                let clock = number(value, 100..=30_000, "a clock is 100 to 30000 MT/s")?;
                node.memory_bytes_per_second =
                    match (&node.channels, &node.mt_per_second, &node.memory_bytes_per_second) {
                        (Fact::Known(channels), _, _) => Fact::Known(memory_rate(clock, *channels)),
                        (_, Fact::Known(old), Fact::Known(rate)) if *old > 0 => {
                            Fact::Known(rate * f64::from(clock) / f64::from(*old))
                        }
                        _ => {
                            return Err(Hindrance::Unknown(
                                "neither channels nor clock of the memory are known: set memory.rate",
                            ));
                        }
                    };
                node.mt_per_second = Fact::Known(clock);
            }
            "channels" => {
                let channels = number(value, 1..=64, "a node has 1 to 64 channels")?;
                let clock = *node
                    .mt_per_second
                    .known()
                    .ok_or(Hindrance::Unknown("the clock of the memory is not known: set memory.rate"))?;
                node.memory_bytes_per_second = Fact::Known(memory_rate(clock, channels));
                node.channels = Fact::Known(channels);
            }
            _ => return Err(no_figure("memory", key)),
        }
    }
    Ok(())
}

fn cpu(parts: &mut MachineParts, key: &str, value: &str) -> Result<(), Hindrance> {
    match key {
        "cost" => {
            let cost = value.parse::<f64>().ok().filter(|cost| (1e-4..=1e4).contains(cost));
            parts.cpu_seconds_per_gb =
                Fact::Known(cost.ok_or(Hindrance::Form("give CPU seconds per GB, like 1.2"))?);
        }
        "cores" => {
            let cores = number(value, 1..=4096, "a node has 1 to 4096 cores")?;
            parts.nodes.iter_mut().for_each(|node| node.cores = Fact::Known(f64::from(cores)));
        }
        _ => return Err(no_figure("the CPU", key)),
    }
    Ok(())
}

fn number(value: &str, range: std::ops::RangeInclusive<u32>, why: &'static str) -> Result<u32, Hindrance> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or(Hindrance::Form(why))
}
