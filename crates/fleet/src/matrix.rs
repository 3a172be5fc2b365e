//! The matrix of rates between hosts, and by how much they may differ.

/// Fewer hosts cannot tell a host from a link: each has one or two cells in a row.
pub(crate) const LEAST_HOSTS: usize = 4;
/// A host below this of the others differs, however steady the figures are.
pub(crate) const HOST_RATIO: f64 = 0.85;
/// The same for one pair, which is one cell alone.
pub(crate) const PAIR_RATIO: f64 = 0.75;
/// Of a host's pairs at least this share shows what the host is blamed for.
pub(crate) const SUPPORT: f64 = 0.7;

/// One measured flow of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixCell {
    pub from: usize,
    pub to: usize,
    pub window: usize,
    /// What the declared fabric takes from it is not held against it.
    pub bytes_per_second: f64,
    /// As it was measured.
    pub carried_bytes_per_second: f64,
}

/// The median of each pair's windows.
pub(crate) fn pair_rates(size: usize, cells: &[MatrixCell]) -> Vec<Vec<Option<f64>>> {
    let of = |from: usize, to: usize| {
        let rates = cells.iter().filter(|cell| (cell.from, cell.to) == (from, to));
        median(rates.map(|cell| cell.bytes_per_second).filter(|rate| *rate > 0.0))
    };
    (0..size).map(|from| (0..size).map(|to| of(from, to)).collect()).collect()
}
