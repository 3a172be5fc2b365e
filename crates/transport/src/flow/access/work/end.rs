//! After the stop: what is under way comes home, files are flushed, what was owed is counted.

use super::{AccessWork, TURN_WAIT, WRITE};
use crate::flow::access::AccessOutcome;
use linerate_system::queue::{Action, Completion, Queue, Transfer};
use std::io;

/// After a stop, what is under way is waited for as long as something comes back within so many times the
/// longest silence so far …
const SILENCES: u64 = 2;
/// … but for no less and no more than this: the throttle of a control group or of a cloud volume holds requests back for
/// a second and more.
const LEAST_PATIENCE_NANOS: u64 = 3_000_000_000;
const MOST_PATIENCE_NANOS: u64 = 20_000_000_000;
/// After a Ctrl-C this is all: with what follows, a second at most.
const ABANDON_NANOS: u64 = 200_000_000;
/// As many requests that were due but never sent are counted as late.
const MOST_OVERDUE: usize = 1_000_000;

impl<Q: Queue> AccessWork<'_, Q> {
    /// After the stop: what is under way comes home, as long as the device shows life.
    pub(super) fn drain(&mut self, stopped: u64, done: &mut Vec<Completion>) -> io::Result<u64> {
        let mut now = stopped;
        while self.queue.in_flight() > 0 {
            let silence = now.saturating_sub(self.life.max(stopped));
            let enough = if self.abandoned() {
                now - stopped >= ABANDON_NANOS
            } else {
                silence >= self.patience(stopped)
            };
            if enough {
                break;
            }
            now = self.turn(Some(TURN_WAIT), now, done)?;
        }
        let left = self.queue.in_flight();
        if let Some(number) = self.first_under_way().filter(|_| left > 0 && !self.abandoned()) {
            let waited = now.saturating_sub(self.life.max(stopped)) as f64 / 1e9;
            self.failed(
                number,
                &io::Error::other(format!(
                    "{left} requests did not come back within {waited:.1} s after the stop: the device hangs, or \
                     something above it holds them back"
                )),
            );
        }
        Ok(now)
    }

    /// The lowest block that did not come back.
    fn first_under_way(&self) -> Option<usize> {
        let mut home = vec![false; self.flights.len()];
        self.free.iter().flatten().for_each(|lease| home[lease.number()] = true);
        home.iter().position(|home| !home)
    }

    /// How long a device may be silent: as long again as it was before, since a deep queue of large requests
    /// on a slow one, or a throttle that deals by the second, is no hang.
    fn patience(&self, stopped: u64) -> u64 {
        let before = self.longest_silence.max(stopped.saturating_sub(self.life));
        (SILENCES * before).clamp(LEAST_PATIENCE_NANOS, MOST_PATIENCE_NANOS)
    }

    /// Every file that may have been written goes to its device.
    pub(super) fn flush(&mut self, mut now: u64, done: &mut Vec<Completion>) -> io::Result<u64> {
        let mut block = self.free[WRITE].pop();
        for file in 0..self.start.files.len() {
            let Some(lease) = block.take() else { break };
            let flush =
                Transfer { action: Action::Flush { data_only: false }, file, offset: 0, from: 0, length: 0 };
            self.queue.submit(lease, flush);
            while self.queue.in_flight() > 0 {
                if self.abandoned() {
                    let abandoned = io::Error::other("abandoned before it was over");
                    self.error(file, 0, "flush", &abandoned);
                    return Ok(now);
                }
                self.queue.turn(Some(TURN_WAIT), done)?;
                now = self.nanos();
            }
            if let Some(Completion { lease, result }) = done.pop() {
                block = Some(lease);
                if let Err(error) = result {
                    self.error(file, 0, "flush", &error);
                }
            }
        }
        Ok(now)
    }

    /// What an open loop owed at the stop was late, though it was never sent.
    pub(super) fn count_overdue(&mut self, stopped: u64) {
        if self.all_asked() {
            return;
        }
        for late in self.schedule.overdue(stopped, MOST_OVERDUE) {
            self.lateness.saturating_record(late);
        }
    }

    /// `depths`: requests in flight, and requests that waited to be.
    pub(super) fn outcome(mut self, ended: u64, home: bool, depths: [f64; 2]) -> AccessOutcome {
        if self.more_corrupt > 0
            && let Some(last) = self.corrupt.last_mut()
        {
            last.why = format!("{}; and {} more damaged sectors", last.why, self.more_corrupt);
        }
        let cpu_seconds = self.cpu().as_secs_f64();
        let [reads, writes] = self.sides;
        AccessOutcome {
            reads,
            writes,
            syncs: self.syncs,
            lateness: self.lateness,
            mean_depth: depths[0],
            mean_waiting: depths[1],
            windows: self.windows,
            cpu_seconds,
            started_seconds: self.started as f64 / 1e9,
            ended_seconds: ended as f64 / 1e9,
            whole: self.errors.is_empty() && home,
            errors: self.errors,
            corrupt: self.corrupt,
            method: self.queue.method(),
        }
    }
}
