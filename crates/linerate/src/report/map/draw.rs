//! The placed picture as SVG text. Everything from outside is escaped; coordinates are numbers and nothing else.

use super::edge::{Edge, Look};
use super::layout::{CHIP_WIDTH, EDGE, LEAF_WIDTH, Layout, MARGIN, Placed, PlacedNode, Rect};
use super::machine::bandwidth;
use super::picture::{Leaf, Part, Picture};
use super::style::SHEET;
use crate::report::html::text::{at, escape, fitted};
use crate::units::bits_per_second;

/// Pointing shows at most this much of a group.
const TIP: usize = 4000;

/// The whole file.
pub(super) fn draw(picture: &Picture, layout: &Layout) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n<style>{SHEET}</style>\n",
        escape(&format!("Block diagram of {}", picture.host)),
        escape(&described(picture)),
        w = at(layout.width),
        h = at(layout.height),
    );
    svg += &rect("bg", Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height }, 0.0);
    let room = layout.width - 2.0 * MARGIN;
    svg += &text("host", MARGIN, MARGIN + 16.0, &fitted(&picture.host, room, 20.0));
    svg += &text("about", MARGIN, MARGIN + 37.0, &fitted(&picture.about, room, 12.5));
    svg += &bars(picture, layout);
    for node in &layout.nodes {
        svg += &one_node(node, picture.between.is_some());
    }
    for (strip, (title, places)) in picture.strips.iter().zip(&layout.strips) {
        svg += &text("title", title.x, title.y + 15.0, &strip.title);
        for (chip, place) in strip.chips.iter().zip(places) {
            svg +=
                &format!("<g><title>{}</title>{}", escape(&shortened(&chip.tip)), rect("chip", *place, 6.0));
            svg +=
                &text("part", place.x + 10.0, place.y + 17.0, &fitted(&chip.title, CHIP_WIDTH - 20.0, 12.0));
            svg += &text("sub", place.x + 10.0, place.y + 33.0, &fitted(&chip.sub, CHIP_WIDTH - 20.0, 10.5));
            svg += "</g>\n";
        }
    }
    svg + &legend(picture, layout.legend) + "</svg>\n"
}

/// The picture in words.
fn described(picture: &Picture) -> String {
    let node = |node: &super::picture::NodeBox| {
        format!(
            "{}: {}; {}; {} PCIe roots",
            node.title,
            node.cpu.join(", "),
            node.memory.join(", "),
            node.roots.len()
        )
    };
    let nodes: Vec<String> = picture.nodes.iter().take(16).map(node).collect();
    format!("{}. {}", picture.about, nodes.join(". "))
}

/// The bar that joins nodes, and the ways down to them; rows of nodes are joined at the left.
fn bars(picture: &Picture, layout: &Layout) -> String {
    let Some(between) = &picture.between else { return String::new() };
    let mut svg = String::new();
    for pair in layout.bars.windows(2) {
        let x = MARGIN / 2.0;
        svg += &format!(
            "<path class=\"edge inner\" stroke-width=\"3\" d=\"M{} {} H{} V{} H{}\"/>",
            at(pair[0].x),
            at(pair[0].middle()),
            at(x),
            at(pair[1].middle()),
            at(pair[1].x)
        );
    }
    for (index, bar) in layout.bars.iter().enumerate() {
        for node in layout.nodes.iter().filter(|node| node.rect.y > bar.y && node.rect.y < bar.y + 100.0) {
            if node.node.cpu.is_empty() {
                continue;
            }
            let x = node.cpu.x + node.cpu.width / 2.0;
            svg += &line("inner", 3.0, x, bar.bottom(), x, node.cpu.y);
        }
        svg += &rect("bar", *bar, 6.0);
        if index == 0 {
            svg += &text("part", bar.x + 12.0, bar.y + 17.0, &fitted(between, bar.width - 24.0, 12.0));
        }
    }
    svg
}

