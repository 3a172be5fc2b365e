//! What rate a wall needs at each stage ([`WallNeed`]), and whether a server has it ([`ServerVerdict`]): pure
//! arithmetic, before anything is opened. What a run has measured of the server's parts comes in the place of what their
//! data sheets say.
//!
//! Tiles are dealt to NICs whole: each goes where the load is then least of all, by the links' rates. The
//! disks of a wall are those on which the tiles of its movie lie.

mod judge;
#[cfg(test)]
mod tests;

use crate::geometry::{FrameRate, Size, TileId, WallGrid};
use crate::movie::Movie;
use crate::rtp::{DatagramTooSmall, FrameLayout};
pub use judge::{Fits, ServerVerdict};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_machine::probe::source::devices_behind;
use linerate_machine::rates::ethernet::{Stack, frame_wire_bytes, goodput_share, payload_bytes};
use linerate_model::plan::cpu_cost::{self, udp_seconds_per_gb};
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::parts::{DeviceKind, MachineParts};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a wall needs while it plays. Rates are of all tiles together, bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WallNeed {
    pub grid: WallGrid,
    /// Pixels of a tile.
    pub tile: Size,
    pub frames_per_second: FrameRate,
    /// Of the network, bytes.
    pub mtu: u32,
    /// Bytes of one tile's frame.
    pub frame_bytes: u64,
    /// What the disks read.
    pub pixel_bytes_per_second: f64,
    /// UDP payload: pixels and the headers of RTP.
    pub payload_bytes_per_second: f64,
    /// What the links carry: that and the headers of UDP, IPv4 and Ethernet, with preamble and gap.
    pub wire_bytes_per_second: f64,
    /// Datagrams of one tile's frame.
    pub datagrams_per_frame: u64,
    /// UDP payload of each but the last.
    pub datagram_bytes: u64,
    pub datagrams_per_second: f64,
    /// CPU seconds per GB of pixels.
    pub cpu_seconds_per_gb: f64,
    /// Whether that is the default (rated), of the machine's description (effective), or measured.
    pub cpu_origin: Origin,
    /// Who published a default of an older generation of servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_source: Option<&'static str>,
    /// Cores that are busy with it.
    pub cpu_cores: f64,
}

/// An MTU that holds not one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MtuTooSmall {
    #[error("an MTU of {0} holds no payload")]
    NoPayload(u32),
    #[error(transparent)]
    NoPixel(#[from] DatagramTooSmall),
}

impl WallNeed {
    /// Of a wall of `grid` tiles of `size`. Fails where the MTU holds not one pixel.
    pub fn of(size: Size, grid: WallGrid, rate: FrameRate, mtu: u32) -> Result<WallNeed, MtuTooSmall> {
        let stack = Stack::udp(false);
        let room = payload_bytes(mtu, stack).ok_or(MtuTooSmall::NoPayload(mtu))?;
        let layout = FrameLayout::new(size, room as usize)?;
        let wire =
            |datagram: usize| frame_wire_bytes(layout.bytes_of(datagram) as u32 + stack.header_bytes(), 0);
        let datagrams = layout.datagrams();
        // All are as large as the first but the last.
        let last = datagrams.saturating_sub(1);
        let wire_bytes = wire(0) * last as f64 + wire(last);
        let frames = grid.len() as f64 * rate.per_second();
        let pixels = size.frame_bytes() as f64 * frames;
        let datagrams_per_second = datagrams as f64 * frames;
        let pixel_gb = pixels / 1e9;
        let cpu_cores = udp_seconds_per_gb(datagrams_per_second / pixel_gb) * pixel_gb;
        Ok(WallNeed {
            grid,
            tile: size,
            frames_per_second: rate,
            mtu,
            frame_bytes: size.frame_bytes() as u64,
            pixel_bytes_per_second: pixels,
            payload_bytes_per_second: layout.wire_bytes() as f64 * frames,
            wire_bytes_per_second: wire_bytes * frames,
            datagrams_per_frame: datagrams as u64,
            datagram_bytes: layout.bytes_of(0) as u64,
            datagrams_per_second,
            // A rule of thumb has no more digits.
            cpu_origin: Origin::Rated,
            cpu_source: None,
            cpu_seconds_per_gb: (cpu_cores / (pixels / 1e9) * 1e3).round() / 1e3,
            cpu_cores,
        })
    }

    /// Pixels of all tiles together.
    pub fn size(&self) -> Size {
        self.grid.pixels(self.tile)
    }

    /// What one tile's disk reads, bytes per second.
    pub fn tile_pixel_bytes_per_second(&self) -> f64 {
        self.pixel_bytes_per_second / self.grid.len().max(1) as f64
    }

    /// What one tile takes of its link, bytes per second.
    pub(crate) fn tile_wire_bytes_per_second(&self) -> f64 {
        self.wire_bytes_per_second / self.grid.len().max(1) as f64
    }

    /// Pixels ÷ bytes of the wire, 0 to 1.
    pub(crate) fn pixel_share(&self) -> f64 {
        self.pixel_bytes_per_second / self.wire_bytes_per_second
    }
}

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
    fn fits(&self) -> Option<bool> {
        let link = self.link_bytes_per_second.known()?;
        Some(self.needed_bytes_per_second <= *link)
    }
}

