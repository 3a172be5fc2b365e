//! What a plan says of resources: what each could do and how much of it the flow uses; what linerate needs to
//! send a flow (workers, CPUs, memory); what a rate that was asked for needs of a machine, and which slots
//! carry it. `linerate wall plan`: what a wall needs at each stage, and whether the server has it, as one
//! screen.

use super::LABEL;
use crate::document::{Block, Labelled, Table, TableRow, alarm, bold, dim, lines, plain};
use crate::figure::{count, percent, quantity};
use crate::grid::{Column, Style, name, notes, number};
use linerate_facts::fact::Fact;
use linerate_facts::grouping::grouped;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_model::plan::flow::{DataPlane, FlowPlan, NicWorkers};
use linerate_model::plan::sizing::{Sizing, SlotUse};
use linerate_model::plan::wording::{self, ids, ranged};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use linerate_wall::geometry::TileId;
use linerate_wall::need::{Dealt, DiskShare, ServerVerdict, WallNeed};

/// Rows of the table; what is idle and does not bind is left out first.
const MOST_ROWS: usize = 16;
/// Resources whose use differs by less are alike.
const LIKE: f64 = 0.02;

const COLUMNS: [Column; 5] =
    [name("resource"), number("rated", 0), number("capacity", 0), number("used", 0), notes("notes")];

/// The table, and how many rows it lacks.
pub(super) fn resource_blocks(plan: &FlowPlan) -> Vec<Block<'static>> {
    let mut rows = rows(plan);
    let more = rows.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        rows.sort_by_key(|row| !row.cut && row.used.unwrap_or(0.0) == 0.0);
        rows.truncate(MOST_ROWS);
    }
    let row = |row: &ResourceRow| TableRow::of(row.cells()).marked(row.cut);
    let table = Block::Table(Table::new(COLUMNS, rows.iter().map(row)));
    let left = (more > 0).then(|| Block::Text(dim(format!("and {more} more, with --json"))));
    std::iter::once(table).chain(left).collect()
}

/// One resource, or several that are alike.
struct ResourceRow {
    name: String,
    kind: ResourceKind,
    rated: Option<f64>,
    capacity: Option<f64>,
    used: Option<f64>,
    note: String,
    cut: bool,
}

impl ResourceRow {
    fn cells(&self) -> Vec<String> {
        let rate = |rate: Option<f64>| rate.map_or("unknown".to_string(), |rate| self.show(rate));
        let used = self.used.filter(|_| self.capacity.is_some()).map_or("–".to_string(), percent);
        vec![self.name.clone(), rate(self.rated), rate(self.capacity), used, self.note.clone()]
    }

    fn show(&self, rate: f64) -> String {
        match self.kind {
            ResourceKind::Nic | ResourceKind::Pcie | ResourceKind::SocketLink => show_bits_rate(rate),
            _ => show_bytes_rate(rate),
        }
    }
}

/// Resources in the order of the bytes; neighbours that are alike are one row.
fn rows(plan: &FlowPlan) -> Vec<ResourceRow> {
    let is_cut = |resource: &Resource| plan.likely.cut.contains(&resource.id);
    let alike = |a: &Resource, b: &Resource| {
        a.kind == b.kind
            && a.capacity == b.capacity
            && a.rated == b.rated
            && is_cut(a) == is_cut(b)
            && a.why == b.why
            && (a.utilisation - b.utilisation).abs() < LIKE
    };
    let groups = grouped(&plan.resources, |one, other| alike(one, other));
    let row = |group: &Vec<&Resource>| {
        let first = group[0];
        let names: Vec<&str> = group.iter().map(|resource| wording::name(&resource.id)).collect();
        let word = first.id.split_once(':').map_or(first.id.as_str(), |(word, _)| word);
        let each = if group.len() > 1 { format!(" ({} alike)", group.len()) } else { String::new() };
        let named =
            if names == [word] { word.to_string() } else { format!("{word}:{}{each}", ranged(&names)) };
        let known = first.origin != Origin::Unknown;
        let cut = is_cut(first);
        let why = first.why.clone().unwrap_or_default();
        let note = if cut && why.is_empty() { "limits the flow".into() } else { why };
        ResourceRow {
            name: named,
            kind: first.kind,
            rated: first.rated,
            capacity: known.then_some(first.capacity),
            used: plan.missing.is_none().then_some(first.utilisation),
            note,
            cut,
        }
    };
    groups.iter().map(row).collect()
}

