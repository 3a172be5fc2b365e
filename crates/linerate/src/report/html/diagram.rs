//! The server as a block diagram: what hangs where, capacity and use of each block and pipe, the cut in red.

use super::blocks::{Block, COLUMNS, Picture, RECEIVERS, picture};
use super::layout::{BLOCK_HEIGHT, BLOCK_WIDTH, FACT_LINE, Layout, layout};
use super::text::{at, escape, fitted, letter};
use crate::report::figure::{origin_word, percent};
use crate::report::printable::shortened;
use crate::report::verdict::{Verdict, natural};
use crate::run::Run;
use crate::units;

/// NUMA nodes named in the enclosure; more are counted.
const NODES_SHOWN: usize = 8;

/// Room for text in a block.
const TEXT_WIDTH: f64 = BLOCK_WIDTH - 16.0;

/// The picture is shown at least at this scale.
const LEAST_SCALE: f64 = 0.72;

/// The section with the diagram.
pub(super) fn section(run: &Run, verdict: &Verdict) -> String {
    let picture = picture(run, &verdict.cut);
    if picture.blocks.is_empty() {
        return String::new();
    }
    let facts = facts(run);
    let layout = layout(&picture, facts.len());
    let body = format!(
        "<div class=\"scroll\"><svg class=\"diagram\" style=\"min-width:{}px\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"diagram-t diagram-d\">\
         <title id=\"diagram-t\">The server from disk to receiver</title><desc id=\"diagram-d\">{}</desc>{}{}{}{}</svg></div>{}",
        // Below this the letters are too small to read; a narrow screen scrolls.
        at(layout.width * LEAST_SCALE),
        at(layout.width),
        at(layout.height),
        escape(&described(&picture)),
        heads(&layout),
        enclosure(run, &layout, &facts),
        super::pipes::pipes(&picture, &layout),
        blocks(&picture, &layout),
        caption(),
    );
    super::text::section("diagram", "What hangs where", "", &body)
}

fn caption() -> String {
    "<p class=\"caption\">A pipe’s width grows with the square root of its capacity; the filled part is the share in use, and its \
     label is what flows. Blocks show their capacity with its origin, and the share in use. <span class=\"cutmark\">CUT</span> marks \
     the bottleneck: only raising it raises the flow.</p>"
        .into()
}

