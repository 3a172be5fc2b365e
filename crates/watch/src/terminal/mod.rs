//! The watch in a terminal: one screen that somebody understands at three in the morning. `screen` makes the
//! lines, `state` has what the person chose, `owned_terminal` takes the terminal, asks how large it is, and
//! gives it back; it has the lines below other output, too, in which other commands show `panel` while they work.

mod ledger;
mod network;
mod overview;
mod owned_terminal;
pub mod panel;
mod pieces;
mod processors;
mod programs;
mod screen;
mod state;
mod storage;
#[cfg(test)]
mod tests;

use self::owned_terminal::OwnedTerminal;
use self::screen::compose;
use self::state::{KeyAction, ViewState};
use super::history::LatestMoment;
use super::model::Moment;
use linerate_facts::failure::Failure;
use linerate_system::stop::Stop;
pub use owned_terminal::{InlineView, has_room, size, size_or_usual};
pub use pieces::Theme;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyEventKind, poll, read};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use state::View;
use std::io;
use std::time::Duration;

/// Keys and moments are looked for so often.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Shows the latest until somebody quits (`q`, Ctrl-C) or `stop` is set. `note` says where the moments come
/// from or go to; it may be empty. `explain` says on the terminal what slows a process, by its number.
pub fn show(latest: &LatestMoment, stop: &Stop, note: &str, explain: &dyn Fn(u32)) -> Result<(), Failure> {
    let mut owned = OwnedTerminal::take()?;
    let shown = turn(&mut owned, latest, stop, note, explain);
    drop(owned);
    shown.map_err(|error| Failure::Lacks(format!("the terminal is gone: {error}")))
}

fn turn(
    owned: &mut OwnedTerminal,
    latest: &LatestMoment,
    stop: &Stop,
    note: &str,
    explain: &dyn Fn(u32),
) -> io::Result<()> {
    let (mut state, theme) = (ViewState::default(), Theme::of_environment());
    let mut moments = latest.listen();
    let mut stale = true;
    while !stop.is_ended() && !owned.is_lost() {
        if moments.has_changed().unwrap_or(false) {
            moments.mark_unchanged();
            stale |= state.paused.is_none();
        }
        if stale {
            state.down = draw(owned, latest, &state, theme, note)?;
            stale = false;
        }
        // A changed size is not a key: crossterm is asked each time.
        owned.wait_key(POLL_INTERVAL)?;
        if !poll(Duration::ZERO)? {
            continue;
        }
        match read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match state.key(key, latest) {
                KeyAction::Quit => return Ok(()),
                KeyAction::Suspend => owned.suspend()?,
                KeyAction::Redraw => owned.terminal.clear()?,
                KeyAction::Explain(pid) => owned.lend(&|| explain(pid), stop)?,
                KeyAction::Nothing => {}
            },
            Event::Resize(..) => {}
            _ => continue,
        }
        stale = true;
    }
    Ok(())
}

/// Gives how far down the person is. The lines are made before anything is written: a terminal that is held (Ctrl-S)
/// holds nobody who waits for the history.
fn draw(
    owned: &mut OwnedTerminal,
    latest: &LatestMoment,
    state: &ViewState,
    theme: Theme,
    note: &str,
) -> io::Result<usize> {
    owned.terminal.autoresize()?;
    let size = owned.terminal.size()?;
    let ended = latest.has_ended();
    let (lines, down) = match (&state.paused, latest.newest()) {
        (Some((shown, history)), _) => compose(
            &View { moment: &shown.moment, history, state, theme, note, ended },
            size.width,
            size.height,
        ),
        (None, newest) => {
            let history = latest.history();
            let nothing = Moment { host: "the first look".into(), ..Moment::default() };
            let moment = newest.as_ref().map_or(&nothing, |shown| &shown.moment);
            compose(&View { moment, history: &history, state, theme, note, ended }, size.width, size.height)
        }
    };
    owned.terminal.draw(|frame| render(frame, lines)).map(|_| down)
}

fn render(frame: &mut Frame<'_>, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), frame.area());
}
