//! The live view of a server on its terminal: how the wall does, and below it the parts of the machine that
//! it works on.

use crate::cli::output::Output;
use crate::cli::progress::MachineView;
use linerate_facts::failure::Failure;
use linerate_report::wall;
use linerate_wall::status::WallStatus;
use linerate_watch::terminal::panel::{Busy, machine, near_limit};
use linerate_watch::terminal::{InlineView, Theme, has_room, size_or_usual};
use ratatui::text::Line;
use std::io::{Write, stdout};

/// The view, drawn again and again over itself.
pub(super) struct ServerView {
    /// None where it is not wanted, or the terminal is too small for it.
    machine: Option<MachineView>,
    busy: Busy,
    inline: InlineView,
    theme: Theme,
}

impl ServerView {
    /// Nothing is drawn yet; the machine is sampled from now on.
    pub(super) fn new() -> ServerView {
        ServerView {
            machine: has_room(stdout()).then(MachineView::start).flatten(),
            busy: Busy::default(),
            inline: InlineView::default(),
            theme: Theme::of_environment(),
        }
    }

    /// Draws it over the last one.
    pub(super) fn draw(&mut self, status: &WallStatus, output: &Output) -> Result<(), Failure> {
        let (width, height) = size_or_usual(stdout());
        // The line below the view is the cursor's.
        let height = height.saturating_sub(1).max(1);
        // The tiles come first: the machine has a third.
        let machine = self.machine_lines(status, width, height / 3);
        let left = height.saturating_sub(machine.len());
        let elsewhere = if machine.is_empty() { Vec::new() } else { self.busy.nics() };
        let text = wall::live(status, width, left, &elsewhere);
        let lines: Vec<Line<'_>> = text.lines().map(Line::from).chain(machine).collect();
        output.print(&self.inline.frame(&[], &lines, width))?;
        let _ = stdout().flush();
        Ok(())
    }

    /// The parts of the machine; its bottleneck is named here only while the wall names none.
    fn machine_lines(&mut self, status: &WallStatus, width: usize, rows: usize) -> Vec<Line<'static>> {
        let Some(latest) = self.machine.as_ref().map(|machine| &machine.latest) else { return Vec::new() };
        let Some(newest) = latest.newest() else { return Vec::new() };
        let (moment, width) = (&newest.moment, width.saturating_sub(1));
        self.busy.note(moment);
        let mut lines = Vec::new();
        if let (None, Some(what)) = (&status.held_by, &moment.bottleneck) {
            lines.push(near_limit(what, self.theme, width));
        }
        let room = rows.saturating_sub(lines.len());
        lines.extend(machine(moment, &latest.history(), &self.busy, self.theme, width, room));
        lines
    }
}

impl Drop for ServerView {
    fn drop(&mut self) {
        self.machine.iter().for_each(MachineView::stop);
    }
}
