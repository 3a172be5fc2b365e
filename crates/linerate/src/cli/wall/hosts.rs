//! `--screens HOST…`: the tiles of a wall dealt to the hosts of its screens.

use linerate_facts::failure::Failure;
use linerate_transport::address::resolve_named;
use linerate_wall::geometry::WallGrid;
use linerate_wall::serve::ServedScreen;

/// The port of a host's first screen; the next ones follow it.
const FIRST_PORT: u16 = 5004;

/// The screens of all tiles: in reading order, as many to each host as to the others or one more, each on a port
/// of its own.
pub(super) fn dealt(hosts: &[String], grid: WallGrid) -> Result<Vec<ServedScreen>, Failure> {
    let (count, tiles) = (hosts.len(), grid.len());
    if count > tiles {
        return Err(Failure::Usage(format!(
            "--screens names {count} hosts for {tiles} tiles: leave some out, or deal them with --screen TILE=HOST:PORT"
        )));
    }
    let mut screens = Vec::with_capacity(tiles);
    let mut next = 0;
    for (index, named) in hosts.iter().enumerate() {
        let first = resolve_named("--screens", named, FIRST_PORT)?;
        // Rounded so that the first hosts do not get all that is over.
        let own = (index + 1) * tiles / count - next;
        for (at, tile) in grid.tiles().skip(next).take(own).enumerate() {
            let port = u16::try_from(at).ok().and_then(|at| first.port().checked_add(at));
            let port = port.ok_or_else(|| {
                Failure::Usage(format!(
                    "--screens {named}: {own} ports from {} on do not exist",
                    first.port()
                ))
            })?;
            let mut to = first;
            to.set_port(port);
            screens.push(ServedScreen { tile, named: to.to_string(), to: vec![to] });
        }
        next += own;
    }
    Ok(screens)
}

/// Which tiles each host shows, for people: `10.0.0.2: r0c0 on port 5004 … r0c4 on port 5008`.
pub(super) fn words(screens: &[ServedScreen]) -> Vec<String> {
    let host = |screen: &ServedScreen| screen.to.first().map(|to| to.ip());
    let of_host = screens.chunk_by(|a, b| host(a) == host(b));
    let line = |own: &[ServedScreen]| {
        let (first, last) = (own.first()?, own.last()?);
        let (from, to) = (first.to.first()?, last.to.first()?);
        Some(match own.len() {
            1 => format!("{}: tile {} on port {}", from.ip(), first.tile, from.port()),
            count => format!(
                "{}: {count} tiles, {} on port {} to {} on port {}",
                from.ip(),
                first.tile,
                from.port(),
                last.tile,
                to.port()
            ),
        })
    };
    of_host.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hosts: &[&str], grid: &str) -> Vec<String> {
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
        let screens = dealt(&hosts, grid.parse().expect("a grid")).expect("screens");
        screens.iter().map(|screen| format!("{}={}", screen.tile, screen.named)).collect()
    }

    #[test]
    fn tiles_are_dealt_in_reading_order_evenly() {
        let two = shown(&["10.0.0.2", "10.0.0.3:6000"], "3x1");
        assert_eq!(two, ["r0c0=10.0.0.2:5004", "r0c1=10.0.0.3:6000", "r0c2=10.0.0.3:6001"]);
        let one = shown(&["[2001:db8::1]"], "2x2");
        assert_eq!(one[3], "r1c1=[2001:db8::1]:5007");
        let fifteen = shown(&["10.0.0.2", "10.0.0.3", "10.0.0.4"], "5x3");
        assert_eq!((fifteen.len(), fifteen[5].as_str()), (15, "r1c0=10.0.0.3:5004"));
    }

    #[test]
    fn too_many_hosts_and_ports_are_refused_and_the_deal_is_shown() {
        let grid: WallGrid = "2x1".parse().expect("a grid");
        let hosts = |all: &[&str]| all.iter().map(|host| host.to_string()).collect::<Vec<_>>();
        let why = dealt(&hosts(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]), grid).expect_err("three for two");
        assert!(why.to_string().contains("3 hosts for 2 tiles"), "{why}");
        let why = dealt(&hosts(&["10.0.0.1:65535"]), grid).expect_err("no port 65536");
        assert!(why.to_string().contains("do not exist"), "{why}");
        let screens =
            dealt(&hosts(&["10.0.0.1", "10.0.0.2"]), "3x1".parse().expect("a grid")).expect("dealt");
        assert_eq!(
            words(&screens),
            ["10.0.0.1: tile r0c0 on port 5004", "10.0.0.2: 2 tiles, r0c1 on port 5004 to r0c2 on port 5005"]
        );
    }
}
