//! The one table of a terminal: each column is as wide as its widest cell. Where the screen is narrow, columns
//! are dropped, the name is shortened, and the notes take what is left, in this order. ANSI attributes are given only
//! where the screen wants them ([`Style`]).

use linerate_facts::printable::{columns, printable, shortened};
use linerate_measure::diagnose::Severity;

/// A name is shortened down to this, and no further.
const LEAST_NAME: usize = 12;
/// Letters of a name that are worth more than a column that may be dropped.
const NAME_KEPT: usize = 34;
/// Notes have at least this, as long as a name can give it.
const NOTES_KEPT: usize = 24;
/// Notes with less room than this are dropped.
const LEAST_NOTES: usize = 7;
const GAP: &str = "  ";

/// The width of output that is no screen: nothing is shortened to it.
pub const NO_SCREEN: usize = usize::MAX;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    head: &'a str,
    /// Text is aligned to the left, numbers to the right.
    left: bool,
    gives: Gives,
    /// A terminal has no room for it.
    page_only: bool,
}

/// What a column gives where the screen is narrow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gives {
    Nothing,
    /// All of it: the highest number is dropped first.
    Itself(u8),
    /// Letters, at the end of each cell.
    Letters,
    /// It has what the other columns leave, and is dropped where that is next to nothing.
    Rest,
}

/// What the row is about. It is shortened where the screen is narrow.
pub const fn name(head: &str) -> Column<'_> {
    Column { head, left: true, gives: Gives::Letters, page_only: false }
}

/// Text. The highest `expendable` is dropped first; 0: never.
pub const fn text(head: &str, expendable: u8) -> Column<'_> {
    Column { head, left: true, gives: expendable_or_not(expendable), page_only: false }
}

/// Numbers, with `expendable` as of [`text`].
pub const fn number(head: &str, expendable: u8) -> Column<'_> {
    Column { head, left: false, gives: expendable_or_not(expendable), page_only: false }
}

/// Sentences: they have the rest of the line and are cut at its end.
pub const fn notes(head: &str) -> Column<'_> {
    Column { head, left: true, gives: Gives::Rest, page_only: false }
}

impl<'a> Column<'a> {
    pub(crate) const fn page_only(self) -> Self {
        Column { page_only: true, ..self }
    }

    pub(crate) fn head(&self) -> &'a str {
        self.head
    }

    pub(crate) fn is_number(&self) -> bool {
        !self.left
    }

    pub(crate) fn has_sentences(&self) -> bool {
        self.gives == Gives::Rest
    }
}

/// A column for each head: names first, text up to the column `texts`, then numbers; `sentence`: the last one takes what
/// is left of the line.
pub(crate) fn headed<'a>(heads: &[&'a str], texts: usize, sentence: bool) -> Vec<Column<'a>> {
    let column = |(at, head): (usize, &&'a str)| match at {
        0 => name(head),
        at if at < texts => text(head, 0),
        at if sentence && at + 1 == heads.len() => notes(head),
        _ => number(head, 0),
    };
    heads.iter().enumerate().map(column).collect()
}

const fn expendable_or_not(expendable: u8) -> Gives {
    if expendable == 0 { Gives::Nothing } else { Gives::Itself(expendable) }
}

/// Lines of the head: a head may have several.
pub(crate) fn head_lines(all: &[Column]) -> usize {
    all.iter().map(|column| column.head.lines().count()).max().unwrap_or(0).max(1)
}

/// Head and rows, each at most `width` wide and without blanks at its end. No cell acts on the terminal; a column without
/// any text is left out.
pub fn lines(all: &[Column], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let shown = fitted(all, &rows, width);
    let head = |at: usize, column: &Column| printable(column.head.lines().nth(at).unwrap_or_default());
    let heads = |at: usize| all.iter().map(|column| head(at, column)).collect();
    let heads: Vec<Vec<String>> = (0..head_lines(all)).map(heads).collect();
    heads.iter().chain(&rows).map(|row| line(all, &shown, row, width)).collect()
}

/// The columns that are shown, by index, and how wide each is.
fn fitted(all: &[Column], rows: &[Vec<String>], width: usize) -> Vec<(usize, usize)> {
    let cells = |index: usize| rows.iter().filter_map(move |row| row.get(index));
    let widest = |index: usize| cells(index).map(|cell| columns(cell)).max().unwrap_or(0);
    let filled = |index: &usize| *index == 0 || widest(*index) > 0 && !all[*index].page_only;
    let is = |index: usize, gives: Gives| all[index].gives == gives;
    let mut shown: Vec<(usize, usize)> = (0..all.len())
        .filter(filled)
        .map(|index| (index, all[index].head.lines().map(columns).fold(widest(index), usize::max)))
        .collect();
    // What all take together, with the notes as short as they may get.
    let total = |shown: &[(usize, usize)]| {
        let needs = |(index, wide): &(usize, usize)| {
            GAP.len() + if is(*index, Gives::Rest) { (*wide).min(NOTES_KEPT) } else { *wide }
        };
        shown.iter().map(needs).sum::<usize>().saturating_sub(GAP.len())
    };
    while total(&shown) > width {
        // A table of names alone says nothing: the name gives way first, down to some letters.
        let spare = shown.iter().find(|(index, _)| is(*index, Gives::Letters));
        let spare = spare.map_or(0, |(_, wide)| wide.saturating_sub(NAME_KEPT));
        let most = shown.iter().map(|(index, _)| expendable(all[*index])).max().unwrap_or(0);
        if most == 0 || spare >= total(&shown) - width {
            break;
        }
        shown.retain(|(index, _)| expendable(all[*index]) < most);
    }
    let over = total(&shown).saturating_sub(width);
    if let Some((_, name)) = shown.iter_mut().find(|(index, _)| is(*index, Gives::Letters)) {
        *name = name.saturating_sub(over).max(LEAST_NAME.min(*name));
    }
    let others = shown.iter().filter(|(index, _)| !is(*index, Gives::Rest));
    let room = width.saturating_sub(others.map(|(_, wide)| wide + GAP.len()).sum());
    shown.retain_mut(|(index, wide)| {
        let notes = is(*index, Gives::Rest);
        *wide = if notes { (*wide).min(room) } else { *wide };
        !notes || *wide >= LEAST_NOTES.min(widest(*index))
    });
    shown
}

