//! While frames are shown, the screen saver and the monitor's power saving wait.
//!
//! By X's own extension: the server counts again by itself once we ask it to or are gone, also after `kill
//! -9`.

use super::display::{Display, DisplayLost};
use linerate_system::clock;
use std::time::{Duration, Instant};
use x11rb::protocol::screensaver::{self, ConnectionExt};

/// So long after the last frame they may come again: a pause is no end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps a display awake.
#[derive(Debug)]
pub(crate) struct Awake {
    is_possible: bool,
    holds: bool,
    newest: Option<Instant>,
}

impl Awake {
    /// Holds nothing yet.
    pub(crate) fn new(display: &Display) -> Result<Awake, DisplayLost> {
        let mut is_possible = display.has(screensaver::X11_EXTENSION_NAME)?;
        if is_possible {
            let version = display.connection.screensaver_query_version(1, 1)?.reply()?;
            is_possible = (version.server_major_version, version.server_minor_version) >= (1, 1);
        }
        Ok(Awake { is_possible, holds: false, newest: None })
    }

    /// A frame is shown.
    pub(crate) fn shown(&mut self) {
        self.newest = Some(clock::now());
    }

    /// Asks the display to stay awake, or lets it sleep again.
    pub(crate) fn look(&mut self, display: &Display) -> Result<(), DisplayLost> {
        let wanted = self.is_possible && self.newest.is_some_and(|newest| clock::since(newest) < PATIENCE);
        if wanted != self.holds {
            display.connection.screensaver_suspend(u32::from(wanted))?;
            self.holds = wanted;
        }
        Ok(())
    }
}
