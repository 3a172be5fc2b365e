//! Where each block of the diagram stands: columns from left to right, each centred, the centre in its enclosure.

use super::blocks::{CENTRE, Picture};

/// Width of a block, pixels of the picture.
pub(super) const BLOCK_WIDTH: f64 = 156.0;
/// Height of a block.
pub(super) const BLOCK_HEIGHT: f64 = 66.0;
/// From one block to the next below.
const PITCH: f64 = 88.0;
/// Room for the heads of the columns.
const HEAD: f64 = 34.0;
/// Room for the enclosure's title and its border.
const ENCLOSURE_TOP: f64 = 46.0;
const ENCLOSURE_SIDE: f64 = 12.0;
/// Lines of facts (NUMA nodes) in the enclosure.
pub(super) const FACT_LINE: f64 = 17.0;
/// The picture is at least as wide as the page's text.
const WIDTH: f64 = 1120.0;
/// A pipe needs room for its label, but does not get long.
const GAP: std::ops::RangeInclusive<f64> = 76.0..=190.0;

/// Top left corner of each block, and the frame.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// As `Picture::blocks`.
    pub(super) corners: Vec<(f64, f64)>,
    /// Column number and its left edge.
    pub(super) columns: Vec<(usize, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// x, y, width, height around memory and CPU.
    pub(super) enclosure: Option<(f64, f64, f64, f64)>,
}

/// Lays out the picture; `facts` lines are kept free below the blocks of the centre.
pub(super) fn layout(picture: &Picture, facts: usize) -> Layout {
    let mut used: Vec<usize> = picture.blocks.iter().map(|block| block.column).collect();
    used.sort_unstable();
    used.dedup();
    let count = used.len().max(1) as f64;
    let gaps = (count - 1.0).max(1.0);
    let gap = ((WIDTH - 2.0 * ENCLOSURE_SIDE - count * BLOCK_WIDTH) / gaps).clamp(*GAP.start(), *GAP.end());
    let content = count * BLOCK_WIDTH + (count - 1.0) * gap;
    let width = WIDTH.max(content + 2.0 * ENCLOSURE_SIDE);
    let left = (width - content) / 2.0;
    let columns: Vec<(usize, f64)> = used
        .iter()
        .enumerate()
        .map(|(index, column)| (*column, left + index as f64 * (BLOCK_WIDTH + gap)))
        .collect();

    let rows = |column: usize| picture.blocks.iter().filter(|block| block.column == column).count() as f64;
    let extra = |column: usize| {
        if column == CENTRE { ENCLOSURE_TOP + ENCLOSURE_SIDE + facts as f64 * FACT_LINE } else { 0.0 }
    };
    let tall = |column: usize| rows(column) * PITCH - (PITCH - BLOCK_HEIGHT) + extra(column);
    let tallest = used.iter().map(|column| tall(*column)).fold(BLOCK_HEIGHT, f64::max);

    let mut corners = Vec::with_capacity(picture.blocks.len());
    let mut enclosure = None;
    let mut filled: Vec<f64> = vec![0.0; used.len()];
    for block in &picture.blocks {
        let index = used.iter().position(|column| *column == block.column).unwrap_or(0);
        let x = columns[index].1;
        let mut top = HEAD + (tallest - tall(block.column)) / 2.0;
        if block.column == CENTRE {
            let frame = (x - ENCLOSURE_SIDE, top, BLOCK_WIDTH + 2.0 * ENCLOSURE_SIDE, tall(CENTRE));
            enclosure = Some(frame);
            top += ENCLOSURE_TOP;
        }
        corners.push((x, top + filled[index] * PITCH));
        filled[index] += 1.0;
    }
    Layout { corners, columns, width, height: HEAD + tallest + 12.0, enclosure }
}
