//! `linerate disk`: the words made into a grid, the library called, the table printed and saved.

use super::arguments::DiskArgs;
use super::environment::may_use_io_uring;
use super::fio_job::{self, joined};
use super::gate::Gate;
use super::output::Output;
use super::run::gentle;
use super::saving::{ResultTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_measure::measure::access::AccessJob;
use linerate_measure::run::disk::{BestAlone, DiskGrid, DiskSpec, conduct_disk};
use linerate_measure::run::{Run, RunContext};
use linerate_report::results;
use std::path::PathBuf;

/// Length of a measurement where none is told: four cells, three visits, and the writing of the file take
/// less than a minute.
const USUAL_SECONDS: f64 = 2.0;
/// A grid that takes longer is announced, …
const LONG_SECONDS: f64 = 120.0;
/// … and one of this many measurements, where nobody knows how long each takes.
const MANY: u64 = 100;

/// Measures, prints, saves.
pub(super) fn disk(args: &DiskArgs, output: &Output) -> Result<u8, Failure> {
    gentle(&args.job.gentle)?;
    let gate = Gate::open(&args.output.expect)?;
    let mut parts = parts(args, output)?;
    let best = best_alone(args)?;
    parts.iter_mut().for_each(|(_, spec)| spec.best_alone.clone_from(&best));
    for (_, spec) in &parts {
        let grid = spec.time()?;
        let long = grid.seconds.map_or(grid.measurements >= MANY, |seconds| seconds >= LONG_SECONDS);
        if long {
            output.complain(&grid.sentence());
        }
    }
    conducted(ResultTarget::of(&args.output, &gate), "disk", &args.live, true, output, |context| {
        conduct_all(context, &parts)
    })
}

/// `--scaling=RESULT`.
fn best_alone(args: &DiskArgs) -> Result<Vec<BestAlone>, Failure> {
    let Some(Some(word)) = &args.scaling else { return Ok(Vec::new()) };
    let found = BestAlone::all(&results::read(word)?.measurements);
    if found.is_empty() {
        return Err(Failure::Usage(format!(
            "--scaling={}: no source was measured alone there: name a result of `linerate disk` with one source",
            word.display()
        )));
    }
    Ok(found)
}

/// What is done one after the other: the grid of the command line, or the sections of a job file that run at once, under
/// their names.
fn parts(args: &DiskArgs, output: &Output) -> Result<Vec<(Vec<String>, DiskSpec)>, Failure> {
    if args.tax {
        return one_by_one(args);
    }
    let Some(file) = &args.fio_job else {
        return Ok(vec![(Vec::new(), spec_of(args, args.job.grid(USUAL_SECONDS)))]);
    };
    let mut parts: Vec<(Vec<String>, DiskSpec)> = Vec::new();
    for mut job in fio_job::read(file)? {
        fio_job::make_absent(&mut job, args.job.keep);
        job.notes.iter().for_each(|note| output.complain(&format!("[{}] {note}", job.name)));
        let grid = fio_job::grid(&job, &args.job);
        if let Some((names, spec)) = parts.last_mut().filter(|_| job.at_once) {
            names.push(job.name);
            spec.beside.push(grid);
            continue;
        }
        let mut spec = spec_of(args, grid);
        spec.name = spec.name.or_else(|| Some(file.file_stem()?.to_string_lossy().into_owned()));
        parts.push((vec![job.name], spec));
    }
    Ok(parts)
}

/// `--tax`: each source by itself.
fn one_by_one(args: &DiskArgs) -> Result<Vec<(Vec<String>, DiskSpec)>, Failure> {
    let grid = args.job.grid(USUAL_SECONDS);
    let is_device = |path: &PathBuf| path.starts_with("/dev") && !path.starts_with("/dev/shm");
    if grid.alike.sources.len() < 2 || !grid.alike.sources.first().is_some_and(is_device) {
        return Err(Failure::usage(
            "--tax holds file systems against the block device below them: give --source /dev/NAME first, then a --source in \
             each file system",
        ));
    }
    let alone = |source: &PathBuf| {
        let alike = AccessJob { sources: vec![source.clone()], ..grid.alike.clone() };
        DiskGrid { alike, ..grid.clone() }
    };
    Ok(grid.alike.sources.iter().map(|source| (Vec::new(), spec_of(args, alone(source)))).collect())
}

fn spec_of(args: &DiskArgs, grid: DiskGrid) -> DiskSpec {
    DiskSpec {
        name: args.name.clone(),
        grid,
        beside: Vec::new(),
        permissions: args.job.permissions(),
        repeats: args.repeats,
        rounds: args.rounds,
        steady_state: args.steady_state,
        scaling: args.scaling.is_some(),
        best_alone: Vec::new(),
        prepare: args.prepare.clone(),
        io_uring: may_use_io_uring(),
        idle: args.job.gentle.idle,
    }
}

/// All parts into one result. What fails after the first figure is told in it.
fn conduct_all(context: RunContext, parts: &[(Vec<String>, DiskSpec)]) -> Result<Run, Failure> {
    let RunContext { sysroot, stop, listener, save } = context;
    let mut whole: Option<Run> = None;
    for (sections, spec) in parts {
        let before = whole.clone();
        let mut save_all = |run: &Run| save(&joined(before.as_ref(), run, sections));
        let context = RunContext { sysroot, stop, listener: &mut *listener, save: &mut save_all };
        match (conduct_disk(context, spec), &mut whole) {
            (Ok(run), _) => whole = Some(joined(before.as_ref(), &run, sections)),
            (Err(failure), None) => return Err(failure),
            (Err(failure), Some(whole)) => {
                let names: String = sections.iter().map(|name| format!("[{name}] ")).collect();
                whole.errors.push(names + &failure.to_string());
                break;
            }
        }
        if stop.is_ended() {
            break;
        }
    }
    whole.ok_or(Failure::Interrupted)
}
