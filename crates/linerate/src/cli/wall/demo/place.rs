//! Where a demo's windows go: on the display as the tiles in the wall.

use linerate_facts::failure::Failure;
use linerate_wall::geometry::{Size, TileId, WallGrid};
use linerate_wall::picture::room_for_stamp;
use linerate_wall::show::{DisplayOutput, WindowPlacement, outputs};

/// What shows nothing, and so needs no display.
pub(super) const WITHOUT: &str = "--no-windows";
/// A tile of the default is not larger.
const LARGEST: Size = Size { width: 640, height: 400 };
/// A tile's width is a multiple of this, its height 5/8 of it.
const STEP: u32 = 16;
/// Between two windows, pixels: a wall of displays has seams, too.
const SEAM: u32 = 6;

/// The windows' places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WindowGrid {
    pub tile: Size,
    /// Of the first window.
    left: i32,
    top: i32,
}

impl WindowGrid {
    /// In the middle of the primary output of the display.
    pub(super) fn on_display(grid: WallGrid, tile: Option<Size>) -> Result<WindowGrid, Failure> {
        let all = outputs(WITHOUT).map_err(Failure::usage)?;
        let output = all.iter().find(|output| output.primary).or(all.first());
        let output = output.ok_or_else(|| {
            Failure::Usage(format!(
                "no window: the display has no output: switch one on, or leave windows out with {WITHOUT}"
            ))
        })?;
        WindowGrid::on(output, grid, tile)
    }

    fn on(output: &DisplayOutput, grid: WallGrid, tile: Option<Size>) -> Result<WindowGrid, Failure> {
        let tile = tile.unwrap_or_else(|| fitting(output.size, grid));
        let (width, height) = (length(grid.columns, tile.width), length(grid.rows, tile.height));
        let has = output.size;
        if width > has.width || height > has.height || room_for_stamp(tile).is_err() {
            return Err(Failure::Usage(format!(
                "--tiles {grid}: with tiles of {tile} pixels they do not fit the display, which has {has}, or are \
                 too small for a stamp: name other tiles or a size with --tile, or leave windows out with {WITHOUT}"
            )));
        }
        let middle = |at: i32, whole: u32, own: u32| at + ((whole - own) / 2).cast_signed();
        let (left, top) = (middle(output.x, has.width, width), middle(output.y, has.height, height));
        Ok(WindowGrid { tile, left, top })
    }

    /// The place of a tile's window.
    pub(super) fn of(&self, tile: TileId) -> WindowPlacement {
        let at = |first: i32, index: u16, own: u32| first + (u32::from(index) * (own + SEAM)).cast_signed();
        WindowPlacement::At {
            x: at(self.left, tile.column, self.tile.width),
            y: at(self.top, tile.row, self.tile.height),
            size: self.tile,
        }
    }
}

/// The size of tiles that nobody sees.
pub(super) fn without_windows(tile: Option<Size>) -> Result<Size, Failure> {
    let tile = tile.unwrap_or(LARGEST);
    room_for_stamp(tile).map_err(|why| Failure::Usage(format!("--tile {tile}: {why}")))?;
    Ok(tile)
}

/// So many windows and the seams between them.
fn length(count: u16, own: u32) -> u32 {
    u32::from(count).saturating_mul(own.saturating_add(SEAM)).saturating_sub(SEAM)
}

/// The largest tiles that leave a margin of the output free.
fn fitting(output: Size, grid: WallGrid) -> Size {
    let own = |whole: u32, count: u16| (whole / 10 * 9 / u32::from(count).max(1)).saturating_sub(SEAM);
    let (width, height) = (own(output.width, grid.columns), own(output.height, grid.rows));
    let width = LARGEST.width.min(width).min(height * 8 / 5) / STEP * STEP;
    Size { width, height: width * 5 / 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(output: &str, grid: &str, tile: Option<&str>) -> Result<WindowGrid, Failure> {
        let size = |text: &str| text.parse::<Size>().expect("a size");
        let output =
            DisplayOutput { name: "one".into(), x: 100, y: 0, size: size(output), primary: true, number: 0 };
        WindowGrid::on(&output, grid.parse().expect("a grid"), tile.map(size))
    }

    #[test]
    fn windows_lie_in_the_middle_of_the_output_as_the_tiles_in_the_wall() {
        let two = placed("1920x1080", "2x2", None).expect("room");
        assert_eq!(two.tile, LARGEST);
        let WindowPlacement::At { x, y, size } = two.of(TileId { row: 1, column: 1 }) else { panic!() };
        assert_eq!((x, y, size), (100 + 317 + 646, 137 + 406, LARGEST));
        let small = placed("640x480", "3x2", None).expect("room");
        assert_eq!(small.tile.to_string(), "176x110");
        let given = placed("640x480", "3x2", Some("160x96")).expect("room");
        assert_eq!(given.tile.to_string(), "160x96");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_size_of_the_display() {
        let many = placed("640x480", "30x30", None).expect_err("tiles of a few pixels").to_string();
        assert!(many.contains("--tiles 30x30") && many.contains("640x480"), "{many}");
        let large =
            placed("640x480", "2x2", Some("400x250")).expect_err("wider than the display").to_string();
        assert!(large.contains("400x250") && large.contains("--no-windows"), "{large}");
    }
}
