//! The network between the members as it is declared: racks with an uplink each, or nothing that blocks.

use crate::hosts::{HostListError, expand};
use crate::product::{FleetMember, FleetRack};
use crate::schedule::FlowEnds;
use linerate_facts::units::{ParseError, parse_rate};
use linerate_machine::rates::ethernet::{Stack, goodput_share};
use std::collections::HashSet;

/// Where no member says its own.
const USUAL_MTU: u32 = 1500;

/// Why words declare no fabric.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FabricError {
    #[error("a rack is its hosts and the rate of its uplink, such as h[1-3]:500M")]
    NoUplink,
    #[error("{0}; write the uplink's rate like 10G or 500M")]
    Rate(ParseError),
    #[error("an uplink carries something: write its rate like 10G or 500M")]
    NoRate,
    #[error("{0}")]
    Hosts(HostListError),
    #[error("it names no host; write a rack such as h[1-3]:500M")]
    Empty,
    #[error("--fabric has {0} twice: a host is in one rack")]
    Twice(String),
    #[error("--fabric names {0}, which is none of the hosts: write it as in the list of hosts")]
    Unknown(String),
}

/// A rack as `--fabric` has it: hosts as in `--hosts`, and what its uplink carries each way.
impl std::str::FromStr for FleetRack {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<FleetRack, FabricError> {
        let (hosts, uplink) = text.rsplit_once(':').ok_or(FabricError::NoUplink)?;
        let uplink_bytes_per_second = parse_rate(uplink).map_err(FabricError::Rate)?;
        if uplink_bytes_per_second <= 0.0 {
            return Err(FabricError::NoRate);
        }
        let hosts = expand(hosts).map_err(FabricError::Hosts)?;
        if hosts.is_empty() {
            return Err(FabricError::Empty);
        }
        Ok(FleetRack { hosts, uplink_bytes_per_second })
    }
}

/// Whether each host is in one rack, and, where a list of hosts is given, on it.
pub fn check_fabric(racks: &[FleetRack], listed: &[String]) -> Result<(), FabricError> {
    let mut seen = HashSet::new();
    for host in racks.iter().flat_map(|rack| &rack.hosts) {
        if !seen.insert(host) {
            return Err(FabricError::Twice(host.clone()));
        }
        if !listed.is_empty() && !listed.contains(host) {
            return Err(FabricError::Unknown(host.clone()));
        }
    }
    Ok(())
}

/// The links of a declared fabric, by the numbers of the members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FabricLinks {
    /// None: it is in no rack, at the core itself.
    rack_of: Vec<Option<usize>>,
    /// Payload each way.
    pub uplinks: Vec<f64>,
}

impl FabricLinks {
    /// Of these members; an uplink carries frames, of which the smallest MTU among them leaves the least payload.
    pub(crate) fn new(racks: &[FleetRack], members: &[FleetMember]) -> FabricLinks {
        let at = |member: &FleetMember| racks.iter().position(|rack| rack.hosts.contains(&member.name));
        let mtu = members.iter().filter_map(mtu).min().unwrap_or(USUAL_MTU);
        let ipv6 = members.iter().any(|member| member.address.starts_with('['));
        let share = goodput_share(mtu, Stack::tcp(ipv6), false).unwrap_or(1.0);
        FabricLinks {
            rack_of: members.iter().map(at).collect(),
            uplinks: racks.iter().map(|rack| rack.uplink_bytes_per_second * share).collect(),
        }
    }

    /// Members by group: those of a rack, and those of none.
    pub(crate) fn groups(&self) -> Vec<usize> {
        self.rack_of.iter().map(|rack| rack.map_or(0, |rack| rack + 1)).collect()
    }

    /// The racks that a flow leaves and enters.
    pub(crate) fn crossing(&self, ends: FlowEnds) -> (Option<usize>, Option<usize>) {
        let (from, to) = (self.rack_of[ends.0], self.rack_of[ends.1]);
        if from == to { (None, None) } else { (from, to) }
    }
}

/// Of the NIC by which a member takes data.
pub(crate) fn mtu(member: &FleetMember) -> Option<u32> {
    member.nic()?.mtu.known().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rack_is_its_hosts_and_what_its_uplink_carries() {
        let rack: FleetRack = "h[1-3],fe80::1:500M".parse().expect("a rack");
        assert_eq!(rack.hosts, ["h1", "h2", "h3", "fe80::1"]);
        assert_eq!(rack.uplink_bytes_per_second, 500e6 / 8.0);
        let one: FleetRack = "gateway:10G".parse().expect("a rack of one host");
        assert_eq!(one.hosts, ["gateway"]);
    }

    #[test]
    fn each_wrong_declaration_has_a_sentence() {
        for (text, why) in [
            ("h[1-3]", "h[1-3]:500M"),
            ("h[1-3]:fast", "like 10G"),
            ("h[1-3]:0", "like 10G"),
            (":500M", "no host"),
            ("h[1-:500M", "no other end"),
            ("h;x:500M", "“;”"),
        ] {
            let sentence = text.parse::<FleetRack>().expect_err(text).to_string();
            assert!(sentence.contains(why), "{text}: {sentence}");
        }
        let rack = |text: &str| text.parse::<FleetRack>().expect("a rack");
        let racks = [rack("h[1-2]:1G"), rack("h[2-3]:1G")];
        let twice = check_fabric(&racks, &[]).expect_err("twice").to_string();
        assert!(twice.contains("h2 twice"), "{twice}");
        let listed = ["h1".to_string(), "h2".into()];
        let unknown = check_fabric(&[rack("h[1-3]:1G")], &listed).expect_err("unknown").to_string();
        assert!(unknown.contains("h3, which is none of the hosts"), "{unknown}");
        assert_eq!(check_fabric(&racks[..1], &listed), Ok(()));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            if let Ok(rack) = text.parse::<FleetRack>() {
                prop_assert!(!rack.hosts.is_empty() && rack.uplink_bytes_per_second > 0.0);
            }
        }
    }
}
