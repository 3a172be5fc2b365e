//! The servers and screens of a wall among the members: which host sends which tiles to which, and how much they take.

use crate::product::FleetMember;
use crate::schedule::FlowEnds;
use linerate_facts::units::show_bits_rate;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, ToSocketAddrs};

/// A wall as its layout describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetWallSpec {
    /// Columns and rows, `5x3`.
    pub grid: String,
    /// Pixels of a tile, `2560x1600`.
    pub tile: String,
    pub frames_per_second: f64,
    /// Pixels of one tile.
    pub tile_bytes_per_second: f64,
    pub tiles: Vec<FleetTile>,
}

/// One tile: who sends it, and where it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetTile {
    pub tile: String,
    /// Words for the host of its server, any of which is enough.
    pub server: Vec<String>,
    /// The same of its screen: a host, or `HOST:PORT`.
    pub screen: Vec<String>,
}

/// A wall in the product.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetWall {
    pub grid: String,
    pub tile: String,
    pub frames_per_second: f64,
    pub tile_bytes_per_second: f64,
    /// One for each server and host of screens, in the order of the tiles.
    pub flows: Vec<FleetWallFlow>,
}

/// The tiles that one host sends to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetWallFlow {
    pub from: String,
    pub to: String,
    pub tiles: Vec<String>,
    /// What they take at the rate of the wall.
    pub wanted_bytes_per_second: f64,
}

/// What the wall comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WallVerdict {
    pub wanted_bytes_per_second: f64,
    pub bytes_per_second: f64,
    /// So many times the wall's rate would pass, by what each member does alone; below 1 the wall does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom: Option<f64>,
    /// Flows that have less than the wall takes.
    pub short: Vec<ShortFlow>,
}

/// A flow that does not reach what its tiles take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShortFlow {
    pub from: String,
    pub to: String,
    pub tiles: Vec<String>,
    /// Of what they take.
    pub ratio: f64,
    /// The same as it was predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_ratio: Option<f64>,
}

/// Flows of the members, with what each takes.
pub(crate) type WallFlows = Vec<(FlowEnds, f64)>;

/// The wall over these members, and a sentence for each tile that cannot be measured. `addresses`: of each member's
/// host, in the members' order.
pub(crate) fn placed(
    spec: &FleetWallSpec,
    members: &[FleetMember],
    addresses: &[Vec<IpAddr>],
) -> (FleetWall, WallFlows, Vec<String>) {
    let mut flows: Vec<(FlowEnds, Vec<String>)> = Vec::new();
    let mut problems = Vec::new();
    for tile in &spec.tiles {
        let ends = find(&tile.server, members, addresses).ok_or(("server", &tile.server)).and_then(|from| {
            Ok((from, find(&tile.screen, members, addresses).ok_or(("screen", &tile.screen))?))
        });
        match ends {
            Err((what, words)) => {
                problems.push(format!(
                    "tile {}: its {what} {} is none of the members",
                    tile.tile,
                    words.join(" or ")
                ));
            }
            Ok((from, to)) if from == to => problems.push(format!(
                "tile {}: {} is its server and its screen, and no network is between them",
                tile.tile, members[from].name
            )),
            Ok(ends) => match flows.iter_mut().find(|(known, _)| *known == ends) {
                Some((_, tiles)) => tiles.push(tile.tile.clone()),
                None => flows.push((ends, vec![tile.tile.clone()])),
            },
        }
    }
    let wanted = |tiles: &[String]| spec.tile_bytes_per_second * tiles.len() as f64;
    let with_rates = flows.iter().map(|(ends, tiles)| (*ends, wanted(tiles))).collect();
    let product = flows.into_iter().map(|((from, to), tiles)| FleetWallFlow {
        from: members[from].name.clone(),
        to: members[to].name.clone(),
        wanted_bytes_per_second: wanted(&tiles),
        tiles,
    });
    let wall = FleetWall {
        grid: spec.grid.clone(),
        tile: spec.tile.clone(),
        frames_per_second: spec.frames_per_second,
        tile_bytes_per_second: spec.tile_bytes_per_second,
        flows: product.collect(),
    };
    (wall, with_rates, problems)
}

