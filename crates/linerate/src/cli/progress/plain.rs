//! The plain line: one line on standard error, only on a terminal, gone when the work is done.

use super::{done, rate, step};
use crate::event::{Event, Listener};
use crate::report::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows what happens on a terminal; elsewhere it is silent.
#[derive(Debug)]
pub struct Plain {
    bar: ProgressBar,
    terminal: bool,
    begin: Instant,
    /// When all that is still to be measured will be done, as far as that is known.
    end: Option<Instant>,
}

impl Plain {
    /// On standard error, if that is a terminal.
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>3} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Plain { bar, terminal, begin: Instant::now(), end: None }
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// So much is still to come: what takes more than a moment has a bar that fills.
    fn expect(&mut self, left: Duration) {
        let end = Instant::now() + left;
        self.end = Some(end);
        if left < Duration::from_secs(2) && self.bar.length().is_none() {
            return;
        }
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>3} [{bar:20}] {wide_msg}") {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_length((end - self.begin).as_millis() as u64);
    }

    /// ` · 42 s left`, where that is known and worth a word.
    fn left(&self) -> String {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs());
        left.filter(|left| *left >= 2).map_or_else(String::new, |left| {
            format!(" · {} left", humantime::format_duration(Duration::from_secs(left)))
        })
    }

    fn line(&self, text: &str) {
        if self.terminal {
            self.bar.println(text);
        }
    }
}

impl Listener for Plain {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Step(name) => self.bar.set_message(step(name).to_string()),
            Event::Started { stage, name, seconds } => {
                let length = if *seconds > 0.0 { format!(" ({seconds:.1} s)") } else { String::new() };
                self.bar.set_message(format!("{stage}: {name}{length}"));
            }
            Event::Progress { stage, bytes_per_second } if *bytes_per_second > 0.0 => {
                if self.bar.length().is_some() {
                    self.bar.set_position(self.begin.elapsed().as_millis() as u64);
                }
                let message = self.bar.message();
                let label = message.split(" · ").next().unwrap_or_default().to_string();
                let rate = rate(*stage, *bytes_per_second);
                self.bar.set_message(format!("{label} · {rate}{}", self.left()));
            }
            Event::Remaining { seconds } => {
                self.expect(Duration::from_secs_f64(seconds.clamp(0.0, 1e6)));
            }
            Event::Progress { .. } | Event::Lanes(_) => {}
            Event::Measured(measurement) => self.line(&done(measurement)),
            Event::Note(note) => self.line(&format!("  note: {}", printable(note))),
            Event::Failed(what) => self.line(&format!("  failed: {}", printable(what))),
        }
    }
}
