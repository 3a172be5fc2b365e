//! ANSI attributes, only where the screen wants them.

use linerate_measure::diagnose::Severity;

/// Puts attributes around a text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub colour: bool,
}

impl Style {
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