fn one_node(placed: &PlacedNode, joined: bool) -> String {
    let (node, area) = (placed.node, placed.rect);
    // The way down from the bar passes beside the title.
    let mut svg = rect("node", area, 12.0);
    if joined && !node.cpu.is_empty() {
        let x = placed.cpu.x + placed.cpu.width / 2.0;
        svg += &line("inner", 3.0, x, area.y, x, placed.cpu.y);
    }
    let room = if joined { placed.cpu.width / 2.0 - 8.0 } else { area.width - 36.0 };
    svg += &text("title", area.x + 18.0, area.y + 20.0, &fitted(&node.title, room, 13.0));
    if !node.cpu.is_empty() {
        let y = placed.cpu.middle();
        svg += &line("tomemory", width_of(node.memory_rate), placed.cpu.right(), y, placed.memory.x, y);
        svg += &middle_text(
            "rate",
            (placed.cpu.right() + placed.memory.x) / 2.0,
            y - 10.0,
            &bandwidth(node.memory_rate),
        );
        svg += &lines("cpu", placed.cpu, &node.cpu);
        svg += &lines("memory", placed.memory, &node.memory);
    }
    svg += &spine(placed);
    for root in &placed.roots {
        svg += &branch(root);
    }
    svg
}

/// From the processor down to each root.
fn spine(placed: &PlacedNode) -> String {
    let Some(last) = placed.roots.last() else { return String::new() };
    if placed.node.cpu.is_empty() {
        return String::new();
    }
    let x = placed.cpu.x + 10.0;
    let down = line("inner", 2.0, x, placed.cpu.bottom(), x, last.rect.y + 20.0);
    placed.roots.iter().fold(down, |svg, root| {
        svg + &line("inner", 2.0, x, root.rect.y + 20.0, root.rect.x, root.rect.y + 20.0)
    })
}

/// A box with lines of text, the first as its name.
fn lines(class: &str, area: Rect, lines: &[String]) -> String {
    let mut svg = format!("<g><title>{}</title>{}", escape(&lines.join(" · ")), rect(class, area, 8.0));
    for (index, line) in lines.iter().enumerate() {
        let (class, size) = if index == 0 { ("part", 12.0) } else { ("sub", 10.5) };
        svg += &text(
            class,
            area.x + 10.0,
            area.y + 19.0 + index as f64 * 16.0,
            &fitted(line, area.width - 20.0, size),
        );
    }
    svg + "</g>\n"
}

fn branch(placed: &Placed) -> String {
    let (branch, area) = (placed.branch, placed.rect);
    let mut svg = String::new();
    for below in &placed.below {
        svg += &edge(&below.branch.edge, below.branch.count, area.right(), below.rect);
    }
    let class = match branch.part {
        Part::Root => "root",
        Part::Switch => "switch",
        Part::Card => "box",
    };
    svg += &format!("<g><title>{}</title>", escape(&shortened(&branch.tip)));
    if branch.count > 1 {
        svg += &rect("sheet", Rect { x: area.x + 4.0, y: area.y - 4.0, ..area }, 6.0);
    }
    svg += &rect(class, area, 6.0);
    let inner = area.width - 16.0;
    let title =
        if branch.count > 1 { format!("{} × {}", branch.count, branch.title) } else { branch.title.clone() };
    let y = if branch.part == Part::Card { area.middle() - 4.0 } else { area.y + 18.0 };
    svg += &text("part", area.x + 8.0, y, &fitted(&title, inner, 12.0));
    svg += &text("sub", area.x + 8.0, y + 16.0, &fitted(&branch.sub, inner, 10.5));
    svg += "</g>\n";
    for (leaf, place) in branch.leaves.iter().zip(&placed.leaves) {
        svg += &one_leaf(leaf, area, *place);
    }
    for below in &placed.below {
        svg += &self::branch(below);
    }
    svg
}

