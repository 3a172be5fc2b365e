//! What a user sees while linerate works: one enum, many listeners (the plain printer, the progress bar, the
//! tests).

use crate::measure::product::{Measurement, Stage};
use linerate_machine::flow_devices::FlowDevices;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A step of the forward path began (`probe`, `plan`, `measure`, …).
    Step(&'static str),
    /// What of this machine the flows of all measurements use.
    Uses(FlowDevices),
    /// A measurement began; it will take about `seconds`.
    Started { stage: Stage, name: String, seconds: f64 },
    /// All that is still to be measured will take about `seconds`.
    Remaining { seconds: f64 },
    /// A look at the running measurement.
    Progress { stage: Stage, bytes_per_second: f64 },
    /// What the workers of the running measurement did with their time since the last look.
    Workers(WorkerShares),
    /// A measurement ended.
    Measured(Box<Measurement>),
    /// Something the user should know; not an error.
    Note(String),
    /// Something failed; the run goes on with what is left.
    Failed(String),
}

/// What workers did with their time: shares of 1, means over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerShares {
    pub count: u32,
    /// Worked on a core.
    pub busy: f64,
    /// Waited for the source.
    pub starved: f64,
    /// Waited for the sink.
    pub blocked: f64,
    /// Of the worker that works most.
    pub busiest: f64,
    /// Their source is the network: the flow comes in.
    pub incoming: bool,
}

/// Hears events. Called from the measuring thread only, never from a worker.
pub trait Listener {
    fn hear(&mut self, event: &Event);

    /// For so many seconds at once the path is to flow once more at the end, since what listens is too slow for turns; none:
    /// it need not.
    fn steady_seconds(&self) -> Option<f64> {
        None
    }
}

/// Behind the name of a measurement that flows steadily for a listener; it is not a figure.
pub const STEADY: &str = ", steady";

/// Hears nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn hear(&mut self, _event: &Event) {}
}

/// Keeps everything, for tests.
#[derive(Debug, Default)]
pub struct Kept(pub Vec<Event>);

impl Listener for Kept {
    fn hear(&mut self, event: &Event) {
        self.0.push(event.clone());
    }
}
