//! `linerate memory`: the words made into points, the sweep run, the table printed.

use super::arguments::{FormatArg, MemoryArgs};
use super::gate::Gate;
use super::output::Output;
use super::progress::Progress;
use super::saving::{ResultTarget, Saving};
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::probe;
use linerate_measure::measure::memory_sweep::{MemorySpec, Sweep, points, sweep};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;

/// Does `linerate memory`.
pub(super) fn memory(args: &MemoryArgs, output: &Output) -> Result<u8, Failure> {
    let gate = Gate::open(&args.output.expect)?;
    let stop = stop_on_signals()?;
    let spec = MemorySpec {
        kernels: args.kernels.clone(),
        strides: args.stride.clone(),
        working_sets: args.working_set.clone(),
        cores: args.cores.clone(),
        seconds: args.seconds,
        repeats: args.repeats,
    };
    let mut saving = Saving::begin(ResultTarget::of(&args.output, &gate), &stop, output)?;
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let points = points(&machine, &spec).map_err(Failure::usage)?;
    let goal = Goal { seconds: args.seconds, repeats: args.repeats, ..Goal::default() };
    let mut run = Run::begin_stage(Stage::Memory, "memory".into(), machine.clone(), goal);
    saving.save(&run)?;
    let mut progress = Progress::new("memory", &args.live, args.output.format() == FormatArg::Text, output);
    let mut unsaved: Option<Failure> = None;
    let mut so_far = run.clone();
    let mut save = |measurements: &[Measurement]| {
        so_far.measurements = measurements.to_vec();
        unsaved = saving.save(&so_far).err();
    };
    let done = sweep(
        Sweep { machine: &machine, sysroot: &sysroot, stop: &stop, listener: &mut progress, save: &mut save },
        &spec,
        &points,
    );
    progress.finish();
    run.measurements = done.measurements;
    run.errors = done.errors;
    run.errors.extend(unsaved.map(|failure| failure.to_string()));
    let left = points.len() - run.measurements.len();
    if stop.is_ended() {
        if run.measurements.is_empty() {
            return Err(Failure::Interrupted);
        }
        run.errors.push(format!("interrupted: {left} of {} points were not measured", points.len()));
    }
    run.diagnosis = run.diagnose();
    run.errors.extend(saving.save(&run).err().map(|failure| failure.to_string()));
    done.notes.iter().for_each(|note| output.complain(note));
    saving.finish(run)
}
