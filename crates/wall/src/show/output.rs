//! Where presented frames go.

use crate::control::ScreenReport;
use crate::geometry::{FrameRate, Size};
use linerate_facts::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What a frame is shown on.
pub trait Output: Send {
    /// Shows a frame. The buffer may be exchanged for another of the same length, so that a window can keep
    /// it without a copy.
    fn show(&mut self, frame: &mut Vec<u8>, size: Size) -> Result<ShowResult, Failure>;

    /// Whether it is still there; asked also while no frame comes.
    fn look(&mut self) -> Result<ShowResult, Failure> {
        Ok(ShowResult::Done)
    }

    /// How the screen does, a few times a second.
    fn tell(&mut self, _report: &ScreenReport, _rate: Option<FrameRate>) {}

    /// No more frames come.
    fn finish(&mut self) {}

    /// What became of the frames in its window, where it is one.
    fn window(&self) -> Option<WindowSummary> {
        None
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowResult {
    Done,
    /// anyone who looked has gone: the window was closed, the reader of the pipe has ended.
    Closed,
}

/// What became of a screen's frames in its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    /// Pixels of the window.
    pub size: Option<Size>,
    pub full_screen: bool,
    /// `shared-memory`, or `requests` where the display is remote or takes no shared memory.
    pub pixels_by: String,
    /// Frames that the display has taken.
    pub frames_shown: u64,
    /// Frames that it could not take before the next one was due.
    pub frames_dropped: u64,
    /// From a frame's deadline until the display had taken its pixels, milliseconds: the median and the 99th
    /// percentile.
    pub taken_p50_ms: Option<f64>,
    pub taken_p99_ms: Option<f64>,
}

/// `--write`: raw frames, end to end.
pub struct Raw {
    name: String,
    to: Box<dyn Write + Send>,
}

impl Raw {
    /// To a file, made again, or to standard output (`-`).
    pub fn create(path: &Path) -> Result<Raw, Failure> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            return Ok(Raw { name, to: Box::new(io::stdout()) });
        }
        let file = File::create(path).map_err(|error| Failure::Lacks(format!("--write {name}: {error}")))?;
        Ok(Raw { name, to: Box::new(file) })
    }
}

impl Output for Raw {
    fn show(&mut self, frame: &mut Vec<u8>, _size: Size) -> Result<ShowResult, Failure> {
        match self.to.write_all(frame).and_then(|()| self.to.flush()) {
            Ok(()) => Ok(ShowResult::Done),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ShowResult::Closed),
            Err(error) => Err(Failure::Lacks(format!(
                "--write {}: {error}; frames were written until then, the last one perhaps in part",
                self.name
            ))),
        }
    }
}
