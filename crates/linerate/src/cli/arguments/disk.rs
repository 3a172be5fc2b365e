//! `linerate disk` and `linerate load`, and the options of both: what is read and written, and how.

use super::output::{GentleArgs, LiveArgs, OutputArgs};
use super::values::{Choices, one_of, percent, seconds, size};
use clap::Args;
use linerate_facts::units::parse_duration;
use linerate_measure::measure::access::{
    Access, AccessJob, AccessOrder, Engine, FileLayout, Permissions, SyncMethod, WriteSync,
};
use linerate_measure::measure::load::{Keep, Statistic};
use linerate_measure::run::disk::{DiskGrid, Preparation, WorkerParts};
use std::path::PathBuf;

/// What a job file says itself.
const JOB_OPTIONS: [&str; 16] = [
    "source",
    "workers",
    "transfer",
    "queue_depth",
    "access",
    "pattern",
    "layout",
    "engine",
    "seconds",
    "amount",
    "block",
    "buffered",
    "rate",
    "rate_limit",
    "sync",
    "every",
];

/// `linerate disk`.
#[derive(Debug, Args)]
pub struct DiskArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Do what a job file of fio says, as far as linerate has it, instead of the options of the job; what it
    /// has not is refused by name
    #[arg(long, value_name = "FILE", conflicts_with_all = JOB_OPTIONS)]
    pub fio_job: Option<PathBuf>,
    /// Visits of each combination, in an order that favours none; the figure is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Passes of a job that writes an amount; the last counts, since the first one allocates
    #[arg(long, value_name = "PASSES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure until the device is steady by SNIA's rule: of the last 5 measurements none is 20 % off and
    /// they drift by at most 10 %
    #[arg(long, conflicts_with = "scaling")]
    pub steady_state: bool,
    /// In each combination each source alone, then 1, 2, 3 … all of them at once: what is reached of the baseline
    /// (the sum of each alone), where it levels off, and what limits it there. With RESULT, a kept one like @-1 or a
    /// run.json, "of best alone" is of the best that one source reached there
    #[arg(long, value_name = "RESULT", num_args = 0..=1, require_equals = true)]
    pub scaling: Option<Option<PathBuf>>,
    /// One source after the other, a block device first: the same job on it and through each file system, and what those
    /// take of its rate and in CPU time
    #[arg(long, conflicts_with_all = ["scaling", "fio_job"])]
    pub tax: bool,
    /// What to call the result, such as a file system's name [default: the first source]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// What is done before measuring
    #[arg(long, value_name = "HOW,…", value_parser = one_of(PREPARATIONS), value_delimiter = ',')]
    pub prepare: Vec<Preparation>,
}

/// `--prepare`.
const PREPARATIONS: Choices<Preparation> = &[
    ("discard", "Discard all data of the block devices named by --destroy-data (TRIM)", Preparation::Discard),
    ("fill", "Then write these devices once in full", Preparation::Fill),
    (
        "drop-caches",
        "Before each measurement empty the page cache of the whole machine (root only): others read from disk again",
        Preparation::DropCaches,
    ),
];

/// A request is no longer.
pub(super) const LARGEST_REQUEST: u64 = 1 << 30;
/// More than any disk has.
pub(super) const MOST_BYTES: u64 = 1 << 60;
/// Of the random offsets, of the data and of the order of measurements: any will do, the same each time.
pub(crate) const SEED: u64 = 20_121_221;

