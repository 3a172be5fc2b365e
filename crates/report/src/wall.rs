//! How a wall does, as text: a view that is drawn again and again while it plays, and what is said at its
//! end.

use super::grid::{self, Column, number, text};
use linerate_facts::printable::{columns, printable, shortened, wrapped};
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_wall::status::{NicStatus, TileStatus, WallStatus};
use std::fmt::Write;

/// What is between the facts of a line.
const BETWEEN: &str = "   ";

/// How it does now: no line wider than `width`, no more than `height` lines. What is wrong comes before the
/// tiles. NICs of `elsewhere` have a row of their own beside this view: only their tiles are counted here.
pub fn live(status: &WallStatus, width: usize, height: usize, elsewhere: &[&str]) -> String {
    // The last column stays free: some terminals begin a new line after it.
    let width = width.saturating_sub(1).max(1);
    let mut lines = flow(&head(status), width);
    lines.extend(flow(&rates(status), width));
    let with_tiles = status.nics.iter().filter(|nic| !nic.tiles.is_empty() || !nic.carrier);
    let (counted, whole): (Vec<_>, Vec<_>) =
        with_tiles.partition(|nic| elsewhere.contains(&nic.name.as_str()));
    lines.extend(whole.into_iter().map(nic));
    lines.extend(flow(&counted.into_iter().map(nic_tiles).collect::<Vec<_>>(), width));
    let wrong = status.held_by.iter().map(|held| format!("limited by {held}"));
    lines.extend(wrong.chain(status.problems.iter().cloned()).flat_map(|text| sentence(&text, width)));
    let room = height.saturating_sub(lines.len());
    lines.extend(tiles(status, width, room));
    lines.truncate(height);
    lines.iter().map(|line| shortened(&printable(line), width) + "\n").collect()
}

fn head(status: &WallStatus) -> Vec<String> {
    let state = match (status.playing, status.ended) {
        (true, _) if status.looping => "playing, loops",
        (true, _) => "playing",
        (false, true) => "at its end",
        (false, false) => "frozen",
    };
    let mut facts = vec![
        format!("{}: {state}", status.movie),
        format!("frame {} of {}", status.frame, status.frames),
        format!("{} frames/s", status.frames_per_second),
    ];
    if status.speed != 1.0 {
        facts.push(format!("speed {}", status.speed));
    }
    facts
}

fn rates(status: &WallStatus) -> Vec<String> {
    let mut facts = vec![
        format!(
            "sending {} of {}",
            show_bits_rate(status.bytes_per_second),
            show_bits_rate(status.needed_bytes_per_second)
        ),
        format!("reading {}", show_bytes_rate(status.disk_bytes_per_second)),
        format!("{:.2} cores", status.cpu_cores),
    ];
    facts.extend(status.power_words());
    facts.push(format!("{} frames sent", status.frames_sent));
    facts.push(format!("{} left out", status.frames_dropped));
    facts
}

fn nic(nic: &NicStatus) -> String {
    let link = nic
        .link_bits_per_second
        .map_or(String::new(), |bits| format!(" of {}", show_bits_rate(bytes_per_second(bits as u64))));
    let carrier = if nic.carrier { "" } else { ", no carrier" };
    format!(
        "NIC {}: {}{link}, {}{carrier}",
        nic.name,
        show_bits_rate(nic.bytes_per_second),
        counted(nic.tiles.len(), "tile")
    )
}

/// What the machine's own row of this NIC does not say.
fn nic_tiles(nic: &NicStatus) -> String {
    let carrier = if nic.carrier { "" } else { ", no carrier" };
    format!("{}: {}{carrier}", nic.name, counted(nic.tiles.len(), "tile"))
}

const TILES: [Column; 8] = [
    text("tile", 0),
    number("sending", 0),
    number("left out", 1),
    number("lost", 2),
    number("worker busy", 3),
    number("waits for disk", 4),
    number("for network", 5),
    number("read ahead", 6),
];

/// A table of as many tiles as there is room for; of more the worst. Columns that do not fit are left away
/// from the right.
fn tiles(status: &WallStatus, width: usize, room: usize) -> Vec<String> {
    let mut tiles: Vec<&TileStatus> = status.tiles.iter().collect();
    let rows = room.saturating_sub(1);
    if tiles.len() > rows {
        tiles.sort_by_key(|tile| std::cmp::Reverse(dropped(tile)));
        tiles.truncate(rows.saturating_sub(1));
    }
    tiles.sort_by_key(|tile| tile.tile);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let row = |tile: &&TileStatus| {
        vec![
            tile.tile.to_string(),
            show_bits_rate(tile.bytes_per_second),
            dropped(tile).to_string(),
            tile.report.as_ref().map_or("–".into(), |report| report.datagrams_lost.to_string()),
            percent(tile.busy),
            percent(tile.starved),
            percent(tile.blocked),
            tile.prefetched.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = tiles.iter().map(row).collect();
    let mut lines = grid::lines(&TILES, &rows, width);
    let hidden = status.tiles.len() - rows.len();
    if hidden > 0 {
        lines.push(format!("and {hidden} more tiles: `linerate wall control status` shows all"));
    }
    lines.truncate(room);
    lines
}

/// Facts beside each other, as many as fit a line.
pub(super) fn flow(facts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(line) if columns(line) + BETWEEN.len() + columns(fact) <= width => {
                line.push_str(BETWEEN);
                line.push_str(fact);
            }
            _ => lines.push(fact.clone()),
        }
    }
    lines
}

