//! A result as it is shown, written once: sentences, facts, figures, lists and tables, of which the terminal and the page are
//! two renderings. What a terminal shows is on the page, too; pictures, and what only a page has room for, are beside it there.

mod finding;
mod table;

use crate::figure::{Figure, Unit};
use crate::grid::{Style, Weight};
use crate::html::{self, kept_together, with_code, word_tag};
use crate::markup::{Markup, html};
use crate::verdict::both;
pub(crate) use finding::{findings, findings_of};
use linerate_facts::printable::{columns, hanging, printable, wrapped};
use linerate_measure::diagnose::Finding;
pub(crate) use table::{Cell, Table, TableRow};

/// Columns of a label with the blank behind it, where a part asks for no other width.
const LABEL: usize = 9;
/// Columns of the name of a figure, and of the figure in both units.
const FIGURE_NAME: usize = 11;
const FIGURE_RATE: usize = 26;
/// Facts longer than this have a line of the page each.
const LONG_FACT: usize = 60;
/// A sentence longer than this is not a large heading.
const LONG_HEADING: usize = 100;
/// Lines of the first line of a terminal, in which names come from outside.
const HEADING_LINES: usize = 3;

/// Where something is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Media {
    #[default]
    Both,
    Terminal,
    Page,
}

impl Media {
    fn has_terminal(self) -> bool {
        self != Media::Page
    }

    fn has_page(self) -> bool {
        self != Media::Terminal
    }
}

/// Sentences with their weight. What is in backquotes is code on a page.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    words: String,
    weight: Weight,
    on: Media,
}

pub(crate) fn plain(words: impl Into<String>) -> Text {
    Text { words: words.into(), weight: Weight::Plain, on: Media::Both }
}

pub(crate) fn bold(words: impl Into<String>) -> Text {
    Text { weight: Weight::Bold, ..plain(words) }
}

pub(crate) fn dim(words: impl Into<String>) -> Text {
    Text { weight: Weight::Dim, ..plain(words) }
}

/// What stops the flow, or failed.
pub(crate) fn alarm(words: impl Into<String>) -> Text {
    Text { weight: Weight::Alarm, ..plain(words) }
}

impl Text {
    /// Only there.
    pub(crate) fn on(self, on: Media) -> Self {
        Text { on, ..self }
    }

    /// Wrapped behind a head that has no weight; nothing of it acts on the terminal.
    fn lines(&self, head: &str, width: usize, style: Style) -> Vec<String> {
        if !self.on.has_terminal() {
            return Vec::new();
        }
        let weighed = |line: String| match line.split_at_checked(head.len()) {
            Some((head, words)) => format!("{head}{}", style.weighed(self.weight, words)),
            None => line,
        };
        hanging(head, &printable(&self.words), width).into_iter().map(weighed).collect()
    }

    fn page(&self) -> Markup {
        let words = with_code(&self.words);
        match self.weight {
            _ if !self.on.has_page() || self.words.is_empty() => html! {},
            Weight::Bold => html! { h3 { (words) } },
            Weight::Dim => html! { p class="caption" { (words) } },
            Weight::Plain | Weight::Alarm => html! { p { (words) } },
        }
    }
}

/// A rate with what is said of it: on a terminal beside it, or below where that is too long; on a page in a tile.
#[derive(Clone, Debug)]
pub(crate) struct FigureRow {
    pub(crate) name: String,
    pub(crate) figure: Figure,
    pub(crate) notes: Vec<Text>,
    pub(crate) on: Media,
}

impl FigureRow {
    /// In place of the notes of a figure that is unknown the reason stands, where there is one.
    fn lines(&self, width: usize, style: Style) -> Vec<String> {
        let unknown = self.figure.why.as_ref().filter(|_| self.figure.value.is_none());
        let unknown = unknown.map(|why| vec![dim(format!("({why})"))]);
        let mut notes = unknown.unwrap_or_else(|| self.notes.clone());
        notes.retain(|note| note.on.has_terminal() && !note.words.is_empty());
        let head = format!("{:<FIGURE_NAME$}{:<FIGURE_RATE$}", self.name, both(&self.figure));
        let fits = |note: &&Text| columns(&head) + columns(&printable(&note.words)) <= width;
        let beside = notes.first().filter(fits).map(|note| style.dim(&printable(&note.words)));
        let below = notes.iter().skip(beside.iter().len());
        let first = beside.map_or_else(|| style.bold(head.trim_end()), |note| style.bold(&head) + &note);
        let indent = " ".repeat(FIGURE_NAME);
        std::iter::once(first).chain(below.flat_map(|note| note.lines(&indent, width, style))).collect()
    }

