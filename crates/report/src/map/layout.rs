//! Where each box of the map stands: NUMA nodes side by side; in each node its tree of PCIe from left to right, with the
//! cards in one column; below the nodes, rows of small boxes (chips). All boxes are placed from sizes alone, none by
//! search, and none overlaps another. All lengths are in units of the SVG.

use super::parts::{Branch, Leaf, NodeBox, Part, Picture};
use crate::markup::Rect;

/// The whole picture is at least this wide.
const LEAST_WIDTH: f64 = 900.0;
/// Around the picture.
pub(super) const MARGIN: f64 = 24.0;
/// Between nodes.
const NODE_GAP: f64 = 36.0;
/// Between a node's edge and what is in it.
const PADDING: f64 = 18.0;
/// Height of the title: the host's name, and what it is.
const HEAD: f64 = 64.0;
/// The bar that joins the nodes, and what is below it.
pub(super) const BAR: f64 = 26.0;
const BAR_GAP: f64 = 30.0;
/// Title line of a node.
const NODE_TITLE: f64 = 30.0;
/// Widths of the boxes of a node's CPU and its memory, and what is between them.
pub(super) const CPU_WIDTH: f64 = 236.0;
pub(super) const MEMORY_WIDTH: f64 = 214.0;
const MEMORY_GAP: f64 = 112.0;
/// A line of text in such a box, and what is above and below all lines together.
const LINE: f64 = 16.0;
const BOX_PADDING: f64 = 18.0;
/// Columns of the tree: the line that all roots hang on, roots, switches.
const SPINE: f64 = 22.0;
const ROOT_WIDTH: f64 = 104.0;
const SWITCH_WIDTH: f64 = 78.0;
/// Length of an edge between two columns: the text of a link stands on it.
pub(super) const EDGE: f64 = 176.0;
pub(super) const CARD_WIDTH: f64 = 214.0;
const LEAF_GAP: f64 = 26.0;
pub(super) const LEAF_WIDTH: f64 = 270.0;
const LEAF_HEIGHT: f64 = 24.0;
const LEAF_ROW: f64 = 5.0;
/// What a line about its use adds to a leaf and to a chip.
const USE_LINE: f64 = 16.0;
const USE_GAP: f64 = 4.0;
/// Least height of a card, and between cards: an edge has a line of text above and below it.
const CARD_HEIGHT: f64 = 42.0;
const ROW_GAP: f64 = 12.0;
const ROOT_GAP: f64 = 22.0;
/// Chips of the strips.
pub(super) const CHIP_WIDTH: f64 = 320.0;
const CHIP_HEIGHT: f64 = 42.0;
const CHIP_GAP: f64 = 12.0;
const STRIP_TITLE: f64 = 26.0;
const STRIP_GAP: f64 = 18.0;
/// Two nodes always share a row, more up to this width.
const ROW_WIDTH: f64 = 1950.0;
/// The legend at the end.
pub(super) const LEGEND: f64 = 124.0;

/// A branch's own box, its leaves, and what hangs on it.
#[derive(Clone, Debug)]
pub(super) struct PlacedBranch<'a> {
    pub branch: &'a Branch,
    pub rect: Rect,
    pub leaves: Vec<Rect>,
    pub below: Vec<PlacedBranch<'a>>,
}

/// A node's boxes.
#[derive(Clone, Debug)]
pub(super) struct PlacedNode<'a> {
    pub node: &'a NodeBox,
    pub rect: Rect,
    pub cpu: Rect,
    pub memory: Rect,
    pub roots: Vec<PlacedBranch<'a>>,
}

/// Where all of a picture stands.
#[derive(Clone, Debug, Default)]
pub(super) struct MapLayout<'a> {
    pub width: f64,
    pub height: f64,
    pub nodes: Vec<PlacedNode<'a>>,
    /// The bars that join the nodes of a row.
    pub bars: Vec<Rect>,
    /// For each strip its title's place and its chips.
    pub strips: Vec<(Rect, Vec<Rect>)>,
    pub legend: Rect,
}

/// Places a picture.
pub(super) fn layout(picture: &Picture) -> MapLayout<'_> {
    let bar = if picture.between.is_some() { BAR + BAR_GAP } else { 0.0 };
    let mut layout = MapLayout { width: LEAST_WIDTH, ..MapLayout::default() };
    let mut y = MARGIN + HEAD;
    for row in rows(&picture.nodes) {
        let mut x = MARGIN;
        let mut bottom = y;
        for node in row {
            let placed = place_node(node, x, y + bar);
            x = placed.rect.right() + NODE_GAP;
            bottom = bottom.max(placed.rect.bottom());
            layout.nodes.push(placed);
        }
        let right = x - NODE_GAP;
        layout.width = layout.width.max(right + MARGIN);
        // Nodes of a row are as tall as its tallest.
        for placed in layout.nodes.iter_mut().filter(|placed| placed.rect.y == y + bar) {
            placed.rect.height = bottom - placed.rect.y;
        }
        if bar > 0.0 {
            layout.bars.push(Rect { x: MARGIN, y, width: right - MARGIN, height: BAR });
        }
        y = bottom + NODE_GAP;
    }
    let chip_height = CHIP_HEIGHT + if picture.loaded { USE_LINE + USE_GAP } else { 0.0 };
    for strip in &picture.strips {
        let per_row =
            (((layout.width - 2.0 * MARGIN + CHIP_GAP) / (CHIP_WIDTH + CHIP_GAP)).floor() as usize).max(1);
        let title = Rect { x: MARGIN, y, width: layout.width - 2.0 * MARGIN, height: STRIP_TITLE };
        let chip = |index: usize| Rect {
            x: MARGIN + (index % per_row) as f64 * (CHIP_WIDTH + CHIP_GAP),
            y: title.bottom() + (index / per_row) as f64 * (chip_height + CHIP_GAP),
            width: CHIP_WIDTH,
            height: chip_height,
        };
        let chips: Vec<Rect> = (0..strip.chips.len()).map(chip).collect();
        y = chips.last().map_or(title.bottom(), Rect::bottom) + STRIP_GAP;
        layout.strips.push((title, chips));
    }
    layout.legend = Rect { x: MARGIN, y, width: layout.width - 2.0 * MARGIN, height: LEGEND };
    layout.height = y + LEGEND + MARGIN / 2.0;
    layout
}

