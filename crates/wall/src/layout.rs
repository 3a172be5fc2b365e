//! `wall.toml`: which screens a wall has, where each is, and which server sends to it.
//!
//! ```toml
//! grid = "2x1"                          # columns x rows of screens
//! tile = "2560x1600"                    # may be left out: the movie's
//!
//! [[server]]                            # only where there are several; the first one leads
//! name = "left"
//! control = "10.0.0.1:7412"
//!
//! [[screen]]
//! tile = "r0c0"
//! to = ["10.0.0.2:5004", "10.0.1.2:5004"]   # all addresses of the same screen
//! server = "left"
//! ```

use super::geometry::{Size, TileId, WallGrid};
use serde::Deserialize;
use std::collections::BTreeSet;
use thiserror::Error;

/// Addresses of one screen at most: no machine has more NICs to one wall.
const MOST_ADDRESSES: usize = 64;
/// Tiles that an error lists at most.
const MOST_SHOWN: usize = 5;

/// What is wrong with a `wall.toml`.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LayoutError {
    #[error("{}", .0.to_string().trim_end().replace('\n', " "))]
    Toml(#[from] toml::de::Error),
    #[error("two servers are called “{0}”; a name is for one")]
    ServerTwice(String),
    #[error("server “{0}” leads the others, so it needs control = \"HOST:PORT\"")]
    NoControl(String),
    #[error("screen {tile} is not on a wall of {grid}")]
    NotOnWall { tile: TileId, grid: WallGrid },
    #[error("screen {0} is there twice; give it once, with all its addresses")]
    ScreenTwice(TileId),
    #[error("screen {0}: give 1 to {MOST_ADDRESSES} addresses, to = [\"HOST:PORT\"]")]
    Addresses(TileId),
    #[error("screen {tile}: there is no [[server]] called “{server}”")]
    NoServer { tile: TileId, server: String },
    #[error("screen {0}: say which of the servers sends to it, server = \"NAME\"")]
    WhichServer(TileId),
    #[error(
        "a wall of {grid} has {} screens, but {} of them are here; without a [[screen]]: {}",
        grid.len(),
        grid.len() - holes.len(),
        first_tiles(holes)
    )]
    Holes { grid: WallGrid, holes: Vec<TileId> },
}

/// The first few of the tiles.
fn first_tiles(tiles: &[TileId]) -> String {
    let shown: Vec<String> = tiles.iter().take(MOST_SHOWN).map(TileId::to_string).collect();
    shown.join(", ") + if tiles.len() > MOST_SHOWN { " …" } else { "" }
}

/// Which of a layout's servers this one is, cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServerChoiceError {
    #[error("say with --server which of these this one is: {names}")]
    Unsaid { names: String },
    #[error("--server {0}: the layout names no servers")]
    NoServers(String),
    #[error("--server {server}: the layout has {names}")]
    Unknown { server: String, names: String },
    #[error("the layout has no screen for server {0}")]
    NoScreen(String),
}

/// A wall.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WallLayout {
    /// Screens of the wall.
    pub grid: WallGrid,
    /// Pixels of each screen; none: those of the movie's tiles.
    pub tile: Option<Size>,
    /// Empty where there is one server, which then needs no name.
    #[serde(default, rename = "server")]
    pub servers: Vec<WallServer>,
    #[serde(default, rename = "screen")]
    pub screens: Vec<LayoutScreen>,
}

/// One of several servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WallServer {
    pub name: String,
    /// Its control channel, `HOST:PORT`; of the first one, which the others follow, it must be there.
    pub control: Option<String>,
}

/// One screen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutScreen {
    pub tile: TileId,
    /// `HOST:PORT`, all of the same screen.
    pub to: Vec<String>,
    /// Who sends to it, where there are several servers.
    pub server: Option<String>,
}

impl WallLayout {
    /// Reads and checks a `wall.toml`.
    pub fn parse(text: &str) -> Result<WallLayout, LayoutError> {
        let layout: WallLayout = toml::from_str(text)?;
        layout.check_servers()?;
        layout.check_screens()?;
        Ok(layout)
    }

    fn check_servers(&self) -> Result<(), LayoutError> {
        let mut names = BTreeSet::new();
        for server in &self.servers {
            if !names.insert(server.name.as_str()) {
                return Err(LayoutError::ServerTwice(server.name.clone()));
            }
        }
        match &self.servers[..] {
            [first, _, ..] if first.control.is_none() => Err(LayoutError::NoControl(first.name.clone())),
            _ => Ok(()),
        }
    }

    fn check_screens(&self) -> Result<(), LayoutError> {
        let mut seen = BTreeSet::new();
        for LayoutScreen { tile, to, server } in &self.screens {
            let tile = *tile;
            if !self.grid.holds(tile) {
                return Err(LayoutError::NotOnWall { tile, grid: self.grid });
            }
            if !seen.insert(tile) {
                return Err(LayoutError::ScreenTwice(tile));
            }
            if to.is_empty() || to.len() > MOST_ADDRESSES {
                return Err(LayoutError::Addresses(tile));
            }
            match server {
                Some(name) if !self.servers.iter().any(|server| server.name == *name) => {
                    return Err(LayoutError::NoServer { tile, server: name.clone() });
                }
                None if self.servers.len() > 1 => {
                    return Err(LayoutError::WhichServer(tile));
                }
                _ => {}
            }
        }
        let holes: Vec<TileId> = self.grid.tiles().filter(|tile| !seen.contains(tile)).collect();
        if holes.is_empty() { Ok(()) } else { Err(LayoutError::Holes { grid: self.grid, holes }) }
    }

