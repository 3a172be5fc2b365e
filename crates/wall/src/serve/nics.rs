//! Which NICs reach which screens, and the sockets that leave by them.

use super::Sending;
use super::wire::Route;
use crate::geometry::Size;
use crate::rtp::{DatagramTooSmall, FrameLayout};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::bytes_per_second;
use linerate_machine::probe::route::path_to;
use linerate_machine::probe::{Machine, network_contains};
use linerate_system::socket::udp_headers;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Loopback says 65,536, which no wall has: like this a test on it is one of a wall.
const MOST_MTU: u32 = 9216;
/// Where nothing is known.
const USUAL_MTU: u32 = 1500;

/// One NIC that may carry tiles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TileNic {
    pub name: String,
    /// Link rate, bytes per second; none where it is unknown (veth) or meaningless.
    pub rate: Option<f64>,
    pub node: Option<u32>,
    pub loopback: bool,
    /// Packets can leave.
    pub carrier: bool,
}

/// A way to a screen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScreenRoute {
    /// Index among the NICs.
    pub nic: usize,
    /// The screen's address behind it.
    pub to: SocketAddr,
}

/// A NIC was named that is not there.
#[derive(Debug, Error)]
#[error("--nic {name}: there is no such NIC; this machine has {}", there.join(", "))]
pub(crate) struct NoSuchNic {
    name: String,
    there: Vec<String>,
}

