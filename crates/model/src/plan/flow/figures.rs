//! What a device, memory and the CPU carry of a flow, by their data sheets; and how often one byte crosses the memory
//! bus: the one formula for a run and for a flow over parts.

use super::product::{Flow, FlowEnd, Method};
use crate::plan::parts::{ByteDevice, DeviceKind, MachineParts};
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::ethernet::{Stack, TLS_RECORD_SHARE, goodput_share};
use linerate_machine::rates::overhead;
use linerate_machine::rates::pcie::PayloadDirection;

/// Of an Ethernet port whose MTU is not known: what a port has that nobody set (RFC 894).
pub(in crate::plan) const USUAL_MTU: u32 = 1500;
/// Drives of one model read and write a little faster than their data sheet, which is a promise.
const ABOVE_RATED: f64 = 1.02;

/// The best case of a data sheet's rate.
pub(in crate::plan) fn best_of_rated(rate: f64) -> f64 {
    rate * ABOVE_RATED
}

/// Crossings of the memory bus by one payload byte of a flow.
pub(super) fn touches(flow: &Flow, parts: &MachineParts) -> f64 {
    debug_assert!(
        flow.from.iter().chain(&flow.to).all(|end| *end == FlowEnd::Memory || end.device(parts).is_some())
    );
    let passage = MemoryPassage {
        from_device: !flow.from.contains(&FlowEnd::Memory),
        received: receives_disks(parts, flow),
        page_cache: flow.has("disk:") && flow.method == Method::Cached,
        socket: flow.has("nic:") && flow.method.copies(),
        leaves: if flow.to.contains(&FlowEnd::Memory) { Leaves::Stays } else { Leaves::ByDevice },
        verify: false,
    };
    passage.touches()
}

/// TCP of this host receives what some of the flow's disks read.
pub(in crate::plan) fn receives_disks(parts: &MachineParts, flow: &Flow) -> bool {
    let mut devices = flow.from.iter().filter_map(|end| end.device(parts));
    devices.any(|device| parts.is_received_by_tcp(&device.place))
}

/// A device at its end of the flow.
pub(in crate::plan) fn device(
    device: &ByteDevice,
    direction: PayloadDirection,
    protocol: Protocol,
    method: Method,
) -> Resource {
    let id = device.id();
    match &device.what {
        DeviceKind::Disk { read, write } => {
            let rate = if direction == PayloadDirection::ToMemory { read } else { write };
            let disk = rated(Resource::unknown(id, ResourceKind::Disk, ""), rate);
            Resource { best: disk.rated.map(best_of_rated), ..disk }
        }
        DeviceKind::Nic { rate, mtu, tagged, ipv6, .. } => {
            let port = rated(Resource::unknown(id, ResourceKind::Nic, ""), rate);
            nic(port, mtu, *tagged, &Packing { protocol, method, ipv6: *ipv6 })
        }
        DeviceKind::Gpu => Resource {
            never_binds: true,
            ..Resource::unknown(id, ResourceKind::Receiver, "its memory is faster than its link")
        },
    }
}