    fn tile(&self) -> Markup {
        html! {
            div class={ "tile " (self.name) } {
                p class="name" { (self.name) " " (word_tag(self.figure.origin)) }
                p class="value" {
                    span class="big" { (self.figure.show(Unit::Bytes)) }
                    @if let Some(value) = self.figure.value { span class="bits" { (Unit::Bits.show(value)) } }
                }
                @for note in self.notes.iter().filter(|note| note.on.has_page() && !note.words.is_empty()) {
                    p class="note" { (with_code(&note.words)) }
                }
            }
        }
    }
}

/// Tiles of those that are known, and why the others are not.
fn tiles(figures: &[FigureRow]) -> Markup {
    let shown = figures.iter().filter(|row| row.on.has_page());
    let (known, unknown): (Vec<&FigureRow>, Vec<&FigureRow>) =
        shown.partition(|row| row.figure.value.is_some());
    let unknown: Vec<String> = unknown.iter().map(|row| row.figure.missing(&row.name)).collect();
    html! {
        div class="tiles" { @for row in known { (row.tile()) } }
        @if !unknown.is_empty() { p class="caption" { "Unknown: " (unknown.join("; ")) "." } }
    }
}

/// What a part is made of.
#[derive(Clone, Debug)]
pub(crate) enum Block<'a> {
    /// An empty line of the terminal.
    Space,
    /// The heading of what follows on a terminal, where a part of the page has one of its own.
    Heading(String),
    Text(Text),
    /// With the columns of a label.
    Facts(usize, Vec<Labelled>),
    /// Sentences, each behind its mark.
    List(Vec<Labelled>),
    Figures(Vec<FigureRow>),
    /// A command line as it can be pasted: its words as a shell reads them.
    Command(Vec<String>),
    Findings(&'a [Finding]),
    Table(Table<'a>),
    /// A chart or a map, on the page only.
    Picture(Markup),
    /// More of something, behind its heading, to which the page adds a result. A terminal has it only where it is open.
    Fold {
        heading: String,
        result: String,
        open: bool,
        blocks: Vec<Block<'a>>,
    },
    /// Only there.
    On(Media, Vec<Block<'a>>),
}

/// A label and what is said of it.
pub(crate) type Labelled = (&'static str, Text);

/// Facts with labels of the usual width.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'static str, String)>) -> Block<'a> {
    Block::Facts(LABEL, facts.into_iter().map(|(label, words)| (label, plain(words))).collect())
}

/// Sentences without marks.
pub(crate) fn list<'a>(sentences: impl IntoIterator<Item = impl Into<String>>) -> Block<'a> {
    Block::List(sentences.into_iter().map(|words| ("", plain(words))).collect())
}

impl Block<'_> {
    fn lines(&self, width: usize, style: Style) -> Vec<String> {
        let labelled = |facts: &[Labelled], head: &dyn Fn(&str) -> String| {
            let lines = |(label, text): &Labelled| text.lines(&head(label), width, style);
            facts.iter().flat_map(lines).collect()
        };
        match self {
            Block::Space => vec![String::new()],
            Block::Heading(heading) => vec![String::new(), style.bold(&printable(heading))],
            Block::Text(text) => text.lines("", width, style),
            Block::Facts(label, facts) => labelled(facts, &|word| format!("{word:0$} ", label - 1)),
            Block::List(items) => labelled(items, &|mark| format!("  {mark}")),
            Block::Figures(rows) => {
                let shown = rows.iter().filter(|row| row.on.has_terminal());
                shown.flat_map(|row| row.lines(width, style)).collect()
            }
            Block::Command(words) => command(words, width),
            Block::Findings(all) => all.iter().flat_map(|one| finding::lines(one, width, style)).collect(),
            Block::Table(table) => table.lines(width, style),
            Block::Fold { heading, open: true, blocks, .. } => {
                [Block::Heading(heading.clone()).lines(width, style), lines(blocks, width, style)].concat()
            }
            Block::On(on, blocks) if on.has_terminal() => lines(blocks, width, style),
            Block::Picture(_) | Block::Fold { .. } | Block::On(..) => Vec::new(),
        }
    }

    fn page(&self) -> Markup {
        match self {
            Block::Space | Block::Heading(_) => html! {},
            Block::Text(text) => text.page(),
            Block::Facts(_, facts) => {
                let long = facts.iter().any(|(_, text)| text.words.chars().count() > LONG_FACT);
                html! {
                    @if !facts.is_empty() {
                        dl class=(if long { "facts long" } else { "facts" }) {
                            @for (word, text) in facts.iter().filter(|(_, text)| text.on.has_page()) {
                                div { dt { (word) } dd { (with_code(&text.words)) } }
                            }
                        }
                    }
                }
            }
            Block::List(items) => html! {
                @if !items.is_empty() {
                    ul { @for (mark, text) in items { li { (mark) (with_code(&text.words)) } } }
                }
            },
            Block::Figures(rows) => tiles(rows),
            Block::Command(words) => html! { pre class="command" { (words.join(" ")) } },
            Block::Findings(all) => finding::cards(all),
            Block::Table(table) => table.page(),
            Block::Picture(picture) => picture.clone(),
            Block::Fold { heading, result, open, blocks } => html! {
                details open[*open] {
                    summary { (heading) @if !result.is_empty() { ": " (result) } }
                    (page(blocks))
                }
            },
            Block::On(on, blocks) => html! { @if on.has_page() { (page(blocks)) } },
        }
    }
}

/// Broken between words, with a backslash.
fn command(arguments: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in arguments.iter().map(|argument| printable(argument)) {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(&word) + 2 <= width => *line += &format!(" {word}"),
            Some(line) => {
                *line += " \\";
                lines.push(format!("    {word}"));
            }
            None => lines.push(format!("  {word}")),
        }
    }
    lines
}