/// Deals the tiles to NICs of these link rates. One of unknown rate is taken to be like the mean of the
/// others.
fn deal(need: &WallNeed, nics: &[(String, Fact<f64>, Origin)]) -> Vec<Dealt> {
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

/// What one disk holds of a movie.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskShare {
    /// Kernel name of the disk; of what is not a disk of this machine (a network's file system, memory) what it
    /// is called.
    pub disk: String,
    pub tiles: Vec<TileId>,
    /// Tiles' worth of bytes that it reads: an array deals a tile over its disks.
    pub tiles_worth: f64,
    /// Why it is unknown.
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

/// Figures of a run; empty: data sheets alone count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WallFigures {
    /// By the id of the part, like `disk:nvme0n1`.
    pub parts: BTreeMap<String, WallFigure>,
    /// What the bus of all memory carries, bytes per second; only of a machine of one node does a run tell
    /// it.
    pub memory_bytes_per_second: Option<f64>,
    /// CPU seconds per GB from the disk to the NIC, over UDP.
    pub cpu_seconds_per_gb: Option<f64>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WallFigure {
    /// Of payload; of a NIC UDP payload.
    pub bytes_per_second: f64,
    /// Something else held it: it may do more.
    pub at_least: bool,
}

/// What was put into the parts, to be told from ratings afterwards.
#[derive(Debug, Default)]
struct Applied {
    /// Ids whose rate is measured now, with what was rated before.
    rated: BTreeMap<String, Option<f64>>,
    /// Those of them that may do more.
    at_least: BTreeSet<String>,
}

impl WallNeed {
    /// The same with the CPU cost that was measured, that the machine's description gives, or of its generation.
    fn costing(&self, parts: &MachineParts, measured: &WallFigures) -> WallNeed {
        let published = || {
            let memory = parts.memory_kind.as_deref();
            let cost = cpu_cost::published(memory, true, Protocol::Udp, Some(self.mtu))?;
            Some((cost.seconds_per_gb, Origin::Rated, Some(cost.source)))
        };
        let stated = parts.cpu_seconds_per_gb.known().map(|cost| (*cost, Origin::Effective, None));
        let measured = measured.cpu_seconds_per_gb.map(|cost| (cost, Origin::Measured, None));
        let Some((cost, cpu_origin, cpu_source)) = measured.or(stated).or_else(published) else {
            return self.clone();
        };
        let cpu_cores = cost * self.pixel_bytes_per_second / 1e9;
        WallNeed { cpu_seconds_per_gb: cost, cpu_cores, cpu_origin, cpu_source, ..self.clone() }
    }
}

impl WallFigures {
    /// Puts the figures in the place of the ratings. One that something else held does not lower a rating.
    fn apply(&self, parts: &mut MachineParts, mtu: u32) -> Applied {
        let mut applied = Applied::default();
        let share = goodput_share(mtu, Stack::Udp4, false).unwrap_or(1.0);
        for device in &mut parts.devices {
            let id = device.id();
            let Some(figure) = self.parts.get(&id) else { continue };
            let (rate, measured) = match &mut device.what {
                DeviceKind::Disk { read, .. } => (read, figure.bytes_per_second),
                // As the link's rate, so that the headers of this wall's own packets count.
                DeviceKind::Nic { rate, .. } => (rate, figure.bytes_per_second / share),
                DeviceKind::Gpu => continue,
            };
            let rated = rate.known().copied();
            if figure.at_least && rated.is_some_and(|rated| rated >= measured) {
                continue;
            }
            *rate = Fact::Known(measured);
            if figure.at_least {
                applied.at_least.insert(id.clone());
            }
            applied.rated.insert(id, rated);
        }
        if let ([node], Some(rate)) = (&mut parts.nodes[..], self.memory_bytes_per_second) {
            let rated = node.memory_bytes_per_second.known().copied();
            node.memory_bytes_per_second = Fact::Known(rate);
            applied.rated.insert("memory".into(), rated);
        }
        applied
    }
}

impl Applied {
    /// Where the rate of a part is from.
    fn origin(&self, id: &str) -> Origin {
        if self.rated.contains_key(id) { Origin::Measured } else { Origin::Rated }
    }

    /// It may do more than what was measured.
    fn may_do_more(&self, id: &str) -> bool {
        self.at_least.contains(id)
    }

    /// Says of each resource whether its capacity is rated, effective or measured.
    fn label(&self, plan: &mut FlowPlan, cpu: Origin) {
        let cut: BTreeSet<String> = plan.ceiling.cut.iter().cloned().collect();
        for resource in &mut plan.resources {
            if let Some(rated) = self.rated.get(&resource.id) {
                resource.origin = Origin::Measured;
                resource.measured = Some(resource.capacity);
                // A bus is rated as it is, its resource for what crosses it.
                resource.rated = rated.filter(|_| resource.kind != ResourceKind::Memory);
                resource.lower_bound = self.may_do_more(&resource.id);
            } else if resource.id.starts_with("cpu") && cpu == Origin::Measured {
                resource.origin = Origin::Measured;
            }
            let holds = cut.contains(&resource.id);
            if let Some(word) = word(resource) {
                let also = resource.why.take().map_or(String::new(), |why| format!(", {why}"));
                let holds = if holds { ", limits the flow" } else { "" };
                resource.why = Some(format!("{word}{also}{holds}"));
            }
        }
    }
}

fn word(resource: &Resource) -> Option<&'static str> {
    match resource.origin {
        Origin::Measured if resource.lower_bound => Some("measured, something else held it: at least"),
        Origin::Measured => Some("measured"),
        Origin::Effective if resource.kind == ResourceKind::Cpu => Some("rated"),
        Origin::Effective => Some("effective: rated less what the headers take"),
        Origin::Rated => Some("rated"),
        Origin::Unknown => None,
    }
}
