//! The layout of a wall made into what a fleet sends: which host sends which tiles to which, and at what rate.

use crate::cli::arguments::FleetArgs;
use linerate_facts::failure::Failure;
use linerate_fleet::{FleetPattern, FleetTile, FleetWallSpec, parse_servers};
use linerate_wall::geometry::FrameRate;
use linerate_wall::layout::{LayoutScreen, WallLayout};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Film's, where nothing else is asked for: as `linerate wall plan` has it.
const CINEMA: FrameRate = FrameRate { numerator: 24, denominator: 1 };

/// The wall; none where the pattern has none.
pub(super) fn wall(words: &FleetArgs) -> Result<Option<FleetWallSpec>, Failure> {
    let file = match (&words.wall, words.pattern) {
        (Some(file), FleetPattern::Wall) => file,
        (None, FleetPattern::Wall) => {
            return Err(Failure::usage(
                "fleet wall needs a layout: name the file that `linerate wall serve --layout` takes with --wall FILE",
            ));
        }
        (Some(_), other) => {
            return Err(Failure::usage(format!(
                "--wall belongs to `linerate fleet wall`; {} has no tiles",
                other.name()
            )));
        }
        (None, _) => return Ok(None),
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::lacks(format!("{}: {error}; name the file of the wall's layout", file.display()))
    })?;
    let layout = WallLayout::parse(&text).map_err(|why| wrong(file, why))?;
    let Some(tile) = words.tile.or(layout.tile) else {
        return Err(Failure::usage(format!(
            "{} says nothing of the pixels of its tiles: add --tile 2560x1600",
            file.display()
        )));
    };
    let rate = words.fps.unwrap_or(CINEMA);
    let only = only_server(words, &layout, file)?;
    let tiles = layout.screens.iter().map(|screen| fleet_tile(screen, &layout, only.as_deref(), file));
    Ok(Some(FleetWallSpec {
        grid: layout.grid.to_string(),
        tile: tile.to_string(),
        frames_per_second: rate.per_second(),
        tile_bytes_per_second: tile.frame_bytes() as f64 * rate.per_second(),
        tiles: tiles.collect::<Result<Vec<_>, _>>()?,
    }))
}

/// The host of the one server that a layout does not name.
fn only_server(words: &FleetArgs, layout: &WallLayout, file: &Path) -> Result<Option<String>, Failure> {
    match (&words.servers, layout.servers.is_empty()) {
        (None, false) => Ok(None),
        (None, true) => {
            Err(wrong(file, "it names no server: name the host that sends all tiles with --servers"))
        }
        (Some(_), false) => Err(wrong(file, "it names its servers: leave out --servers")),
        (Some(text), true) => {
            let why = |why| Failure::usage(format!("--servers {text}: {why}"));
            match parse_servers(text).map_err(|error| why(error.to_string()))?.as_slice() {
                [only] => Ok(Some(only.clone())),
                _ => Err(why(
                    "the layout is of one server; name several in the layout, with [[server]]".into()
                )),
            }
        }
    }
}

fn fleet_tile(
    screen: &LayoutScreen,
    layout: &WallLayout,
    only: Option<&str>,
    file: &Path,
) -> Result<FleetTile, Failure> {
    let address = |word: &String| {
        let ip = word.parse::<SocketAddr>().map(|address| address.ip());
        ip.or_else(|_| word.rsplit_once(':').map_or(word.as_str(), |(host, _)| host).parse::<IpAddr>())
    };
    if let Some(group) = screen.to.iter().find(|word| address(word).is_ok_and(|ip| ip.is_multicast())) {
        let why = format!(
            "screen {} is the multicast group {group}, and a fleet sends each screen its own: name their hosts",
            screen.tile
        );
        return Err(wrong(file, why));
    }
    let server = match screen.server.as_ref() {
        Some(name) => layout.servers.iter().find(|server| server.name == *name),
        None => layout.servers.first(),
    };
    let of_layout = server.map(|server| [Some(server.name.clone()), server.control.clone()]);
    let words = of_layout.into_iter().flatten().flatten().chain(only.map(String::from));
    Ok(FleetTile { tile: screen.tile.to_string(), server: words.collect(), screen: screen.to.clone() })
}

fn wrong(file: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {why}", file.display()))
}
