//! Pieces of every page: cards, and numbers with the tag that says where they come from.

use crate::figure::{Figure, Unit};
use crate::markup::{Markup, PreEscaped, html};
use linerate_model::plan::Origin;

/// A card of the page with its heading; `id` names it for links within the page.
pub(crate) fn card(id: &str, title: &str, intro: Markup, body: Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-h" } {
            h2 id={ (id) "-h" } { (title) }
            @if !intro.0.is_empty() { p class="intro" { (intro) } }
            (body)
        }
        "\n"
    }
}

/// A table; where the page is narrow each row is a block, in which each cell says its head.
pub(crate) fn table(class: &str, head: Markup, rows: Markup) -> Markup {
    let heads = heads(&head.0);
    let rows = PreEscaped(with_heads(&heads, &rows.0));
    let columns: Vec<&str> = heads.iter().map(String::as_str).filter(|head| !head.is_empty()).collect();
    let table = html! {
        table class=(class) {
            thead { tr { (head) } }
            (rows)
        }
    };
    scrolling(&format!("table of {}", columns.join(", ")), table)
}

/// What may be wider than the page scrolls by itself, also by keyboard: it takes the focus, and says what it is.
pub(crate) fn scrolling(what: &str, body: Markup) -> Markup {
    html! { div class="scroll" tabindex="0" role="group" aria-label=(what) { (body) } }
}

/// The words of the heads of columns, without tags.
fn heads(head: &str) -> Vec<String> {
    let cells = head.split("<th").skip(1).filter_map(|cell| cell.split_once('>'));
    cells.map(|(_, cell)| first_text(cell.split("</th>").next().unwrap_or_default())).collect()
}

/// Text up to the first tag: a head may have a mark behind its word.
fn first_text(markup: &str) -> String {
    markup.split('<').next().unwrap_or_default().trim().to_string()
}

/// Each `td` of our own rows with the head of its column.
fn with_heads(heads: &[String], rows: &str) -> String {
    let mut parts = rows.split("<tr");
    let mut all = parts.next().unwrap_or_default().to_string();
    for row in parts {
        all += "<tr";
        let mut column = 0;
        let mut rest = row;
        while let Some(at) = rest.find("<t") {
            let (before, cell) = rest.split_at(at);
            all += before;
            let name = cell.get(..3).unwrap_or(cell);
            let is_cell = name == "<td" || name == "<th";
            all += name;
            if name == "<td"
                && let Some(head) = heads.get(column).filter(|head| !head.is_empty())
            {
                all += &format!(" data-head=\"{head}\"");
            }
            column += usize::from(is_cell);
            rest = &cell[name.len()..];
        }
        all += rest;
    }
    all
}

/// The head of a column: of text, or of numbers.
pub(crate) fn heading(numbers: bool, name: Markup) -> Markup {
    html! { th scope="col" class=[numbers.then_some("r")] { (name) } }
}

/// A small tag with the whole word.
pub(super) fn word_tag(origin: Origin) -> Markup {
    let word: &str = origin.into();
    html! { span class={ "tag " (word) } { (word) } }
}

/// A small tag with the letter; the word is there for pointers and screen readers, and the legend explains it.
pub(super) fn letter_tag(origin: Origin) -> Markup {
    let word: &str = origin.into();
    let letter = match origin {
        Origin::Rated => "R",
        Origin::Effective => "E",
        Origin::Measured => "M",
        Origin::Unknown => "?",
    };
    html! { abbr class={ "tag " (word) } title=(word) { (letter) } }
}

/// A figure with its tag; the reason of an unknown one shows on pointing.
pub(super) fn tagged(figure: &Figure, unit: Unit) -> Markup {
    let why = figure.why.as_ref().filter(|_| figure.value.is_none());
    let class = if figure.value.is_some() { "num" } else { "num none" };
    html! { span class=(class) title=[why] { (figure.show(unit)) } " " (letter_tag(figure.origin)) }
}

/// A text in which `…` in backquotes is set as code.
pub(super) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd number of backquotes is no markup.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (kept_together(part)) }
        }
    }
}

/// The text with each number tied to its unit, so that no line ends between them.
pub(crate) fn kept_together(text: &str) -> String {
    let unit = |word: &str| {
        word.starts_with('%') || word.contains("b/s") || word.contains("B/s") || word.contains("iB")
    };
    let mut joined = String::with_capacity(text.len());
    let mut digit_before = false;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            joined.push(if digit_before && unit(word) { '\u{a0}' } else { ' ' });
        }
        joined += word;
        digit_before = word.ends_with(|c: char| c.is_ascii_digit());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_says_its_head_for_narrow_pages() {
        let head = html! {
            (heading(false, html! { "name" })) (heading(true, html! { "measured " (letter_tag(Origin::Measured)) }))
        };
        let rows = html! { tbody { tr { th scope="row" { "vda" } td class="r" { "1" title { "2" } } } } };
        let shown = table("plain", head, rows).0;
        assert!(shown.contains(r#"<th scope="row">vda</th><td data-head="measured" class="r">"#), "{shown}");
        assert!(shown.contains("<title>2</title></td></tr></tbody>"), "{shown}");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(kept_together("at 1.5 Gb/s of 4 disks, 16 %."), "at 1.5\u{a0}Gb/s of 4 disks, 16\u{a0}%.");
    }
}
