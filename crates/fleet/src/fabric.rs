//! The network between the members as it is declared, in words or in a file: racks with an uplink each, or nothing
//! that blocks.

use crate::hosts::{HostListError, expand};
use crate::schedule::FlowEnds;
use linerate_facts::units::{ParseError, parse_rate};
use linerate_machine::rates::ethernet::{Stack, goodput_share};
use linerate_measure::run::fleet::{FleetMember, FleetRack};
use std::collections::HashSet;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// Where no member says its own.
const USUAL_MTU: u32 = 1500;

/// Why words declare no fabric.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FabricError {
    #[error(
        "--fabric {0}: a rack is its hosts and the rate of its uplink, such as h[1-3]:500M; without a rate only \
         a bisection measures it"
    )]
    NoUplink(String),
    #[error("{} cannot be read: {error}; name a file with a rack a line, such as h[1-3]:500M", file.display())]
    Unread { file: PathBuf, error: String },
    #[error("{}, line {line}: {why}", file.display())]
    Line { file: PathBuf, line: usize, why: Box<FabricError> },
    #[error("{} has no rack: write one a line, such as h[1-3]:500M", file.display())]
    NoRack { file: PathBuf },
    #[error("{0}; write the uplink's rate like 10G or 500M")]
    Rate(ParseError),
    #[error("{0}")]
    Hosts(HostListError),
    #[error("it names no host; write a rack such as h[1-3]:500M")]
    Empty,
    #[error("--fabric has {0} twice: a host is in one rack")]
    Twice(String),
    #[error("--fabric names {0}, which is none of the hosts: write it as in the list of hosts")]
    Unknown(String),
}

/// Racks as `--fabric` has them: each word one, or a file with one a line.
pub fn parse_fabric(words: &[String]) -> Result<Vec<FleetRack>, FabricError> {
    let mut racks = Vec::new();
    for word in words {
        // No name of a host has a slash.
        if word.contains('/') || Path::new(word).is_file() {
            racks.extend(read_fabric(Path::new(word))?);
        } else {
            racks.push(parse_rack(word)?);
        }
    }
    Ok(racks)
}

fn read_fabric(file: &Path) -> Result<Vec<FleetRack>, FabricError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| FabricError::Unread { file: file.into(), error: error.to_string() })?;
    let lines = text.lines().enumerate().filter_map(|(number, line)| {
        let rack = line.split('#').next().unwrap_or_default().trim();
        (!rack.is_empty()).then_some((number + 1, rack))
    });
    let rack = |(line, text): (usize, &str)| {
        parse_rack(text).map_err(|why| FabricError::Line { file: file.into(), line, why: Box::new(why) })
    };
    let racks: Vec<FleetRack> = lines.map(rack).collect::<Result<_, _>>()?;
    if racks.is_empty() {
        return Err(FabricError::NoRack { file: file.into() });
    }
    Ok(racks)
}

/// A rack as `--fabric` has it: hosts as in `--hosts`, and what its uplink carries each way, where that is known.
pub(crate) fn parse_rack(text: &str) -> Result<FleetRack, FabricError> {
    // An address has colons of its own, and may end in what reads as a rate.
    let is_whole = expand(text).is_ok_and(|hosts| hosts.last().is_some_and(|host| is_ipv6(host)));
    let (hosts, uplink_bytes_per_second) = match text.rsplit_once(':').filter(|_| !is_whole) {
        Some((hosts, uplink)) => (hosts, Some(parse_rate(uplink).map_err(FabricError::Rate)?)),
        None => (text, None),
    };
    let hosts = expand(hosts).map_err(FabricError::Hosts)?;
    if hosts.is_empty() {
        return Err(FabricError::Empty);
    }
    Ok(FleetRack { hosts, uplink_bytes_per_second })
}

/// With a user before it, or an interface behind it.
fn is_ipv6(host: &str) -> bool {
    let address = host.rsplit('@').next().and_then(|address| address.split('%').next());
    address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
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
    /// Payload each way; infinite where it is not known.
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
            uplinks: racks
                .iter()
                .map(|rack| rack.uplink_bytes_per_second.map_or(f64::INFINITY, |rate| rate * share))
                .collect(),
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
        let rack = parse_rack("h[1-3],fe80::1:500M").expect("a rack");
        assert_eq!(rack.hosts, ["h1", "h2", "h3", "fe80::1"]);
        assert_eq!(rack.uplink_bytes_per_second, Some(500e6 / 8.0));
        let one = parse_rack("gateway:10G").expect("a rack of one host");
        assert_eq!(one.hosts, ["gateway"]);
        for (text, hosts) in
            [("h[1-3]", 3), ("fe80::1", 1), ("h1,fe80::[10-12]", 4), ("root@fe80::1%eth0", 1)]
        {
            let unknown = parse_rack(text).expect("a rack whose uplink is not known");
            assert_eq!((unknown.hosts.len(), unknown.uplink_bytes_per_second), (hosts, None), "{text}");
        }
    }

    #[test]
    fn a_file_has_a_rack_a_line() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("racks");
        let word = file.display().to_string();
        std::fs::write(&file, "# the hall\r\nh[1-3]:500M # left\r\n\r\nh[4-6]\r\n").expect("the file");
        let racks = parse_fabric(&[word.clone(), "h7:1G".into()]).expect("three racks");
        let hosts: Vec<usize> = racks.iter().map(|rack| rack.hosts.len()).collect();
        assert_eq!(hosts, [3, 3, 1]);
        assert_eq!(racks[1].uplink_bytes_per_second, None);
        std::fs::write(&file, "h1:500M\nh2:fast\n").expect("the file");
        let wrong = parse_fabric(std::slice::from_ref(&word)).expect_err("a line").to_string();
        assert!(wrong.contains("racks, line 2: ") && wrong.contains("like 10G"), "{wrong}");
        std::fs::write(&file, "# nothing yet\n").expect("the file");
        let empty = parse_fabric(std::slice::from_ref(&word)).expect_err("empty").to_string();
        assert!(empty.contains("has no rack"), "{empty}");
        let absent = parse_fabric(&["/no/such/racks".into()]).expect_err("absent").to_string();
        assert!(absent.contains("/no/such/racks cannot be read"), "{absent}");
    }

    #[test]
    fn each_wrong_declaration_has_a_sentence() {
        for (text, why) in [
            ("", "no host"),
            ("h[1-3]:fast", "like 10G"),
            ("h[1-3]:0", "like 10G"),
            (":500M", "no host"),
            ("h[1-:500M", "no other end"),
            ("h;x:500M", "“;”"),
        ] {
            let sentence = parse_rack(text).expect_err(text).to_string();
            assert!(sentence.contains(why), "{text}: {sentence}");
        }
        let rack = |text: &str| parse_rack(text).expect("a rack");
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
            if let Ok(rack) = parse_rack(&text) {
                prop_assert!(!rack.hosts.is_empty() && rack.uplink_bytes_per_second.is_none_or(|rate| rate > 0.0));
            }
        }
    }
}
