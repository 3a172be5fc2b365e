//! How the screens do, on the terminal at standard error, while they run; gone when they end, since the result says it all.

use crate::cli::output::{Output, StatusLines};
use linerate_report::wall_screens;
use linerate_system::stop::Stop;
use linerate_wall::show::{Glass, Live};
use linerate_watch::terminal::size_or_usual;
use ratatui::text::Line;
use std::io::{self, IsTerminal, stderr};
use std::time::Duration;

/// It is drawn again this often: screens report four times a second.
const EVERY: Duration = Duration::from_millis(500);

/// The view, and what it looks at.
pub(in crate::cli) struct View {
    glasses: Vec<Glass>,
}

impl View {
    /// Where standard error is no terminal, or the result is a program's, nothing is shown.
    pub(in crate::cli) fn of(glasses: Vec<Glass>, json: bool) -> Option<View> {
        (!json && stderr().is_terminal()).then_some(View { glasses })
    }

    /// Draws until it is over.
    pub(in crate::cli) fn until(self, output: &Output, over: &Stop) {
        let status_lines = output.status_lines();
        status_lines.begin();
        loop {
            if let Err(error) = self.draw(status_lines) {
                // The terminal has gone, or hangs up: the screens go on without it.
                status_lines.end();
                output.complain(&format!("the terminal takes no view any more: {error}"));
                return;
            }
            if over.wait(EVERY) {
                return status_lines.end();
            }
        }
    }

    fn draw(&self, status_lines: &StatusLines) -> io::Result<()> {
        let screens: Vec<Live> = self.glasses.iter().filter_map(Glass::newest).collect();
        if screens.is_empty() {
            return Ok(());
        }
        let (width, height) = size_or_usual(stderr());
        // The line below the view is the cursor's.
        let view = wall_screens::live(&screens, width, height.saturating_sub(1).max(1));
        status_lines.draw(&[], &view.lines().map(Line::from).collect::<Vec<_>>())
    }
}
