//! What rate a wall needs at each stage ([`Need`]), and whether a server has it ([`Verdict`]): pure
//! arithmetic, before anything is opened.

mod deal;
mod judge;
mod measured;
mod tile_disks;

use crate::geometry::{FrameRate, Size, WallGrid};
use crate::rtp::{DatagramTooSmall, FrameLayout};
pub use deal::Dealt;
pub use judge::{Fits, ServerVerdict};
use linerate_machine::rates::ethernet::{Stack, frame_wire_bytes, payload_bytes};
use linerate_model::plan::Origin;
use linerate_model::plan::cpu_cost::udp_seconds_per_gb;
pub use measured::{WallFigure, WallFigures};
use serde::Serialize;
pub use tile_disks::{DiskShare, places_of};

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

#[cfg(test)]
mod tests;
