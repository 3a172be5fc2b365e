//! What a device, memory and the CPU carry of a flow, by their data sheets.

use super::product::{End, Flow, Method};
use crate::fact::Fact;
use crate::plan::parts::{Device, DeviceKind, Parts};
use crate::plan::{Origin, Protocol, Resource, ResourceKind};
use crate::rates::ethernet::{Stack, goodput_share};
use crate::rates::pcie::Direction;

/// Crossings of the memory bus by one payload byte: DMA in, copies, DMA out.
pub(super) fn touches(flow: &Flow, parts: &Parts) -> f64 {
    let kind = |ends: &[End], word: &str| {
        ends.iter().any(|end| matches!(end, End::Device(id) if id.starts_with(word)))
    };
    let has = |word: &str| kind(&flow.from, word) || kind(&flow.to, word);
    debug_assert!(flow.from.iter().chain(&flow.to).all(|end| known(parts, end)));
    let dma = |ends: &[End]| f64::from(u8::from(!ends.contains(&End::Memory)));
    let socket = if has("nic:") && flow.method != Method::Zerocopy { 2.0 } else { 0.0 };
    let cache = if has("disk:") && flow.method == Method::Cached { 2.0 } else { 0.0 };
    dma(&flow.from) + socket + cache + dma(&flow.to)
}

fn known(parts: &Parts, end: &End) -> bool {
    match end {
        End::Memory => true,
        End::Device(id) => parts.device(id).is_some(),
    }
}

/// A device at its end of the flow.
pub(super) fn device(device: &Device, direction: Direction, protocol: Protocol) -> Resource {
    let id = device.id();
    match &device.what {
        DeviceKind::Disk { read, write } => {
            let rate = if direction == Direction::ToMemory { read } else { write };
            rated(Resource::unknown(id, ResourceKind::Disk, ""), rate)
        }
        DeviceKind::Nic { rate, mtu, tagged, .. } => {
            nic(rated(Resource::unknown(id, ResourceKind::Nic, ""), rate), mtu, *tagged, protocol)
        }
        DeviceKind::Gpu => {
            Resource::unknown(id, ResourceKind::Receiver, "its memory is faster than its link")
        }
    }
}

/// A reason with one more.
pub(super) fn told(why: &Option<String>, more: &str) -> String {
    match why {
        Some(words) if !words.is_empty() => format!("{words}; {more}"),
        _ => more.to_string(),
    }
}

/// With its data sheet's rate, or the reason why there is none.
pub(super) fn rated(mut resource: Resource, rate: &Fact<f64>) -> Resource {
    match rate {
        Fact::Known(rate) => {
            resource.capacity = *rate;
            resource.rated = Some(*rate);
            resource.origin = Origin::Rated;
            resource.why = None;
        }
        Fact::Unknown { why } => resource.why = Some(why.clone()),
    }
    resource
}

/// The payload share of a port.
fn nic(mut resource: Resource, mtu: &Fact<u32>, tagged: bool, protocol: Protocol) -> Resource {
    if resource.rated.is_none() {
        return resource;
    }
    let share = match mtu {
        Fact::Known(mtu) => goodput_share(*mtu, stack(protocol), tagged)
            .ok_or_else(|| format!("an MTU of {mtu} holds no payload")),
        Fact::Unknown { why } => Err(why.clone()),
    };
    match share {
        Ok(share) => {
            resource.capacity *= share;
            resource.effective = Some(resource.capacity);
            resource.origin = Origin::Effective;
            resource.why = mtu.known().map(|mtu| format!("payload of {protocol} at an MTU of {mtu}"));
        }
        Err(why) => {
            resource.capacity = 0.0;
            resource.origin = Origin::Unknown;
            resource.why = Some(why);
        }
    }
    resource
}

/// Headers of a protocol over IPv4.
pub(super) fn stack(protocol: Protocol) -> Stack {
    match protocol {
        Protocol::Tcp => Stack::tcp(false),
        Protocol::Udp => Stack::udp(false),
    }
}