    /// The screens of one server. It must be named where there are several.
    pub fn screens_of(&self, server: Option<&str>) -> Result<Vec<&LayoutScreen>, ServerChoiceError> {
        let names = || self.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = match (server, &self.servers[..]) {
            (None, [] | [_]) => return Ok(self.screens.iter().collect()),
            (None, _) => return Err(ServerChoiceError::Unsaid { names: names() }),
            (Some(name), servers) if servers.iter().any(|server| server.name == name) => name,
            (Some(name), []) => return Err(ServerChoiceError::NoServers(name.into())),
            (Some(name), _) => {
                return Err(ServerChoiceError::Unknown { server: name.into(), names: names() });
            }
        };
        let mine: Vec<&LayoutScreen> =
            self.screens.iter().filter(|screen| screen.server.as_deref().unwrap_or(name) == name).collect();
        if mine.is_empty() { Err(ServerChoiceError::NoScreen(name.into())) } else { Ok(mine) }
    }

    /// Of the server that leads: the others that send to screens, with their tiles.
    pub fn followers_of(&self, server: Option<&str>) -> Vec<(String, Vec<TileId>)> {
        let Some((first, others)) = self.servers.split_first() else { return Vec::new() };
        if server != Some(first.name.as_str()) {
            return Vec::new();
        }
        let tiles = |name: &str| {
            let own = self.screens.iter().filter(|screen| screen.server.as_deref() == Some(name));
            own.map(|screen| screen.tile).collect::<Vec<_>>()
        };
        let all = others.iter().map(|other| (other.name.clone(), tiles(&other.name)));
        all.filter(|(_, tiles)| !tiles.is_empty()).collect()
    }

    /// Where the server that leads is asked, for one that follows it.
    pub fn leader_of(&self, server: Option<&str>) -> Option<&str> {
        let first = self.servers.first()?;
        (server.is_some_and(|server| server != first.name)).then_some(first.control.as_deref()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WALL: &str = r#"
        grid = "2x1"
        tile = "640x400"
        [[server]]
        name = "left"
        control = "10.0.0.1:7412"
        [[server]]
        name = "right"
        [[screen]]
        tile = "r0c0"
        to = ["10.0.0.2:5004", "10.0.1.2:5004"]
        server = "left"
        [[screen]]
        tile = "r0c1"
        to = ["10.0.0.3:5004"]
        server = "right"
    "#;

    #[test]
    fn each_server_has_its_screens_and_the_first_leads() {
        let layout = WallLayout::parse(WALL).expect("a layout");
        assert_eq!(layout.tile, Some(Size { width: 640, height: 400 }));
        let of = |name| layout.screens_of(Some(name)).expect("screens")[0].to.len();
        assert_eq!((of("left"), of("right")), (2, 1));
        assert_eq!(
            (layout.leader_of(Some("left")), layout.leader_of(Some("right"))),
            (None, Some("10.0.0.1:7412"))
        );
        assert_eq!(
            layout.followers_of(Some("left")),
            [("right".to_string(), vec![TileId { row: 0, column: 1 }])]
        );
        assert!(layout.followers_of(Some("right")).is_empty() && layout.followers_of(None).is_empty());
        assert!(layout.screens_of(None).is_err() && layout.screens_of(Some("middle")).is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong =
            |from: &str, to: &str| WallLayout::parse(&WALL.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(wrong("\"2x1\"", "\"3x1\"").contains("without a [[screen]]: r0c2"));
        assert!(wrong("r0c1", "r0c0").contains("r0c0 is there twice"));
        assert!(wrong("r0c1", "r1c1").contains("r1c1 is not on a wall of 2x1"));
        assert!(wrong("r0c1", "x").contains("is not a tile"));
        assert!(wrong("server = \"right\"", "server = \"middle\"").contains("no [[server]] called “middle”"));
        assert!(wrong("server = \"right\"", "").contains("say which of the servers"));
        assert!(wrong("name = \"right\"", "name = \"left\"").contains("two servers are called “left”"));
        assert!(wrong("control = \"10.0.0.1:7412\"", "").contains("leads the others"));
        assert!(wrong("[\"10.0.0.3:5004\"]", "[]").contains("give 1 to 64 addresses"));
        assert!(wrong("tile = \"640x400\"", "tiles = 3").contains("tiles"));
        assert!(WallLayout::parse("grid = \"64x64\"").expect_err("holes").to_string().ends_with("r0c4 …"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = WallLayout::parse(&text);
        }

        /// Each screen of any grid stands once, whatever the order; one left out is a hole.
        #[test]
        fn a_whole_wall_is_taken_and_one_with_a_hole_is_not(columns in 1u16..8, rows in 1u16..8, hole in any::<prop::sample::Index>()) {
            let grid = WallGrid { columns, rows };
            let text = |skip: Option<usize>| {
                let mut text = format!("grid = \"{grid}\"\n");
                for (index, tile) in grid.tiles().enumerate().filter(|(index, _)| Some(*index) != skip) {
                    text += &format!("[[screen]]\ntile = \"{tile}\"\nto = \
                                      [\"127.0.0.1:{}\"]\n", 5000 + index);
                }
                text
            };
            let layout = WallLayout::parse(&text(None)).expect("a layout");
            prop_assert_eq!(layout.screens_of(None).map(|screens| screens.len()), Ok(grid.len()));
            prop_assert!(WallLayout::parse(&text(Some(hole.index(grid.len())))).is_err());
        }
    }
}
