//! Published rates and the arithmetic on them: what a link carries after its encoding and its protocol's
//! overhead.
//!
//! Formulas, not copied figures: what they are computed from are the tables in the text files beside the code;
//! the tests hold the results against the published tables (SARA, kernel, FCIA) that the project keeps as CSV.
//!
//! Such a table has a row a line, its cells apart by `|`. The first line names the cells, and a line that
//! begins with `@` gives the source of the rows below it.

pub mod ethernet;
pub mod interconnect;
pub mod memory;
pub mod otn;
pub mod overhead;
pub mod pcie;
pub mod published;
pub mod storage;
pub mod table;

/// The rows of a table, each made of its cells and its source.
fn rows<const CELLS: usize, T>(
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

#[cfg(test)]
mod tables {
    //! Reads the reference tables for the tests of this room: CSV with quoted fields, first line is the
    //! header.

    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    /// The rows of `NAME.csv` by column. The tables lie beside the workspace (`../shared/reference`) or where
    /// LINERATE_REFERENCE says; none, with a message, where they do not.
    pub(crate) fn rows(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
        let folder = std::env::var_os("LINERATE_REFERENCE").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference"),
            PathBuf::from,
        );
        let path = folder.join("rates").join(name).with_extension("csv");
        let Ok(text) = std::fs::read_to_string(&path) else {
            println!("skipped: no reference table {name}.csv beside the workspace");
            return None;
        };
        let mut lines = text.lines();
        let header = split(lines.next().expect("a header"));
        Some(lines.map(|line| header.iter().cloned().zip(split(line)).collect()).collect())
    }

    /// A number in a column; none where the column is empty or holds words.
    pub(crate) fn number(row: &BTreeMap<String, String>, column: &str) -> Option<f64> {
        row.get(column)?.parse().ok()
    }

    fn split(line: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    fields.last_mut().expect("a field").push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                other => fields.last_mut().expect("a field").push(other),
            }
        }
        fields
    }
}