/// A sentence over as many lines as it takes, further ones indented.
pub(super) fn sentence(text: &str, width: usize) -> Vec<String> {
    let lines = wrapped(&printable(text), width.saturating_sub(2));
    lines.into_iter().enumerate().map(|(at, line)| if at == 0 { line } else { format!("  {line}") }).collect()
}

fn dropped(tile: &TileStatus) -> u64 {
    tile.dropped_by_disk + tile.dropped_by_network + tile.dropped_by_cpu
}

/// No line longer than the screen is wide.
fn narrow(text: &str, width: usize) -> String {
    let line = |line: &str| shortened(&printable(line), width.saturating_sub(1)) + "\n";
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
    let watts = status.power_words().map_or(String::new(), |words| format!(", {words}"));
    let _ = writeln!(
        text,
        "disk {}, {:.2} cores{cost}{watts}",
        show_bytes_rate(status.disk_bytes_per_second),
        status.cpu_cores
    );
    narrow(&text, width.max(80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> WallStatus {
        let tile = serde_json::json!({
            "tile": "r0c0", "screen": "10.0.0.2:5004", "nic": "eth0", "bytes_per_second": 1.4e6, "bytes": 0, "datagrams": 0,
            "frames_sent": 9, "dropped_by_disk": 0, "dropped_by_network": 2, "dropped_by_cpu": 0, "busy": 0.02, "starved": 0.0,
            "blocked": 0.9, "prefetched": 8, "report": null, "report_age_seconds": null, "problem": null
        });
        let nic = serde_json::json!({
            "name": "eth0", "bytes_per_second": 1.4e6, "wire_bytes_per_second": null, "link_bits_per_second": 1_000_000_000u64,
            "carrier": true, "tiles": ["r0c0"], "problem": null
        });
        let mut tiles = vec![tile; 40];
        for (at, tile) in tiles.iter_mut().enumerate() {
            tile["tile"] = format!("r0c{at}").into();
        }
        let whole = serde_json::json!({
            "schema": 1, "seconds": 3.0, "movie": "a film \u{1b}[2J \
                                                   磁盘", "frames_per_second": "24", "frames": 48, "frame": 5,
            "playing": false, "ended": true, "speed": -2.0, "looping": false, "view": { "left": 0.0, "top": 0.0, "zoom": 1.0 },
            "movie_size": "320x120", "wall_size": "320x120", "needed_bytes_per_second": 2.8e6, "predicted_bytes_per_second": null,
            "bytes_per_second": 2.8e6, "disk_bytes_per_second": 3e6, "cpu_cores": 0.04, "cpu_seconds_per_gb": null, "watts": 210.0, "above_idle_watts": 20.0,
            "watts_unknown": null, "bytes": 0, "frames_sent": 107, "frames_dropped": 2, "tiles": tiles, "nics": [nic], "disks": [], "servers": [],
            "held_by": "the network: eth0 carries no more", "problems": ["server right has not been heard \
                for 5 s: did it end?"]
        });
        serde_json::from_value(whole).expect("a status")
    }

    #[test]
    fn a_live_view_fits_its_terminal_and_says_what_is_wrong() {
        for (width, height) in [(80, 24), (40, 10), (200, 60), (10, 3), (1, 1)] {
            let view = live(&status(), width, height, if height == 24 { &["eth0"] } else { &[] });
            assert!(view.lines().count() <= height, "{width}x{height}:\n{view}");
            assert!(view.lines().all(|line| columns(line) < width.max(2)), "{width}x{height}:\n{view}");
            assert!(!view.contains('\u{1b}'), "{view:?}");
        }
        let view = live(&status(), 80, 24, &[]);
        let all = "at its end|speed -2|left out|limited by the network|server right|r0c0|more tiles";
        for word in all.split('|') {
            assert!(view.contains(word), "“{word}” in:\n{view}");
        }
        assert!(view.contains("NIC eth0: "), "{view}");
        let beside = live(&status(), 80, 24, &["eth0"]);
        assert!(
            !beside.contains("NIC eth0") && beside.contains("eth0: "),
            "its rate is told elsewhere:\n{beside}"
        );
        let narrow = live(&status(), 40, 12, &[]);
        assert!(narrow.contains("server right") && narrow.contains("2 left out"), "{narrow}");
    }
}
