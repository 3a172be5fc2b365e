//! What pages are made of: the frame with its style sheet, light and dark by the reader's preference, white on
//! paper; cards, and numbers with the tag that says where they come from. A page is one file that shows a
//! result to anybody, with no script and nothing to load.

pub(super) mod machine;
pub(super) mod waterfall;
pub(super) mod workers;

use crate::figure::{Figure, Unit};
use crate::markup::{DOCTYPE, Markup, PreEscaped, finished, html};
use linerate_model::plan::Origin;

/// No script runs, nothing is loaded: also if a text should slip through the escaping.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// One page with the style sheet, and what else of style it needs.
pub(crate) fn frame(title: &str, more_style: &str, body: Markup) -> String {
    finished(html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style_sheet())) (PreEscaped(more_style)) }
            }
            "\n"
            body { (body) }
        }
        "\n"
    })
}

/// A card of the page with its heading; `id` names it for links within the page. What failed is said at once to who hears the page.
pub(crate) fn card(id: &str, title: &str, intro: &str, body: Markup) -> Markup {
    html! {
        section id=(id) class=[(id == "errors").then_some("errors")] role=[(id == "errors").then_some("alert")] aria-labelledby={ (id) "-h" } {
            h2 id={ (id) "-h" } { (title) }
            @if !intro.is_empty() { p class="intro" { (intro) } }
            (body)
        }
        "\n"
    }
}

/// What may be wider than the page scrolls by itself, also by keyboard: it takes the focus, and says what it is.
pub(crate) fn scrolling(what: &str, body: Markup) -> Markup {
    html! { div class="scroll" tabindex="0" role="group" aria-label=(what) { (body) } }
}

/// A small tag with the whole word.
pub(crate) fn word_tag(origin: Origin) -> Markup {
    let word: &str = origin.into();
    html! { span class={ "tag " (word) } { (word) } }
}

/// A small tag with the letter; the word is there for pointers and screen readers, and the legend explains it.
pub(crate) fn letter_tag(origin: Origin) -> Markup {
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
pub(crate) fn tagged(figure: &Figure, unit: Unit) -> Markup {
    let why = figure.why.as_ref().filter(|_| figure.value.is_none());
    let class = if figure.value.is_some() { "num" } else { "num none" };
    html! { span class=(class) title=[why] { (figure.show(unit)) } " " (letter_tag(figure.origin)) }
}

/// A text in which `…` in backquotes is set as code.
pub(crate) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd number of backquotes is not markup.
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

const LIGHT: &str = "--bg:#f6f5f2;--panel:#fff;--ink:#1b1e22;--soft:#565d66;--line:#dbd8d1;--faint:#eeece7;\
--rated:#6a4c93;--effective:#00666f;--measured:#0b57c4;--unknown:#62676e;--cut:#b3201a;--cutbg:#fdecea;--good:#1a6a3a;\
--warn:#8a5300;--warnbg:#fbf0dc;--used:#3f6fb5;\
--user:#2f6fd0;--nice:#8db7ee;--system:#d9822b;--irq:#8e5bb5;--softirq:#c0397e;--steal:#1b1e22;--iowait:#a9b0b8;--idle:#e9e7e2;";

const DARK: &str = "--bg:#121518;--panel:#1a1e22;--ink:#e8eaec;--soft:#a7afb8;--line:#353b42;--faint:#252a2f;\
--rated:#c3aef0;--effective:#63cdd5;--measured:#8cb8fa;--unknown:#a7afb8;--cut:#ff8f85;--cutbg:#3a1d1b;--good:#83d7a0;\
--warn:#f1bb58;--warnbg:#36290f;--used:#7fa9e6;\
--user:#5c98f0;--nice:#a9cbf7;--system:#eb9c4c;--irq:#b58ad8;--softirq:#e46aa6;--steal:#f5f5f5;--iowait:#6b747d;--idle:#2a3036;";

const SHEET: &str = include_str!("page.css");

/// The whole style sheet.
fn style_sheet() -> String {
    format!(
        ":root{{color-scheme:light dark;{LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n\
         :root[data-theme=light]{{color-scheme:light;{LIGHT}}}\n:root[data-theme=dark]{{color-scheme:dark;{DARK}}}\n\
         @media print{{:root,:root[data-theme]{{color-scheme:light;{LIGHT}--bg:#fff}}}}\n{SHEET}{}",
        crate::map::SHEET
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(kept_together("at 1.5 Gb/s of 4 disks, 16 %."), "at 1.5\u{a0}Gb/s of 4 disks, 16\u{a0}%.");
    }
}
