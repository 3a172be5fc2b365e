//! One stage alone: `linerate disk`, `load`, `network` and `memory`. The arguments are made into a grid, a
//! search, an order or points, the library is called, the result printed and saved.
//!
//! The sections of a job file (`--fio-job FILE`) are grids of one job each, done one after the other.

use super::arguments::{
    DiskArgs, FormatArg, JobArgs, LoadArgs, MemoryArgs, NetworkArgs, SEED, may_use_io_uring,
};
use super::output::Output;
use super::progress::Progress;
use super::run::gentle;
use super::saving::{Gate, ResultTarget, Saving, conducted};
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_machine::probe::probe;
use linerate_measure::measure::access::fio_job::{self, FioJob};
use linerate_measure::measure::access::{AccessJob, FileLayout, Permissions};
use linerate_measure::measure::memory_sweep::{MemorySpec, Sweep, points, sweep};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::disk::{BestAlone, DiskGrid, DiskSpec, WorkerParts, conduct_disk};
use linerate_measure::run::load::{LoadSpec, Search, conduct_load};
use linerate_measure::run::network::{
    NetworkSpec, NoReceiverSpec, conduct_iperf3, conduct_network, conduct_no_receiver,
};
use linerate_measure::run::{Run, RunContext};
use linerate_model::plan::Goal;
use linerate_report::results;
use linerate_system::file::folder_of;
use std::path::{Path, PathBuf};

/// Length of a measurement where the user names none: four cells, three visits, and the writing of the file take
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
        return Ok(vec![(Vec::new(), disk_spec(args, args.job.grid(USUAL_SECONDS)))]);
    };
    let mut parts: Vec<(Vec<String>, DiskSpec)> = Vec::new();
    for mut job in read_jobs(file)? {
        make_absent(&mut job, args.job.keep);
        job.notes.iter().for_each(|note| output.complain(&format!("[{}] {note}", job.name)));
        let grid = grid(&job, &args.job);
        if let Some((names, spec)) = parts.last_mut().filter(|_| job.at_once) {
            names.push(job.name);
            spec.beside.push(grid);
            continue;
        }
        let mut spec = disk_spec(args, grid);
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
    Ok(grid.alike.sources.iter().map(|source| (Vec::new(), disk_spec(args, alone(source)))).collect())
}

fn disk_spec(args: &DiskArgs, grid: DiskGrid) -> DiskSpec {
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

/// All parts into one result. What fails after the first figure is an error of it.
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

/// The sections of a file; what fio would do otherwise is printed.
fn read_jobs(path: &Path) -> Result<Vec<FioJob>, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::Lacks(format!("--fio-job {shown} cannot be read: {error}; give a job file of fio"))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("--fio-job {shown} is not text; give a job file of fio")))?;
    fio_job::parse(&text).map_err(|error| Failure::Usage(format!("--fio-job {shown}, {error}")))
}

/// fio makes a file that is named with a size and is not there; linerate makes one of its own in the same folder, which
/// goes at the end unless it is to be kept. A device that is not there is no file to make.
fn make_absent(job: &mut FioJob, keep: bool) {
    let Some(bytes) = job.amount_bytes.filter(|_| job.names_files) else { return };
    let one = job.layout == FileLayout::Segmented;
    let bytes = if one { bytes.saturating_mul(u64::from(job.workers)) } else { bytes };
    let end = if keep { "" } else { ", and removed at the end" };
    let is_file = |path: &&mut PathBuf| !path.starts_with("/dev") || path.starts_with("/dev/shm");
    for source in job.sources.iter_mut().filter(is_file) {
        let folder = folder_of(source);
        if source.exists() || !folder.is_dir() {
            continue;
        }
        let (name, size) = (printable(&source.to_string_lossy()), show_size(bytes));
        job.notes.push(format!("{name} is not there: a file of {size} is made in its folder{end}"));
        *source = folder.to_path_buf();
    }
}

/// One section as a grid; the checks are those of the command line.
pub(super) fn grid(job: &FioJob, args: &JobArgs) -> DiskGrid {
    DiskGrid {
        alike: AccessJob {
            sources: job.sources.clone(),
            direct: job.direct,
            fsync: job.fsync,
            sync: job.sync,
            reorder: args.reorder,
            verify: args.verify,
            seconds: job.seconds,
            requests_per_second: job.requests_per_second,
            limit_bytes_per_second: job.limit_bytes_per_second,
            seed: SEED,
            ..AccessJob::plain(job.access, job.order)
        },
        workers: vec![job.workers],
        transfers: vec![job.transfer_bytes],
        queue_depths: vec![job.queue_depth],
        accesses: vec![job.access],
        orders: vec![job.order],
        layouts: vec![job.layout],
        engines: vec![job.engine],
        parts: WorkerParts { amount_bytes: job.amount_bytes, block_bytes: None },
    }
}

/// What was measured before, with what the next sections measured under their own names.
pub(super) fn joined(before: Option<&Run>, next: &Run, sections: &[String]) -> Run {
    let mut run = before.unwrap_or(next).clone();
    let mut measurements = next.measurements.clone();
    for (measurement, section) in measurements.iter_mut().zip(sections) {
        measurement.name.clone_from(section);
    }
    if before.is_some() {
        run.measurements.extend(measurements);
        run.errors.extend(next.errors.iter().cloned());
        run.changes.extend(next.changes.iter().cloned());
    } else {
        run.measurements = measurements;
    }
    // Under their names, and of one section beside another.
    run.diagnosis = run.diagnose();
    run
}

