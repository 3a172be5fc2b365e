//! Questions to a PCI tree: what is above and below a function, and what stands there.
//!
//! Pure functions of the probed list, which is in address order as the probe leaves it; any other list, also a damaged one with rings,
//! gives an answer of bounded length.

use crate::fact::Fact;
use crate::probe::machine::{PciDevice, PortKind};

/// No chain of bridges is longer: a domain has 256 buses.
const DEEPEST: usize = 256;

/// Class of a PCI-to-PCI bridge, without its programming interface.
const BRIDGE: u32 = 0x0604;

/// The function at an address.
pub fn find<'a>(devices: &'a [PciDevice], address: &str) -> Option<&'a PciDevice> {
    devices.iter().find(|device| device.address == address)
}

/// `domain:bus:device` without the function: functions of one card share its link.
pub fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}

/// Functions right behind a bridge.
pub fn children<'a>(devices: &'a [PciDevice], bridge: &str) -> impl Iterator<Item = &'a PciDevice> {
    devices.iter().filter(move |device| device.parent.as_deref() == Some(bridge) && device.address != bridge)
}

/// The bridges above a function, the nearest first, the root port last.
pub fn above<'a>(devices: &'a [PciDevice], address: &str) -> Vec<&'a PciDevice> {
    let mut chain: Vec<&PciDevice> = Vec::new();
    let mut at = find(devices, address);
    while let Some(parent) = at.and_then(|device| find(devices, device.parent.as_deref()?)) {
        let ring = parent.address == address || chain.iter().any(|met| met.address == parent.address);
        if ring || chain.len() >= DEEPEST {
            break;
        }
        chain.push(parent);
        at = Some(parent);
    }
    chain
}

/// All functions behind a bridge, the nearest first.
pub fn below<'a>(devices: &'a [PciDevice], bridge: &str) -> Vec<&'a PciDevice> {
    let mut found: Vec<&PciDevice> = children(devices, bridge).collect();
    let mut next = 0;
    while let Some(at) = found.get(next).copied() {
        for child in children(devices, &at.address) {
            let known = child.address == bridge || found.iter().any(|met| met.address == child.address);
            if !known {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

/// A function is behind a bridge, near or far.
pub fn is_below(devices: &[PciDevice], address: &str, bridge: &str) -> bool {
    above(devices, address).iter().any(|device| device.address == bridge)
}

/// The nearest bridge that two functions share; its link towards memory carries both.
pub fn common<'a>(devices: &'a [PciDevice], one: &str, other: &str) -> Option<&'a PciDevice> {
    let others = above(devices, other);
    above(devices, one)
        .into_iter()
        .find(|bridge| others.iter().any(|shared| shared.address == bridge.address))
}

/// What stands at a function's end of its link: as its configuration space says, else (another user than root sees no capabilities)
/// from its place in the tree. `None` where neither tells: a bridge to conventional PCI, for instance.
pub fn kind(devices: &[PciDevice], device: &PciDevice) -> Option<PortKind> {
    let chain = above(devices, &device.address);
    let mut upper = None;
    for at in chain.iter().rev().copied().chain([device]) {
        upper = at.express.port.known().copied().or_else(|| by_place(at, upper, at.parent.is_some()));
    }
    upper
}

fn by_place(device: &PciDevice, upper: Option<PortKind>, has_parent: bool) -> Option<PortKind> {
    if device.class.known()? >> 8 != BRIDGE {
        return Some(if has_parent { PortKind::Endpoint } else { PortKind::IntegratedEndpoint });
    }
    if device.link.known().is_none() && device.link_max.known().is_none() {
        return None;
    }
    match upper {
        None if !has_parent => Some(PortKind::RootPort),
        Some(PortKind::RootPort | PortKind::SwitchDownstream) => Some(PortKind::SwitchUpstream),
        Some(PortKind::SwitchUpstream) => Some(PortKind::SwitchDownstream),
        _ => None,
    }
}

/// The link has this end at its top.
pub fn is_upper_end(kind: PortKind) -> bool {
    matches!(kind, PortKind::RootPort | PortKind::SwitchDownstream | PortKind::BridgeFromPci)
}

/// MaxPayload of the way from a function to memory, bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPayload {
    /// What is set at the function.
    pub set: Fact<u32>,
    /// What every port on the way can do.
    pub able: Fact<u32>,
}

