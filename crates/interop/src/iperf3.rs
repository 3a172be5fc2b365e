//! The tests of a file of iperf3, whole or as a stream of events.

use crate::MOST_FIGURES;
use crate::document::Document;
use crate::iperf3_figure::figure;
use crate::iperf3_json::{Event, MOST_SIDES, Part, Test};
use crate::verdict::{self, FigureContext};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;

/// Tests that are kept of a file.
const MOST_TESTS: usize = 2000;

/// All tests of a file.
#[derive(Debug, Default)]
pub(crate) struct Tests {
    all: Vec<Test>,
    /// What their intervals take of the memory.
    sides: usize,
}

impl Tests {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn add(&mut self, document: Document) {
        let Document { start, mut intervals, end, error, .. } = document;
        if self.all.len() >= MOST_TESTS {
            return;
        }
        intervals.retain(|part| self.has_room(part));
        let (start, end) = (start.part().unwrap_or_default(), end.part().unwrap_or_default());
        self.all.push(Test { start, intervals, end, error, is_ended: true });
    }

    /// The next line of a stream; the first of a test begins it.
    pub(crate) fn add_event(&mut self, document: Document) {
        if self.all.len() >= MOST_TESTS {
            return;
        }
        let begins = document.event.0 == "start" || self.all.last().is_none_or(|test| test.is_ended);
        if begins {
            self.all.push(Test::default());
        }
        let has_room = matches!(&document.data, Event::Part(part) if self.has_room(part));
        let Some(test) = self.all.last_mut() else { return };
        match (document.event.0.as_str(), document.data) {
            ("start", Event::Part(part)) => test.start = *part,
            ("interval", Event::Part(part)) if has_room => test.intervals.push(*part),
            ("end", Event::Part(part)) => (test.end, test.is_ended) = (*part, true),
            // Its end follows, without figures.
            (_, Event::Error(text)) => test.error = text,
            _ => {}
        }
    }

    /// Counts an interval, where it may be kept.
    fn has_room(&mut self, part: &Part) -> bool {
        self.sides += part.sides();
        self.sides <= MOST_SIDES
    }

    /// Each test that moved something as a figure; what limited the fastest, and why others failed.
    pub(crate) fn run(self) -> Run {
        let first = self.all.first().map(|test| &test.start);
        let host = first.and_then(|start| start.system_info.0.split_whitespace().nth(1));
        let version = first.map(|start| start.version.0.replacen("iperf ", "iperf3-", 1)).unwrap_or_default();
        let tool = if version.is_empty() { "iperf3".into() } else { version };
        let started = first.and_then(|start| start.timestamp.timesecs.get());
        let name = self.all.iter().find_map(|test| test.peer()).unwrap_or("iperf3").to_string();
        let mut run = crate::begin(Stage::Network, tool, name, host, started);
        let mut figures: Vec<(Measurement, FigureContext)> = Vec::new();
        for test in &self.all {
            let found = figure(test).filter(|_| figures.len() < MOST_FIGURES);
            let moved = if found.is_some() { "the figures are those until then" } else { "it has no rate" };
            match test.error.get() {
                Some(why) => run.errors.push(format!("iperf3's test failed: {why}; {moved}")),
                None if !test.is_ended => {
                    run.errors.push(format!("the file ends before iperf3's test did; {moved}"));
                }
                None if found.is_none() => {
                    run.errors.push("an iperf3 test moved nothing: it has no rate".into())
                }
                None => {}
            }
            figures.extend(found);
        }
        // A file of thousands of failed tests says nothing more with all of them.
        run.errors.truncate(MOST_FIGURES);
        verdict::judge_all(&mut run, figures);
        run
    }
}
