//! The placed picture as SVG.

use super::layout::{CHIP_WIDTH, EDGE, LEAF_WIDTH, MARGIN, MapLayout, PlacedBranch, PlacedNode};
use super::machine::bandwidth;
use super::parts::Edge;
use super::parts::{Chip, Leaf, NodeBox, Part, Picture};
use super::parts::{LimitSign, Use};
use crate::markup::Anchor::{Middle, Start};
use crate::markup::{Markup, PreEscaped, Rect, at, fitted, group, html, line, rect, text};
use linerate_facts::units::bits_per_second;

/// Pointing shows at most this much of a group.
const TIP: usize = 12_000;

/// The picture; `sheet` is its style where it is a file of its own.
pub(super) fn draw(picture: &Picture, layout: &MapLayout, sheet: Option<&str>) -> Markup {
    let (width, height) = (at(layout.width), at(layout.height));
    let whole = Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
    let room = layout.width - 2.0 * MARGIN;
    html! {
        svg class="map" xmlns=[sheet.map(|_| "http://www.w3.org/2000/svg")] viewBox=(format!("0 0 {width} \
            {height}")) width=(width)
            height=(height) role="img" aria-labelledby="map-t map-d" {
            title id="map-t" { "Block diagram of " (picture.host) }
            desc id="map-d" { (described(picture)) }
            @if let Some(sheet) = sheet { style { (PreEscaped(sheet)) } }
            (rect("bg", whole, 0.0))
            (text("host", MARGIN, MARGIN + 16.0, Start, &fitted(&picture.host, room, 20.0)))
            (text("about", MARGIN, MARGIN + 37.0, Start, &fitted(&picture.about, room, 12.5)))
            (bars(picture, layout))
            @for node in &layout.nodes { (one_node(node, picture.between.is_some())) }
            @for (strip, (title, places)) in picture.strips.iter().zip(&layout.strips) {
                (text("title", title.x, title.y + 15.0, Start, &strip.title))
                @for (chip, place) in strip.chips.iter().zip(places) { (one_chip(chip, *place)) }
            }
            (legend(picture, layout.legend))
        }
    }
}

/// The picture in words, for those who cannot see it.
fn described(picture: &Picture) -> String {
    let node = |node: &NodeBox| {
        let (cpu, memory) = (node.cpu.join(", "), node.memory.join(", "));
        format!("{}: {cpu}; {memory}; {} PCIe roots", node.title, node.roots.len())
    };
    let chips = picture.strips.iter().flat_map(|strip| &strip.chips).filter_map(|chip| {
        let used = chip.used.as_ref()?;
        let limits = match used.limit {
            Some(LimitSign::Bottleneck) => ", the bottleneck",
            Some(LimitSign::Predicted) => ", the predicted limit",
            None => "",
        };
        Some(format!("{}: {}{limits}", chip.title, used.words))
    });
    let parts: Vec<String> = picture.nodes.iter().take(16).map(node).chain(chips.take(64)).collect();
    format!("{}. {}", picture.about, parts.join(". "))
}

/// The bar that joins nodes, and the ways down to them; rows of nodes are joined at the left.
fn bars(picture: &Picture, layout: &MapLayout) -> Markup {
    let Some(between) = &picture.between else { return html! {} };
    let x = MARGIN / 2.0;
    let beside = |from: &Rect, to: &Rect| {
        let (from, to) = ((at(from.x), at(from.middle())), (at(to.x), at(to.middle())));
        format!("M{} {} H{} V{} H{}", from.0, from.1, at(x), to.1, to.0)
    };
    let below = |bar: &Rect| {
        let (top, end) = (bar.y, bar.y + 100.0);
        let here = layout.nodes.iter().filter(move |node| node.rect.y > top && node.rect.y < end);
        here.filter(|node| !node.node.cpu.is_empty())
    };
    html! {
        @for pair in layout.bars.windows(2) {
            path class="edge inner" stroke-width="3" d=(beside(&pair[0], &pair[1])) {}
        }
        @for (index, bar) in layout.bars.iter().enumerate() {
            @for node in below(bar) {
                (line("edge inner", 3.0, (node.cpu.centre(), bar.bottom()), (node.cpu.centre(), node.cpu.y)))
            }
            (rect("bar", *bar, 6.0))
            @if index == 0 {
                (text("part", bar.x + 12.0, bar.y + 17.0, Start, &fitted(between, bar.width - 24.0, 12.0)))
            }
        }
    }
}