/// The picture in words, for those who cannot see it.
fn described(picture: &Picture) -> String {
    let one = |block: &Block| {
        let cut = if block.cut { ", in the cut" } else { "" };
        let used = if block.utilisation > 0.0 {
            format!(", {} in use", percent(block.utilisation))
        } else {
            String::new()
        };
        let origin = if block.capacity.value.is_some() { origin_word(block.capacity.origin) } else { "" };
        format!("{}: {} {origin}{used}{cut}", block.title(), block.capacity.show(block.unit()))
    };
    picture.blocks.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn heads(layout: &Layout) -> String {
    let one = |(column, x): &(usize, f64)| {
        let name = COLUMNS.get(*column).copied().unwrap_or(RECEIVERS);
        format!(
            "<text class=\"col\" x=\"{}\" y=\"14\" text-anchor=\"middle\">{name}</text>",
            at(x + BLOCK_WIDTH / 2.0)
        )
    };
    layout.columns.iter().map(one).collect()
}

/// NUMA nodes, a line each.
fn facts(run: &Run) -> Vec<String> {
    let nodes = &run.machine.memory.nodes;
    if nodes.len() < 2 {
        return Vec::new();
    }
    let one = |node: &crate::probe::NumaNode| {
        let memory = node.total_bytes.known().map(|bytes| format!(", {}", units::show_size(*bytes)));
        format!("node {}: {} CPUs{}", node.id, node.cpus.len(), memory.unwrap_or_default())
    };
    let mut lines: Vec<String> = nodes.iter().take(NODES_SHOWN).map(one).collect();
    if nodes.len() > NODES_SHOWN {
        lines.push(format!("and {} more nodes", nodes.len() - NODES_SHOWN));
    }
    lines
}

fn enclosure(run: &Run, layout: &Layout, facts: &[String]) -> String {
    let Some((x, y, width, height)) = layout.enclosure else { return String::new() };
    let cpu = &run.machine.cpu;
    let mut about = format!("{} CPUs", cpu.logical.iter().filter(|cpu| cpu.online).count());
    if let Some(packages) = cpu.packages.known().filter(|packages| **packages > 1) {
        about = format!("{packages} packages, {about}");
    }
    let middle = at(x + width / 2.0);
    let mut svg = format!(
        "<g><title>{}</title><rect class=\"enclosure\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"12\"/>\
         <text class=\"host\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text class=\"sub\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        escape(&run.host),
        at(x),
        at(y),
        at(width),
        at(height),
        at(y + 19.0),
        escape(&fitted(&run.host, BLOCK_WIDTH, 12.5)),
        at(y + 35.0),
        escape(&about)
    );
    for (index, fact) in facts.iter().enumerate() {
        let line = y + height - 9.0 - (facts.len() - 1 - index) as f64 * FACT_LINE;
        svg += &format!(
            "<text class=\"sub\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            at(line),
            escape(fact)
        );
    }
    svg + "</g>"
}

fn blocks(picture: &Picture, layout: &Layout) -> String {
    picture.blocks.iter().zip(&layout.corners).map(|(block, corner)| one_block(block, *corner)).collect()
}

fn one_block(block: &Block, (x, y): (f64, f64)) -> String {
    let class = if block.cut { "block cut" } else { "block" };
    let mut svg = format!("<g class=\"{class}\"><title>{}</title>", escape(&tip(block)));
    if block.names.len() > 1 {
        for offset in [7.0, 3.5] {
            svg += &rect("sheet", x + offset, y - offset, BLOCK_WIDTH, BLOCK_HEIGHT, 8.0);
        }
    }
    svg += &rect("box", x, y, BLOCK_WIDTH, BLOCK_HEIGHT, 8.0);
    svg += &label("name", x + 10.0, y + 18.0, &fitted(&block.title(), TEXT_WIDTH, 13.0));
    svg += &label("sub", x + 10.0, y + 33.0, &fitted(&subtitle(block), TEXT_WIDTH, 9.6));
    svg += &label("cap", x + 10.0, y + 50.0, &block.capacity.show(block.unit()));
    svg += &svg_tag(block, x + BLOCK_WIDTH - 24.0, y + 39.0);
    svg += &rect("bar", x + 10.0, y + 56.0, BLOCK_WIDTH - 20.0, 4.0, 2.0);
    if block.utilisation > 0.0 {
        svg += &rect("fill", x + 10.0, y + 56.0, (BLOCK_WIDTH - 20.0) * block.utilisation, 4.0, 2.0);
        svg += &format!(
            "<text class=\"use\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            at(x + BLOCK_WIDTH - 28.0),
            at(y + 50.0),
            percent(block.utilisation)
        );
    }
    if block.cut {
        svg += &rect("flag", x + BLOCK_WIDTH - 44.0, y - 9.0, 34.0, 16.0, 4.0);
        svg += &format!(
            "<text class=\"flagtext\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">CUT</text>",
            at(x + BLOCK_WIDTH - 27.0),
            at(y + 3.0)
        );
    }
    svg + "</g>"
}

/// `nvme0n1 … nvme15n1`, or `node 0, NVMe`.
fn subtitle(block: &Block) -> String {
    // A group has its node in its title.
    let node = block.node.filter(|_| block.names.len() == 1).map(|node| format!("node {node}"));
    let mut names: Vec<&String> = block.names.iter().collect();
    names.sort_by_key(|name| natural(name));
    let rest = match names.as_slice() {
        [first, .., last] => format!("{first} … {last}"),
        _ => block.about.clone(),
    };
    node.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty())).collect::<Vec<_>>().join(", ")
}

/// All that is known about a block.
fn tip(block: &Block) -> String {
    let mut tip = format!("{}: {}", block.title(), block.capacity.show(block.unit()));
    if block.capacity.value.is_some() {
        tip += &format!(" ({})", origin_word(block.capacity.origin));
    }
    if let Some((low, high)) = block.range {
        tip += &format!(", each {}", block.unit().show_range(low, high));
    }
    if block.utilisation > 0.0 {
        tip += &format!(", {} in use", percent(block.utilisation));
    }
    if let Some(why) = &block.capacity.why {
        tip += &format!(" ({why})");
    }
    if block.names.len() > 1 {
        tip += &format!(": {}", shortened(&block.names.join(", "), 600));
    }
    tip
}

fn rect(class: &str, x: f64, y: f64, width: f64, height: f64, radius: f64) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        at(x),
        at(y),
        at(width),
        at(height),
        at(radius)
    )
}

fn label(class: &str, x: f64, y: f64, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", at(x), at(y), escape(text))
}

fn svg_tag(block: &Block, x: f64, y: f64) -> String {
    let origin = block.capacity.origin;
    let word = origin_word(origin);
    format!(
        "<g class=\"svgtag {word}\">{}<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>",
        rect("", x, y, 14.0, 14.0, 3.5),
        at(x + 7.0),
        at(y + 11.0),
        letter(origin)
    )
}
