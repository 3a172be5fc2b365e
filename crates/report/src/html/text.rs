//! Text in the page: escaped, and numbers with the tag that tells where they come from.

use super::pieces;
pub(super) use super::pieces::kept_together;
use crate::figure::{Figure, Unit};
pub(super) use crate::markup::at;
use linerate_facts::printable::printable;
use linerate_model::plan::Origin;

/// A text from outside, safe in an element and in a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
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

/// A small tag with the letter of an origin.
pub(super) fn letter_tag(origin: Origin) -> String {
    pieces::letter_tag(origin).into_string()
}

/// A figure with its tag.
pub(super) fn tagged(figure: &Figure, unit: Unit) -> String {
    pieces::tagged(figure, unit).into_string()
}

/// A card of the page with its heading; `id` names it for links within the page.
pub(crate) fn section(id: &str, title: &str, intro: &str, body: &str) -> String {
    let intro = if intro.is_empty() { String::new() } else { format!("<p class=\"intro\">{intro}</p>") };
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 \
         id=\"{id}-h\">{title}</h2>{intro}{body}</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(escape("<script>\"&'\u{202e}"), "&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
        assert_eq!(at(f64::NAN), "0");
        assert_eq!(at(12.34), "12.3");
    }
}
