//! `linerate wall plan`: what a wall needs at each stage, and whether the server has it, as one screen.

use super::{put, table};
use crate::figure::{count, percent, quantity};
use crate::style::Style;
use linerate_facts::fact::Fact;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_model::plan::Origin;
use linerate_wall::geometry::TileId;
use linerate_wall::need::{Dealt, DiskShare, ServerVerdict, WallNeed};

/// Tiles of one NIC or disk that are named.
const MOST_TILES: usize = 8;
/// NICs or disks that are listed.
const MOST_LINES: usize = 12;

/// The screen, at most `width` columns wide.
pub(crate) fn screen(verdict: &ServerVerdict, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let width = width.clamp(60, 120);
    let need = &verdict.need;
    let mut lines = vec![style.bold(&title(need)), String::new()];
    let mut say = |word: &str, text: String| put(&mut lines, word, &text, width, str::to_string);
    say("pixels", pixels(need));
    say("network", network(need));
    say(
        "memory",
        format!("{}, each byte crosses the bus 4 times", show_bytes_rate(verdict.memory_bytes_per_second)),
    );
    say(
        "CPU",
        format!(
            "{} cores: {} CPU seconds per GB, {}",
            quantity(need.cpu_cores),
            quantity(need.cpu_seconds_per_gb),
            match need.cpu_origin {
                Origin::Measured => "measured".to_string(),
                Origin::Effective => "by the machine's description".to_string(),
                _ => format!("a default for datagrams of {} bytes", count(need.datagram_bytes)),
            }
        ),
    );
    for share in verdict.disks.iter().take(MOST_LINES) {
        say("disk", disk(need, share));
    }
    for dealt in verdict.nics.iter().filter(|dealt| !dealt.tiles.is_empty()).take(MOST_LINES) {
        say("NIC", nic(dealt));
    }
    let hidden =
        verdict.disks.len().saturating_sub(MOST_LINES) + verdict.nics.len().saturating_sub(MOST_LINES);
    if hidden > 0 {
        say("", format!("and {hidden} more, with --json"));
    }
    lines.push(String::new());
    put(&mut lines, "verdict", &verdict.sentence, width, |text| style.bold(text));
    lines.push(String::new());
    lines.push(style.dim("What the parts carry, in bytes of pixels, and how much of it the wall takes:"));
    lines.extend(table::table(&verdict.plan, width, style));
    lines.join("\n") + "\n"
}

fn title(need: &WallNeed) -> String {
    format!(
        "A wall of {} tiles of {} pixels, {} in all, at {} frames a second",
        need.grid,
        need.tile,
        need.size(),
        need.frames_per_second
    )
}

fn pixels(need: &WallNeed) -> String {
    format!(
        "{} ({}): {} a tile, {} a frame of it",
        show_bits_rate(need.pixel_bytes_per_second),
        show_bytes_rate(need.pixel_bytes_per_second),
        show_bits_rate(need.tile_pixel_bytes_per_second()),
        show_size(need.frame_bytes)
    )
}

fn network(need: &WallNeed) -> String {
    format!(
        "{} on the wire with an MTU of {}, {} of it UDP payload: {} datagrams a second, {} a frame of a tile",
        show_bits_rate(need.wire_bytes_per_second),
        need.mtu,
        show_bits_rate(need.payload_bytes_per_second),
        count(need.datagrams_per_second.round() as u64),
        count(need.datagrams_per_frame)
    )
}

fn disk(need: &WallNeed, share: &DiskShare) -> String {
    let rate = show_bytes_rate(share.tiles_worth * need.tile_pixel_bytes_per_second());
    let why = share.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    format!("{}{why}: {rate} for {}", share.disk, tiles(&share.tiles))
}

fn nic(dealt: &Dealt) -> String {
    let needed = show_bits_rate(dealt.needed_bytes_per_second);
    let of = match &dealt.link_bytes_per_second {
        Fact::Known(link) => {
            let word = if dealt.link_origin == Origin::Measured { "measured" } else { "rated" };
            format!(
                "of {} ({}), {word}",
                show_bits_rate(*link),
                percent(dealt.needed_bytes_per_second / link)
            )
        }
        Fact::Unknown { why } => format!("of an unknown rate ({why})"),
    };
    format!("{}: {needed} {of}, for {}", dealt.nic, tiles(&dealt.tiles))
}

/// `r0c0 r0c1 … (15 tiles)`.
fn tiles(all: &[TileId]) -> String {
    let named: Vec<String> = all.iter().take(MOST_TILES).map(TileId::to_string).collect();
    if all.len() > MOST_TILES {
        return format!("{} … ({} tiles)", named.join(" "), all.len());
    }
    named.join(" ")
}