/// One straight line to a box, with the link's rate above and its payload below it.
fn edge(edge: &Edge, count: usize, from: f64, to: Rect) -> String {
    let (y, width) = (to.middle(), width_of(edge.rate));
    let look = match edge.look {
        Look::Full => "full",
        Look::Below => "below",
        Look::Idle => "idle",
        Look::Formality => "formality",
        Look::Unknown => "unknown",
    };
    let mut svg = format!("<g><title>{}</title>{}", escape(&edge.tip), line(look, width, from, y, to.x, y));
    let below =
        if count > 1 && !edge.below.is_empty() { format!("each {}", edge.below) } else { edge.below.clone() };
    let x = to.x - EDGE / 2.0;
    svg += &middle_text("rate", x, y - width / 2.0 - 4.0, &fitted(&edge.above, EDGE + 14.0, 10.5));
    svg +=
        &middle_text(&format!("pay {look}"), x, y + width / 2.0 + 11.0, &fitted(&below, EDGE + 14.0, 10.0));
    svg + "</g>\n"
}

fn one_leaf(leaf: &Leaf, card: Rect, place: Rect) -> String {
    let y = place.middle();
    let width = if leaf.rate > 0.0 { width_of(leaf.rate) } else { 1.2 };
    let class = if leaf.live { "leaf" } else { "leaf down" };
    format!(
        "{}<g><title>{}</title>{}{}</g>\n",
        line("port", width.min(place.height), card.right(), y, place.x, y),
        escape(&shortened(&leaf.tip)),
        rect(class, place, 12.0),
        text("name", place.x + 10.0, y + 4.0, &fitted(&leaf.text, LEAF_WIDTH - 18.0, 11.0))
    )
}

/// Width of a line by what it carries: the square root, so that 1 and 500 Gb/s are both to be seen.
fn width_of(bytes_per_second: f64) -> f64 {
    let gigabits = bits_per_second(bytes_per_second) / 1e9;
    if gigabits.is_finite() && gigabits > 0.0 { (1.2 + 0.45 * gigabits.sqrt()).min(14.0) } else { 1.4 }
}

fn legend(picture: &Picture, area: Rect) -> String {
    let samples = [
        ("full", 5.0, "as fast as both ends can"),
        ("below", 5.0, "below what both ends can do"),
        ("idle", 5.0, "slowed down while idle"),
        ("formality", 2.0, "no figures, or no real link"),
    ];
    let mut svg = String::new();
    for (index, (class, width, words)) in samples.iter().enumerate() {
        let x = area.x + (index % 4) as f64 * 214.0;
        svg += &line(class, *width, x, area.y + 12.0, x + 34.0, area.y + 12.0);
        svg += &text("sub", x + 41.0, area.y + 16.0, words);
    }
    let mut words = vec![
        "Above an edge: speed, lanes and the line rate one way, after its encoding. Below it: what MaxPayload leaves for payload.".to_string(),
        "A line is as wide as the square root of that. Pointing at a box or a line tells more.".to_string(),
        "Links and clocks as the system tells them, rates by the published arithmetic; nothing here was measured.".to_string(),
    ];
    if picture.left_out > 0 {
        words.push(format!(
            "Not drawn: {} PCI functions that carry no flow (bridges, USB, chip set).",
            picture.left_out
        ));
    }
    for (index, line) in words.iter().enumerate() {
        svg += &text("sub", area.x, area.y + 40.0 + 16.0 * index as f64, &fitted(line, area.width, 10.5));
    }
    svg
}

fn shortened(tip: &str) -> String {
    match tip.char_indices().nth(TIP) {
        Some((end, _)) => format!("{}…", &tip[..end]),
        None => tip.to_string(),
    }
}

fn rect(class: &str, area: Rect, radius: f64) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        at(area.x),
        at(area.y),
        at(area.width),
        at(area.height),
        at(radius)
    )
}

fn line(class: &str, width: f64, x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!(
        "<path class=\"edge {class}\" stroke-width=\"{}\" d=\"M{} {} L{} {}\"/>",
        at(width),
        at(x1),
        at(y1),
        at(x2),
        at(y2)
    )
}

fn text(class: &str, x: f64, y: f64, words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    format!("<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", at(x), at(y), escape(words))
}

fn middle_text(class: &str, x: f64, y: f64, words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    format!(
        "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        at(x),
        at(y),
        escape(words)
    )
}
