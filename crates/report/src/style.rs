//! ANSI attributes, only where the screen wants them.

use linerate_measure::diagnose::Severity;

/// The width of output that is no screen: nothing is shortened to it.
pub const NO_SCREEN: usize = usize::MAX;

/// How much a text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weight {
    #[default]
    Plain,
    Bold,
    Dim,
    /// What stops the flow, or failed: bold and red.
    Alarm,
}

/// Puts attributes around a text, or leaves it plain; knows whether what is wide has to be shortened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
    screen: bool,
    least_table: usize,
}

impl Style {
    /// For a screen of this width, or for no screen.
    pub(crate) const fn of(width: usize, colour: bool) -> Style {
        Style { colour, screen: width < NO_SCREEN, least_table: 0 }
    }

    /// On a narrower screen its lines are broken by the terminal, rather than that columns are lost.
    pub(crate) const fn with_tables_of(self, least_table: usize) -> Style {
        Style { least_table, ..self }
    }

    /// What is shown is read on a screen, where lines have an end.
    pub(crate) fn is_screen(self) -> bool {
        self.screen
    }

    /// How wide a table may be where text is wrapped at `width`.
    pub(crate) fn table(self, width: usize) -> usize {
        if self.screen { width.max(self.least_table) } else { NO_SCREEN }
    }

    pub(crate) fn weighed(self, weight: Weight, text: &str) -> String {
        match weight {
            Weight::Plain => text.to_string(),
            Weight::Bold => self.bold(text),
            Weight::Dim => self.dim(text),
            Weight::Alarm => self.cut(text),
        }
    }

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
    pub(crate) fn severity(self, word: &str, severity: Severity) -> String {
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
