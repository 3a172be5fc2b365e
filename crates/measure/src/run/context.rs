//! What every command that measures works with, and how each of them begins and ends. Ctrl-C ends it within a second,
//! whatever a peer does: one that does not answer after a moment is left.

use super::Run;
use crate::event::{Event, Listener};
use crate::measure::busy_before;
use linerate_facts::counters::ProcessTable;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::{FlowDevices, InterfacePath, disks_below, interfaces_below};
use linerate_machine::probe::{Machine, probe};
use linerate_model::plan::{PathPlan, SourcePlan, volume_members};
use linerate_system::stop::{Stop, any_ended};
use linerate_transport::agent::SessionBreaker;
use std::path::PathBuf;
use std::time::Duration;

/// After Ctrl-C the peers have this long to answer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Called with all that is known, after each step and each figure.
pub type Save<'a> = &'a mut dyn FnMut(&Run) -> Result<(), Failure>;

/// The surroundings of a run.
pub struct RunContext<'a> {
    pub sysroot: &'a Sysroot,
    /// Set by Ctrl-C.
    pub stop: &'a Stop,
    pub listener: &'a mut dyn Listener,
    pub save: Save<'a>,
}

impl RunContext<'_> {
    /// The first step. Where other programs are busy meanwhile, that is said before anything is measured beside them.
    pub(super) fn probe(&mut self) -> Machine {
        self.listener.hear(&Event::Step("probe"));
        let before = ProcessTable::read(self.sysroot, false);
        let machine = probe(self.sysroot);
        let meanwhile = ProcessTable::read(self.sysroot, false).since(&before, std::process::id(), &[]);
        let cpus = machine.cpu.online().count();
        let note = busy_before(&meanwhile, cpus);
        note.iter().for_each(|note| self.listener.hear(&Event::Note(note.clone())));
        machine
    }

    /// Says which interfaces and disks the flows of this command use.
    pub(super) fn say_devices(&mut self, machine: &Machine, paths: &[PathPlan], sources: &[SourcePlan]) {
        let files: Vec<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
        let named = sources.iter().filter_map(|source| source.resource.strip_prefix("disk:"));
        let named: Vec<&str> =
            named.flat_map(|name| volume_members(machine, name).into_iter().chain([name])).collect();
        let mut devices =
            FlowDevices { disks: disks_below(self.sysroot, machine, &files), ..FlowDevices::default() };
        devices.disks.extend(named.into_iter().map(str::to_string));
        for path in paths {
            devices.add(&match &path.nic {
                Some(nic) => interfaces_below(self.sysroot, nic),
                None => InterfacePath::unknown(format!("no route to {} could be read", path.peer.ip())),
            });
        }
        self.listener.hear(&Event::Uses(devices));
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.is_ended()
    }

    /// The last step of a stage: diagnosed and saved. A `Failure` where there is not one figure; what failed
    /// beside the figures is in `Run::errors`.
    pub fn finish(&mut self, mut run: Run) -> Result<Run, Failure> {
        if run.measurements.is_empty() {
            return Err(match run.errors.into_iter().next() {
                Some(first) if !self.stopped() => Failure::Lacks(first),
                _ => Failure::Interrupted,
            });
        }
        self.note_stop(&mut run);
        run.diagnosis = run.diagnose();
        if let Err(failure) = (self.save)(&run) {
            run.errors.push(failure.to_string());
        }
        Ok(run)
    }

    pub(super) fn note_stop(&self, run: &mut Run) {
        if self.stopped() {
            run.errors.push("interrupted: what was measured until then is here".into());
        }
    }
}

/// Does the work; a peer that holds it up after `stop` is cut off. Where not even one more thread is to be
/// had, such a peer is waited for.
pub(super) fn cut_at_stop<T>(cutters: Vec<SessionBreaker>, stop: &Stop, work: impl FnOnce() -> T) -> T {
    let over = Stop::new();
    std::thread::scope(|scope| {
        let _ = std::thread::Builder::new()
            .name("cutter".into())
            .spawn_scoped(scope, || cut_when_stopped(&cutters, stop, &over));
        let _over = over.ends_at_drop();
        work()
    })
}

fn cut_when_stopped(cutters: &[SessionBreaker], stop: &Stop, over: &Stop) {
    any_ended(&[stop, over], None);
    if !over.wait(LAST_WORDS) {
        cutters.iter().for_each(SessionBreaker::cut);
    }
}
