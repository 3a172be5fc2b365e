//! How a wall does, as text: a view that is drawn again and again while it plays, and what is said at its end.

use super::printable;
use crate::units::{bytes_per_second, show_bits_rate, show_bytes_rate, show_size};
use crate::wall::status::{TileStatus, WallStatus};
use std::fmt::Write;

/// Tiles that a live view shows one by one; of larger walls the worst.
const MOST_TILES: usize = 15;

/// A few lines, none wider than `width`.
pub fn live(status: &WallStatus, width: usize) -> String {
    let mut text = String::new();
    let state = match (status.playing, status.speed) {
        (false, _) => "paused".to_string(),
        (true, 1.0) => "playing".into(),
        (true, speed) => format!("playing x{speed}"),
    };
    let _ = writeln!(
        text,
        "{}  frame {} of {}  {state} at {} frames/s{}",
        status.movie,
        status.frame,
        status.frames,
        status.frames_per_second,
        if status.looping { ", looping" } else { "" }
    );
    let _ = writeln!(
        text,
        "{} of {} needed   disk {}   {:.2} cores{}   sent {}   dropped {}",
        show_bits_rate(status.bytes_per_second),
        show_bits_rate(status.needed_bytes_per_second),
        show_bytes_rate(status.disk_bytes_per_second),
        status.cpu_cores,
        status.watts.map_or(String::new(), |watts| format!("   {watts:.0} W")),
        status.frames_sent,
        status.frames_dropped
    );
    for nic in status.nics.iter().filter(|nic| !nic.tiles.is_empty() || !nic.carrier) {
        let link = nic
            .link_bits_per_second
            .map_or(String::new(), |bits| format!(" of {}", show_bits_rate(bytes_per_second(bits as u64))));
        let carrier = if nic.carrier { "" } else { "  no carrier" };
        let _ = writeln!(
            text,
            "  {:12} {}{link}  {} tiles{carrier}",
            nic.name,
            show_bits_rate(nic.bytes_per_second),
            nic.tiles.len()
        );
    }
    let mut tiles: Vec<&TileStatus> = status.tiles.iter().collect();
    // What goes wrong is at the top; else the order of the wall.
    tiles.sort_by_key(|tile| std::cmp::Reverse(dropped(tile)));
    if tiles.len() <= MOST_TILES {
        tiles.sort_by_key(|tile| tile.tile);
    }
    for tile in tiles.iter().take(MOST_TILES) {
        let _ = writeln!(
            text,
            "  {:6} {:>9}  busy {:3.0} %  starved {:3.0} %  blocked {:3.0} %  ahead {:2}  dropped {}",
            tile.tile.to_string(),
            show_bits_rate(tile.bytes_per_second),
            tile.busy * 100.0,
            tile.starved * 100.0,
            tile.blocked * 100.0,
            tile.prefetched,
            dropped(tile)
        );
    }
    if let Some(held) = &status.held_by {
        let _ = writeln!(text, "held by: {held}");
    }
    narrow(&text, width)
}

fn dropped(tile: &TileStatus) -> u64 {
    tile.dropped_by_disk + tile.dropped_by_network + tile.dropped_by_cpu
}

/// No line longer than the screen is wide: it would break, and the next view would be drawn in the wrong place.
fn narrow(text: &str, width: usize) -> String {
    let line = |line: &str| printable(line).chars().take(width.saturating_sub(1)).collect::<String>() + "\n";
    text.lines().map(line).collect()
}

/// What is said at the end.
pub fn summary(status: &WallStatus, width: usize) -> String {
    let mut text = String::new();
    let sent = status.tiles.iter().map(|tile| tile.datagrams).sum::<u64>();
    let _ = writeln!(
        text,
        "{}: {} tiles for {:.1} s: {} frames sent ({} in {sent} datagrams), {} left out",
        status.movie,
        status.tiles.len(),
        status.seconds,
        status.frames_sent,
        show_size(status.bytes),
        status.frames_dropped
    );
    let stage = |name: &str, of: fn(&TileStatus) -> u64| {
        let frames: u64 = status.tiles.iter().map(of).sum();
        (frames > 0).then(|| format!("{frames} by {name}"))
    };
    let stages: Vec<String> = [
        stage("the disk", |tile| tile.dropped_by_disk),
        stage("the network", |tile| tile.dropped_by_network),
        stage("the processors", |tile| tile.dropped_by_cpu),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !stages.is_empty() {
        let _ = writeln!(text, "left out: {}", stages.join(", "));
    }
    let predicted = status.predicted_bytes_per_second.map_or("unknown".to_string(), show_bits_rate);
    let _ = writeln!(
        text,
        "achieved {}, needed {} while it plays, predicted {predicted}",
        show_bits_rate(status.bytes_per_second),
        show_bits_rate(status.needed_bytes_per_second)
    );
    let cost = status.cpu_seconds_per_gb.map_or(String::new(), |cost| format!(", {cost:.3} CPU s/GB"));
    let watts = status.watts.map_or(String::new(), |watts| format!(", {watts:.0} W"));
    let _ = writeln!(
        text,
        "disk {}, {:.2} cores{cost}{watts}",
        show_bytes_rate(status.disk_bytes_per_second),
        status.cpu_cores
    );
    narrow(&text, width.max(80))
}
