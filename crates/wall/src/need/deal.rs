//! Tiles dealt to NICs, whole ones: each goes where the load is then least of all, by the links' rates.

use super::WallNeed;
use crate::geometry::TileId;
use linerate_facts::fact::Fact;
use linerate_model::plan::Origin;
use serde::Serialize;

/// What one NIC gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dealt {
    pub nic: String,
    pub tiles: Vec<TileId>,
    /// What they take of the wire, bytes per second.
    pub needed_bytes_per_second: f64,
    /// The link's rate, bytes per second.
    pub link_bytes_per_second: Fact<f64>,
    /// Whether that is the link's rating, or what was measured, as a rate of the link.
    pub link_origin: Origin,
}

impl Dealt {
    /// It carries its tiles; unknown where its rate is.
    pub(super) fn fits(&self) -> Option<bool> {
        let link = self.link_bytes_per_second.known()?;
        Some(self.needed_bytes_per_second <= *link)
    }
}

/// Deals the tiles to NICs of these link rates. One of unknown rate is taken to be like the mean of the
/// others.
pub(super) fn deal(need: &WallNeed, nics: &[(String, Fact<f64>, Origin)]) -> Vec<Dealt> {
    let known: Vec<f64> = nics.iter().filter_map(|(_, rate, _)| rate.known().copied()).collect();
    let mean = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
    let weight = |rate: &Fact<f64>| rate.known().copied().unwrap_or(mean).max(f64::MIN_POSITIVE);
    let mut dealt: Vec<Dealt> = nics
        .iter()
        .map(|(nic, rate, origin)| Dealt {
            nic: nic.clone(),
            tiles: Vec::new(),
            needed_bytes_per_second: 0.0,
            link_bytes_per_second: rate.clone(),
            link_origin: *origin,
        })
        .collect();
    for tile in need.grid.tiles() {
        let load = |one: &Dealt| (one.tiles.len() + 1) as f64 / weight(&one.link_bytes_per_second);
        let Some(least) = dealt.iter_mut().min_by(|a, b| load(a).total_cmp(&load(b))) else { break };
        least.tiles.push(tile);
        least.needed_bytes_per_second += need.tile_wire_bytes_per_second();
    }
    dealt
}
