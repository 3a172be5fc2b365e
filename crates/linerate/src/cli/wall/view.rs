//! The live view of a server on its terminal: how the wall does, and below it the parts of the machine that it works on.

use super::serve::ServeWords;
use crate::cli::commands::print;
use crate::cli::progress::Beside;
use crate::failure::Failure;
use crate::report::wall as screen_of;
use crate::wall::status::WallStatus;
use crate::watch::terminal::below::Below;
use crate::watch::terminal::panel::{Busy, machine as machine_lines, near_limit};
use crate::watch::terminal::{Theme, smallest};
use ratatui::text::Line;
use std::io::Write;

/// The view, drawn again and again over itself.
pub struct View {
    /// None where it is not wanted, or the terminal is too small for it.
    beside: Option<Beside>,
    busy: Busy,
    below: Below,
    theme: Theme,
}

impl View {
    /// Nothing is drawn yet; the machine is sampled from now on.
    pub fn new(words: &ServeWords) -> View {
        let (columns, rows) = smallest();
        let (width, height) = terminal();
        let room = width >= usize::from(columns) && height + 1 >= usize::from(rows);
        View {
            beside: (!words.no_live && room).then(Beside::start).flatten(),
            busy: Busy::default(),
            below: Below::default(),
            theme: Theme::of_environment(),
        }
    }

    /// Draws it over the last one.
    pub fn draw(&mut self, status: &WallStatus) -> Result<(), Failure> {
        let (width, height) = terminal();
        // The tiles come first: the machine has a third.
        let machine = self.machine(status, width, height / 3);
        let left = height.saturating_sub(machine.len());
        let elsewhere = if machine.is_empty() { Vec::new() } else { self.busy.nics() };
        let text = screen_of::live(status, width, left, &elsewhere);
        let lines: Vec<Line<'_>> = text.lines().map(Line::from).chain(machine).collect();
        print(&self.below.frame(&[], &lines, width))?;
        let _ = std::io::stdout().flush();
        Ok(())
    }

    /// The parts of the machine; what is at its limit is told here only while the wall itself has no word on what holds it.
    fn machine(&mut self, status: &WallStatus, width: usize, rows: usize) -> Vec<Line<'static>> {
        let Some(newest) = self.beside.as_ref().and_then(|beside| beside.board.newest()) else {
            return Vec::new();
        };
        let (moment, width) = (&newest.moment, width.saturating_sub(1));
        self.busy.note(moment);
        let mut lines = Vec::new();
        if let (None, Some(what)) = (&status.held_by, &moment.bottleneck) {
            lines.push(near_limit(what, self.theme, width));
        }
        if let Some(beside) = &self.beside {
            let history = beside.board.history();
            let room = rows.saturating_sub(lines.len());
            lines.extend(machine_lines(moment, &history, &self.busy, self.theme, width, room));
        }
        lines
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.beside.iter().for_each(Beside::stop);
    }
}

/// Columns and lines of the terminal now; the line below the view is the cursor's.
fn terminal() -> (usize, usize) {
    let seen = terminal_size::terminal_size_of(std::io::stdout());
    seen.map_or((80, 23), |(width, height)| (width.0.into(), usize::from(height.0).saturating_sub(1).max(1)))
}