/// What to read and write. Options that take a list make a grid of all combinations.
#[derive(Clone, Debug, Args)]
pub struct JobArgs {
    /// Directory to make files in, or file or block device to read; repeat for several, workers are dealt
    /// round them [default: .]
    #[arg(long, value_name = "PATH")]
    pub source: Vec<PathBuf>,
    /// Workers, such as 33,66,132 [default: one a source]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workers: Vec<u32>,
    /// Bytes a request, such as 1M,4M,16M [default: 1M in sequence, 4k at random]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size(1..=LARGEST_REQUEST))]
    pub transfer: Vec<u64>,
    /// Requests in flight of each worker, such as 1,16 [default: 16, with psync and mmap 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub queue_depth: Vec<u32>,
    /// read, write, mixed or mixed:PERCENT: this share of the requests reads, 70 where none is given, the others write
    /// [default: read,write in directories, else read]
    #[arg(long, value_name = "LIST", value_parser = access, value_delimiter = ',')]
    pub access: Vec<Access>,
    /// sequential, random, zipf:THETA or hot:PERCENT:HITS (20:80: a fifth of the places gets 80 % of the
    /// requests) [default: sequential,random; with --transfer sequential]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pattern)]
    pub pattern: Vec<AccessOrder>,
    /// A file for each worker, or one shared by all workers of a source: in one piece each, or in strides
    #[arg(long, value_name = "LIST", value_parser = one_of(LAYOUTS), value_delimiter = ',', default_values = ["file-per-worker"])]
    pub layout: Vec<FileLayout>,
    /// What moves the bytes [default: io-uring; with --sync and one request in flight psync]
    #[arg(long, value_name = "LIST", value_parser = one_of(ENGINES), value_delimiter = ',')]
    pub engine: Vec<Engine>,
    /// Length of one measurement, such as 2 (seconds) or 500ms [default: 2; with --amount or --block
    /// each worker does its part once]
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Bytes of each worker [default: what fits 4G a source, as far as 8 seconds
    /// write it]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=MOST_BYTES))]
    pub amount: Option<u64>,
    /// Contiguous bytes of each worker [default: all of its part; strided: one request]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=MOST_BYTES))]
    pub block: Option<u64>,
    /// Through the page cache instead of past it (O_DIRECT)
    #[arg(long)]
    pub buffered: bool,
    /// Flush to the device once, at the end of writing, within the measured time; --sync does it after each
    /// write
    #[arg(long)]
    pub fsync: bool,
    /// Durable writes, as databases and etcd have them: a write is over when it is on the device. Measures
    /// writes of 4 KiB in sequence, one at a time, into new room, unless other options say otherwise
    #[arg(long, value_name = "HOW", value_parser = one_of(SYNCS))]
    pub sync: Option<SyncMethod>,
    /// Writes of a worker that have one sync together [default: 1]
    #[arg(long, value_name = "WRITES", requires = "sync", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: Option<u32>,
    /// No worker reads what it wrote
    #[arg(long)]
    pub reorder: bool,
    /// Stamp what is written with its place and a checksum, and check what is read
    #[arg(long)]
    pub verify: bool,
    /// Requests a second of all workers together, sent on schedule; latency counts from then
    #[arg(long, value_name = "REQUESTS", value_parser = requests, conflicts_with = "rate_limit")]
    pub rate: Option<f64>,
    #[command(flatten)]
    pub gentle: GentleArgs,
    /// Keep the files that linerate makes, under the name linerate-disk-…
    #[arg(long)]
    pub keep: bool,
    /// Block device, or file that is there, whose data may be destroyed by writing; repeat for several. Never
    /// one that is in use
    #[arg(long, value_name = "NAME")]
    pub destroy_data: Vec<String>,
}

impl JobArgs {
    /// The grid of all combinations; `seconds` where neither a length nor an amount was told.
    pub fn grid(&self, seconds: f64) -> DiskGrid {
        let sources = if self.source.is_empty() { vec![PathBuf::from(".")] } else { self.source.clone() };
        let may_write = sources.iter().all(|path| path.is_dir()) || !self.destroy_data.is_empty();
        let once = self.amount.is_some() || self.block.is_some();
        let sync = self.sync.map(|method| WriteSync { method, every: self.every.unwrap_or(1) });
        let accesses = match &self.access[..] {
            [] if sync.is_some() => vec![Access::Write],
            [] if may_write => vec![Access::Read, Access::Write],
            [] => vec![Access::Read],
            named => named.to_vec(),
        };
        let orders = match (&self.pattern[..], &self.transfer[..]) {
            ([], []) if sync.is_none() => vec![AccessOrder::Sequential, AccessOrder::Random],
            ([], _) => vec![AccessOrder::Sequential],
            (named, _) => named.to_vec(),
        };
        // A ring hands each sync to a thread of the kernel: one at a time is faster called.
        let one_at_a_time = sync.is_some() && self.queue_depth.iter().all(|depth| *depth == 1);
        let engines = match &self.engine[..] {
            [] if one_at_a_time => vec![Engine::Psync],
            [] => vec![Engine::IoUring],
            given => given.to_vec(),
        };
        DiskGrid {
            alike: AccessJob {
                sources,
                direct: !self.buffered,
                fsync: self.fsync,
                sync,
                reorder: self.reorder,
                verify: self.verify,
                seconds: self.seconds.or(if once { None } else { Some(seconds) }),
                requests_per_second: self.rate,
                limit_bytes_per_second: self.gentle.rate_limit,
                seed: SEED,
                ..AccessJob::plain(Access::Read, AccessOrder::Sequential)
            },
            workers: self.workers.clone(),
            transfers: self.transfer.clone(),
            queue_depths: self.queue_depth.clone(),
            accesses,
            orders,
            layouts: self.layout.clone(),
            engines,
            parts: WorkerParts { amount_bytes: self.amount, block_bytes: self.block },
        }
    }

