//! How a wall is measured: grids of tiles, sizes in pixels, frame rates; how they are written (`5x3`,
//! `2560x1600`, `r0c4`, `30000/1001`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Columns and rows at most: a wall of 4,096 screens is beyond any that was built.
const MOST_A_SIDE: u16 = 64;
/// The line number and the offset of RFC 4175 have 15 bits.
const MOST_PIXELS: u32 = 32_768;
/// Bytes of one pixel: 8-bit RGB, the one format of RFC 4175 that both stock receivers play without
/// conversion.
pub(crate) const PIXEL_BYTES: usize = 3;

/// A text that is not what it should be, and how that is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    #[error("“{0}” is not a grid: write columns x rows, like 5x3, each from 1 to {MOST_A_SIDE}")]
    NoGrid(String),
    #[error("“{0}” is not a size in pixels: write width x height, like 2560x1600, each 1 to {MOST_PIXELS}")]
    NoSize(String),
    #[error("“{0}” is not a tile: write row and column from 0, like r0c4")]
    NoTile(String),
    #[error("“{0}” is not a frame rate: write frames a second, like 24 or 30000/1001, from 1/60 to 1000")]
    NoFrameRate(String),
}

/// Text in place of the value itself, in files and in JSON.
macro_rules! written_as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = GeometryError;
            fn try_from(text: String) -> Result<Self, GeometryError> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}

/// Tiles of a movie or screens of a wall, written `5x3`: columns, then rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WallGrid {
    pub columns: u16,
    pub rows: u16,
}
written_as_text!(WallGrid);

impl WallGrid {
    /// Each tile, row by row.
    pub fn tiles(self) -> impl Iterator<Item = TileId> {
        (0..self.rows).flat_map(move |row| (0..self.columns).map(move |column| TileId { row, column }))
    }

    /// Number of tiles.
    pub fn len(self) -> usize {
        usize::from(self.columns) * usize::from(self.rows)
    }

    /// A grid of nothing; none that was parsed is.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Pixels of the whole, of tiles of this size.
    pub fn pixels(self, tile: Size) -> Size {
        Size { width: tile.width * u32::from(self.columns), height: tile.height * u32::from(self.rows) }
    }

    /// The tile lies within.
    pub fn holds(self, tile: TileId) -> bool {
        tile.row < self.rows && tile.column < self.columns
    }
}

impl fmt::Display for WallGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl FromStr for WallGrid {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::NoGrid(text.into());
        let (columns, rows) = text.split_once('x').ok_or_else(wrong)?;
        let side = |text: &str| {
            text.parse::<u16>().ok().filter(|side| (1..=MOST_A_SIDE).contains(side)).ok_or_else(wrong)
        };
        Ok(WallGrid { columns: side(columns)?, rows: side(rows)? })
    }
}

/// Width and height in pixels, written `2560x1600`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    pub width: u32,
    pub height: u32,
}
written_as_text!(Size);

impl Size {
    /// Bytes of one line.
    pub fn line_bytes(self) -> usize {
        self.width as usize * PIXEL_BYTES
    }

    /// Bytes of one frame.
    pub fn frame_bytes(self) -> usize {
        self.line_bytes() * self.height as usize
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::NoSize(text.into());
        let (width, height) = text.split_once('x').ok_or_else(wrong)?;
        let side = |text: &str| {
            text.parse::<u32>().ok().filter(|side| (1..=MOST_PIXELS).contains(side)).ok_or_else(wrong)
        };
        Ok(Size { width: side(width)?, height: side(height)? })
    }
}

/// One tile of a movie, or the screen at the same place of a wall; written `r0c4`: row, then column, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TileId {
    pub row: u16,
    pub column: u16,
}
written_as_text!(TileId);

impl fmt::Display for TileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}c{}", self.row, self.column)
    }
}

impl FromStr for TileId {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::NoTile(text.into());
        let (row, column) = text.strip_prefix('r').and_then(|rest| rest.split_once('c')).ok_or_else(wrong)?;
        let side = |text: &str| {
            // `parse` takes a sign, a name has none.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|side| digits && *side < MOST_A_SIDE).ok_or_else(wrong)
        };
        Ok(TileId { row: side(row)?, column: side(column)? })
    }
}

/// Frames a second as a ratio, written `24` or `30000/1001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameRate {
    pub numerator: u32,
    pub denominator: u32,
}
written_as_text!(FrameRate);

impl FrameRate {
    /// Frames a second.
    pub fn per_second(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Length of one frame, nanoseconds, rounded down.
    pub(crate) fn frame_nanos(self) -> u64 {
        1_000_000_000 * u64::from(self.denominator) / u64::from(self.numerator)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            below => write!(f, "{}/{below}", self.numerator),
        }
    }
}

impl FromStr for FrameRate {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::NoFrameRate(text.into());
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let number = |text: &str| text.parse::<u32>().ok().filter(|value| (1..=1_000_000).contains(value));
        let (numerator, denominator) = number(numerator).zip(number(denominator)).ok_or_else(wrong)?;
        let rate = FrameRate { numerator, denominator };
        if (1.0 / 60.0..=1000.0).contains(&rate.per_second()) { Ok(rate) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        assert_eq!("5x3".parse(), Ok(WallGrid { columns: 5, rows: 3 }));
        assert_eq!("2560x1600".parse::<Size>().expect("a size").frame_bytes(), 12_288_000);
        assert_eq!("r2c4".parse(), Ok(TileId { row: 2, column: 4 }));
        assert_eq!("30000/1001".parse::<FrameRate>().expect("a rate").frame_nanos(), 33_366_666);
        let tiles: Vec<String> =
            WallGrid { columns: 2, rows: 2 }.tiles().map(|tile| tile.to_string()).collect();
        assert_eq!(tiles, ["r0c0", "r0c1", "r1c0", "r1c1"]);
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "5", "x", "0x3", "5x0", "65x1", "5x3x1", "-5x3"] {
            assert!(text.parse::<WallGrid>().is_err(), "{text}");
        }
        for text in ["r0", "c0", "r0c", "rc0", "r-1c0", "r+1c0", "r0c64", "R0C0", "r0c0 "] {
            assert!(text.parse::<TileId>().is_err(), "{text}");
        }
        for text in ["0", "0/1", "1/0", "24/", "/1", "1/61", "1001", "24.5"] {
            assert!(text.parse::<FrameRate>().is_err(), "{text}");
        }
        assert!("32769x1".parse::<Size>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,16}") {
            if let Ok(tile) = text.parse::<TileId>() {
                prop_assert_eq!(tile.to_string().parse(), Ok(tile));
            }
            let _ = (text.parse::<WallGrid>(), text.parse::<Size>(), text.parse::<FrameRate>());
        }
    }
}
