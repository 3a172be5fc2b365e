//! A table of rates: the figures, the sources as notes below. A last column of sentences stands beside the figures; where there
//! is no room for that, each under its row.

use crate::document::{self, Block, TableRow, bold, dim, plain};
use crate::grid::{Column, Style, name, number, text};
use linerate_facts::grouping::distinct;
use linerate_machine::rates::table::{Cell, ColumnStyle, Table};

/// Sentences do not stand beside the figures in less than this.
const LEAST_BESIDE: usize = 14;

/// Tables of rates for a screen of `width` columns (80 and more are laid out), sources below each.
pub fn screens(tables: &[Table], width: usize, colour: bool) -> String {
    let screens: Vec<String> = tables.iter().map(|table| screen(table, width, colour)).collect();
    screens.join("\n")
}

/// Title, head, rows and sources, no line wider than `width`; ends with a newline.
fn screen(table: &Table, width: usize, colour: bool) -> String {
    let sources = distinct(table.rows.iter().map(|row| row.source));
    let noted = |(at, source): (usize, &&str)| match sources.len() {
        1 => dim(format!("source: {source}")),
        _ => dim(format!("{} {source}", mark(at))),
    };
    let mut blocks = vec![Block::Text(bold(&table.title)), Block::Table(figures(table, &sources))];
    blocks.extend(sources.iter().enumerate().map(noted).map(Block::Text));
    document::lines(&blocks, width, Style::of(width, colour)).join("\n") + "\n"
}

/// The figures with the mark of the source where there are several, and what is said of a row.
fn figures<'a>(table: &'a Table, sources: &[&str]) -> document::Table<'a> {
    let last = table.columns.len() - 1;
    let sentences = !is_number(table, last);
    let figures = if sentences { 0..last } else { 0..last + 1 };
    let mut all: Vec<Column> = figures.clone().map(|at| column(table, at)).collect();
    all.extend((sources.len() > 1).then(|| number("", 0)));
    let row = |row: usize| {
        let source = sources.iter().position(|source| *source == table.rows[row].source).unwrap_or_default();
        let mark = (sources.len() > 1).then(|| mark(source));
        let sentence =
            Some(cell(table, row, last)).filter(|sentence| sentences && *sentence != "–").map(plain);
        let cells = figures.clone().map(|at| cell(table, row, at).to_string()).chain(mark);
        TableRow::of(cells).with_notes(sentence.into_iter().collect())
    };
    let head = if sentences { table.columns[last].head } else { "" };
    document::Table::new(all, (0..table.rows.len()).map(row)).notes_beside(LEAST_BESIDE, head)
}

fn column(table: &Table, at: usize) -> Column<'_> {
    let column = &table.columns[at];
    // Of columns that can be left out the last goes first.
    let expendable =
        if column.look == ColumnStyle::Wide { u8::try_from(at + 1).unwrap_or(u8::MAX) } else { 0 };
    match (at, is_number(table, at)) {
        (0, false) => name(column.head),
        (_, false) => text(column.head, expendable),
        (_, true) => number(column.head, expendable),
    }
}

/// What is shown of a cell: what repeats the row above is left out where the column says so.
fn cell(table: &Table, row: usize, at: usize) -> &str {
    let cell = &table.rows[row].cells[at];
    let again = row.checked_sub(1).is_some_and(|above| table.rows[above].cells[at] == *cell);
    if table.columns[at].look == ColumnStyle::Once && again { "" } else { shown_text(cell) }
}

/// `[1]`, counted from 1.
fn mark(index: usize) -> String {
    format!("[{}]", index + 1)
}

fn shown_text(cell: &Cell) -> &str {
    match cell {
        Cell::Text(words) => words,
        Cell::Figure(_, shown) => shown,
        Cell::Nothing => "–",
    }
}

/// A column of figures is aligned to the right.
fn is_number(table: &Table, at: usize) -> bool {
    !table.rows.iter().any(|row| matches!(row.cells[at], Cell::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::printable::columns;
    use linerate_machine::rates::table::{KINDS, tables};

    #[test]
    fn no_line_is_wider_than_the_screen_and_no_figure_is_lost() {
        for width in [80, 100, 120, 140] {
            for table in KINDS.into_iter().flat_map(tables) {
                let text = screen(&table, width, false);
                for line in text.lines() {
                    assert!(columns(line) <= width, "{} at {width}: {line}", table.name);
                }
                for row in &table.rows {
                    let rated = table.columns.iter().position(|column| column.key.starts_with("rated"));
                    let shown = rated.map_or("", |at| shown_text(&row.cells[at]));
                    assert!(text.contains(shown), "{} {shown}", table.name);
                    assert!(text.contains(row.source.split(' ').next().expect("a word")));
                }
            }
        }
    }

    #[test]
    fn figures_are_under_each_other() {
        let table = &tables(linerate_machine::rates::table::TableKind::Pcie)[0];
        let text = screen(table, 80, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "version  year  GT/s  coding         x1     x2     x4     x8     x16");
        assert_eq!(lines[2], "1.0/1.1  2003   2.5  8b/10b        2.0    4.0    8.0   16.0    32.0");
        assert!(lines.iter().any(|line| line.starts_with("source: ")), "{text}");
    }
}