    /// What the user allows.
    pub fn permissions(&self) -> Permissions {
        Permissions { destroy_data: self.destroy_data.clone(), keep: self.keep, shorten_after: None }
    }
}

/// `--layout`.
pub(super) const LAYOUTS: Choices<FileLayout> = &[
    ("file-per-worker", "", FileLayout::FilePerWorker),
    ("segmented", "", FileLayout::Segmented),
    ("strided", "", FileLayout::Strided),
];

/// `--engine`.
const ENGINES: Choices<Engine> = &[
    (
        "io-uring",
        "Many requests in flight; blocking calls on threads where it is not allowed",
        Engine::IoUring,
    ),
    ("psync", "pread and pwrite: one request in flight a worker", Engine::Psync),
    ("mmap", "A mapping of the file", Engine::Mmap),
];

/// `--sync`.
const SYNCS: Choices<SyncMethod> = &[
    ("data", "fdatasync after each write: the data, and what reading it back needs", SyncMethod::Data),
    ("full", "fsync after each write: all metadata as well", SyncMethod::Full),
    ("direct", "Files are open with O_DSYNC: each write is durable by itself", SyncMethod::Direct),
];

/// `--access`.
pub(super) fn access(text: &str) -> Result<Access, String> {
    let share = if text == "mixed" { Some("70") } else { text.strip_prefix("mixed:") };
    match (text, share) {
        ("read", _) => Ok(Access::Read),
        ("write", _) => Ok(Access::Write),
        (_, Some(share)) => percent(0.0..=100.0)(share).map(|read_share| Access::Mixed { read_share }),
        _ => Err("give read, write, mixed or mixed:PERCENT, like mixed:70".into()),
    }
}

pub(super) fn requests(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("give requests a second, more than 0".into()),
    }
}

pub(super) fn pattern(text: &str) -> Result<AccessOrder, String> {
    let wrong =
        || format!("“{text}” is not a pattern: sequential, random, zipf:THETA (0.5 to 5), hot:PERCENT:HITS");
    let share = |text: &str| percent(0.0..=100.0)(text).map_err(|_| wrong());
    match text.split(':').collect::<Vec<_>>()[..] {
        ["sequential"] => Ok(AccessOrder::Sequential),
        ["random"] => Ok(AccessOrder::Random),
        ["zipf", theta] => match theta.parse::<f64>() {
            Ok(theta) if theta > 0.0 && theta <= 5.0 => Ok(AccessOrder::Zipf { theta }),
            _ => Err(wrong()),
        },
        ["hot", places, hits] => Ok(AccessOrder::Hot { share: share(places)?, hits: share(hits)? }),
        _ => Err(wrong()),
    }
}

/// The seed's limit: the mean access time passes 100 milliseconds.
const USUAL_KEEP: &str = "mean=100ms";