/// Workers, CPUs and memory.
pub(super) fn data_plane(plane: &DataPlane) -> Vec<Labelled> {
    let total: u32 = plane.workers.iter().map(|nic| nic.workers).sum();
    let mut facts = vec![("workers", plain(format!("{}: {}", counted(total, "worker"), plane.why)))];
    for group in grouped(&plane.workers, |one, other| alike(one, other)) {
        let names: Vec<&str> = group.iter().map(|nic| nic.nic.as_str()).collect();
        let node = group[0]
            .node
            .filter(|_| plane.nodes > 1)
            .map_or(String::new(), |node| format!(" on CPUs of node {node}"));
        let (workers, rate) =
            (counted(group[0].workers, "worker"), show_bits_rate(group[0].bytes_per_second));
        let each = if group.len() > 1 { "each of " } else { "" };
        let text = format!("{each}{}: {workers}{node}, {rate}", ids(&names));
        facts.push(("", plain(text)));
    }
    // A flow that the CPUs limit takes all of them, give or take the last digit.
    let there = match &plane.cores {
        Fact::Known(cores) if *cores > 0.0 && plane.cpus > *cores * 1.000_001 => {
            format!(" of {cores}: more than there are")
        }
        Fact::Known(cores) => format!(" of {cores}"),
        Fact::Unknown { .. } => String::new(),
    };
    let touches = plane.memory_touches;
    let text = format!(
        "{:.1}{there}, busy with sending; each byte crosses the memory bus {touches} times",
        plane.cpus
    );
    facts.push(("CPUs", plain(text)));
    let reads = format!(
        ": {} of {} in flight (what is under way while a disk answers), the rest being sent",
        counted(plane.reads_in_flight, "read"),
        show_size(plane.block_bytes)
    );
    let reads = if plane.reads_in_flight > 0 { reads } else { ", always the same bytes".into() };
    let text = format!("{} of buffers{reads}", show_size(plane.pool_bytes));
    facts.push(("memory", plain(text)));
    facts
}

fn alike(other: &NicWorkers, nic: &NicWorkers) -> bool {
    (other.node, other.workers) == (nic.node, nic.workers)
        && (other.bytes_per_second - nic.bytes_per_second).abs() < 0.01 * nic.bytes_per_second
}

/// Target, parts and slots. `show`: rates in the unit of the flow.
pub(super) fn needs(sizing: &Sizing, show: impl Fn(f64) -> String) -> Vec<Labelled> {
    let (line, payload) = (sizing.target_bytes_per_second, sizing.payload_bytes_per_second);
    let text = format!("{} on the line, {} of payload, needs", show(line), show(payload));
    let mut facts = vec![("target", bold(text))];
    for need in &sizing.needs {
        let there = need.there.map_or(String::new(), |there| format!("; the machine has {there}"));
        let text = format!("{} ({}): {}{there}", counted(need.count, need.part), need.what, need.why);
        facts.push(("", plain(text)));
    }
    if sizing.slots.is_empty() {
        facts.push(("slots", plain("no slot of the machine is known")));
        return facts;
    }
    let alike = |a: &SlotUse, b: &SlotUse| a.link == b.link && a.takes == b.takes && a.why == b.why;
    for group in grouped(&sizing.slots, |one, other| alike(one, other)) {
        let names: Vec<&str> = group.iter().map(|slot| slot.slot.as_str()).collect();
        let (verb, each) = if names.len() > 1 { ("take", " each") } else { ("takes", "") };
        let what = match (group[0].takes, &group[0].why) {
            (Some(part), _) => format!("{verb} a {part}{each}"),
            (None, why) => format!("– {}", why.as_deref().unwrap_or_default()),
        };
        let text = format!("{} ({}) {what}", ranged(&names), group[0].link);
        facts.push(("slot", plain(text)));
    }
    let text = match sizing.without_slot {
        0 => "every card has a slot".to_string(),
        1 => "1 card is left without a slot that carries it".to_string(),
        many => format!("{many} cards are left without a slot that carries them"),
    };
    facts.push(("slots", if sizing.without_slot > 0 { alarm(text) } else { plain(text) }));
    facts
}

/// Tiles of one NIC or disk that are named.
const MOST_TILES: usize = 8;
/// NICs or disks that are listed.
const MOST_LINES: usize = 12;

/// What a wall needs at each stage and whether the server has it, at most `width` columns wide.
pub fn wall_screen(verdict: &ServerVerdict, width: usize, colour: bool) -> String {
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
    blocks.extend(resource_blocks(&verdict.plan));
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
