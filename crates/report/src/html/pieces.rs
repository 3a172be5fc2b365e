//! Pieces of every page: cards, and numbers with the tag that says where they come from.

use crate::figure::{Figure, Unit};
use crate::markup::{Markup, html};
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

/// A table that scrolls where the page is narrow.
pub(crate) fn table(class: &str, head: Markup, rows: Markup) -> Markup {
    html! {
        div class="scroll" {
            table class=(class) {
                thead { tr { (head) } }
                (rows)
            }
        }
    }
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
    fn a_number_stays_with_its_unit() {
        assert_eq!(kept_together("at 1.5 Gb/s of 4 disks, 16 %."), "at 1.5\u{a0}Gb/s of 4 disks, 16\u{a0}%.");
    }
}
