//! The lines that stay below everything that this process writes to standard error, on a terminal.

use super::stream::shown_on;
use linerate_system::clock;
use linerate_system::lock;
use linerate_watch::terminal::InlineView;
use linerate_watch::terminal::size_or_usual;
use ratatui::text::Line;
use std::io::{self, Write, stderr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A sentence of the program waits so long for a drawing to end.
const ASIDE: Duration = Duration::from_millis(200);

/// What is shown on the terminal of this process. Held while something is written.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct StatusLines(Arc<Mutex<Option<InlineView>>>);

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
    pub(super) fn aside(&self, line: &str) -> bool {
        let patience = clock::now() + ASIDE;
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