/// Blocks for a terminal.
pub(crate) fn lines(blocks: &[Block], width: usize, style: Style) -> Vec<String> {
    blocks.iter().flat_map(|block| block.lines(width, style)).collect()
}

fn page(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (block.page()) } }
}

/// A part of a result: on the page a card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part<'a> {
    /// Names it for links within the page.
    pub(crate) id: &'static str,
    /// The heading of the card.
    pub(crate) title: &'static str,
    /// Below that heading.
    pub(crate) intro: String,
    pub(crate) on: Media,
    /// A terminal shows those with a higher number later: its end is what is read first.
    pub(crate) late: u8,
    pub(crate) blocks: Vec<Block<'a>>,
}

impl<'a> Part<'a> {
    pub(crate) fn new(
        id: &'static str,
        title: &'static str,
        intro: impl Into<String>,
        blocks: Vec<Block<'a>>,
    ) -> Self {
        Part { id, title, intro: intro.into(), blocks, ..Part::default() }
    }

    pub(crate) fn lines(&self, width: usize, style: Style) -> Vec<String> {
        if self.on.has_terminal() { lines(&self.blocks, width, style) } else { Vec::new() }
    }

    /// Nothing where it has nothing to show.
    pub(crate) fn card(&self) -> Markup {
        let body = if self.on.has_page() {
            page(&self.blocks)
        } else {
            html! {}
        };
        html! { @if !body.0.is_empty() { (html::card(self.id, self.title, &self.intro, body)) } }
    }
}

/// A part of the page that is drawn; nothing where nothing is.
pub(crate) fn drawn<'a>(id: &'static str, title: &'static str, picture: Markup) -> Part<'a> {
    Part { id, title, on: Media::Page, blocks: vec![Block::Picture(picture)], ..Part::default() }
}

/// What failed, of which a terminal shows at most so many.
pub(crate) fn errors<'a>(errors: &[String], most: usize) -> Part<'a> {
    let mut blocks = Vec::new();
    if !errors.is_empty() {
        let heading = alarm("errors: the results are partial").on(Media::Terminal);
        blocks.extend([Block::Space, Block::Text(heading), list(errors.iter().take(most).cloned())]);
    }
    let left = errors.len().saturating_sub(most);
    let left = (left > 0).then(|| list([format!("and {left} more, in run.json")]));
    blocks.extend(left);
    Part { id: "errors", title: "Errors: the results are partial", late: 2, blocks, ..Part::default() }
}

/// All of a result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document<'a> {
    /// What a browser's tab shows.
    pub(crate) tab: String,
    /// The first line: which linerate, where, of what.
    pub(crate) heading: String,
    /// Beside it on a page, such as when that was.
    pub(crate) about: Vec<String>,
    /// What came of it. The first of them is the heading of a page.
    pub(crate) answer: Vec<Text>,
    /// Below the answer on a page.
    pub(crate) figures: Vec<Block<'a>>,
    /// What the page needs of style beside that of every page.
    pub(crate) sheet: String,
    pub(crate) parts: Vec<Part<'a>>,
}

