//! The terminal taken over and given back, always, whatever ends the view; and how large it is: the one place
//! that asks.

use super::screen::SMALLEST;
use linerate_facts::failure::Failure;
use linerate_system::readiness;
use linerate_system::stop::Stop;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::fs::File;
use std::io::{self, IsTerminal, Stdout, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The screen is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, ours until this is dropped.
pub(crate) struct OwnedTerminal {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Where the keys come from, if not from standard input: as crossterm chooses.
    keys: Option<File>,
}

impl OwnedTerminal {
    /// Takes it. A panic of any thread gives it back before it is reported, so that the message is seen.
    pub(crate) fn take() -> Result<OwnedTerminal, Failure> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let lacks = |error: io::Error| {
            Failure::Lacks(format!(
                "the terminal cannot be drawn on: {error}; `linerate watch --json` writes lines instead"
            ))
        };
        enter()
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .and_then(|terminal| {
                let keys = if stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
                Ok(OwnedTerminal { terminal, keys })
            })
            .map_err(|error| {
                give_back();
                lacks(error)
            })
    }

    /// Waits for a key. An error where the terminal is gone: crossterm, asked for a key of such a one, reads
    /// its end for ever and comes back for no signal.
    pub(crate) fn wait_key(&self, timeout: Duration) -> io::Result<bool> {
        match &self.keys {
            None => readiness::wait_key(&stdin(), timeout),
            Some(keys) => readiness::wait_key(keys, timeout),
        }
    }

    /// To the shell until it lets us go on (`fg`).
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        enter()?;
        self.terminal.clear()
    }

    /// Lets something else write on it, and takes it back at the next key.
    pub(crate) fn lend(&mut self, write: &dyn Fn(), stop: &Stop) -> io::Result<()> {
        give_back();
        write();
        println!("\nany key goes back to the watch");
        TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        while !stop.is_ended() && !self.wait_key(Duration::from_millis(100))? {}
        // It asks for nothing else.
        while poll(Duration::ZERO)? && read().is_ok() {}
        enter()?;
        self.terminal.clear()
    }

    /// A thread has panicked and the screen was given back.
    pub(crate) fn is_lost(&self) -> bool {
        !TAKEN.load(Ordering::SeqCst)
    }
}

impl Drop for OwnedTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen, Hide)
}

/// Once, for the first that calls it. What fails here can be reported to nobody.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Where the size is not known.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Columns and rows of the terminal now; none where this is not a terminal.
pub fn size(of: impl AsFd) -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(of)?;
    Some((width.0.into(), height.0.into()))
}

/// The size, or a usual one where it is not known.
pub fn size_or_usual(of: impl AsFd) -> (usize, usize) {
    size(of).unwrap_or(USUAL_SIZE)
}

/// The terminal has room for a useful view.
pub fn has_room(of: impl AsFd) -> bool {
    let (columns, rows) = SMALLEST;
    size(of).is_some_and(|(width, height)| width >= columns.into() && height >= rows.into())
}
