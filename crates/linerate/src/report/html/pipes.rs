//! The pipes of the diagram: capacity as the outer width, use as the inner one, what flows as the label.

use super::blocks::{CENTRE, Picture, Pipe};
use super::layout::{BLOCK_HEIGHT, BLOCK_WIDTH, Layout};
use super::text::at;

/// All pipes, below the blocks.
pub(super) fn pipes(picture: &Picture, layout: &Layout) -> String {
    let largest = picture.blocks.iter().filter_map(|block| block.capacity.value).fold(0.0, f64::max);
    let mut svg = String::new();
    // Labels come last, so that no later pipe runs over them.
    let mut labels = String::new();
    let mut labelled: Vec<(usize, bool)> = Vec::new();
    for pipe in &picture.pipes {
        let (owner, at_end) = owner(picture, pipe);
        let block = &picture.blocks[owner];
        let outer = match block.capacity.value {
            Some(capacity) if largest > 0.0 => 4.0 + 13.0 * (capacity / largest).sqrt(),
            _ => 3.0,
        };
        let (path, start, end) = route(picture, layout, pipe);
        let class = if block.cut { "pipe cut" } else { "pipe" };
        svg += &format!("<path class=\"{class}\" d=\"{path}\" stroke-width=\"{}\"/>", at(outer));
        if block.utilisation > 0.0 {
            let inner = (outer * block.utilisation).max(1.0);
            svg += &format!("<path class=\"{class} used\" d=\"{path}\" stroke-width=\"{}\"/>", at(inner));
        }
        if labelled.contains(&(owner, at_end)) || start.0 >= end.0 {
            continue;
        }
        labelled.push((owner, at_end));
        if let Some(flow) = block.flow() {
            // A group's stacked sheets stand out on the right; a rising pipe has its label below, a falling one above.
            let sheets = if block.names.len() > 1 { 8.0 } else { 0.0 };
            let (x, anchor, y) =
                if at_end { (end.0 - 5.0, "end", end.1) } else { (start.0 + 5.0 + sheets, "start", start.1) };
            let below = if at_end { start.1 < end.1 } else { start.1 > end.1 };
            let away = if below { outer / 2.0 + 12.0 } else { -outer / 2.0 - 4.0 };
            labels += &format!(
                "<text class=\"flow\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                at(x),
                at(y + away),
                block.unit().show(flow)
            );
        }
    }
    svg + &labels
}

/// The block whose capacity and use a pipe shows: the device at its outer end. True where that is the pipe's far end.
fn owner(picture: &Picture, pipe: &Pipe) -> (usize, bool) {
    let outwards = picture.blocks[pipe.from].column == CENTRE && picture.blocks[pipe.to].column != CENTRE;
    if outwards { (pipe.to, true) } else { (pipe.from, false) }
}

type Point = (f64, f64);

/// A smooth path: from the right side to the left, or within a column from the bottom to the top.
fn route(picture: &Picture, layout: &Layout, pipe: &Pipe) -> (String, Point, Point) {
    let (from, to) = (layout.corners[pipe.from], layout.corners[pipe.to]);
    if from.0 >= to.0 {
        let x = from.0 + BLOCK_WIDTH / 2.0;
        let (y1, y2) =
            if from.1 < to.1 { (from.1 + BLOCK_HEIGHT, to.1) } else { (from.1, to.1 + BLOCK_HEIGHT) };
        let end = to.0 + BLOCK_WIDTH / 2.0;
        return (format!("M{} {}L{} {}", at(x), at(y1), at(end), at(y2)), (x, y1), (x, y2));
    }
    let outgoing: Vec<usize> = picture.pipes.iter().filter(|p| p.from == pipe.from).map(|p| p.to).collect();
    let incoming: Vec<usize> = picture.pipes.iter().filter(|p| p.to == pipe.to).map(|p| p.from).collect();
    let start = (from.0 + BLOCK_WIDTH, from.1 + spread(&outgoing, pipe.to));
    let end = (to.0, to.1 + spread(&incoming, pipe.from));
    let middle = (start.0 + end.0) / 2.0;
    let path = format!(
        "M{} {}C{m} {} {m} {} {} {}",
        at(start.0),
        at(start.1),
        at(start.1),
        at(end.1),
        at(end.0),
        at(end.1),
        m = at(middle)
    );
    (path, start, end)
}

/// Where on a block's side the pipe of one neighbour ends: all of them evenly over its middle.
fn spread(neighbours: &[usize], this: usize) -> f64 {
    let place = neighbours.iter().position(|other| *other == this).unwrap_or(0) as f64;
    let count = neighbours.len().max(1) as f64;
    BLOCK_HEIGHT * (0.14 + 0.72 * (place + 0.5) / count)
}
