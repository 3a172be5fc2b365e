//! Text in the page: escaped, and numbers with the tag that tells where they come from.

use crate::plan::Origin;
use crate::report::figure::{Figure, Unit, origin_word};
use crate::report::printable::printable;

/// A text from outside, safe in an element and in a quoted attribute.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

/// The text with each number tied to its unit, so that no line ends between them.
pub(super) fn kept_together(text: &str) -> String {
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

/// The letter of an origin, for places where the word is too long.
pub(super) fn letter(origin: Origin) -> char {
    match origin {
        Origin::Rated => 'R',
        Origin::Effective => 'E',
        Origin::Measured => 'M',
        Origin::Unknown => '?',
    }
}

/// A small tag with the whole word.
pub(super) fn word_tag(origin: Origin) -> String {
    let word = origin_word(origin);
    format!("<span class=\"tag {word}\">{word}</span>")
}

/// A small tag with the letter; the word is there for pointers and screen readers, and the legend explains it.
pub(super) fn letter_tag(origin: Origin) -> String {
    let word = origin_word(origin);
    format!("<abbr class=\"tag {word}\" title=\"{word}\">{}</abbr>", letter(origin))
}

/// A figure with its tag; the reason of an unknown one shows on pointing.
pub(super) fn tagged(figure: &Figure, unit: Unit) -> String {
    let why = figure.why.as_ref().filter(|_| figure.value.is_none());
    let title = why.map(|why| format!(" title=\"{}\"", escape(why))).unwrap_or_default();
    let word = if figure.value.is_some() { "num" } else { "num none" };
    format!("<span class=\"{word}\"{title}>{}</span> {}", figure.show(unit), letter_tag(figure.origin))
}

/// A coordinate for SVG: one decimal, never anything but a number.
pub(in crate::report) fn at(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e6, 1e6) } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(String::from).unwrap_or(text)
}

/// The text, or its beginning with `…`, so that it fits a width in SVG, where nothing wraps. Widths are those of DejaVu Sans Bold,
/// the widest of the fonts that the page may get.
pub(in crate::report) fn fitted(text: &str, width: f64, font_size: f64) -> String {
    let room = width / font_size;
    if text.chars().map(em).sum::<f64>() <= room {
        return text.to_string();
    }
    let mut used = em('…');
    let kept = text.chars().take_while(|c| {
        used += em(*c);
        used <= room
    });
    let kept: String = kept.collect();
    format!("{}…", kept.trim_end())
}

/// Advance of a character in parts of the font's size.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.4,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.1,
        c if c.is_ascii_uppercase() => 0.8,
        c if c.is_ascii() => 0.71,
        c if crate::report::printable::columns(c.encode_utf8(&mut [0; 4])) == 2 => 1.4,
        _ => 0.9,
    }
}

/// A card of the page with its heading; `id` names it for links within the page.
pub(in crate::report) fn section(id: &str, title: &str, intro: &str, body: &str) -> String {
    let intro = if intro.is_empty() { String::new() } else { format!("<p class=\"intro\">{intro}</p>") };
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{title}</h2>{intro}{body}</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(escape("<script>\"&'\u{202e}"), "&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
        assert_eq!(kept_together("at 1.5 Gb/s of 4 disks, 16 %."), "at 1.5\u{a0}Gb/s of 4 disks, 16\u{a0}%.");
        assert_eq!(at(f64::NAN), "0");
        assert_eq!(at(12.34), "12.3");
    }
}
