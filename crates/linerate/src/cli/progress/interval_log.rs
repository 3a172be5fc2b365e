//! `--interval`: a line this often with the rate of what is being measured, as users of iperf3 expect it,
//! wherever standard output goes.

use super::rate;
use crate::cli::output::Output;
use linerate_facts::printable::printable;
use linerate_measure::event::Event;
use linerate_measure::measure::Stage;
use linerate_system::clock;
use std::time::{Duration, Instant};

/// Keeps what was seen since the last line.
#[derive(Debug)]
pub(super) struct IntervalLog {
    every: Duration,
    /// Standard output has nothing else until the end.
    on_output: bool,
    begin: Instant,
    due: Instant,
    running: Option<(Stage, String)>,
    rates: Vec<f64>,
}

impl IntervalLog {
    pub(super) fn begin(every: Duration, on_output: bool) -> Self {
        let begin = clock::now();
        IntervalLog { every, on_output, begin, due: begin + every, running: None, rates: Vec::new() }
    }

    pub(super) fn hear(&mut self, event: &Event, output: &Output) {
        let now = clock::now();
        let Some(line) = self.line(event, now) else { return };
        if self.on_output {
            // A reader that has gone away is no reason to end the measurement.
            let _ = output.print(&format!("{line}\n"));
        } else {
            output.tell(&line);
        }
    }

    /// One that is due.
    fn line(&mut self, event: &Event, now: Instant) -> Option<String> {
        match event {
            Event::Started { stage, name, .. } => {
                self.running = Some((*stage, name.clone()));
                self.rates.clear();
            }
            Event::Measured(_) => self.running = None,
            Event::Progress { bytes_per_second, .. } => self.rates.push(*bytes_per_second),
            _ => {}
        }
        let (stage, name) = self.running.as_ref().filter(|_| now >= self.due && !self.rates.is_empty())?;
        let mean = self.rates.iter().sum::<f64>() / self.rates.len() as f64;
        let seconds = now.duration_since(self.begin).as_secs_f64();
        let line = format!(
            "{seconds:>7.1} s  {:<8} {:<34} {:>12}",
            stage.to_string(),
            printable(name),
            rate(*stage, mean)
        );
        self.rates.clear();
        while self.due <= now {
            self.due += self.every;
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_an_interval_with_the_mean_of_what_was_seen() {
        let mut log = IntervalLog::begin(Duration::from_secs(1), true);
        let at = |ms: u64| log_begin(&log) + Duration::from_millis(ms);
        let times = [100, 500, 900, 1100, 1900, 3500].map(at);
        let seen = |bytes_per_second| Event::Progress { stage: Stage::Network, bytes_per_second };
        let started = Event::Started { stage: Stage::Network, name: "lo tcp".into(), seconds: 9.0 };
        assert_eq!(log.line(&seen(9e9), times[0]), None, "nothing runs");
        assert_eq!(log.line(&started, times[0]), None);
        assert_eq!(log.line(&seen(1e9), times[1]), None);
        assert_eq!(log.line(&seen(2e9), times[2]), None);
        let line = log.line(&seen(3e9), times[3]).expect("it is due");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>().join(" "), "1.1 s network lo tcp 16.0 Gb/s");
        assert_eq!(log.line(&seen(1e9), times[4]), None);
        // A line that was missed is not made up for.
        assert!(log.line(&seen(1e9), times[5]).is_some_and(|line| line.contains("3.5 s")));
        assert!(log.due > times[5]);
    }

    fn log_begin(log: &IntervalLog) -> Instant {
        log.begin
    }
}
