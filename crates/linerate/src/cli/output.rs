//! What the program says, and where: on the streams of this process, as each can show it. Made once, and
//! handed down to all that prints. On a terminal some lines stay below everything else that this process
//! writes to standard error.

use linerate_facts::failure::Failure;
use linerate_facts::printable::{ascii, printable};
use linerate_report::NO_SCREEN;
use linerate_system::{clock, lock};
use linerate_watch::terminal::{InlineView, Theme, size, size_or_usual};
use ratatui::text::Line;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Width of a terminal that does not report it, and of text that is wrapped for no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Standard output and standard error, or what is in their place.
#[derive(Clone, Debug, Default)]
pub struct Output {
    status_lines: StatusLines,
}

impl Output {
    /// The lines that stay below what is written to standard error.
    pub(super) fn status_lines(&self) -> &StatusLines {
        &self.status_lines
    }

    /// Standard output is a terminal that has colours, whose user does not mind them.
    pub(super) fn colour(&self) -> bool {
        std::io::stdout().is_terminal() && Theme::of_environment().colours
    }

    /// Columns of the terminal, or as `COLUMNS` says; nothing is shortened where standard output is not a terminal.
    pub(super) fn width(&self) -> usize {
        let asked: Option<usize> = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = asked.or_else(|| size(std::io::stdout()).map(|(width, _)| width));
        match width {
            Some(width) => width.clamp(40, 140),
            None if std::io::stdout().is_terminal() => DEFAULT_WIDTH,
            None => NO_SCREEN,
        }
    }

    /// The same for what is only text: it ends its lines also where nothing is shortened.
    pub(super) fn text_width(&self) -> usize {
        match self.width() {
            NO_SCREEN => DEFAULT_WIDTH,
            width => width,
        }
    }

    /// A sentence on standard error.
    pub fn complain(&self, sentence: &str) {
        self.tell(&format!("linerate: {sentence}"));
    }

    /// A line on standard error; nobody may be there to hear it (`eprintln!` would panic then). Its words may be
    /// a file's or a peer's: none of them acts on the terminal.
    pub(super) fn tell(&self, line: &str) {
        let line = printable(line);
        if !self.status_lines.aside(&line) {
            let mut error = std::io::stderr();
            let line = shown_on(&error, &line).into_owned();
            let _ = writeln!(error, "{line}");
        }
    }

    /// Somebody is there who can answer.
    pub(super) fn can_ask(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Shows what would be done, and asks on standard error; the answer follows on the same line. A terminal that is
    /// gone gives no answer, either.
    pub(super) fn agrees(&self, what: &str, question: &str) -> bool {
        let (mut error, question) = (std::io::stderr(), format!("{what}{question}? [y/N] "));
        let _ = write!(error, "{}", shown_on(&error, &question)).and_then(|()| error.flush());
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        matches!(answer.trim(), "y" | "Y" | "yes")
    }

    /// A product on standard output, and nothing else.
    pub(super) fn print_json(&self, product: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(product)
            .map_err(|error| Failure::Lacks(format!("the result cannot be written as JSON: {error}")))?;
        self.print(&format!("{json}\n"))
    }

    /// A product on standard output: as JSON, or as a text for people.
    pub(super) fn show(
        &self,
        json: bool,
        product: &(impl Serialize + ?Sized),
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if json { self.print_json(product) } else { self.print(&text()) }
    }

    /// Prints; a reader that has gone away (`linerate probe | head`) is not an error.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        let text = shown_on(&out, text);
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::Lacks(format!("standard output: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Ends the program as clap does, with its text in the signs that the terminal can show.
    pub(super) fn refuse(&self, error: &clap::Error) -> ! {
        let text = error.render().to_string();
        let (out, mut aside) = (std::io::stdout(), std::io::stderr());
        let shown = if error.use_stderr() { shown_on(&aside, &text) } else { shown_on(&out, &text) };
        match shown {
            Cow::Borrowed(_) => error.exit(),
            Cow::Owned(plain) if error.use_stderr() => drop(aside.write_all(plain.as_bytes())),
            Cow::Owned(plain) => drop(self.print(&plain)),
        }
        std::process::exit(error.exit_code())
    }
}

/// The text as this stream can show it. A file or a pipe is UTF-8, whatever the locale of a terminal knows.
fn shown_on<'text>(stream: &impl IsTerminal, text: &'text str) -> Cow<'text, str> {
    match stream.is_terminal() && !Theme::of_environment().unicode {
        true => Cow::Owned(ascii(text)),
        false => Cow::Borrowed(text),
    }
}

/// A sentence of the program waits so long for a drawing to end.
const DRAWING_END: Duration = Duration::from_millis(200);

/// What is shown on the terminal of this process. Held while something is written.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusLines(Arc<Mutex<Option<InlineView>>>);

impl StatusLines {
    /// There are such lines from now on.
    pub(in crate::cli) fn begin(&self) {
        *lock(&self.0) = Some(InlineView::default());
    }

    /// What was drawn goes away, and nothing is drawn any more.
    pub(in crate::cli) fn end(&self) {
        let _ = self.draw(&[], &[]);
        *lock(&self.0) = None;
    }

    /// Writes what is to stay, and draws the lines again below it; in one write, so that no half of it is seen.
    pub(in crate::cli) fn draw(&self, above: &[String], lines: &[Line<'_>]) -> io::Result<()> {
        let mut view = lock(&self.0);
        let Some(view) = view.as_mut() else { return Ok(()) };
        let (columns, _) = size_or_usual(stderr());
        let text = match lines.is_empty() && above.is_empty() {
            true => view.erased(columns),
            false => view.frame(above, lines, columns),
        };
        write(&text)
    }

    /// Other programs have written since: what was drawn stays where it is.
    pub(in crate::cli) fn forget(&self) {
        lock(&self.0).iter_mut().for_each(InlineView::forget);
    }

    /// Writes a sentence above the lines, if there are some; false where the caller has to write it itself.
    fn aside(&self, line: &str) -> bool {
        let patience = clock::now() + DRAWING_END;
        loop {
            if let Ok(mut view) = self.0.try_lock() {
                let Some(view) = view.as_mut() else { return false };
                let text = format!("{}{line}\n", view.erased(size_or_usual(stderr()).0));
                return write(&text).is_ok();
            }
            // Limited by a terminal that takes nothing: the sentence goes its own way.
            if clock::now() > patience {
                return false;
            }
            clock::sleep(Duration::from_millis(5));
        }
    }
}

/// To standard error, in the signs that it can show.
fn write(text: &str) -> io::Result<()> {
    let mut error = stderr();
    let text = shown_on(&error, text).into_owned();
    error.write_all(text.as_bytes())
}
