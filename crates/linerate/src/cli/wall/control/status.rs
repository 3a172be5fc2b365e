//! How a wall does, for a terminal.

use linerate_facts::printable::printable;
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_bytes_rate};
use linerate_model::alike::median;
use linerate_report::grid::{self, number, text};
use linerate_wall::status::{NicStatus, TileStatus, WallStatus};

/// Some lines for the whole, a line for each NIC, a line for each tile, then what is wrong.
pub(super) fn table(status: &WallStatus) -> String {
    let mut lines = vec![head(status), rates(status), means(status), String::new()];
    let nics = [text("NIC", 0), number("rate", 0), number("link", 0), number("tiles", 0), text("problem", 0)];
    lines.extend(grid::lines(&nics, &status.nics.iter().map(nic_row).collect::<Vec<_>>(), usize::MAX));
    lines.push(String::new());
    let skew = median(status.tiles.iter().filter_map(|tile| tile.report.as_ref()?.presented_p50_ms));
    // Only screens that have a window say how many it dropped.
    let window = status.tiles.iter().any(|tile| dropped_by_window(tile).is_some());
    let dropped = if window { "dropped disk/net/CPU/window" } else { "dropped disk/net/CPU" };
    let tiles = [
        text("tile", 0),
        text("screen", 0),
        text("NIC", 0),
        number("rate", 0),
        number("lost", 0),
        number("late", 0),
        number("torn", 0),
        number("skew p99", 0),
        text(dropped, 0),
        text("problem", 0),
    ];
    let rows: Vec<Vec<String>> = status.tiles.iter().map(|tile| tile_row(tile, skew, window)).collect();
    lines.extend(grid::lines(&tiles, &rows, usize::MAX));
    lines.push(String::new());
    lines.extend(status.held_by.iter().map(|text| format!("limited by: {}", printable(text))));
    lines.extend(status.problems.iter().map(|text| format!("problem: {}", printable(text))));
    let mut screen = lines.join("\n");
    screen.truncate(screen.trim_end().len());
    screen + "\n"
}

fn head(status: &WallStatus) -> String {
    let moves = match (status.playing, status.looping) {
        (false, _) => "paused",
        (true, true) => "playing, loops",
        (true, false) => "playing",
    };
    format!(
        "{}: {moves}, frame {} of {}, {} frames/s, speed {}, view {:.0},{:.0},{:.2}",
        printable(&status.movie),
        status.frame,
        status.frames,
        status.frames_per_second,
        status.speed,
        status.view.left,
        status.view.top,
        status.view.zoom
    )
}

fn rates(status: &WallStatus) -> String {
    let predicted = status.predicted_bytes_per_second.map_or("unknown".into(), show_bits_rate);
    format!(
        "{} of {} needed (predicted {predicted}); {} frames sent, {} dropped",
        show_bits_rate(status.bytes_per_second),
        show_bits_rate(status.needed_bytes_per_second),
        status.frames_sent,
        status.frames_dropped
    )
}

fn means(status: &WallStatus) -> String {
    let cost = status.cpu_seconds_per_gb.map_or(String::new(), |cost| format!(" ({cost:.2} s per GB)"));
    let power = match (status.power_words(), &status.watts_unknown) {
        (Some(words), _) => words,
        (None, Some(why)) => format!("power unknown: {}", printable(why)),
        (None, None) => "power unknown".into(),
    };
    format!(
        "disks {}, CPU {:.2} cores{cost}, {power}",
        show_bytes_rate(status.disk_bytes_per_second),
        status.cpu_cores
    )
}

fn nic_row(nic: &NicStatus) -> Vec<String> {
    let link = nic
        .link_bits_per_second
        .map_or("unknown".into(), |bits| show_bits_rate(bytes_per_second(bits as u64)));
    let problem = nic.problem.clone().or((!nic.carrier).then(|| "no carrier".into()));
    vec![
        nic.name.clone(),
        show_bits_rate(nic.bytes_per_second),
        link,
        nic.tiles.len().to_string(),
        problem.unwrap_or_default(),
    ]
}

fn dropped_by_window(tile: &TileStatus) -> Option<u64> {
    tile.report.as_ref()?.frames_window_dropped
}

fn tile_row(tile: &TileStatus, skew: Option<f64>, window: bool) -> Vec<String> {
    let report = tile.report.as_ref();
    let number_or_dash = |value: Option<u64>| value.map_or("–".to_string(), |value| value.to_string());
    let p99 = report.and_then(|report| report.presented_p99_ms);
    let shift = p99.zip(skew).map_or("–".into(), |(p99, skew)| format!("{:.1} ms", p99 - skew));
    let mut dropped = format!("{}/{}/{}", tile.dropped_by_disk, tile.dropped_by_network, tile.dropped_by_cpu);
    if window {
        dropped = format!("{dropped}/{}", number_or_dash(dropped_by_window(tile)));
    }
    vec![
        tile.tile.to_string(),
        tile.screen.clone(),
        tile.nic.clone().unwrap_or("–".into()),
        show_bits_rate(tile.bytes_per_second),
        number_or_dash(report.map(|report| report.datagrams_lost)),
        number_or_dash(report.map(|report| report.frames_late)),
        number_or_dash(report.map(|report| report.frames_torn)),
        shift,
        dropped,
        tile.problem.clone().unwrap_or_default(),
    ]
}