fn one_node(placed: &PlacedNode, joined: bool) -> Markup {
    let (node, area, cpu) = (placed.node, placed.rect, placed.cpu);
    let room = if joined { cpu.width / 2.0 - 8.0 } else { area.width - 36.0 };
    let (from, to) = ((cpu.right(), cpu.middle()), (placed.memory.x, cpu.middle()));
    html! {
        (rect("node", area, 12.0))
        @if joined && !node.cpu.is_empty() {
            // The way down from the bar passes beside the title.
            (line("edge inner", 3.0, (cpu.centre(), area.y), (cpu.centre(), cpu.y)))
        }
        (text("title", area.x + 18.0, area.y + 20.0, Start, &fitted(&node.title, room, 13.0)))
        @if !node.cpu.is_empty() {
            (line("edge tomemory", width_of(node.memory_rate), from, to))
            (text("rate", (from.0 + to.0) / 2.0, from.1 - 10.0, Middle, &bandwidth(node.memory_rate)))
            (lines("cpu", cpu, &node.cpu, node.cpu_used.as_ref()))
            (lines("memory", placed.memory, &node.memory, node.memory_used.as_ref()))
        }
        (spine(placed))
        @for root in &placed.roots { (branch(root)) }
    }
}

/// From the CPU down to each root.
fn spine(placed: &PlacedNode) -> Markup {
    let Some(last) = placed.roots.last().filter(|_| !placed.node.cpu.is_empty()) else { return html! {} };
    let x = placed.cpu.x + 10.0;
    html! {
        (line("edge inner", 2.0, (x, placed.cpu.bottom()), (x, last.rect.y + 20.0)))
        @for root in &placed.roots {
            (line("edge inner", 2.0, (x, root.rect.y + 20.0), (root.rect.x, root.rect.y + 20.0)))
        }
    }
}

/// A box with lines of text, the first as its name.
fn lines(class: &str, area: Rect, lines: &[String], used: Option<&Use>) -> Markup {
    let line = |(index, line): (usize, &String)| {
        let (class, size) = if index == 0 { ("part", 12.0) } else { ("sub", 10.5) };
        let y = area.y + 19.0 + index as f64 * 16.0;
        text(class, area.x + 10.0, y, Start, &fitted(line, area.width - 20.0, size))
    };
    let shapes = html! {
        (rect(class, area, 8.0))
        @for line in lines.iter().enumerate().map(line) { (line) }
        (in_use(used, area))
    };
    group(block(used), &lines.join(" · "), shapes)
}

/// The class of a box: red where it is a part of the bottleneck, dashed where that is predicted alone.
fn block(used: Option<&Use>) -> Option<&'static str> {
    Some(match used.and_then(|used| used.limit) {
        Some(LimitSign::Bottleneck) => "block bottleneck",
        Some(LimitSign::Predicted) => "block predicted",
        None => "block",
    })
}