/// Why there is no socket to a screen.
#[derive(Debug, Error)]
pub(crate) enum RouteError {
    #[error("{to} cannot be reached by {nic}: {error}")]
    Socket { to: SocketAddr, nic: String, error: io::Error },
    #[error(transparent)]
    Layout(#[from] DatagramTooSmall),
}

/// The NICs of the machine that are named (`only`), or all.
pub(crate) fn find(machine: &Machine, only: &[String]) -> Result<Vec<TileNic>, NoSuchNic> {
    for name in only {
        if !machine.nics.iter().any(|nic| nic.name == *name) {
            let there = machine.nics.iter().map(|nic| nic.name.clone()).collect();
            return Err(NoSuchNic { name: name.clone(), there });
        }
    }
    let wanted = machine.nics.iter().filter(|nic| only.is_empty() || only.contains(&nic.name));
    Ok(wanted
        .map(|nic| TileNic {
            name: nic.name.clone(),
            rate: nic.speed_bits_per_second.known().map(|bits| bytes_per_second(*bits)),
            node: nic.node.known().copied(),
            loopback: nic.loopback,
            carrier: true,
        })
        .collect())
}

/// The ways to a screen: its addresses by the NICs whose network they are in, else by the one that the routes
/// say. An address with a scope says itself which NIC is meant; a multicast group is where the NICs are that
/// the user has `named`.
pub(crate) fn ways(
    sysroot: &Sysroot,
    machine: &Machine,
    nics: &[TileNic],
    named: bool,
    addresses: &[SocketAddr],
) -> Vec<ScreenRoute> {
    let mut ways: Vec<ScreenRoute> = Vec::new();
    let mut add = |nic: usize, to: SocketAddr| {
        let way = ScreenRoute { nic, to };
        if !ways.contains(&way) {
            ways.push(way);
        }
    };
    for to in addresses {
        let routed = match path_to(sysroot, machine, to.ip()) {
            Fact::Known((name, _)) => Some(name),
            Fact::Unknown { .. } => None,
        };
        let own =
            routed.as_deref().is_some_and(|name| nics.iter().any(|nic| nic.loopback && nic.name == name));
        let scope = match to {
            SocketAddr::V6(to) => to.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        for (index, nic) in nics.iter().enumerate() {
            if scope != 0 {
                if interface_index(sysroot, &nic.name) == Some(scope) {
                    add(index, *to);
                }
                continue;
            }
            if named && to.ip().is_multicast() {
                add(index, *to);
                continue;
            }
            let is_routed = routed.as_deref() == Some(nic.name.as_str());
            if is_routed || !own && on_link(machine, &nic.name, to) {
                add(index, *to);
            }
        }
    }
    ways
}

/// The address is in a network of this NIC.
fn on_link(machine: &Machine, nic: &str, to: &SocketAddr) -> bool {
    let Some(nic) = machine.nic(nic).filter(|nic| !nic.loopback) else {
        return false;
    };
    nic.addresses.iter().any(|(address, prefix)| network_contains(*address, *prefix, to.ip().to_canonical()))
}

fn interface_index(sysroot: &Sysroot, name: &str) -> Option<u32> {
    sysroot.parse(Path::new("/sys/class/net").join(name).join("ifindex")).known().copied()
}

/// Bytes of a packet of this NIC: as the user says, else its own.
pub(crate) fn mtu(sysroot: &Sysroot, nic: &str, asked: Option<u32>) -> u32 {
    let own = || sysroot.parse::<u32>(Path::new("/sys/class/net").join(nic).join("mtu"));
    asked.unwrap_or_else(|| own().known().copied().unwrap_or(USUAL_MTU).min(MOST_MTU))
}

/// UDP payload that fits one packet of this NIC.
pub(crate) fn datagram_bytes(sysroot: &Sysroot, nic: &str, to: SocketAddr, asked: Option<u32>) -> usize {
    mtu(sysroot, nic, asked).saturating_sub(udp_headers(to.is_ipv6())) as usize
}

/// A socket that leaves by this NIC, and how frames are cut for it.
///
/// `local` is where an earlier socket of this way sent from: screens know it, so that the new one does so,
/// too.
pub(crate) fn open(
    sysroot: &Sysroot,
    nic: &TileNic,
    to: SocketAddr,
    local: Option<SocketAddr>,
    size: Size,
    sending: Sending,
) -> Result<Route, RouteError> {
    let why = |error| RouteError::Socket { to, nic: nic.name.clone(), error };
    let layout = FrameLayout::new(size, datagram_bytes(sysroot, &nic.name, to, sending.mtu))?;
    Ok(Route { socket: connect(nic, to, local, sending).map_err(why)?, layout: Arc::new(layout) })
}

fn connect(
    nic: &TileNic,
    to: SocketAddr,
    local: Option<SocketAddr>,
    sending: Sending,
) -> io::Result<UdpSocket> {
    let domain = if to.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    if !nic.loopback {
        socket.bind_device(Some(nic.name.as_bytes()))?;
    }
    // Else they end at the first router, or go further than they were meant to.
    match to.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.set_multicast_ttl_v4(sending.multicast_hops.into())?;
        }
        IpAddr::V6(group) if group.is_multicast() => {
            socket.set_multicast_hops_v6(sending.multicast_hops.into())?;
        }
        _ => {}
    }
    if let Some(local) = local {
        // The worker may still hold the old one.
        socket.set_reuse_address(true)?;
        let _ = socket.bind(&local.into());
    }
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Deals tiles to NICs that carry: each to the one with the most rate left for each tile it has, then to the
/// one next to the disk, then in order. `ways` are each tile's; a tile that `stays` on one which still
/// carries stays there.
pub(crate) fn deal(
    nics: &[TileNic],
    ways: &[Vec<ScreenRoute>],
    disk_nodes: &[Option<u32>],
    stays: &[Option<usize>],
) -> Vec<Option<usize>> {
    let known = |ways: &[ScreenRoute]| ways.iter().all(|way| nics[way.nic].rate.is_some());
    let all_known = ways.iter().all(|ways| known(ways));
    // A rate that one of them does not report is none to deal by.
    let rate = |nic: usize| if all_known { nics[nic].rate.unwrap_or(1.0).max(1.0) } else { 1.0 };
    let mut tiles_of = vec![0u32; nics.len()];
    let mut order: Vec<usize> = (0..ways.len()).collect();
    let open = |tile: usize| ways[tile].iter().enumerate().filter(|(_, way)| nics[way.nic].carrier);
    // Who has the least choice comes first.
    order.sort_by_key(|tile| (open(*tile).count(), *tile));
    let mut dealt = vec![None; ways.len()];
    for (tile, way) in stays.iter().enumerate().filter_map(|(tile, way)| Some((tile, (*way)?))) {
        if let Some(held) = ways[tile].get(way).filter(|held| nics[held.nic].carrier) {
            tiles_of[held.nic] += 1;
            dealt[tile] = Some(way);
        }
    }
    for tile in order {
        if dealt[tile].is_some() {
            continue;
        }
        let load = |nic: usize| f64::from(tiles_of[nic] + 1) / rate(nic);
        let far = |nic: usize| match (nics[nic].node, disk_nodes.get(tile).copied().flatten()) {
            (Some(nic), Some(disk)) => nic != disk,
            _ => false,
        };
        let best = open(tile).min_by(|(_, left), (_, right)| {
            load(left.nic).total_cmp(&load(right.nic)).then(far(left.nic).cmp(&far(right.nic)))
        });
        if let Some((way, chosen)) = best {
            tiles_of[chosen.nic] += 1;
            dealt[tile] = Some(way);
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nic(name: &str, rate: Option<f64>, node: Option<u32>) -> TileNic {
        TileNic { name: name.into(), rate, node, loopback: false, carrier: true }
    }

    fn everywhere(nics: usize, tiles: usize) -> Vec<Vec<ScreenRoute>> {
        let to = |nic: usize| SocketAddr::from(([10, 0, nic as u8, 2], 5004));
        vec![(0..nics).map(|nic| ScreenRoute { nic, to: to(nic) }).collect(); tiles]
    }

    #[test]
    fn tiles_follow_the_rates_and_the_disks() {
        let nics = [nic("a", Some(10.0), Some(0)), nic("b", Some(10.0), Some(1)), nic("c", Some(40.0), None)];
        let dealt = deal(&nics, &everywhere(3, 12), &[None; 12], &[]);
        let count = |way: usize| dealt.iter().filter(|dealt| **dealt == Some(way)).count();
        assert_eq!((count(0), count(1), count(2)), (2, 2, 8));
        let dealt = deal(&nics[..2], &everywhere(2, 4), &[Some(1), Some(0), Some(1), Some(0)], &[]);
        assert_eq!(dealt, [Some(1), Some(0), Some(1), Some(0)]);
        // One that does not report its rate: all count alike.
        let nics = [nic("a", None, None), nic("b", Some(10.0), None)];
        assert_eq!(deal(&nics, &everywhere(2, 4), &[None; 4], &[]).iter().flatten().sum::<usize>(), 2);
    }

    #[test]
    fn a_nic_without_carrier_gets_nothing() {
        let mut nics = vec![nic("a", None, None), nic("b", None, None)];
        nics[0].carrier = false;
        assert_eq!(deal(&nics, &everywhere(2, 3), &[None; 3], &[]), [Some(1); 3]);
        nics[1].carrier = false;
        assert_eq!(deal(&nics, &everywhere(2, 3), &[None; 3], &[]), [None; 3]);
    }

    proptest! {
        #[test]
        fn every_tile_that_has_a_way_gets_one(
            up in prop::collection::vec(any::<bool>(), 1..6),
            reach in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 1..20),
        ) {
            let nics: Vec<TileNic> = up.iter().map(|up| TileNic { carrier: *up, ..nic("n", None, None) }).collect();
            let to = SocketAddr::from(([10, 0, 0, 2], 5004));
            let ways: Vec<Vec<ScreenRoute>> = reach.iter().map(|reach| {
                (0..nics.len()).filter(|nic| reach[*nic]).map(|nic| ScreenRoute { nic, to }).collect()
            }).collect();
            for (tile, dealt) in deal(&nics, &ways, &[], &[]).into_iter().enumerate() {
                prop_assert_eq!(dealt.is_some(), ways[tile].iter().any(|way| nics[way.nic].carrier));
                if let Some(way) = dealt {
                    prop_assert!(nics[ways[tile][way].nic].carrier);
                }
            }
        }
    }
}
