//! What a device, memory and the CPU carry of a flow, by their data sheets.

use super::product::{Flow, FlowEnd, Method};
use crate::plan::parts::{ByteDevice, DeviceKind, MachineParts};
use crate::plan::touches::{Leaves, MemoryPassage};
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::ethernet::{Stack, goodput_share};
use linerate_machine::rates::pcie::PayloadDirection;

/// Crossings of the memory bus by one payload byte of a flow.
pub(super) fn touches(flow: &Flow, parts: &MachineParts) -> f64 {
    debug_assert!(flow.from.iter().chain(&flow.to).all(|end| known(parts, end)));
    let has = |word: &str| {
        let is = |end: &FlowEnd| matches!(end, FlowEnd::Device(id) if id.starts_with(word));
        flow.from.iter().chain(&flow.to).any(is)
    };
    let passage = MemoryPassage {
        from_device: !flow.from.contains(&FlowEnd::Memory),
        page_cache: has("disk:") && flow.method == Method::Cached,
        socket: has("nic:") && flow.method != Method::Zerocopy,
        leaves: if flow.to.contains(&FlowEnd::Memory) { Leaves::Stays } else { Leaves::ByDevice },
        verify: false,
    };
    passage.touches()
}

fn known(parts: &MachineParts, end: &FlowEnd) -> bool {
    match end {
        FlowEnd::Memory => true,
        FlowEnd::Device(id) => parts.device(id).is_some(),
    }
}

/// A device at its end of the flow.
pub(in crate::plan) fn device(
    device: &ByteDevice,
    direction: PayloadDirection,
    protocol: Protocol,
) -> Resource {
    let id = device.id();
    match &device.what {
        DeviceKind::Disk { read, write } => {
            let rate = if direction == PayloadDirection::ToMemory { read } else { write };
            rated(Resource::unknown(id, ResourceKind::Disk, ""), rate)
        }
        DeviceKind::Nic { rate, mtu, tagged, ipv6, .. } => {
            let port = rated(Resource::unknown(id, ResourceKind::Nic, ""), rate);
            nic(port, mtu, *tagged, stack(protocol, *ipv6), protocol)
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
fn nic(mut resource: Resource, mtu: &Fact<u32>, tagged: bool, stack: Stack, protocol: Protocol) -> Resource {
    if resource.rated.is_none() {
        return resource;
    }
    let share = match mtu {
        Fact::Known(mtu) => {
            goodput_share(*mtu, stack, tagged).ok_or_else(|| format!("an MTU of {mtu} holds no payload"))
        }
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

/// Headers of a protocol.
pub(super) fn stack(protocol: Protocol, ipv6: bool) -> Stack {
    match protocol {
        Protocol::Tcp => Stack::tcp(ipv6),
        Protocol::Udp => Stack::udp(ipv6),
    }
}
