//! The terminal of the user who asked for this process from another host, with `--on`.

use super::message::Message;
use linerate_measure::run::Run;
use linerate_system::lock;
use std::io::{Stdout, Write};
use std::sync::Mutex;

/// A longer text goes in several messages.
const LONGEST_TEXT_BYTES: usize = 256 << 10;

/// That terminal, and the kept results of that user.
#[derive(Debug)]
pub(in crate::cli) struct RemoteTerminal(Mutex<Stdout>);

impl RemoteTerminal {
    /// Messages go by this stream.
    pub(super) fn new(stdout: Stdout) -> Self {
        RemoteTerminal(Mutex::new(stdout))
    }

    /// For standard output there.
    pub(in crate::cli) fn print(&self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(LONGEST_TEXT_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (now, later) = rest.split_at(end);
            self.send(&Message::Print(now.into()));
            rest = later;
        }
    }

    /// A line for standard error there.
    pub(in crate::cli) fn tell(&self, line: &str) {
        self.send(&Message::Tell(line.into()));
    }

    /// For the kept results there.
    pub(in crate::cli) fn keep(&self, run: &Run) {
        self.send(&Message::Keep(Box::new(run.clone())));
    }

    /// For the line of progress there.
    pub(in crate::cli) fn reached(&self, how_far: String, seconds_left: Option<f64>) {
        self.send(&Message::Reached { how_far, seconds_left });
    }

    /// Nobody may be there to hear it: the end of standard input says that.
    pub(super) fn send(&self, message: &Message) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let mut out = lock(&self.0);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
