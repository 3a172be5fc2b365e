//! A table of rates on a screen: the figures as a grid, the sources as notes below. A last column of
//! sentences is wrapped beside the figures; where there is no room for that, a sentence stands under its row.

use crate::grid::{Column, lines, name, notes, number, room_for_notes, text};
use crate::style::Style;
use linerate_facts::printable::{columns, wrapped};
use linerate_machine::rates::table::{Cell, ColumnStyle, Table};

/// Sentences do not stand beside the figures in less than this.
const LEAST_BESIDE: usize = 14;
/// Before a sentence that stands under its row.
const INDENT: usize = 4;

/// Title, head, rows and sources, no line wider than `width`; ends with a newline.
pub(super) fn screen(table: &Table, width: usize, style: Style) -> String {
    let sources = sources(table);
    let sentences = table.columns.len().checked_sub(1).filter(|at| !is_number(table, *at));
    let mut shown: Vec<String> = wrapped(&table.title, width).iter().map(|line| style.bold(line)).collect();
    let mut lines = match sentences {
        Some(at) => with_sentences(table, at, &sources, width),
        None => lines(&columns_of(table, &sources, None), &figures(table, &sources, None), width),
    };
    lines[0] = style.dim(&lines[0]);
    shown.extend(lines);
    shown.extend(notes_of(&sources, width).iter().map(|line| style.dim(line)));
    shown.join("\n") + "\n"
}

/// Sources in the order in which they are first named.
fn sources(table: &Table) -> Vec<&'static str> {
    let mut sources: Vec<&'static str> = Vec::new();
    for row in &table.rows {
        if !sources.contains(&row.source) {
            sources.push(row.source);
        }
    }
    sources
}

/// The columns of the figures, without the one of sentences, and the one of the mark of the source.
fn columns_of<'a>(table: &'a Table, sources: &[&str], sentences: Option<usize>) -> Vec<Column<'a>> {
    let shown = (0..table.columns.len()).filter(|at| Some(*at) != sentences);
    let column = |at: usize| {
        let column = &table.columns[at];
        // Of columns that can be left out the last goes first.
        let expendable =
            if column.look == ColumnStyle::Wide { u8::try_from(at + 1).unwrap_or(u8::MAX) } else { 0 };
        match (at, is_number(table, at)) {
            (0, false) => name(column.head),
            (_, false) => text(column.head, expendable),
            (_, true) => number(column.head, expendable),
        }
    };
    let mark = (sources.len() > 1).then(|| number("", 0));
    shown.map(column).chain(mark).collect()
}

/// The cells of the figures; with the mark of the source where there are several.
fn figures(table: &Table, sources: &[&str], sentences: Option<usize>) -> Vec<Vec<String>> {
    let cells = |row: usize| {
        let figures = (0..table.columns.len()).filter(|at| Some(*at) != sentences);
        let source = sources.iter().position(|source| *source == table.rows[row].source).unwrap_or_default();
        let mark = (sources.len() > 1).then(|| mark(source));
        figures.map(|at| cell(table, row, at).to_string()).chain(mark).collect()
    };
    (0..table.rows.len()).map(cells).collect()
}

/// What is shown of a cell: what repeats the row above is left out where the column says so.
fn cell(table: &Table, row: usize, at: usize) -> &str {
    let cell = &table.rows[row].cells[at];
    let again = row.checked_sub(1).is_some_and(|above| table.rows[above].cells[at] == *cell);
    if table.columns[at].look == ColumnStyle::Once && again { "" } else { shown_text(cell) }
}

/// The figures with the sentences of column `at`, beside them or under them.
fn with_sentences(table: &Table, at: usize, sources: &[&str], width: usize) -> Vec<String> {
    let (mut all, rows) = (columns_of(table, sources, Some(at)), figures(table, sources, Some(at)));
    let words: Vec<&str> = (0..rows.len()).map(|row| cell(table, row, at)).collect();
    all.push(notes(table.columns[at].head));
    let with = |row: &[String], words: &str| row.iter().cloned().chain([words.to_string()]).collect();
    let whole: Vec<Vec<String>> = rows.iter().zip(&words).map(|(row, words)| with(row, words)).collect();
    let (left, below) = (room_for_notes(&all, &whole, width), width.saturating_sub(INDENT));
    let longest = words.iter().map(|words| columns(words)).max().unwrap_or(0);
    // Beside a figure the first line of a sentence costs none.
    let beside: usize = words.iter().map(|words| wrapped(words, left).len().saturating_sub(1)).sum();
    let under: usize = words.iter().map(|words| wrapped(words, below).len()).sum();
    if left >= longest.min(LEAST_BESIDE) && beside <= under {
        let nothing = vec![String::new(); all.len() - 1];
        let parts = |(row, words): (&Vec<String>, &&str)| {
            let mut parts = wrapped(words, left).into_iter();
            let first: Vec<String> = with(row, &parts.next().unwrap_or_default());
            let more: Vec<Vec<String>> = parts.map(|part| with(&nothing, &part)).collect();
            std::iter::once(first).chain(more)
        };
        let rows: Vec<Vec<String>> = rows.iter().zip(&words).flat_map(parts).collect();
        return lines(&all, &rows, width);
    }
    all.pop();
    let mut figures = lines(&all, &rows, width).into_iter();
    let mut lines: Vec<String> = figures.next().into_iter().collect();
    for (line, words) in figures.zip(words) {
        lines.push(line);
        lines.extend(wrapped(words, below).iter().map(|part| " ".repeat(INDENT) + part));
    }
    lines
}

fn notes_of(sources: &[&str], width: usize) -> Vec<String> {
    let noted = |(at, source): (usize, &&str)| {
        let head = if sources.len() > 1 { mark(at) + " " } else { "source: ".to_string() };
        let lines = wrapped(source, width.saturating_sub(head.len()));
        let indent = " ".repeat(head.len());
        lines
            .into_iter()
            .enumerate()
            .map(move |(index, line)| if index == 0 { head.clone() + &line } else { indent.clone() + &line })
    };
    sources.iter().enumerate().flat_map(noted).collect()
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
    use linerate_machine::rates::table::{KINDS, tables};

    const PLAIN: Style = Style::of(100, false);

    #[test]
    fn no_line_is_wider_than_the_screen_and_no_figure_is_lost() {
        for width in [80, 100, 120, 140] {
            for table in KINDS.into_iter().flat_map(tables) {
                let text = screen(&table, width, PLAIN);
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
        let text = screen(table, 80, PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "version  year  GT/s  coding         x1     x2     x4     x8     x16");
        assert_eq!(lines[2], "1.0/1.1  2003   2.5  8b/10b        2.0    4.0    8.0   16.0    32.0");
        assert!(lines.last().is_some_and(|line| line.starts_with("        ") || line.starts_with("source")));
    }
}
