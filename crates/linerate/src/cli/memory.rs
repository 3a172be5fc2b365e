//! `linerate memory`: the words made into points, the sweep run, the table printed.

use super::commands::{colour, complain, print, width};
use super::progress::Progress;
use super::stop::stop_on_signals;
use super::words::{LiveWords, positive};
use crate::diagnose::map_findings;
use crate::event::{Event, Listener};
use crate::failure::Failure;
use crate::measure::memory_sweep::{Cores, Kernel, MemoryOrder, Store, Sweep, WorkingSet, points, sweep};
use crate::measure::{Measurement, Stage};
use crate::probe::probe;
use crate::report::{self, Folder};
use crate::run::StageRun;
use crate::sysroot::Sysroot;
use crate::units::parse_size;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Largest stride: a piece of an array is no longer.
const LARGEST_STRIDE_BYTES: u64 = 1 << 20;

/// `linerate memory`.
#[derive(Debug, Args)]
pub struct MemoryWords {
    /// What is done with the words of the arrays [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KERNEL,…")]
    pub kernels: Vec<KernelWord>,
    /// How results are stored: through the caches (plain) or past them (streaming) [default: both]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STORE,…")]
    pub stores: Vec<StoreWord>,
    /// Distance of the words that are touched: 4 is each, 64 one in each cache line, 4k one in each page
    #[arg(long, value_parser = stride, value_delimiter = ',', value_name = "SIZE,…")]
    pub stride: Vec<u64>,
    /// Size of all arrays of all cores together, such as 256k; or L1, L2, L3 (half of that level) or memory (each array four times the last level)
    #[arg(long, value_parser = working_set, value_delimiter = ',', value_name = "SIZE|LEVEL,…")]
    pub working_set: Vec<WorkingSet>,
    /// Cores at work, such as 1,2,4,all: one thread of each core before the second ones, node by node
    #[arg(long, value_parser = cores, value_delimiter = ',', value_name = "COUNT,…")]
    pub cores: Vec<Cores>,
    /// Length of one sample in seconds [default: 0.1, less where there are many points]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub seconds: Option<f64>,
    /// Samples of each point; the figure is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    #[command(flatten)]
    pub live: LiveWords,
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Save the result as run.json in this folder; made where it is absent [default: not saved]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// `--kernels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KernelWord {
    /// Load each word
    Read,
    /// Store each word
    Write,
    /// a = b
    Copy,
    /// a = b + 3c, in double precision
    Triad,
    /// Follow a chain of links in random order, one in each cache line
    Latency,
}

impl KernelWord {
    fn kernel(self) -> Kernel {
        match self {
            KernelWord::Read => Kernel::Read,
            KernelWord::Write => Kernel::Write,
            KernelWord::Copy => Kernel::Copy,
            KernelWord::Triad => Kernel::Triad,
            KernelWord::Latency => Kernel::Latency,
        }
    }
}

/// `--stores`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreWord {
    Plain,
    Streaming,
}

/// Does `linerate memory`.
pub fn memory(words: &MemoryWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    if let Some(folder) = &words.output {
        Folder::check(Some(folder))?;
    }
    let order = order(words)?;
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let points = points(&machine, &order).map_err(Failure::Usage)?;
    let mut run = StageRun::begin(Stage::Memory, "memory".into(), machine.clone());
    run.findings = map_findings(&machine);
    run.findings.retain(|finding| finding.id.starts_with("memory-"));
    let folder = words.output.as_deref().map(|named| Folder::begin(Some(named), &run)).transpose()?;
    let mut progress = Progress::new("memory", &words.live);
    if words.stores.contains(&StoreWord::Streaming) && !linerate_system::memory::has_streaming() {
        progress
            .hear(&Event::Note("this processor's streaming stores are not known: plain ones only".into()));
    }
    let mut saving: Option<Failure> = None;
    let mut so_far = run.clone();
    let mut save = |measurements: &[Measurement]| {
        if let Some(folder) = &folder {
            so_far.measurements = measurements.to_vec();
            saving = folder.save(&so_far).err();
        }
    };
    let done = sweep(
        Sweep { machine: &machine, sysroot: &sysroot, stop: &stop, listener: &mut progress, save: &mut save },
        &order,
        &points,
    );
    progress.finish();
    run.measurements = done.measurements;
    run.errors = done.errors;
    run.errors.extend(saving.map(|failure| failure.to_string()));
    let left = points.len() - run.measurements.len();
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        if run.measurements.is_empty() {
            return Err(Failure::Interrupted);
        }
        run.errors.push(format!("interrupted: {left} of {} points were not measured", points.len()));
    }
    show(run, &done.notes, folder.as_ref(), words.json)
}

/// The end: saved, printed, and on standard error what failed.
fn show(mut run: StageRun, notes: &[String], folder: Option<&Folder>, json: bool) -> Result<u8, Failure> {
    if let Some(failure) =
        folder.and_then(|folder| folder.save(&run).and_then(|()| folder.save_report(&run)).err())
    {
        run.errors.push(failure.to_string());
    }
    let text = if json { report::json(&run) } else { report::stage_terminal(&run, width(), colour()) };
    let printed = print(&text);
    run.errors.extend(printed.err().map(|failure| failure.to_string()));
    notes.iter().for_each(|note| complain(note));
    if let (Some(folder), true) = (folder, !json) {
        let path = folder.path().display();
        print(&format!("saved: {path}/run.json, {path}/report.html\n"))?;
    }
    if let Some((first, others)) = run.errors.split_first() {
        complain(&match others.len() {
            0 => first.clone(),
            more => format!("{first} (and {more} more)"),
        });
    }
    Ok(u8::from(!run.errors.is_empty()))
}

fn order(words: &MemoryWords) -> Result<MemoryOrder, Failure> {
    let stores = words.stores.iter().map(|store| match store {
        StoreWord::Plain => Store::Plain,
        StoreWord::Streaming => Store::Streaming,
    });
    if words.stores == [StoreWord::Streaming] && !linerate_system::memory::has_streaming() {
        return Err(Failure::Lacks(
            "--stores streaming: this processor's streaming stores are not known to linerate; measure --stores plain".into(),
        ));
    }
    Ok(MemoryOrder {
        kernels: words.kernels.iter().map(|word| word.kernel()).collect(),
        stores: stores.collect(),
        strides: words.stride.clone(),
        working_sets: words.working_set.clone(),
        cores: words.cores.clone(),
        seconds: words.seconds,
        repeats: words.repeats,
    })
}

fn stride(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if !(4..=LARGEST_STRIDE_BYTES).contains(&bytes) || !bytes.is_multiple_of(4) {
        return Err(format!("{bytes} bytes: a stride is a multiple of 4 between 4 and 1M"));
    }
    Ok(bytes)
}

fn working_set(text: &str) -> Result<WorkingSet, String> {
    if text.eq_ignore_ascii_case("memory") {
        return Ok(WorkingSet::Memory);
    }
    let level = text.strip_prefix(['L', 'l']).and_then(|level| level.parse().ok());
    match level {
        Some(level) => Ok(WorkingSet::Level(level)),
        None => parse_size(text).map(WorkingSet::Bytes).map_err(|_| {
            format!("“{text}” is no working set: write a size like 256k, a cache level like L2, or memory")
        }),
    }
}

fn cores(text: &str) -> Result<Cores, String> {
    match text.parse() {
        _ if text.eq_ignore_ascii_case("all") => Ok(Cores::All),
        Ok(count) if count > 0 => Ok(Cores::Some(count)),
        _ => Err(format!("“{text}” is no number of cores: write 1, 2, … or all")),
    }
}