/// Most users in a closed loop, most requests in flight in an open one, where the user names none.
const USUAL_WORKERS: (u32, u32) = (4096, 256);

/// Measures, prints, saves.
pub(super) fn load(args: &LoadArgs, output: &Output) -> Result<u8, Failure> {
    let gate = Gate::open(&args.output.expect)?;
    let spec = load_spec(args)?;
    conducted(ResultTarget::of(&args.output, &gate), "load", &args.live, false, output, |context| {
        conduct_load(context, &spec)
    })
}

fn load_spec(args: &LoadArgs) -> Result<LoadSpec, Failure> {
    if args.amount < args.transfer {
        return Err(Failure::Usage(format!(
            "--amount {}: smaller than one request of {} bytes; give a larger --amount or a smaller \
             --transfer",
            args.amount, args.transfer
        )));
    }
    let search = match (args.rate, args.find_rate) {
        (Some(rate), _) => Search::Rate(rate),
        (None, true) => Search::HighestRate,
        (None, false) => Search::Users,
    };
    let usual = if search == Search::Users { USUAL_WORKERS.0 } else { USUAL_WORKERS.1 };
    Ok(LoadSpec {
        name: args.name.clone(),
        sources: if args.source.is_empty() { vec![PathBuf::from(".")] } else { args.source.clone() },
        search,
        keep: args.keep,
        transfer_bytes: args.transfer,
        access: args.access,
        order: args.pattern,
        file_bytes: args.amount,
        workers: args.workers.unwrap_or(usual),
        direct: !args.buffered,
        seconds: args.seconds,
        repeats: args.repeats,
        seed: SEED,
        permissions: Permissions {
            destroy_data: args.destroy_data.clone(),
            keep: false,
            shorten_after: None,
        },
        io_uring: may_use_io_uring(),
    })
}

/// Measures, prints, saves.
pub(super) fn network(args: &NetworkArgs, output: &Output) -> Result<u8, Failure> {
    gentle(&args.gentle)?;
    let gate = Gate::open(&args.output.expect)?;
    // Several descriptors for each stream.
    linerate_system::storage::raise_open_files();
    let spec = network_spec(args);
    conducted(ResultTarget::of(&args.output, &gate), "network", &args.live, true, output, |context| {
        match &args.iperf3 {
            Some(server) => conduct_iperf3(context, &spec, server),
            None => match no_receiver(args) {
                Some(wanted) => conduct_no_receiver(context, &spec, &wanted),
                None => conduct_network(context, &spec),
            },
        }
    })
}

/// Where to, if nobody is to receive.
fn no_receiver(args: &NetworkArgs) -> Option<NoReceiverSpec> {
    let (to, nics) = (args.no_receiver.clone(), args.nic.clone());
    (!to.is_empty()).then_some(NoReceiverSpec { to, nics, agreed: args.yes })
}

fn network_spec(args: &NetworkArgs) -> NetworkSpec {
    NetworkSpec {
        name: args.name.clone(),
        peers: args.peer.clone(),
        key_file: args.key_file.clone(),
        protocols: args.protocol.engines.to_vec(),
        rdma: args.protocol.rdma,
        directions: args.direction.clone(),
        streams: args.streams,
        source: args.source.clone(),
        method: args.method,
        write_bytes: args.write,
        datagram_bytes: args.datagram,
        bytes_per_second: args.rate,
        rate_limit: args.gentle.rate_limit,
        idle: args.gentle.idle,
        find_rate: args.find_rate,
        congestion_control: args.congestion_control.clone(),
        window_bytes: args.window,
        pin: args.pin.clone(),
        skip_receive_copy: args.skip_receive_copy,
        verify: args.verify,
        latency: !args.no_latency,
        bind_device: args.bind_device,
        trace_drops: args.trace_drops,
        seconds: args.seconds,
        repeats: args.repeats,
    }
}

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
    let mut so_far = run.clone();
    let mut save = |measurements: &[Measurement]| {
        so_far.measurements = measurements.to_vec();
        // What cannot be saved is an error of the end, when it is tried once more.
        let _ = saving.save(&so_far);
    };
    let done = sweep(
        Sweep { machine: &machine, sysroot: &sysroot, stop: &stop, listener: &mut progress, save: &mut save },
        &spec,
        &points,
    );
    progress.finish();
    run.measurements = done.measurements;
    run.errors = done.errors;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_made_beside_its_name_and_an_absent_device_is_not() {
        let of = |name: &str, keep| {
            let text = format!("[a]\nrw=read\nsize=4m\nfilename={name}\n");
            let mut job = fio_job::parse(&text).expect("a job file").remove(0);
            make_absent(&mut job, keep);
            (job.sources.remove(0), job.notes.join(" "))
        };
        let (source, note) = of("/dev/linerate-none", false);
        assert!(source == Path::new("/dev/linerate-none") && !note.contains("is not there"), "{note}");
        let (source, note) = of("/tmp/linerate-none", false);
        assert!(source == Path::new("/tmp") && note.ends_with("removed at the end"), "{note}");
        assert!(of("/tmp/linerate-none", true).1.ends_with("is made in its folder"));
    }
}
