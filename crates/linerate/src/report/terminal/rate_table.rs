//! A table of rates on a screen: columns as wide as their content, the sources as notes below. A last column of sentences is wrapped;
//! where there is no room beside the figures, a sentence stands under its row.

use super::style::Style;
use crate::rates::table::{Cell, Look, Row, Table};
use crate::report::printable::{columns, wrapped};

/// Columns that can be left out are, until a column of sentences has this much.
const WISHED_NOTE_COLUMNS: usize = 24;
/// Sentences do not stand beside the figures in less than this.
const LEAST_NOTE_COLUMNS: usize = 14;
const GAP: &str = "  ";
/// Before a sentence that stands under its row.
const INDENT: &str = "    ";

/// The columns that are shown, and how wide each is.
struct Layout<'a> {
    table: &'a Table,
    /// Column of the table, its width; without the one of sentences.
    shown: Vec<(usize, usize)>,
    /// The column of sentences.
    sentences: Option<Sentences>,
    /// Sources in the order in which they are first named.
    sources: Vec<&'static str>,
    width: usize,
}

/// Where the last column's sentences stand.
struct Sentences {
    column: usize,
    /// Columns of the screen beside the figures; none: under them.
    beside: Option<usize>,
}

/// Title, head, rows and sources, no line wider than `width`; ends with a newline.
pub(in crate::report) fn screen(table: &Table, width: usize, style: Style) -> String {
    let layout = Layout::new(table, width);
    let mut lines: Vec<String> = wrapped(&table.title, width).iter().map(|line| style.bold(line)).collect();
    lines.push(style.dim(&layout.head()));
    let mut above: Option<&Row> = None;
    for row in &table.rows {
        lines.extend(layout.row(row, above));
        above = Some(row);
    }
    lines.extend(layout.notes(width).iter().map(|line| style.dim(line)));
    lines.join("\n") + "\n"
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table, width: usize) -> Self {
        let mut sources: Vec<&'static str> = Vec::new();
        for row in &table.rows {
            if !sources.contains(&row.source) {
                sources.push(row.source);
            }
        }
        let widest = |at: usize| {
            let cells = table.rows.iter().map(|row| columns(shown_text(&row.cells[at])));
            cells.max().unwrap_or(0).max(columns(table.columns[at].head))
        };
        let mut shown: Vec<(usize, usize)> = (0..table.columns.len()).map(|at| (at, widest(at))).collect();
        let sentences = shown.pop_if(|(at, _)| !is_number(table, *at));
        let marks = if sources.len() > 1 { GAP.len() + mark(sources.len() - 1).len() } else { 0 };
        let figures = |shown: &[(usize, usize)]| {
            marks + shown.iter().map(|(_, wide)| GAP.len() + wide).sum::<usize>().saturating_sub(GAP.len())
        };
        let least = sentences.map_or(0, |(_, wide)| GAP.len() + wide.min(WISHED_NOTE_COLUMNS));
        while figures(&shown) + least > width {
            let Some(gives) = shown.iter().rposition(|(at, _)| table.columns[*at].look == Look::Wide) else {
                break;
            };
            shown.remove(gives);
        }
        let left = width.saturating_sub(figures(&shown) + GAP.len());
        let sentences = sentences.map(|(column, wide)| {
            let words: Vec<&str> = table.rows.iter().map(|row| shown_text(&row.cells[column])).collect();
            let lines = |room: usize| words.iter().map(move |words| wrapped(words, room).len());
            // Beside a figure the first line of a sentence costs none.
            let beside: usize = lines(left).map(|lines| lines.saturating_sub(1)).sum();
            let under: usize = lines(width.saturating_sub(INDENT.len())).sum();
            let fits = left >= wide.min(LEAST_NOTE_COLUMNS) && beside <= under;
            Sentences { column, beside: fits.then_some(left) }
        });
        Layout { table, shown, sentences, sources, width }
    }

    fn head(&self) -> String {
        let heads: Vec<&str> = self.shown.iter().map(|(at, _)| self.table.columns[*at].head).collect();
        let beside = self.sentences.as_ref().filter(|sentences| sentences.beside.is_some());
        self.line(&heads, "", beside.map_or("", |sentences| self.table.columns[sentences.column].head))
    }

    /// A row in as many lines as its sentence takes.
    fn row(&self, row: &Row, above: Option<&Row>) -> Vec<String> {
        let cell = |at: usize| {
            let again = above.is_some_and(|above| above.cells[at] == row.cells[at]);
            let once = self.table.columns[at].look == Look::Once;
            if once && again { "" } else { shown_text(&row.cells[at]) }
        };
        let cells: Vec<&str> = self.shown.iter().map(|(at, _)| cell(*at)).collect();
        let source = self.sources.iter().position(|source| *source == row.source).unwrap_or_default();
        let sentence = self.sentences.as_ref().map_or("", |sentences| cell(sentences.column));
        match self.sentences.as_ref().and_then(|sentences| sentences.beside) {
            Some(room) => {
                let parts = wrapped(sentence, room);
                let mut lines =
                    vec![self.line(&cells, &mark(source), parts.first().map_or("", String::as_str))];
                let nothing = vec![""; cells.len()];
                lines.extend(parts.iter().skip(1).map(|part| self.line(&nothing, "", part)));
                lines
            }
            None => {
                let under = wrapped(sentence, self.width.saturating_sub(INDENT.len()));
                let under = under.into_iter().map(|line| format!("{INDENT}{line}"));
                std::iter::once(self.line(&cells, &mark(source), "")).chain(under).collect()
            }
        }
    }

    /// The figures, the mark of the source where there are several, the sentence.
    fn line(&self, cells: &[&str], mark: &str, sentence: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for ((at, wide), cell) in self.shown.iter().zip(cells) {
            let padding = " ".repeat(wide.saturating_sub(columns(cell)));
            parts.push(if is_number(self.table, *at) {
                format!("{padding}{cell}")
            } else {
                format!("{cell}{padding}")
            });
        }
        if self.sources.len() > 1 {
            let wide = self::mark(self.sources.len() - 1).len();
            parts.push(format!("{mark:>wide$}"));
        }
        parts.push(sentence.to_string());
        parts.join(GAP).trim_end().to_string()
    }

    fn notes(&self, width: usize) -> Vec<String> {
        let noted = |(at, source): (usize, &&str)| {
            let head = if self.sources.len() > 1 { mark(at) + " " } else { "source: ".to_string() };
            let lines = wrapped(source, width.saturating_sub(head.len()));
            let indent = " ".repeat(head.len());
            lines.into_iter().enumerate().map(move |(index, line)| {
                if index == 0 { head.clone() + &line } else { indent.clone() + &line }
            })
        };
        self.sources.iter().enumerate().flat_map(noted).collect()
    }
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
    use crate::rates::table::{KINDS, tables};

    const PLAIN: Style = Style { colour: false };

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
    fn figures_stand_under_each_other() {
        let table = &tables(crate::rates::table::Kind::Pcie)[0];
        let text = screen(table, 80, PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "version  year  GT/s  coding         x1     x2     x4     x8     x16");
        assert_eq!(lines[2], "1.0/1.1  2003   2.5  8b/10b        2.0    4.0    8.0   16.0    32.0");
        assert!(lines.last().is_some_and(|line| line.starts_with("        ") || line.starts_with("source")));
    }
}
