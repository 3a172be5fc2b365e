//! How things look: in colours, without (`NO_COLOR`, <https://no-color.org>), and where the locale knows no
//! UTF-8.
//!
//! Without colours the meaning stays: what is bad is reversed, and the classes of a stacked bar are letters.

use linerate_facts::printable::ascii;
use ratatui::style::{Color, Modifier, Style};

/// What a terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub colours: bool,
    pub unicode: bool,
}

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    Plain,
    Strong,
    Soft,
    Title,
    Good,
    Warn,
    Bad,
    /// Sent and written.
    Out,
    /// Received and read.
    In,
}

impl Theme {
    /// By the environment, as other programs read it.
    pub fn of_environment() -> Theme {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        // Without a word of a locale most terminals are UTF-8 today; "C" and "POSIX" say that they are not to
        // be trusted.
        let unicode = locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8");
        let plain = set("NO_COLOR").is_some()
            || set("TERM").is_some_and(|term| term == "dumb" || term.starts_with("vt"));
        Theme { colours: !plain, unicode }
    }

    /// How a role looks.
    pub fn style(self, role: TextRole) -> Style {
        let style = Style::new();
        if !self.colours {
            return match role {
                TextRole::Bad => style.add_modifier(Modifier::REVERSED),
                TextRole::Warn | TextRole::Strong | TextRole::Title => style.add_modifier(Modifier::BOLD),
                TextRole::Soft => style.add_modifier(Modifier::DIM),
                TextRole::Plain | TextRole::Good | TextRole::Out | TextRole::In => style,
            };
        }
        match role {
            TextRole::Plain => style,
            TextRole::Strong => style.add_modifier(Modifier::BOLD),
            TextRole::Soft => style.fg(Color::DarkGray),
            TextRole::Title => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            TextRole::Good => style.fg(Color::Green),
            TextRole::Warn => style.fg(Color::Yellow).add_modifier(Modifier::BOLD),
            TextRole::Bad => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            TextRole::Out => style.fg(Color::LightBlue),
            TextRole::In => style.fg(Color::LightGreen),
        }
    }

    /// How a class of CPU time looks, by its place in [`CLASSES`], and the letter that stands for it without
    /// colours.
    pub fn class(self, place: usize) -> (char, Style) {
        let (_, letter, colour) = CLASSES[place.min(CLASSES.len() - 1)];
        match (self.colours, self.unicode) {
            (true, true) => ('█', Style::new().fg(colour)),
            (true, false) => (letter, Style::new().fg(colour)),
            (false, _) => (letter, Style::new()),
        }
    }

    /// A text in the signs that the terminal knows. Before it is cut or wrapped: `±` takes a column, `+-` two.
    pub fn signs(self, text: String) -> String {
        if self.unicode { text } else { ascii(&text) }
    }

    /// The arrows and marks of a line: one that UTF-8 knows, or one of ASCII.
    pub fn mark(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

/// The classes of CPU time in the order of [`crate::history::classes`]: word, letter, colour.
pub(crate) const CLASSES: [(&str, char, Color); 7] = [
    ("user", 'u', Color::Blue),
    ("nice", 'n', Color::LightBlue),
    ("system", 's', Color::Yellow),
    ("softirq", 'q', Color::Red),
    ("irq", 'i', Color::Magenta),
    ("steal", 't', Color::White),
    ("iowait", 'w', Color::DarkGray),
];
