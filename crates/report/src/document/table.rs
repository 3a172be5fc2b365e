//! A table of a document. Columns that a terminal has no room for are dropped, or stand below; a narrow page shows each row as a
//! block.

use super::Text;
use crate::grid::{self, Column, Style, Weight};
use crate::html::{scrolling, with_code};
use crate::markup::{Markup, html};
use linerate_facts::printable::columns;

/// Before what is said below a row.
const INDENT: &str = "    ";
/// Columns before what is said beside a row.
const GAP: usize = 2;
/// A table of more columns than this is wider than a narrow page.
const MOST_NARROW: usize = 7;

/// A cell of a table: its words, and where the page shows more than they do, that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    words: String,
    drawn: Option<Markup>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(words: T) -> Self {
        Cell { words: words.into(), drawn: None }
    }
}

impl Cell {
    pub(crate) fn drawn(words: impl Into<String>, drawn: Markup) -> Self {
        Cell { words: words.into(), drawn: Some(drawn) }
    }

    pub(crate) fn is_known(&self) -> bool {
        match self.words.as_str() {
            "" => self.drawn.is_some(),
            words => !matches!(words, "–" | "unknown"),
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRow {
    cells: Vec<Cell>,
    weight: Weight,
    /// What is said of it: below it on a terminal, beside it on a page.
    notes: Vec<Text>,
}

impl TableRow {
    pub(crate) fn of(cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        TableRow { cells: cells.into_iter().map(Into::into).collect(), ..TableRow::default() }
    }

    /// It is what limits, or what lost something.
    pub(crate) fn marked(self, marked: bool) -> Self {
        TableRow { weight: if marked { Weight::Alarm } else { self.weight }, ..self }
    }

    /// It was chosen.
    pub(crate) fn chosen(self, chosen: bool) -> Self {
        TableRow { weight: if chosen { Weight::Bold } else { self.weight }, ..self }
    }

    pub(crate) fn with_notes(self, notes: Vec<Text>) -> Self {
        TableRow { notes, ..self }
    }
}

/// Columns and rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table<'a> {
    columns: Vec<Column<'a>>,
    /// The heads of the page, where they show more than those of the terminal.
    heads: Vec<Markup>,
    rows: Vec<TableRow>,
    /// A column in which nothing is known is an answer, too.
    whole: bool,
    /// Columns that a terminal has no room for stand below the others, as many together as this; 0: they are dropped.
    below: usize,
    /// With so many columns left on a terminal what is said of a row stands beside it, in place of below; 0: never.
    beside: usize,
    /// The head of that.
    beside_head: &'a str,
}

impl<'a> Table<'a> {
    pub(crate) fn new(columns: impl Into<Vec<Column<'a>>>, rows: impl IntoIterator<Item = TableRow>) -> Self {
        let rows = rows.into_iter().collect();
        Table { columns: columns.into(), rows, ..Table::default() }
    }

    pub(crate) fn with_heads(self, heads: &[Markup]) -> Self {
        Table { heads: heads.to_vec(), ..self }
    }

    /// The page has all columns.
    pub(crate) fn whole(self) -> Self {
        Table { whole: true, ..self }
    }

    /// On a terminal what does not fit stands below, `together` columns at least beside the names of the rows.
    pub(crate) fn below(self, together: usize) -> Self {
        Table { below: together, ..self }
    }

    /// What is said of a row stands beside it, below this head, where a terminal has so many columns left for it.
    pub(crate) fn notes_beside(self, least: usize, head: &'a str) -> Self {
        Table { beside: least, beside_head: head, ..self }
    }

    /// Head, rows, and below or beside each what is said of it.
    pub(crate) fn lines(&self, width: usize, style: Style) -> Vec<String> {
        if self.below > 0 {
            return self.below_each_other(width, style);
        }
        let table = grid::lines(&self.columns, &self.words(), style.table(width));
        let widest = table.iter().map(|line| columns(line)).max().unwrap_or(0) + GAP;
        let beside = self.beside > 0 && widest.saturating_add(self.beside) <= width;
        let mut table = table.into_iter();
        let head = table.by_ref().take(grid::head_lines(&self.columns));
        let padded = |line: &str| line.to_string() + &" ".repeat(widest - columns(line));
        let headed = |line: String| match beside && !self.beside_head.is_empty() {
            true => style.dim(&(padded(&line) + self.beside_head)),
            false => style.dim(&line),
        };
        let mut lines: Vec<String> = head.map(headed).collect();
        for (line, row) in table.zip(&self.rows) {
            let note = row.notes.first().filter(|note| beside && !note.words.is_empty());
            if let Some(note) = note {
                lines.extend(note.lines(&padded(&line), width, style));
                continue;
            }
            lines.push(style.weighed(row.weight, &line));
            lines.extend(row.notes.iter().flat_map(|note| note.lines(INDENT, width, style)));
        }
        lines
    }

    fn words(&self) -> Vec<Vec<String>> {
        let words = |row: &TableRow| row.cells.iter().map(|cell| cell.words.clone()).collect();
        self.rows.iter().map(words).collect()
    }

    fn below_each_other(&self, width: usize, style: Style) -> Vec<String> {
        let (mut lines, mut from) = (Vec::new(), 1);
        let fits = |piece: &Table| {
            let lines = grid::lines(&piece.columns, &piece.words(), usize::MAX);
            lines.iter().all(|line| columns(line) <= width)
        };
        while from < self.columns.len() {
            let ends = (from + self.below..self.columns.len() + 1).step_by(self.below).rev();
            let mut pieces = ends.map(|to| (to, self.piece(from, to)));
            let least = from + self.below;
            let (to, piece) =
                pieces.find(|(_, piece)| fits(piece)).unwrap_or_else(|| (least, self.piece(from, least)));
            lines.extend(piece.lines(width, style));
            lines.push(String::new());
            from = to;
        }
        lines
    }

    /// The first column and some of the others, with the rows that have something there.
    fn piece(&self, from: usize, to: usize) -> Table<'a> {
        let of = |at: &usize| *at == 0 || (from..to).contains(at);
        let row = |row: &TableRow| {
            let cells = row.cells.iter().enumerate().filter(|(at, _)| of(at));
            TableRow { cells: cells.map(|(_, cell)| cell.clone()).collect(), ..row.clone() }
        };
        let has_some = |row: &TableRow| row.cells.iter().skip(1).any(|cell| !cell.words.is_empty());
        let columns = self.columns.iter().enumerate().filter(|(at, _)| of(at)).map(|(_, column)| *column);
        let rows = self.rows.iter().map(row).filter(has_some);
        Table::new(columns.collect::<Vec<_>>(), rows)
    }

    /// Without the columns in which nothing is known, unless that is an answer.
    pub(crate) fn page(&self) -> Markup {
        if self.rows.is_empty() {
            return html! {};
        }
        let known = |at: usize| self.rows.iter().any(|row| row.cells.get(at).is_some_and(Cell::is_known));
        let shown: Vec<(usize, &Column)> =
            self.columns.iter().enumerate().filter(|(at, _)| *at == 0 || self.whole || known(*at)).collect();
        let notes = self.rows.iter().any(|row| row.notes.iter().any(|note| note.on.has_page()));
        let names: Vec<&str> =
            shown.iter().map(|(_, column)| column.head()).filter(|head| !head.is_empty()).collect();
        let head = |at: usize, column: &Column| {
            self.heads.get(at).cloned().unwrap_or_else(|| html! { (column.head()) })
        };
        let table = html! {
            table class=(if shown.len() > MOST_NARROW { "stages" } else { "plain" }) {
                thead {
                    tr {
                        @for (at, column) in &shown {
                            th scope="col" class=[column.is_number().then_some("r")] { (head(*at, column)) }
                        }
                        @if notes { th scope="col" { "notes" } }
                    }
                }
                tbody {
                    @for row in &self.rows {
                        tr class=[(row.weight == Weight::Alarm).then_some("cut")] {
                            @for (at, column) in &shown { (cell(row, *at, column)) }
                            @if notes { td class="how" { (beside(&row.notes)) } }
                        }
                    }
                }
            }
        };
        scrolling(&format!("table of {}", names.join(", ")), table)
    }
}

/// The first names its row. Where the page is narrow each row is a block, in which each cell says its head.
fn cell(row: &TableRow, at: usize, column: &Column) -> Markup {
    let Cell { words, drawn } = row.cells.get(at).cloned().unwrap_or_default();
    let shown = drawn.unwrap_or_else(|| html! { (words) });
    let head = Some(column.head()).filter(|head| !head.is_empty());
    let class = match (column.is_number(), column.has_sentences()) {
        (true, _) => Some("r num"),
        (_, true) => Some("how"),
        _ => None,
    };
    html! {
        @if at == 0 { th scope="row" class=[column.is_number().then_some("r num")] { (shown) } } @else { td data-head=[head] class=[class] { (shown) } }
    }
}

fn beside(notes: &[Text]) -> Markup {
    let shown: Vec<&Text> = notes.iter().filter(|note| note.on.has_page()).collect();
    html! { @for (index, note) in shown.iter().enumerate() { @if index > 0 { br; } (with_code(&note.words)) } }
}
