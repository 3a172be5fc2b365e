//! Which interfaces and disks a flow uses: the one answer to that question. Its interfaces are those by which the
//! kernel routes its sockets, with what is below them (VLAN, bond, bridge), loopback too; its disks are those below its
//! files. Nothing else of the machine can limit it. What cannot be resolved is said and never guessed.

use crate::probe::source::devices_below;
use crate::probe::{Machine, active_below};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::addresses::{RouteQuery, interface_addresses, interface_to};
use linerate_system::file::folder_of;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Of more folders the others are mostly on the same disks.
const MOST_FOLDERS: usize = 16;

/// What a flow uses, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowDevices {
    /// By which its bytes go, those below them included.
    pub interfaces: BTreeSet<String>,
    /// Below its files, with the devices between.
    pub disks: BTreeSet<String>,
    /// Why it is not known by which interface some of it goes.
    pub unknown: BTreeSet<String>,
}

impl FlowDevices {
    pub fn add(&mut self, route: &InterfacePath) {
        self.interfaces.extend(route.interfaces.iter().cloned());
        self.unknown.extend(route.unknown.clone());
    }
}

/// The interfaces of one direction of a socket: the one that the route names, then those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfacePath {
    pub interfaces: Vec<String>,
    /// Why the rest of it is not known.
    pub unknown: Option<String>,
}

impl InterfacePath {
    pub fn unknown(why: String) -> Self {
        InterfacePath { interfaces: Vec::new(), unknown: Some(why) }
    }
}

/// Both directions of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketInterfaces {
    pub sends: InterfacePath,
    pub receives: InterfacePath,
}

/// By which interfaces a connection goes that is open now; `bound_to`: the index of the interface that its socket is
/// bound to, or 0. The kernel is asked twice (route and addresses), which takes some ten microseconds.
pub fn interfaces_of(
    sysroot: &Sysroot,
    local: SocketAddr,
    peer: SocketAddr,
    bound_to: u32,
) -> SocketInterfaces {
    let route = interface_to(RouteQuery { local, peer, bound_to });
    let unknown = |error| Fact::unknown(format!("no route from {} to {}: {error}", ip(local), ip(peer)));
    let route = route.map_or_else(unknown, Fact::Known);
    let addresses = interface_addresses().unwrap_or_default().into_iter();
    let own = addresses.filter(|one| one.address == ip(local));
    let holders: BTreeSet<String> = own.map(|one| one.interface_name().to_string()).collect();
    both_directions(route, ip(local), &holders, |name| active_below(sysroot, name))
}

/// An interface with those below it.
pub fn interfaces_below(sysroot: &Sysroot, name: &str) -> InterfacePath {
    path_from(name, |name| active_below(sysroot, name))
}

fn ip(end: SocketAddr) -> IpAddr {
    end.ip().to_canonical()
}

/// `holders`: the interfaces that have the local address.
fn both_directions(
    route: Fact<String>,
    local: IpAddr,
    holders: &BTreeSet<String>,
    below: impl Fn(&str) -> Vec<String>,
) -> SocketInterfaces {
    let name = match route {
        Fact::Known(name) => name,
        Fact::Unknown { why } => {
            return SocketInterfaces {
                sends: InterfacePath::unknown(why.clone()),
                receives: InterfacePath::unknown(why),
            };
        }
    };
    let sends = path_from(&name, below);
    // What comes is routed by the other host: only where the way out is also where the address is it comes by the same.
    let receives = match holders.contains(&name) || name == "lo" {
        true => sends.clone(),
        false if holders.is_empty() => {
            InterfacePath::unknown(format!("no interface has the address {local} any more"))
        }
        false => {
            let holders: Vec<&str> = holders.iter().map(String::as_str).collect();
            InterfacePath::unknown(format!(
                "what comes to {local} may come by {} or {name}",
                holders.join(", ")
            ))
        }
    };
    SocketInterfaces { sends, receives }
}

/// Down to the device, as long as there is one way down.
fn path_from(name: &str, below: impl Fn(&str) -> Vec<String>) -> InterfacePath {
    let (mut interfaces, mut last) = (vec![name.to_string()], name.to_string());
    loop {
        let mut lower = below(&last);
        lower.retain(|name| !interfaces.contains(name));
        match &lower[..] {
            [] => return InterfacePath { interfaces, unknown: None },
            [one] => {
                last.clone_from(one);
                interfaces.push(one.clone());
            }
            several => {
                let unknown = Some(format!("which of {} below {last} it takes", several.join(", ")));
                return InterfacePath { interfaces, unknown };
            }
        }
    }
}