fn expendable(column: Column) -> u8 {
    if let Gives::Itself(order) = column.gives { order } else { 0 }
}

fn line(all: &[Column], shown: &[(usize, usize)], row: &[String], width: usize) -> String {
    let mut text = String::new();
    for (index, wide) in shown {
        let cell = shortened(row.get(*index).map_or("", String::as_str), *wide);
        let padding = " ".repeat(wide.saturating_sub(columns(&cell)));
        text += &if all[*index].left { cell + &padding } else { padding + &cell };
        text += GAP;
    }
    shortened(text.trim_end(), width)
}

/// How much a text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weight {
    #[default]
    Plain,
    Bold,
    Dim,
    /// What stops the flow, or failed: bold and red.
    Alarm,
}

/// Puts attributes around a text, or leaves it plain; knows whether what is wide has to be shortened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
    screen: bool,
    least_table: usize,
}

impl Style {
    /// For a screen of this width, or for no screen.
    pub(crate) const fn of(width: usize, colour: bool) -> Style {
        Style { colour, screen: width < NO_SCREEN, least_table: 0 }
    }

    /// On a narrower screen its lines are broken by the terminal, rather than that columns are lost.
    pub(crate) const fn with_tables_of(self, least_table: usize) -> Style {
        Style { least_table, ..self }
    }

    /// What is shown is read on a screen, where lines have an end.
    pub(crate) fn is_screen(self) -> bool {
        self.screen
    }

    /// How wide a table may be where text is wrapped at `width`.
    pub(crate) fn table(self, width: usize) -> usize {
        if self.screen { width.max(self.least_table) } else { NO_SCREEN }
    }

    pub(crate) fn weighed(self, weight: Weight, text: &str) -> String {
        match weight {
            Weight::Plain => text.to_string(),
            Weight::Bold => self.bold(text),
            Weight::Dim => self.dim(text),
            Weight::Alarm => self.cut(text),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What stops the flow: bold and red.
    pub(crate) fn cut(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// A severity by its word; the colour only repeats it.
    pub(crate) fn severity(self, word: &str, severity: Severity) -> String {
        match severity {
            Severity::Loss => self.with("1;31", word),
            Severity::Slow => self.with("1;33", word),
            Severity::Note => self.with("1", word),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [name("what"), number("rate", 0), number("spread", 1), text("note", 2)];

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(String::from).to_vec()
    }

    #[test]
    fn what_is_least_needed_goes_first() {
        let rows = [
            row(["sequential read, 1 worker", "98.5 MB/s", "1.2 %", "page cache"]),
            row(["x", "1 MB/s", "", ""]),
        ];
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 80).join("\n"), @r"
        what                            rate  spread  note
        sequential read, 1 worker  98.5 MB/s   1.2 %  page cache
        x                             1 MB/s
        ");
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 46).join("\n"), @r"
        what                            rate  spread
        sequential read, 1 worker  98.5 MB/s   1.2 %
        x                             1 MB/s
        ");
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 30).join("\n"), @r"
        what                      rate
        sequential read, 1…  98.5 MB/s
        x                       1 MB/s
        ");
    }

    #[test]
    fn notes_take_the_rest_of_the_line_and_a_name_gives_them_some() {
        let all = [name("disk"), number("rate", 0), notes("notes")];
        let rows = [row(["nvme0n1 of the first controller", "1 GB/s", "half of what its like does here"])];
        insta::assert_snapshot!(lines(&all, &rows, 70).join("\n"), @r"
        disk                               rate  notes
        nvme0n1 of the first controller  1 GB/s  half of what its like does h…
        ");
        insta::assert_snapshot!(lines(&all, &rows, 50).join("\n"), @r"
        disk                rate  notes
        nvme0n1 of the…   1 GB/s  half of what its like d…
        ");
        insta::assert_snapshot!(lines(&all, &rows, 26).join("\n"), @r"
        disk            rate
        nvme0n1 of…   1 GB/s
        ");
    }

    #[test]
    fn no_cell_acts_on_the_terminal() {
        let table = lines(&[name("a"), notes("b")], &[row(["\u{1b}[2J", "x\ny"])], 40).join("\n");
        assert!(!table.contains('\u{1b}') && table.ends_with("x y"), "{table:?}");
    }
}
