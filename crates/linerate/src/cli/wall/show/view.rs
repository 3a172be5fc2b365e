//! How the screens do, on the terminal at standard error, while they run; gone when they end, since the result says it all.

use super::super::super::commands::complain;
use crate::report::{columns, wall_screens};
use crate::wall::show::{Glass, Live};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// It is drawn anew this often: screens tell four times a second.
const EVERY: Duration = Duration::from_millis(500);
/// The end is looked for this often.
const LOOK: Duration = Duration::from_millis(20);

/// The view, and what it looks at.
pub struct View {
    glasses: Vec<Glass>,
    /// What stands on the terminal.
    drawn: String,
}

impl View {
    /// Where standard error is no terminal, or the result is a program's, nothing is shown.
    pub fn of(glasses: Vec<Glass>, json: bool) -> Option<View> {
        (!json && io::stderr().is_terminal()).then(|| View { glasses, drawn: String::new() })
    }

    /// Draws until it is over.
    pub fn until(mut self, over: impl Fn() -> bool) {
        let mut next = Instant::now();
        while !over() {
            if next <= Instant::now() {
                next = Instant::now() + EVERY;
                if let Err(error) = self.draw() {
                    // The terminal has gone, or hangs up: the screens go on without it.
                    complain(&format!("the terminal takes no view any more: {error}"));
                    return;
                }
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.replace(String::new(), size().0);
    }

    fn draw(&mut self) -> io::Result<()> {
        let screens: Vec<Live> = self.glasses.iter().filter_map(Glass::newest).collect();
        if screens.is_empty() {
            return Ok(());
        }
        let (width, height) = size();
        let view = wall_screens::live(&screens, width, height);
        self.replace(view, width)
    }

    /// One write, so that no half of it is seen.
    fn replace(&mut self, view: String, width: usize) -> io::Result<()> {
        let up = match rows(&self.drawn, width) {
            0 => String::new(),
            rows => format!("\x1b[{rows}A\x1b[J"),
        };
        let mut out = io::stderr().lock();
        out.write_all(format!("{up}{view}").as_bytes())?;
        self.drawn = view;
        out.flush()
    }
}

/// Rows that these lines take on a terminal that may have become narrower since.
fn rows(view: &str, width: usize) -> usize {
    view.lines().map(|line| columns(line).div_ceil(width.max(1)).max(1)).sum()
}

/// Columns and lines of the terminal now; the line below the view is the cursor's.
fn size() -> (usize, usize) {
    let seen = terminal_size::terminal_size_of(io::stderr());
    seen.map_or((80, 23), |(width, height)| (width.0.into(), usize::from(height.0).saturating_sub(1).max(1)))
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn lines_take_more_rows_on_a_narrower_terminal() {
        let view = format!("{}\n{}\n\n", "a".repeat(79), "b".repeat(30));
        assert_eq!((rows(&view, 80), rows(&view, 40), rows(&view, 10)), (3, 4, 12));
        assert_eq!(rows("", 80), 0);
    }
}