/// The disks that these files and folders are on, with the devices between.
pub fn disks_below(sysroot: &Sysroot, machine: &Machine, paths: &[PathBuf]) -> BTreeSet<String> {
    // Many files are mostly of few folders.
    let folders: BTreeSet<PathBuf> = paths.iter().map(|path| folder_at(path)).collect();
    let below = |path: &PathBuf| {
        let real = path.canonicalize();
        devices_below(sysroot, machine, real.as_deref().unwrap_or(path.as_path()))
    };
    folders.iter().take(MOST_FOLDERS).flat_map(below).collect()
}

fn folder_at(path: &Path) -> PathBuf {
    if path.is_dir() { path.into() } else { folder_of(path).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn resolved(route: Fact<&str>, holders: &[&str], tree: &[(&str, &[&str])]) -> SocketInterfaces {
        let below = |name: &str| -> Vec<String> {
            let lower = tree.iter().find(|(upper, _)| *upper == name).map_or(&[][..], |(_, lower)| lower);
            lower.iter().map(ToString::to_string).collect()
        };
        let holders = holders.iter().map(ToString::to_string).collect();
        let local = IpAddr::from([192, 0, 2, 1]);
        both_directions(route.map(str::to_string), local, &holders, below)
    }

    fn names(path: &InterfacePath) -> Vec<&str> {
        path.interfaces.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_vlan_on_a_bond_with_one_active_member_leads_to_the_device() {
        let tree: &[(&str, &[&str])] = &[("bond0.7", &["bond0"]), ("bond0", &["eth0"])];
        let found = resolved(Fact::Known("bond0.7"), &["bond0.7"], tree);
        assert_eq!(names(&found.sends), ["bond0.7", "bond0", "eth0"]);
        assert_eq!((&found.receives, found.sends.unknown.as_deref()), (&found.sends, None));
    }

    #[test]
    fn which_of_several_members_carries_a_flow_is_not_guessed() {
        let found = resolved(Fact::Known("br0"), &["br0"], &[("br0", &["eth0", "tap3"])]);
        assert_eq!(names(&found.sends), ["br0"]);
        assert_eq!(found.sends.unknown.as_deref(), Some("which of eth0, tap3 below br0 it takes"));
    }

    #[test]
    fn what_comes_is_of_an_interface_only_where_address_and_route_agree() {
        let asymmetric = resolved(Fact::Known("eth1"), &["eth0"], &[]);
        assert_eq!(names(&asymmetric.sends), ["eth1"]);
        let why = asymmetric.receives.unknown.as_deref();
        assert_eq!(why, Some("what comes to 192.0.2.1 may come by eth0 or eth1"));
        assert!(asymmetric.receives.interfaces.is_empty());
        let gone = resolved(Fact::Known("eth1"), &[], &[]);
        assert_eq!(gone.receives.unknown.as_deref(), Some("no interface has the address 192.0.2.1 any more"));
        let unrouted = resolved(Fact::unknown("no route"), &["eth0"], &[]);
        assert_eq!(unrouted.sends, InterfacePath::unknown("no route".into()));
        assert_eq!(unrouted.receives, unrouted.sends);
    }

    #[test]
    fn a_connection_of_this_host_to_itself_goes_by_loopback() {
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let found = interfaces_of(&Sysroot::live(), end(40_000), end(80), 0);
        assert_eq!((names(&found.sends), names(&found.receives)), (vec!["lo"], vec!["lo"]));
        let nobody = SocketAddr::from(([192, 0, 2, 77], 1));
        assert!(interfaces_of(&Sysroot::live(), nobody, end(80), 0).sends.unknown.is_some());
    }

    #[test]
    fn a_bond_is_what_its_active_member_is() {
        let tree = Tree::new(&[
            ("sys/class/net/bond0/lower_eth0/carrier", "1"),
            ("sys/class/net/bond0/lower_eth1/carrier", "1"),
            ("sys/class/net/bond0/lower_eth2/carrier", "0"),
            ("sys/class/net/eth0/carrier", "1"),
            ("sys/class/net/eth0/bonding_slave/state", "active"),
            ("sys/class/net/eth1/carrier", "1"),
            ("sys/class/net/eth1/bonding_slave/state", "backup"),
            ("sys/class/net/eth2/carrier", "0"),
        ]);
        assert_eq!(active_below(&tree.sysroot(), "bond0"), ["eth0"]);
        assert!(active_below(&tree.sysroot(), "eth0").is_empty());
    }
}
