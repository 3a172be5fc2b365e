//! A window on an X display, or on a Wayland session by way of XWayland.
//!
//! The screen gives each frame at its deadline, and never waits: a window has a thread of its own (`keeper`),
//! which takes the newest frame out of a `mailbox`; what the display could not take in time is counted.
//! `display` is the connection, `surface` the window and the outputs that it can cover, `canvas` the way of
//! the pixels, `pixels` what becomes of them.

mod canvas;
mod display;
mod keeper;
mod mailbox;
mod pixels;
mod surface;

pub use surface::{DisplayOutput, outputs};

use super::{Output, ShowResult, WindowSummary};
use crate::control::ScreenReport;
use crate::geometry::{FrameRate, Size};
use display::{Display, DisplayLost};
use keeper::Keeper;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use mailbox::{Mailbox, WindowEnd, WindowTitle};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use surface::{Surface, Wanted};

/// A display that does not answer is left behind after this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a window goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowPlacement {
    /// On the desktop, with this size or that of the frames.
    Desktop { size: Option<Size> },
    /// At this place of the display, with this size and without a frame of the window manager's.
    At { x: i32, y: i32, size: Size },
    /// Over the whole of this output, or of the next one.
    FullScreen { output: Option<String> },
}

/// One window.
#[derive(Clone, Debug)]
pub struct ScreenWindowSpec {
    pub place: WindowPlacement,
    /// In its title, until the tile is known.
    pub name: String,
    /// Pixels of the frames, where they are known beforehand.
    pub frame: Option<Size>,
    /// Which of how many screens it is.
    pub index: usize,
    pub screens: usize,
    /// The options that do without a window, for the sentence where there is no display.
    pub without: &'static str,
}

/// A window that shows a screen's frames.
pub struct ScreenWindow {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
    name: String,
}

impl ScreenWindow {
    /// Opens it, black.
    pub fn open(spec: ScreenWindowSpec) -> Result<ScreenWindow, Failure> {
        let display = Display::connect(spec.without)?;
        let display_name = display.name.clone();
        let no_window =
            |DisplayLost(why)| Failure::Lacks(format!("no window: the X display {display_name}: {why}"));
        let (size, at, output) = match &spec.place {
            WindowPlacement::Desktop { size } => (*size, None, None),
            WindowPlacement::At { x, y, size } => (Some(*size), Some((*x, *y)), None),
            WindowPlacement::FullScreen { output } => {
                let all = surface::all_outputs(&display).map_err(&no_window)?;
                let place = (spec.index, spec.screens);
                (None, None, Some(surface::chosen(&all, output.as_deref(), place)?))
            }
        };
        let wanted = Wanted { size, at, frame: spec.frame, output, index: spec.index };
        let surface = Surface::open(&display, &wanted).map_err(&no_window)?;
        let mailbox = Mailbox::new(WindowTitle { name: spec.name.clone(), ..WindowTitle::default() });
        let mailbox = Arc::new(mailbox.map_err(|error| no_window(error.into()))?);
        let keeper = Keeper::new(display, surface, Arc::clone(&mailbox)).map_err(&no_window)?;
        let thread = std::thread::Builder::new().name("window".into()).spawn(move || keeper.keep());
        let thread = thread.map_err(|error| no_window(error.into()))?;
        Ok(ScreenWindow { mailbox, thread: Some(thread), name: spec.name })
    }

    /// Waits for the window's thread, not for ever.
    fn await_thread(&mut self) {
        self.mailbox.end();
        let until = clock::now() + PATIENCE;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && clock::now() < until {
            // The window was told to end: no stop shortens its last frame.
            clock::sleep(Duration::from_millis(2));
        }
    }
}

impl Output for ScreenWindow {
    fn show(&mut self, frame: &mut Vec<u8>, size: Size) -> Result<ShowResult, Failure> {
        self.mailbox.give(frame, size);
        self.look()
    }

    fn look(&mut self) -> Result<ShowResult, Failure> {
        // In this order: the thread says how it ended before it does.
        let is_gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        match self.mailbox.how_it_ended() {
            Some(WindowEnd::Closed) => Ok(ShowResult::Closed),
            Some(WindowEnd::Failed(why)) => Err(Failure::Lacks(why)),
            Some(WindowEnd::Over) => Ok(ShowResult::Done),
            None if is_gone => Err(Failure::Lacks("the window's thread has ended".into())),
            None => Ok(ShowResult::Done),
        }
    }

    fn tell(&mut self, report: &ScreenReport, rate: Option<FrameRate>) {
        let name = report.tile.map_or(self.name.clone(), |tile| tile.to_string());
        let lost = report.frames_torn + report.frames_missing;
        self.mailbox.tell(WindowTitle { name, rate: rate.map(|rate| rate.to_string()), lost });
    }

    fn finish(&mut self) {
        self.await_thread();
    }

    fn window(&self) -> Option<WindowSummary> {
        let done = self.mailbox.done();
        let over = self.mailbox.how_it_ended().is_some();
        Some(WindowSummary {
            size: done.size,
            full_screen: done.full_screen,
            pixels_by: if done.shared { "shared-memory" } else { "requests" }.into(),
            frames_shown: done.shown,
            // At the end also what was on its way.
            frames_dropped: if over { done.given.saturating_sub(done.shown) } else { done.dropped },
            taken_p50_ms: self.mailbox.delay_ms(0.5),
            taken_p99_ms: self.mailbox.delay_ms(0.99),
        })
    }
}

impl Drop for ScreenWindow {
    fn drop(&mut self) {
        self.await_thread();
    }
}
