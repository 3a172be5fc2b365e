//! `linerate wall plan`: what a wall needs at each stage, and whether the server has it, as one screen.

use super::{LABEL, table};
use crate::document::{Block, bold, dim, lines, plain};
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

/// What a wall needs at each stage and whether the server has it, at most `width` columns wide.
pub fn screen(verdict: &ServerVerdict, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let width = width.clamp(40, 120);
    let need = &verdict.need;
    let cost = match need.cpu_origin {
        Origin::Measured => "measured".to_string(),
        Origin::Effective => "by the machine's description".to_string(),
        _ => need.cpu_source.map_or_else(
            || format!("a default for datagrams of {} bytes", count(need.datagram_bytes)),
            |source| format!("a default ({source})"),
        ),
    };
    let (cores, each) = (quantity(need.cpu_cores), quantity(need.cpu_seconds_per_gb));
    let memory = show_bytes_rate(verdict.memory_bytes_per_second);
    let mut facts = vec![
        ("pixels", pixels(need)),
        ("network", network(need)),
        ("memory", format!("{memory}, each byte crosses the bus 4 times")),
        ("CPU", format!("{cores} cores: {each} CPU seconds per GB, {cost}")),
    ];
    facts.extend(verdict.disks.iter().take(MOST_LINES).map(|share| ("disk", disk(need, share))));
    let busy = verdict.nics.iter().filter(|nic| !nic.tiles.is_empty());
    facts.extend(busy.take(MOST_LINES).map(|one| ("NIC", nic(one))));
    let hidden =
        verdict.disks.len().saturating_sub(MOST_LINES) + verdict.nics.len().saturating_sub(MOST_LINES);
    if hidden > 0 {
        facts.push(("", format!("and {hidden} more, with --json")));
    }
    let facts = facts.into_iter().map(|(label, text)| (label, plain(text))).collect();
    let carried = "What the parts carry, in bytes of pixels, and how much of it the wall takes:";
    let mut blocks = vec![
        Block::Text(bold(title(need))),
        Block::Space,
        Block::Facts(LABEL, facts),
        Block::Space,
        Block::Facts(LABEL, vec![("verdict", bold(&verdict.sentence))]),
        Block::Space,
        Block::Text(dim(carried)),
    ];
    blocks.extend(table::blocks(&verdict.plan));
    lines(&blocks, width, style).join("\n") + "\n"
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