/// MaxPayload that is set, and the most that could be: the smallest of what each part of the way can do.
pub fn max_payload(devices: &[PciDevice], address: &str) -> Option<MaxPayload> {
    let device = find(devices, address)?;
    let chain = above(devices, address);
    let mut way = chain.iter().copied().chain([device]).map(|at| &at.express.max_payload_supported_bytes);
    let unknown = way.clone().find(|able| able.known().is_none()).cloned();
    let able = unknown.unwrap_or_else(|| {
        Fact::from_option(way.by_ref().filter_map(Fact::known).min().copied(), "nothing on the way tells it")
    });
    Some(MaxPayload { set: device.express.max_payload_bytes.clone(), able })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::ends;
    use super::super::link::DOWN;
    use super::*;
    use crate::probe::machine::PciLink;
    use proptest::prelude::*;

    fn function(
        address: &str,
        parent: Option<&str>,
        class: u32,
        links: Option<((f64, u32), (f64, u32))>,
    ) -> PciDevice {
        let link = |(gt_per_second, width)| match width {
            0 => Fact::unknown(DOWN),
            width => Fact::Known(PciLink { gt_per_second, width }),
        };
        PciDevice {
            address: address.into(),
            parent: parent.map(str::to_string),
            class: Fact::Known(class),
            link: links.map_or(Fact::default(), |(runs, _)| link(runs)),
            link_max: links.map_or(Fact::default(), |(_, most)| link(most)),
            ..Default::default()
        }
    }

    /// A root port, a switch with an NVMe drive and a graphics card below, a NIC in a slot of its own, an empty slot.
    pub(in crate::probe::pci) fn server() -> Vec<PciDevice> {
        let gen4 = |width| Some(((16.0, width), (16.0, width)));
        vec![
            function("0000:00:01.0", None, 0x060400, gen4(16)),
            function("0000:00:02.0", None, 0x060400, Some(((8.0, 4), (16.0, 8)))),
            function("0000:00:03.0", None, 0x060400, Some(((2.5, 0), (16.0, 8)))),
            function("0000:00:1f.2", None, 0x010601, None),
            function("0000:01:00.0", Some("0000:00:01.0"), 0x060400, gen4(16)),
            function("0000:02:00.0", Some("0000:01:00.0"), 0x060400, gen4(4)),
            function("0000:02:01.0", Some("0000:01:00.0"), 0x060400, Some(((2.5, 16), (16.0, 16)))),
            function("0000:03:00.0", Some("0000:02:00.0"), 0x010802, gen4(4)),
            function("0000:04:00.0", Some("0000:02:01.0"), 0x030000, Some(((2.5, 16), (16.0, 16)))),
            function("0000:04:00.1", Some("0000:02:01.0"), 0x040300, Some(((2.5, 16), (16.0, 16)))),
            function("0000:05:00.0", Some("0000:00:02.0"), 0x020000, Some(((8.0, 4), (8.0, 8)))),
        ]
    }

    fn addresses(devices: &[&PciDevice]) -> Vec<String> {
        devices.iter().map(|device| device.address.clone()).collect()
    }

    #[test]
    fn up_and_down_the_tree() {
        let server = server();
        assert_eq!(
            addresses(&above(&server, "0000:04:00.1")),
            ["0000:02:01.0", "0000:01:00.0", "0000:00:01.0"]
        );
        assert_eq!(below(&server, "0000:00:01.0").len(), 6);
        assert_eq!(addresses(&below(&server, "0000:00:02.0")), ["0000:05:00.0"]);
        let shared = |one, other| common(&server, one, other).map(|bridge| bridge.address.as_str());
        assert_eq!(shared("0000:03:00.0", "0000:04:00.0"), Some("0000:01:00.0"));
        assert_eq!(shared("0000:03:00.0", "0000:05:00.0"), None);
        assert_eq!(card("0000:04:00.1"), "0000:04:00");
    }

    #[test]
    fn kinds_follow_from_the_place_where_no_register_is_read() {
        let server = server();
        let kind = |address| kind(&server, find(&server, address).expect(address));
        assert_eq!(kind("0000:00:01.0"), Some(PortKind::RootPort));
        assert_eq!(kind("0000:01:00.0"), Some(PortKind::SwitchUpstream));
        assert_eq!(kind("0000:02:01.0"), Some(PortKind::SwitchDownstream));
        assert_eq!(kind("0000:04:00.0"), Some(PortKind::Endpoint));
        assert_eq!(kind("0000:00:1f.2"), Some(PortKind::IntegratedEndpoint));
    }

    #[test]
    fn the_smallest_max_payload_on_the_way() {
        let mut server = server();
        let payload = |server: &[PciDevice]| max_payload(server, "0000:05:00.0").expect("the NIC").able;
        assert!(payload(&server).why().is_some());
        for (at, bytes) in [(1, 256), (10, 512)] {
            server[at].express.max_payload_supported_bytes = Fact::Known(bytes);
        }
        assert_eq!(payload(&server), Fact::Known(256));
    }

    proptest! {
        #[test]
        fn any_list_is_answered(parents in proptest::collection::vec((0usize..12, any::<bool>(), 0u32..3), 0..12)) {
            let name = |at: usize| format!("0000:{at:02x}:00.0");
            let devices: Vec<PciDevice> = parents
                .iter()
                .enumerate()
                .map(|(at, (parent, has, width))| {
                    let class = if *has { 0x060400 } else { 0x020000 };
                    let links = Some(((2.5, *width), (8.0, 2)));
                    function(&name(at), has.then(|| name(*parent)).as_deref(), class, links)
                })
                .collect();
            for device in &devices {
                prop_assert!(above(&devices, &device.address).len() < devices.len());
                let below = below(&devices, &device.address);
                prop_assert!(below.iter().all(|other| other.address != device.address));
                kind(&devices, device);
                ends::of(&devices, &device.address);
                max_payload(&devices, &device.address);
            }
        }
    }
}
