//! Where jobs are run, and what was tried there.

use crate::event::Listener;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::schedule::WARM_UP_SECONDS;
use linerate_system::stop::Stop;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where jobs are run, and who hears of it. Any number of jobs, one after another.
pub struct AccessBench<'a> {
    pub sysroot: &'a Sysroot,
    pub machine: &'a Machine,
    /// Set by Ctrl-C.
    pub stop: &'a Stop,
    pub listener: &'a mut dyn Listener,
    /// io_uring may be used.
    pub io_uring: bool,
    /// Workers take only what nobody else wants of CPUs and disks.
    pub idle: bool,
    /// Whether workers are pinned, as far as it was tried.
    pub pinning: PinningTrials,
    /// Settling time of a timed job, seconds; not counted ([`WARM_UP_SECONDS`]).
    pub warm_up_seconds: f64,
    /// Windows of a timed job, each as long as the job says.
    pub windows: u32,
}

impl<'a> AccessBench<'a> {
    /// One window a job, with io_uring, beside nobody else; nothing was tried yet.
    pub fn new(
        sysroot: &'a Sysroot,
        machine: &'a Machine,
        stop: &'a Stop,
        listener: &'a mut dyn Listener,
    ) -> Self {
        let (pinning, warm_up_seconds) = (PinningTrials::default(), WARM_UP_SECONDS);
        AccessBench {
            sysroot,
            machine,
            stop,
            listener,
            io_uring: true,
            idle: false,
            pinning,
            warm_up_seconds,
            windows: 1,
        }
    }

    /// Whether Ctrl-C has ended it.
    pub fn stopped(&self) -> bool {
        self.stop.is_ended()
    }
}

/// What was tried of pinning, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinningTrial {
    /// Requests a second with workers pinned to the CPUs that the job would have; a sample for each short measurement.
    pub pinned_per_second: Vec<f64>,
    /// The same with workers that run on any CPU.
    pub free_per_second: Vec<f64>,
    /// The workers of the figure are pinned.
    pub pinned: bool,
}

/// Trials of a bench so far: jobs that are alike in all of [`TrialKey`] share one.
#[derive(Debug, Default)]
pub struct PinningTrials(pub(super) Vec<(TrialKey, PinningTrial)>);

/// Which jobs a trial holds for.
#[derive(Debug, PartialEq)]
pub(super) struct TrialKey {
    pub(super) sources: Vec<PathBuf>,
    pub(super) workers: u32,
    pub(super) queue_depth: u32,
    pub(super) transfer_bytes: u64,
}
