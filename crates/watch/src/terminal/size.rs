//! How large a terminal is: the one place that asks.

use super::screen::SMALLEST;
use std::os::fd::AsFd;

/// Where the size is not known.
const USUAL: (usize, usize) = (80, 24);

/// Columns and rows of the terminal now; none where this is no terminal.
pub fn size(of: impl AsFd) -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(of)?;
    Some((width.0.into(), height.0.into()))
}

/// The size, or a usual one where it is not known.
pub fn size_or_usual(of: impl AsFd) -> (usize, usize) {
    size(of).unwrap_or(USUAL)
}

/// The terminal has room for a useful view.
pub fn has_room(of: impl AsFd) -> bool {
    let (columns, rows) = SMALLEST;
    size(of).is_some_and(|(width, height)| width >= columns.into() && height >= rows.into())
}
