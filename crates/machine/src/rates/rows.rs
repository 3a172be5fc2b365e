//! Published tables as text beside the code: a row a line, its cells apart by `|`. The first line names the cells, and
//! a line that begins with `@` gives the source of the rows below it.

/// The rows of a table, each made of its cells and its source.
pub(crate) fn rows<const CELLS: usize, T>(
    text: &'static str,
    row: impl Fn([&'static str; CELLS], &'static str) -> Option<T>,
) -> Vec<T> {
    let (mut source, mut rows) = ("", Vec::new());
    for line in text.lines().skip(1) {
        if let Some(named) = line.strip_prefix("@ ") {
            source = named;
            continue;
        }
        let mut cells = line.split('|').map(str::trim);
        let parsed = row(std::array::from_fn(|_| cells.next().unwrap_or_default()), source);
        debug_assert!(
            parsed.is_some() && cells.next().is_none(),
            "a row of the tables that is not understood: {line}"
        );
        rows.extend(parsed);
    }
    rows
}