impl Document<'_> {
    /// No line is wider than `width`.
    pub(crate) fn lines(&self, width: usize, style: Style) -> Vec<String> {
        let heading = wrapped(&printable(&self.heading), width).into_iter().take(HEADING_LINES);
        let mut lines: Vec<String> = heading.map(|line| style.bold(&line)).collect();
        let answer: Vec<String> = self.answer.iter().flat_map(|text| text.lines("", width, style)).collect();
        if !lines.is_empty() && !answer.is_empty() {
            lines.push(String::new());
        }
        lines.extend(answer);
        let mut parts: Vec<&Part> = self.parts.iter().collect();
        parts.sort_by_key(|part| part.late);
        lines.extend(parts.iter().flat_map(|part| part.lines(width, style)));
        lines
    }

    /// The lines with a newline each.
    pub(crate) fn screen(&self, width: usize, style: Style) -> String {
        self.lines(width, style).join("\n") + "\n"
    }

    pub(crate) fn page(&self) -> String {
        let mut answer = self.answer.iter().filter(|text| text.on.has_page() && !text.words.is_empty());
        let first = answer.next().map_or("", |text| text.words.as_str());
        let long = first.chars().count() > LONG_HEADING;
        let about = std::iter::once(&self.heading).chain(&self.about);
        let body = html! {
            header {
                p class="kicker" {
                    @for fact in about.filter(|fact| !fact.is_empty()) { span { (fact) } }
                }
                h1 class=[long.then_some("long")] { (kept_together(first)) }
                @for text in answer { p class="lead" { (kept_together(&text.words)) } }
                (page(&self.figures))
            }
            main { @for part in &self.parts { (part.card()) } }
        };
        html::frame(&self.tab, &self.sheet, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Column, NO_SCREEN, name, notes, number};
    use proptest::prelude::*;

    const COLUMNS: [Column; 4] =
        [name("name"), number("rate", 1), number("max", 0).page_only(), notes("notes")];

    #[test]
    fn each_cell_says_its_head_for_narrow_pages() {
        let rate = Cell::drawn("1", html! { "1" title { "2" } });
        let shown = Table::new(COLUMNS, [TableRow::of(["vda".into(), rate])]).page().into_string();
        assert!(
            shown.contains(r#"<th scope="row">vda</th><td data-head="rate" class="r num">1<title>"#),
            "{shown}"
        );
        assert!(!shown.contains("max"), "nothing is known in that column: {shown}");
    }

    #[test]
    fn no_name_acts_on_the_terminal() {
        let name = || "a\u{1b}[2J\u{202e}b\u{7}";
        let blocks = [
            Block::Heading(name().into()),
            facts([("fact", name().into())]),
            list([name()]),
            Block::Command(vec![name().into()]),
            Block::Table(Table::new(COLUMNS, [TableRow::of([name()]).with_notes(vec![plain(name())])])),
        ];
        let document = Document {
            heading: name().into(),
            answer: vec![bold(name())],
            parts: vec![Part { blocks: blocks.to_vec(), ..Part::default() }, errors(&[name().into()], 1)],
            ..Document::default()
        };
        let screen = document.screen(40, Style::of(40, false));
        assert!(!screen.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{screen:?}");
        assert_eq!(screen.matches("[2J").count(), 9, "{screen}");
    }

    #[test]
    fn a_label_is_apart_from_its_text() {
        let lines = |label, text: &str| facts([(label, text.to_string())]).lines(80, Style::of(80, false));
        assert_eq!(lines("path MTU", "lo: 1500"), ["path MTU lo: 1500"]);
        assert_eq!(lines("ledger", "nothing lost"), ["ledger   nothing lost"]);
        assert_eq!(lines("round trip", "beside lo"), ["round trip beside lo"]);
    }

    proptest! {
        /// Whatever is written once is in both media: what a terminal shows is on the page, in the same words; but for columns in
        /// which nothing is known, unless that is an answer.
        #[test]
        fn what_the_terminal_shows_is_on_the_page(
            cells in prop::collection::vec(("[a-z]{1,9}", rate(), "[a-z ]{1,30}", "[a-z]{1,20}"), 1..6),
            whole in any::<bool>(),
        ) {
            let row = |(name, rate, sentence, note): &(String, String, String, String)| {
                TableRow::of([name.as_str(), rate, "", sentence].map(str::to_string)).with_notes(vec![dim(note)])
            };
            let table = Table::new(COLUMNS, cells.iter().map(row));
            let table = if whole { table.whole() } else { table };
            let blocks = vec![Block::Table(table), facts([("fact", "words".into())]), Block::Text(bold("and so on"))];
            let part = Part { id: "part", title: "Part", blocks, ..Part::default() };
            let page = part.card().into_string().replace('\u{a0}', " ");
            let left_out = !whole && cells.iter().all(|(_, rate, ..)| UNKNOWN.contains(&rate.as_str()));
            prop_assert_eq!(page.contains(r#"class="r">rate<"#), !left_out, "{}", page);
            for word in part.lines(NO_SCREEN, Style::of(NO_SCREEN, false)).join(" ").split_whitespace() {
                let of_column = left_out && (word == "rate" || UNKNOWN.contains(&word));
                prop_assert!(of_column || page.contains(word), "{word}: {page}");
            }
        }
    }

    const UNKNOWN: [&str; 2] = ["–", "unknown"];

    fn rate() -> impl Strategy<Value = String> {
        prop_oneof![
            (0.0..1e12f64).prop_map(linerate_facts::units::show_bytes_rate),
            prop::sample::select(&UNKNOWN[..]).prop_map(String::from),
        ]
    }
}