/// A reason with one more behind it.
pub(super) fn with_reason(why: &Option<String>, more: &str) -> String {
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

/// How a NIC packs the bytes of a flow.
pub(super) struct Packing {
    pub protocol: Protocol,
    pub method: Method,
    pub ipv6: bool,
}

impl Packing {
    /// Payload ÷ line rate in the usual case; a reason where the MTU holds none.
    fn usual_share(&self, mtu: Option<u32>, tagged: bool) -> Result<f64, String> {
        let mtu_bytes = mtu.unwrap_or(USUAL_MTU);
        let share = match self.method {
            Method::Rdma => Some(overhead::roce_share(overhead::path_mtu(mtu))),
            _ => goodput_share(mtu_bytes, stack(self.protocol, self.ipv6), tagged),
        };
        let share = share.ok_or_else(|| format!("an MTU of {mtu_bytes} holds no payload"))?;
        Ok(share * self.record_share())
    }

    /// The same in the best case: TCP without options, InfiniBand's headers; all of the line rate where the MTU
    /// is not known.
    fn best_share(&self, mtu: Option<u32>, tagged: bool) -> Option<f64> {
        let share = match (self.method, mtu) {
            (Method::Rdma, _) => overhead::infiniband_share(overhead::path_mtu(mtu)),
            (_, None) => 1.0,
            (_, Some(mtu)) => goodput_share(mtu, self.barest_stack(), tagged)?,
        };
        Some(share * self.record_share())
    }

    fn barest_stack(&self) -> Stack {
        match (self.protocol, self.ipv6) {
            (Protocol::Tcp, false) => Stack::Tcp4,
            (Protocol::Tcp, true) => Stack::Tcp6,
            (Protocol::Udp, ipv6) => Stack::udp(ipv6),
        }
    }

    fn record_share(&self) -> f64 {
        match self.method {
            Method::Tls | Method::TlsOffload => TLS_RECORD_SHARE,
            _ => 1.0,
        }
    }

    fn words(&self, mtu: Option<u32>) -> String {
        let of = match self.method {
            Method::Rdma => {
                let taken = if mtu.is_some() { "" } else { ", taken" };
                return format!("payload of RDMA in packets of {} bytes{taken}", overhead::path_mtu(mtu));
            }
            Method::Tls | Method::TlsOffload => "TLS".to_string(),
            _ => self.protocol.to_string(),
        };
        match mtu {
            Some(mtu) => format!("payload of {of} at an MTU of {mtu}"),
            None => format!("payload of {of} at an MTU taken as {USUAL_MTU}"),
        }
    }
}

/// The payload share of a port.
fn nic(mut resource: Resource, mtu: &Fact<u32>, tagged: bool, packing: &Packing) -> Resource {
    let Some(line) = resource.rated else { return resource };
    let mtu = mtu.known().copied();
    match packing.usual_share(mtu, tagged) {
        Ok(share) => {
            resource.capacity = line * share;
            resource.effective = Some(resource.capacity);
            resource.best = packing.best_share(mtu, tagged).map(|share| line * share);
            resource.origin = Origin::Effective;
            resource.why = Some(packing.words(mtu));
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

/// What happens to a byte between its source and its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPassage {
    /// A device writes it into memory.
    pub from_device: bool,
    /// The kernel copies it out of a socket's buffers: a remote disk over TCP.
    pub received: bool,
    /// It is copied out of the page cache.
    pub page_cache: bool,
    /// It is copied into a socket.
    pub socket: bool,
    /// How it leaves memory.
    pub leaves: Leaves,
    /// A checksum reads it once more.
    pub verify: bool,
}

/// How a byte leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It does not: memory is the sink.
    Stays,
    /// A device reads it from memory.
    ByDevice,
    /// A receiver on this machine copies it.
    Copied,
}

impl MemoryPassage {
    /// Crossings of the memory bus: one for each access of a device, two for each copy.
    pub(crate) fn touches(&self) -> f64 {
        let one = |crosses: bool| if crosses { 1.0 } else { 0.0 };
        let leaves = match self.leaves {
            Leaves::Stays => 0.0,
            Leaves::ByDevice => 1.0,
            Leaves::Copied => 2.0,
        };
        one(self.from_device)
            + 2.0 * one(self.received)
            + 2.0 * one(self.page_cache)
            + 2.0 * one(self.socket)
            + leaves
            + one(self.verify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_crosses_twice_and_each_device_once() {
        let direct = MemoryPassage {
            from_device: true,
            received: false,
            page_cache: false,
            socket: true,
            leaves: Leaves::ByDevice,
            verify: false,
        };
        assert_eq!(direct.touches(), 4.0);
        assert_eq!(MemoryPassage { page_cache: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { received: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { socket: false, ..direct }.touches(), 2.0);
        assert_eq!(MemoryPassage { leaves: Leaves::Copied, verify: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { socket: false, leaves: Leaves::Stays, ..direct }.touches(), 1.0);
    }
}