/// The host of `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6%zone]:PORT`.
fn host_of(word: &str) -> &str {
    if let Some((inside, _)) = word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.split('%').next().unwrap_or(inside);
    }
    match word.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => word,
    }
}

/// The member that any of these words means: by its name, else by an address of its host.
fn find(words: &[String], members: &[FleetMember], addresses: &[Vec<IpAddr>]) -> Option<usize> {
    let hosts = || words.iter().map(|word| host_of(word));
    let named = |host: &str| members.iter().position(|member| member.name == host);
    hosts().find_map(named).or_else(|| {
        let ips = hosts().flat_map(|host| match host.parse::<IpAddr>() {
            Ok(ip) => vec![ip],
            Err(_) => (host, 0).to_socket_addrs().map_or(Vec::new(), |all| all.map(|one| one.ip()).collect()),
        });
        let ips: Vec<IpAddr> = ips.map(|ip| ip.to_canonical()).collect();
        let has = |own: &Vec<IpAddr>| own.iter().any(|address| ips.contains(&address.to_canonical()));
        addresses.iter().position(has)
    })
}

impl FleetWall {
    /// `880 Mb/s at 24 frames/s`.
    pub fn rate_words(&self) -> String {
        let wanted = self.flows.iter().map(|flow| flow.wanted_bytes_per_second).sum();
        // Film's 23.976 has three digits after the point, and 24 none.
        let rate = (self.frames_per_second * 1e3).round() / 1e3;
        format!("{} at {rate} frames/s", show_bits_rate(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> (Vec<FleetMember>, Vec<Vec<IpAddr>>) {
        let member = |number: u8| FleetMember { name: format!("h{number}"), ..FleetMember::default() };
        let own = |number: u8| vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, number])];
        ((1..=3).map(member).collect(), (1..=3).map(own).collect())
    }

    fn wall(tiles: &[(&str, &str)]) -> FleetWallSpec {
        let tile = |(at, (server, screen)): (usize, &(&str, &str))| FleetTile {
            tile: format!("r0c{at}"),
            server: vec![server.to_string()],
            screen: screen.split('+').map(String::from).collect(),
        };
        FleetWallSpec {
            tile_bytes_per_second: 10.0,
            tiles: tiles.iter().enumerate().map(tile).collect(),
            ..FleetWallSpec::default()
        }
    }

    #[test]
    fn tiles_of_the_same_hosts_are_one_flow_by_name_or_by_address() {
        let (members, addresses) = members();
        let spec = wall(&[
            ("h1", "h2:5004"),
            ("10.0.0.1", "[::ffff:10.0.0.2]:5005"),
            ("h1", "10.0.9.9:5004+h3:5004"),
        ]);
        let (wall, flows, problems) = placed(&spec, &members, &addresses);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(flows, [((0, 1), 20.0), ((0, 2), 10.0)]);
        assert_eq!(wall.flows[0].tiles, ["r0c0", "r0c1"]);
        assert_eq!((wall.flows[1].from.as_str(), wall.flows[1].to.as_str()), ("h1", "h3"));
    }

    #[test]
    fn tiles_without_a_member_or_a_network_are_named() {
        let (members, addresses) = members();
        let spec = wall(&[("h1", "10.0.0.9:5004"), ("left", "h2:5004"), ("h2", "h2:5004")]);
        let (_, flows, problems) = placed(&spec, &members, &addresses);
        assert!(flows.is_empty());
        assert_eq!(
            problems,
            [
                "tile r0c0: its screen 10.0.0.9:5004 is none of the members",
                "tile r0c1: its server left is none of the members",
                "tile r0c2: h2 is its server and its screen, and no network is between them"
            ]
        );
    }
}
