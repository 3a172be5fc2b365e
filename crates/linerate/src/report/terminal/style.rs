//! ANSI attributes, only where the screen wants them.

use crate::diagnose::Severity;

/// Puts attributes around a text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Style {
    pub(in crate::report) colour: bool,
}

impl Style {
    pub(in crate::report) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(in crate::report) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What stops the flow: bold and red.
    pub(in crate::report) fn cut(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// A severity by its word; the colour only repeats it.
    pub(super) fn severity(self, word: &str, severity: Severity) -> String {
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