/// Parts the nodes into rows of like length, so that no row is much wider than [`ROW_WIDTH`].
fn rows(nodes: &[NodeBox]) -> Vec<Vec<&NodeBox>> {
    let (mut rows, mut used, mut count) = (1, 0.0, 0);
    for node in nodes {
        let width = node_width(node) + NODE_GAP;
        if count >= 2 && used + width > ROW_WIDTH {
            (rows, used, count) = (rows + 1, 0.0, 0);
        }
        used += width;
        count += 1;
    }
    nodes.chunks(nodes.len().div_ceil(rows).max(1)).map(|row| row.iter().collect()).collect()
}

/// The most switches that are below one another.
fn switches(branches: &[Branch]) -> usize {
    branches
        .iter()
        .map(|branch| usize::from(branch.part == Part::Switch) + switches(&branch.below))
        .max()
        .unwrap_or(0)
}

/// Where cards begin, from the left edge of what is in a node.
fn card_column(node: &NodeBox) -> f64 {
    SPINE + ROOT_WIDTH + EDGE + switches(&node.roots) as f64 * (SWITCH_WIDTH + EDGE)
}

fn node_width(node: &NodeBox) -> f64 {
    let top = CPU_WIDTH + MEMORY_GAP + MEMORY_WIDTH;
    let leaves = if node.roots.iter().any(has_leaves) { LEAF_GAP + LEAF_WIDTH } else { 0.0 };
    let tree = if node.roots.is_empty() { 0.0 } else { card_column(node) + CARD_WIDTH + leaves };
    top.max(tree) + 2.0 * PADDING
}

fn has_leaves(branch: &Branch) -> bool {
    !branch.leaves.is_empty() || branch.below.iter().any(has_leaves)
}

fn place_node(node: &NodeBox, x: f64, y: f64) -> PlacedNode<'_> {
    let left = x + PADDING;
    let lines = node.cpu.len().max(node.memory.len()).max(2);
    let top =
        Rect { x: left, y: y + NODE_TITLE, width: CPU_WIDTH, height: BOX_PADDING + lines as f64 * LINE };
    let memory = Rect { x: top.right() + MEMORY_GAP, width: MEMORY_WIDTH, ..top };
    let mut below = top.bottom() + ROOT_GAP;
    let mut roots = Vec::new();
    for root in &node.roots {
        let placed = place(root, left + SPINE, left + card_column(node), below);
        below = placed.bottom() + ROOT_GAP;
        roots.push(placed);
    }
    let rect = Rect { x, y, width: node_width(node), height: below - ROOT_GAP + PADDING - y };
    PlacedNode { node, rect, cpu: top, memory, roots }
}

/// A branch whose box begins at `x`, or at `cards` where it is a card.
fn place(branch: &Branch, x: f64, cards: f64, y: f64) -> PlacedBranch<'_> {
    if branch.part == Part::Card {
        let tall = |leaf: &Leaf| LEAF_HEIGHT + if leaf.used.is_some() { USE_LINE } else { 0.0 };
        let all_leaves = branch.leaves.iter().map(|leaf| tall(leaf) + LEAF_ROW).sum::<f64>() - LEAF_ROW;
        let rect = Rect { x: cards, y, width: CARD_WIDTH, height: CARD_HEIGHT.max(all_leaves) };
        let mut next = rect.middle() - all_leaves / 2.0;
        let leaf = |leaf: &Leaf| {
            let place = Rect { x: rect.right() + LEAF_GAP, y: next, width: LEAF_WIDTH, height: tall(leaf) };
            next = place.bottom() + LEAF_ROW;
            place
        };
        let leaves = branch.leaves.iter().map(leaf).collect();
        return PlacedBranch { branch, rect, leaves, below: Vec::new() };
    }
    let width = if branch.part == Part::Root { ROOT_WIDTH } else { SWITCH_WIDTH };
    let mut at = y;
    let mut below = Vec::new();
    for child in &branch.below {
        let placed = place(child, x + width + EDGE, cards, at);
        at = placed.bottom() + ROW_GAP;
        below.push(placed);
    }
    let height = (at - ROW_GAP - y).max(CARD_HEIGHT);
    PlacedBranch { branch, rect: Rect { x, y, width, height }, leaves: Vec::new(), below }
}

impl PlacedBranch<'_> {
    /// Lower edge of it and all that hangs on it.
    fn bottom(&self) -> f64 {
        self.below.iter().map(PlacedBranch::bottom).fold(self.rect.bottom(), f64::max)
    }
}
