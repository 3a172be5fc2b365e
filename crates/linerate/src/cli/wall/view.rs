//! The live view of a server on its terminal: how the wall does, and below it the parts of the machine that
//! it works on.

use crate::cli::output::Output;
use crate::cli::progress::MachineView;
use linerate_facts::failure::Failure;
use linerate_report::wall as screen_of;
use linerate_wall::status::WallStatus;
use linerate_watch::terminal::panel::{Busy, machine as machine_lines, near_limit};
use linerate_watch::terminal::{InlineView, Theme, has_room, size_or_usual};
use ratatui::text::Line;
use std::io::{Write, stdout};

/// The view, drawn again and again over itself.
pub(super) struct View {
    /// None where it is not wanted, or the terminal is too small for it.
    machine: Option<MachineView>,
    busy: Busy,
    inline: InlineView,
    theme: Theme,
}

impl View {
    /// Nothing is drawn yet; the machine is sampled from now on.
    pub(super) fn new() -> View {
        View {
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
        let machine = self.machine(status, width, height / 3);
        let left = height.saturating_sub(machine.len());
        let elsewhere = if machine.is_empty() { Vec::new() } else { self.busy.nics() };
        let text = screen_of::live(status, width, left, &elsewhere);
        let lines: Vec<Line<'_>> = text.lines().map(Line::from).chain(machine).collect();
        output.print(&self.inline.frame(&[], &lines, width))?;
        let _ = stdout().flush();
        Ok(())
    }

    /// The parts of the machine; what is at its limit is told here only while the wall itself has no word on
    /// what holds it.
    fn machine(&mut self, status: &WallStatus, width: usize, rows: usize) -> Vec<Line<'static>> {
        let Some(newest) = self.machine.as_ref().and_then(|machine| machine.latest.newest()) else {
            return Vec::new();
        };
        let (moment, width) = (&newest.moment, width.saturating_sub(1));
        self.busy.note(moment);
        let mut lines = Vec::new();
        if let (None, Some(what)) = (&status.held_by, &moment.bottleneck) {
            lines.push(near_limit(what, self.theme, width));
        }
        if let Some(machine) = &self.machine {
            let history = machine.latest.history();
            let room = rows.saturating_sub(lines.len());
            lines.extend(machine_lines(moment, &history, &self.busy, self.theme, width, room));
        }
        lines
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.machine.iter().for_each(MachineView::stop);
    }
}
