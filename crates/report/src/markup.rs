//! What pages and pictures are written with. Markup is a type of its own (`maud`): a text or an attribute becomes markup only by
//! being escaped, a coordinate is a number and nothing else, and [`finished`] takes out what acts on a terminal or turns a line.

use linerate_facts::printable::printable;
pub(crate) use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A place in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub(crate) fn middle(&self) -> f64 {
        self.y + self.height / 2.0
    }

    pub(crate) fn centre(&self) -> f64 {
        self.x + self.width / 2.0
    }
}

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The text of a page or a picture.
pub(crate) fn finished(markup: Markup) -> String {
    let lines: Vec<String> = markup.into_string().split('\n').map(printable).collect();
    lines.join("\n")
}

/// A coordinate: one decimal, never anything but a number.
pub(crate) fn at(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e6, 1e6) } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(String::from).unwrap_or(text)
}

pub(crate) fn rect(class: &str, area: Rect, radius: f64) -> Markup {
    let Rect { x, y, width, height } = area;
    html! { rect class=[named(class)] x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height)) rx=(at(radius)) {} }
}

fn named(class: &str) -> Option<&str> {
    Some(class).filter(|class| !class.is_empty())
}

/// A straight line.
pub(crate) fn line(class: &str, width: f64, from: (f64, f64), to: (f64, f64)) -> Markup {
    let way = format!("M{} {} L{} {}", at(from.0), at(from.1), at(to.0), at(to.1));
    html! { path class=(class) stroke-width=(at(width)) d=(way) {} }
}

/// A text at a place; nothing where it is empty.
pub(crate) fn text(class: &str, x: f64, y: f64, anchor: Anchor, words: &str) -> Markup {
    let anchor = match anchor {
        Anchor::Start => None,
        Anchor::Middle => Some("middle"),
        Anchor::End => Some("end"),
    };
    html! {
        @if !words.is_empty() {
            text class=[named(class)] x=(at(x)) y=(at(y)) text-anchor=[anchor] { (words) }
        }
    }
}

/// Shapes with a text that pointing at them shows.
pub(crate) fn group(class: Option<&str>, tip: &str, shapes: Markup) -> Markup {
    html! { g class=[class] { title { (tip) } (shapes) } }
}

/// The text, or its beginning with `…`, so that it fits a width in SVG, where nothing wraps. Widths are those of DejaVu Sans
/// Bold, the widest of the fonts that the page may get.
pub(crate) fn fitted(text: &str, width: f64, font_size: f64) -> String {
    let room = width / font_size;
    if text.chars().map(em).sum::<f64>() <= room {
        return text.to_string();
    }
    let mut used = em('…');
    let shown = text.chars().take_while(|c| {
        used += em(*c);
        used <= room
    });
    let shown: String = shown.collect();
    format!("{}…", shown.trim_end())
}

/// Advance of a character in parts of the font's size.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.4,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.5,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.1,
        c if c.is_ascii_uppercase() => 0.8,
        c if c.is_ascii() => 0.71,
        c if linerate_facts::printable::columns(c.encode_utf8(&mut [0; 4])) == 2 => 1.4,
        _ => 0.9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let page = finished(html! { p title=("<b>\"&'\u{202e}") { ("<script>\"&'\u{202e}\u{1b}[2J\n") } });
        assert_eq!(
            page,
            "<p title=\"&lt;b&gt;&quot;&amp;'\u{fffd}\">&lt;script&gt;&quot;&amp;'\u{fffd}\u{fffd}[2J\n</p>"
        );
        assert_eq!((at(f64::NAN), at(12.34)), ("0".into(), "12.3".into()));
    }
}