/// The bar of the share in use at the lower edge of a box, and the sign of the bottleneck at its upper one.
fn in_use(used: Option<&Use>, area: Rect) -> Markup {
    let Some(used) = used else { return html! {} };
    let track = Rect { x: area.x + 10.0, y: area.bottom() - 7.0, width: area.width - 20.0, height: 3.5 };
    // Above the first line of the box, and below the bar of the one before it.
    let flag = Rect { x: area.right() - 92.0, y: area.y - 8.0, width: 82.0, height: 13.0 };
    html! {
        (rect("track", track, 1.7))
        @if used.share > 0.0 { (rect("fill", Rect { width: track.width * used.share, ..track }, 1.7)) }
        @if let Some(limit) = used.limit {
            (rect("flag", flag, 4.0))
            (text("flagtext", flag.centre(), flag.bottom() - 3.5, Middle, &limit.class().to_uppercase()))
        }
    }
}

fn branch(placed: &PlacedBranch) -> Markup {
    let (branch, area) = (placed.branch, placed.rect);
    let class = match branch.part {
        Part::Root => "root",
        Part::Switch => "switch",
        Part::Card => "box",
    };
    let title =
        if branch.count > 1 { format!("{} × {}", branch.count, branch.title) } else { branch.title.clone() };
    let (x, inner) = (area.x + 8.0, area.width - 16.0);
    let y = if branch.part == Part::Card { area.middle() - 4.0 } else { area.y + 18.0 };
    let shapes = html! {
        @if branch.count > 1 { (rect("sheet", Rect { x: area.x + 4.0, y: area.y - 4.0, ..area }, 6.0)) }
        (rect(class, area, 6.0))
        (text("part", x, y, Start, &fitted(&title, inner, 12.0)))
        (text("sub", x, y + 16.0, Start, &fitted(&branch.sub, inner, 10.5)))
    };
    html! {
        @for below in &placed.below { (edge(&below.branch.edge, below.branch.count, area.right(), below.rect)) }
        (group(None, &shortened(&branch.tip), shapes))
        @for (leaf, place) in branch.leaves.iter().zip(&placed.leaves) { (one_leaf(leaf, area, *place)) }
        @for below in &placed.below { (self::branch(below)) }
    }
}

/// One straight line to a box, with the link's rate above it, and below it its payload or how much of it is
/// in use.
fn edge(edge: &Edge, count: usize, from: f64, to: Rect) -> Markup {
    let (y, width) = (to.middle(), width_of(edge.rate));
    let look: &str = edge.look.into();
    let each = if count > 1 && !edge.below.is_empty() { "each " } else { "" };
    let used = edge.used.as_ref();
    let below = used.map_or_else(|| format!("{each}{}", edge.below), |used| used.words.clone());
    let tip = format!("{}{}", edge.tip, used.map_or(String::new(), |used| format!("; {}", used.words)));
    let (x, room) = (to.x - EDGE / 2.0, EDGE + 14.0);
    let (start, end) = ((from, y), (to.x, y));
    let shapes = html! {
        (line(&format!("edge {look}"), width, start, end))
        @if let Some(used) = used.filter(|used| used.share > 0.0) {
            (line("edge inuse", (width * used.share).max(1.0), start, end))
        }
        (text("rate", x, y - width / 2.0 - 4.0, Middle, &fitted(&edge.above, room, 10.5)))
        (text(&format!("pay {look}"), x, y + width / 2.0 + 11.0, Middle, &fitted(&below, room, 10.0)))
    };
    group(used.and_then(|used| used.limit).map(LimitSign::class), &tip, shapes)
}

fn one_leaf(leaf: &Leaf, card: Rect, place: Rect) -> Markup {
    let y = place.middle();
    let width = if leaf.rate > 0.0 { width_of(leaf.rate) } else { 1.2 };
    let used = leaf.used.as_ref();
    let (x, room) = (place.x + 10.0, LEAF_WIDTH - 18.0);
    let first = if used.is_some() { place.y + 15.0 } else { y + 4.0 };
    let shapes = html! {
        (rect(if leaf.live { "leaf" } else { "leaf down" }, place, 10.0))
        (text("name", x, first, Start, &fitted(&leaf.text, room, 11.0)))
        @if let Some(used) = used { (text("sub", x, first + 14.0, Start, &fitted(&used.words, room, 10.5))) }
        (in_use(used, place))
    };
    html! {
        (line("edge port", width.min(place.height), (card.right(), y), (place.x, y)))
        (group(block(used), &shortened(&leaf.tip), shapes))
    }
}

