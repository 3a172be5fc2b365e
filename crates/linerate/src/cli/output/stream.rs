//! What a stream of this process can show.

use linerate_facts::printable::ascii;
use linerate_watch::terminal::Theme;
use std::borrow::Cow;
use std::io::IsTerminal;

/// The text as this stream can show it. A file or a pipe is UTF-8, whatever the locale of a terminal knows.
pub(super) fn shown_on<'text>(stream: &impl IsTerminal, text: &'text str) -> Cow<'text, str> {
    match stream.is_terminal() && !Theme::of_environment().unicode {
        true => Cow::Owned(ascii(text)),
        false => Cow::Borrowed(text),
    }
}