/// `linerate load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Directory to make a file in, or file or block device to read; repeat for several files, the requests
    /// go to all [default: .]
    #[arg(long, value_name = "PATH")]
    pub source: Vec<PathBuf>,
    /// Latency that is kept: mean, p50, p90, p95, p99, p99.9 or p99.99, such as p99=20ms
    #[arg(long, value_name = "LATENCY=TIME", value_parser = keep, default_value = USUAL_KEEP)]
    pub keep: Keep,
    /// Requests a second, sent on schedule whatever the device does; latency counts from the intended start
    /// [default: each user asks again as soon as it is answered]
    #[arg(long, value_name = "REQUESTS", value_parser = requests)]
    pub rate: Option<f64>,
    /// Find the highest rate, on schedule, that keeps the limit of --keep
    #[arg(long, conflicts_with = "rate")]
    pub find_rate: bool,
    /// Most users, each with one request in flight; with --rate and --find-rate the most requests in flight
    /// [default: 4096; 256]
    #[arg(long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub workers: Option<u32>,
    /// Bytes a request
    #[arg(long, value_name = "SIZE", value_parser = size(1..=LARGEST_REQUEST), default_value = "8k")]
    pub transfer: u64,
    /// read, write, mixed or mixed:PERCENT: this share of the requests reads, 70 where none is given, the others write
    #[arg(long, value_parser = access, default_value = "read")]
    pub access: Access,
    /// random, zipf:THETA, hot:PERCENT:HITS (10:90: a tenth of the places gets 90 % of the requests) or
    /// sequential; each thread goes over its own part of each file
    #[arg(long, value_parser = pattern, default_value = "random")]
    pub pattern: AccessOrder,
    /// Size of a file that is made in a directory; less where writing it takes longer than 8 s
    #[arg(long, value_name = "SIZE", value_parser = size(1..=MOST_BYTES), default_value = "1G")]
    pub amount: u64,
    /// Through the page cache instead of past it (O_DIRECT)
    #[arg(long)]
    pub buffered: bool,
    /// Length of one window, such as 2 (seconds) or 500ms
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds, default_value = "0.4")]
    pub seconds: f64,
    /// Windows of a step; its rate is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Block device, or file that is there, whose data may be destroyed by writing; repeat for several. Never
    /// one that is in use
    #[arg(long, value_name = "NAME")]
    pub destroy_data: Vec<String>,
    /// What to call the result [default: the first source]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn keep(text: &str) -> Result<Keep, String> {
    let wrong = || {
        format!(
            "“{text}” is not a limit of latency: write it like mean=100ms, p99=20ms or p99.9=500us (mean, p50, \
             p90, p95, p99, p99.9, p99.99)"
        )
    };
    let (of, time) = text.split_once('=').ok_or_else(wrong)?;
    let of = of.trim().parse::<Statistic>().map_err(|_| wrong())?;
    // Seconds elsewhere; whoever writes p99=20 means milliseconds.
    if time.trim().parse::<f64>().is_ok() {
        let (time, of) = (time.trim(), of.word());
        return Err(format!("“{text}” has no unit: write {of}={time}ms, {of}={time}us or {of}={time}s"));
    }
    match parse_duration(time).map_err(|_| wrong())?.as_secs_f64() {
        limit if (1e-6..=60.0).contains(&limit) => Ok(Keep { of, limit }),
        _ => Err(format!("{time}: a limit of latency lies between 1us and 60s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_as_they_are_written() {
        assert_eq!(pattern("zipf:1.2"), Ok(AccessOrder::Zipf { theta: 1.2 }));
        assert_eq!(pattern("hot:20:80"), Ok(AccessOrder::Hot { share: 0.2, hits: 0.8 }));
        for wrong in ["", "seq", "zipf", "zipf:x", "zipf:-1", "hot:20", "hot:120:1"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_as_they_are_written() {
        assert_eq!(keep("mean=100ms"), Ok(Keep { of: Statistic::Mean, limit: 0.1 }));
        assert_eq!(keep("p99.9 = 1.5s"), Ok(Keep { of: Statistic::P99_9, limit: 1.5 }));
        let without = keep("p99 = 20").expect_err("20 of what?");
        assert!(without.ends_with("has no unit: write p99=20ms, p99=20us or p99=20s"), "{without}");
        assert!(keep("p50=500us").is_ok_and(|keep| (keep.limit - 5e-4).abs() < 1e-12));
        for wrong in
            ["", "p99", "p99=", "p98=1ms", "p99=ms", "mean=0ms", "mean=2h", "mean=-1ms", "p99=100000s"]
        {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }
}