fn one_chip(chip: &Chip, place: Rect) -> Markup {
    let (x, room) = (place.x + 10.0, CHIP_WIDTH - 20.0);
    let used = chip.used.as_ref();
    let below = used.map_or(33.0, |_| 48.0);
    let shapes = html! {
        (rect("chip", place, 6.0))
        (text("part", x, place.y + 17.0, Start, &fitted(&chip.title, room, 12.0)))
        @if let Some(used) = used { (text("use", x, place.y + 33.0, Start, &fitted(&used.words, room, 10.5))) }
        (text("sub", x, place.y + below, Start, &fitted(&chip.sub, room, 10.5)))
        (in_use(used, place))
    };
    group(block(used), &shortened(&chip.tip), shapes)
}

/// Width of a line by what it carries: the square root, so that 1 and 500 Gb/s are both to be seen.
fn width_of(bytes_per_second: f64) -> f64 {
    let gigabits = bits_per_second(bytes_per_second) / 1e9;
    if gigabits.is_finite() && gigabits > 0.0 { (1.2 + 0.45 * gigabits.sqrt()).min(14.0) } else { 1.4 }
}

fn legend(picture: &Picture, area: Rect) -> Markup {
    let samples = [
        ("full", 5.0, "nothing slow is reported"),
        ("below", 5.0, "too slow, as a finding says"),
        ("idle", 5.0, "slowed down while idle"),
        ("formality", 2.0, "no figures, or no real link"),
    ];
    let sample = |(index, (class, width, words)): (usize, &(&str, f64, &str))| {
        let (x, y) = (area.x + (index % 4) as f64 * 214.0, area.y + 12.0);
        html! {
            (line(&format!("edge {class}"), *width, (x, y), (x + 34.0, y)))
            (text("sub", x + 41.0, area.y + 16.0, Start, words))
        }
    };
    let word = |(index, line): (usize, &String)| {
        text("sub", area.x, area.y + 40.0 + 16.0 * index as f64, Start, &fitted(line, area.width, 10.5))
    };
    html! {
        @for sample in samples.iter().enumerate().map(sample) { (sample) }
        @for word in legend_lines(picture).iter().enumerate().map(word) { (word) }
    }
}

fn legend_lines(picture: &Picture) -> Vec<String> {
    let mut words: Vec<String> = picture.limit.iter().cloned().collect();
    words.extend([
        "Above an edge: speed, lanes and the line rate one way, after its encoding. Below it: what \
         MaxPayload leaves for payload."
            .to_string(),
        "A line is as wide as the square root of that. Point at a box or a line for more.".into(),
    ]);
    words.push(if picture.loaded {
        "The bar in a box is the share of its capacity that the flow uses; only raising what \
         limits it raises the flow."
            .into()
    } else {
        "Links and clocks as the system reports them, rates by the published arithmetic; nothing here was \
         measured."
            .into()
    });
    if picture.left_out > 0 {
        let count = picture.left_out;
        words.push(format!("Not drawn: {count} PCI functions that carry no flow, as far as their class is reported (bridges, USB, chip set)."));
    }
    words
}

fn shortened(tip: &str) -> String {
    match tip.char_indices().nth(TIP) {
        Some((end, _)) => format!("{}…", &tip[..end]),
        None => tip.to_string(),
    }
}

/// The rules; the colours are the page's.
pub(crate) const SHEET: &str = include_str!("map.css");

/// The sheet of a file of its own.
pub(super) fn sheet_of_a_file() -> String {
    format!("{COLOURS}{SHEET}")
}

const COLOURS: &str = include_str!("colours.css");
