//! On which disks the tiles of a movie lie.

use crate::geometry::TileId;
use crate::movie::Movie;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_machine::probe::source::devices_behind;
use serde::Serialize;

/// What one disk holds of a movie.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskShare {
    /// Kernel name of the disk; of what is no disk of this machine (a network's file system, memory) what it
    /// is called.
    pub disk: String,
    pub tiles: Vec<TileId>,
    /// Tiles' worth of bytes that it reads: an array deals a tile over its disks.
    pub tiles_worth: f64,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Which disks hold which tiles, in the order in which the tiles come to them.
pub fn places_of(sysroot: &Sysroot, machine: &Machine, movie: &Movie) -> Vec<DiskShare> {
    let mut shares: Vec<DiskShare> = Vec::new();
    for tile in movie.manifest.grid.tiles() {
        let (disks, why) = match devices_behind(sysroot, machine, &movie.tile_path(tile)) {
            Fact::Known(behind) if behind.leaves.is_empty() => {
                (vec![behind.device], Some("no disk of this machine".to_string()))
            }
            Fact::Known(behind) => (behind.leaves, None),
            Fact::Unknown { why } => (vec!["unknown".to_string()], Some(why)),
        };
        let worth = 1.0 / disks.len() as f64;
        for disk in disks {
            let at = shares.iter().position(|share| share.disk == disk).unwrap_or_else(|| {
                shares.push(DiskShare { disk, tiles: Vec::new(), tiles_worth: 0.0, why: why.clone() });
                shares.len() - 1
            });
            shares[at].tiles.push(tile);
            shares[at].tiles_worth += worth;
        }
    }
    shares
}
