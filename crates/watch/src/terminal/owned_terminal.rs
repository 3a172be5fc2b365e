//! The terminal of a view: taken over and given back, always, whatever ends the view; and how large it is: the one place
//! that asks. Or lines that stay below what a command writes: each drawing goes over the one before, what is to stay is
//! written above it.
//!
//! Everything of such lines is relative to the cursor, which rests in the row below them. ratatui's own inline
//! viewport asks the terminal where the cursor is: through crossterm that is written to standard output,
//! which may be a file, and needs raw mode, which a command in the background is stopped for.

use super::screen::SMALLEST;
use linerate_facts::failure::Failure;
use linerate_system::readiness;
use linerate_system::stop::Stop;
use ratatui::Terminal;
use ratatui::backend::{CrosstermBackend, IntoCrossterm};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::ContentStyle;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::text::{Line, Span};
use std::fs::File;
use std::io::{self, IsTerminal, Stdout, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The screen is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Where the size is not known.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Cursor to the first column, and everything from it to the end of the screen away.
const CLEAR_BELOW: &str = "\r\x1b[J";

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

/// The lines below the cursor.
#[derive(Debug, Default)]
pub struct InlineView {
    /// Columns of each line that was drawn last.
    drawn: Vec<usize>,
}

impl InlineView {
    /// What to write so that `above` stays and `lines` are below it, in a terminal of `columns`.
    pub fn frame(&mut self, above: &[String], lines: &[Line<'_>], columns: usize) -> String {
        let mut text = self.up(columns);
        for line in above {
            text.push_str(line);
            text.push_str("\x1b[K\r\n");
        }
        self.drawn.clear();
        for line in lines {
            // The last column stays free: some terminals begin a new line after it.
            let (line, width) = ansi(line, columns.saturating_sub(1));
            text.push_str(&line);
            text.push_str("\x1b[K\r\n");
            self.drawn.push(width);
        }
        text + CLEAR_BELOW
    }

    /// What to write so that no lines are left below the cursor.
    pub fn erased(&mut self, columns: usize) -> String {
        let up = self.up(columns);
        if self.drawn.is_empty() {
            String::new()
        } else {
            self.drawn.clear();
            up + CLEAR_BELOW
        }
    }

    /// Something else has written since: what was drawn stays where it is, and the next drawing goes below it.
    pub fn forget(&mut self) {
        self.drawn.clear();
    }

    /// To the first row of what was drawn. A terminal that became narrower has broken its lines.
    fn up(&self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        if rows > 0 { format!("\r\x1b[{rows}A") } else { String::new() }
    }
}

/// A line as a terminal takes it, cut at `columns`, and its width.
fn ansi(line: &Line<'_>, columns: usize) -> (String, usize) {
    let (mut text, mut used) = (String::new(), 0);
    for span in &line.spans {
        let mut fitting = String::new();
        for character in span.content.chars() {
            let width = Span::raw(character.to_string()).width();
            if used + width > columns {
                break;
            }
            used += width;
            fitting.push(character);
        }
        let style: ContentStyle = line.style.patch(span.style).into_crossterm();
        text.push_str(&style.apply(fitting).to_string());
    }
    (text, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::{Color, Style};

    fn lines(texts: &[&str]) -> Vec<Line<'static>> {
        texts.iter().map(|text| Line::from(text.to_string())).collect()
    }

    #[test]
    fn each_drawing_goes_over_the_one_before() {
        let mut view = InlineView::default();
        assert_eq!(view.frame(&[], &lines(&["a", "b"]), 80), "a\x1b[K\r\nb\x1b[K\r\n\r\x1b[J");
        let stays = ["measured".to_string()];
        assert_eq!(view.frame(&stays, &lines(&["c"]), 80), "\r\x1b[2Ameasured\x1b[K\r\nc\x1b[K\r\n\r\x1b[J");
        assert_eq!(view.erased(80), "\r\x1b[1A\r\x1b[J");
        assert_eq!(view.erased(80), "", "nothing is there any more");
        view.frame(&[], &lines(&["d"]), 80);
        view.forget();
        assert_eq!(view.frame(&[], &lines(&["e"]), 80), "e\x1b[K\r\n\r\x1b[J");
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_broken_are_all_gone_over() {
        let mut view = InlineView::default();
        view.frame(&[], &lines(&[&"x".repeat(70), "y", ""]), 80);
        assert!(view.frame(&[], &[], 40).starts_with("\r\x1b[4A"));
        assert_eq!(view.erased(40), "");
    }

    #[test]
    fn lines_are_cut_at_the_width_in_columns() {
        let line = Line::from(vec![Span::raw("abc"), Span::styled("日本", Style::new().fg(Color::Red))]);
        let (text, width) = ansi(&line, 6);
        assert_eq!(width, 5, "a wide character is not halved");
        assert!(text.starts_with("abc") && text.contains('日') && !text.contains('本'), "{text:?}");
        assert_eq!(ansi(&line, 0).1, 0);
    }
}
