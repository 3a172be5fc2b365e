//! The same experiment beside a program that is not linerate's: its bytes are counted by somebody else, and nothing of
//! it can be raised.

use super::course::Experiment;
use super::error::ExperimentError;
use super::takers::{TakenDisk, Takers, reader};
use crate::measure::running::RunningWorkers;
use linerate_facts::sysroot::Sysroot;
use linerate_model::shares::ShareRecord;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::source::{Cursor, Source};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(20);

/// Counts a flow that linerate does not move.
pub trait ForeignFlow {
    /// Bytes so far; none: it is not there any more.
    fn bytes(&mut self) -> Option<u64>;
}

/// What is taken of what a program uses.
#[derive(Debug)]
pub struct ProgramTakerSpec {
    /// The program's name.
    pub name: String,
    pub disks: Vec<ProgramDisk>,
    /// All CPUs that its threads may run on; empty: nothing is taken of them.
    pub cores: Vec<u32>,
    /// Share of the time in which its busiest thread works.
    pub cpu_busy: f64,
    /// Ids of what may be busy and cannot be taken from.
    pub untaken: Vec<String>,
    /// Threads that move its bytes, and what each moves at once.
    pub threads: u32,
    pub step_bytes: u64,
    pub round_trip_seconds: f64,
    /// Observing and taking together.
    pub longest: Duration,
}

/// A disk, and a file on it that is read beside the program.
#[derive(Debug)]
pub struct ProgramDisk {
    /// By the kernel.
    pub name: String,
    /// Open past the page cache.
    pub file: File,
    pub label: String,
    /// Where the program is in it.
    pub position: u64,
    pub bytes: u64,
    pub block_bytes: u64,
}

/// Takes from a program until its shares are known, the time is over, it has ended, or the user stops it.
pub fn take_from_program(
    sysroot: &Sysroot,
    spec: &ProgramTakerSpec,
    flow: Box<dyn ForeignFlow>,
    stop: &Stop,
) -> Result<ShareRecord, ExperimentError> {
    let disks = spec.disks.iter().enumerate();
    let disks =
        disks.map(|(at, disk)| (format!("disk:{}", disk.name), TakenDisk::new(disk.name.clone(), at)));
    let mut takers = Takers::taking_from(clock::now(), disks.collect(), Vec::new(), spec.cores.clone());
    let mut running = RunningWorkers::new(stop, false);
    takers.start(&mut running, |at, reads, gate| {
        let disk = &spec.disks[at];
        let label = disk.label.clone();
        let cursor = Arc::new(Cursor::opposite_to(disk.position, disk.bytes, disk.block_bytes));
        let unread = |error| ExperimentError::UnreadSource { path: label.clone(), error };
        let file = disk.file.try_clone().map_err(unread)?;
        Ok(reader(Source::File { file, cursor, label }, disk.block_bytes as usize, reads, gate))
    })?;
    let mut experiment = Experiment::of_program(sysroot, takers, running.counters.clone(), spec, flow);
    while experiment.look() && !stop.wait(LOOK) {}
    running.abandon_hanging();
    experiment.end()
}
