//! fio's job files (fio 3.x, `fio(1)`): the common part as jobs of our own, everything else refused by its
//! name, its line and what to do. `FIO_KEYS` says which keys a job file may hold, and what linerate has for each.
//!
//! Pure text in, jobs out. What fio would do otherwise than linerate is told in `notes`, never left to be
//! found out.

mod section;
#[cfg(test)]
mod tests;
pub mod values;

use super::{Access, AccessOrder, Engine, FileLayout, WriteSync};
use section::{JobFile, Section, sections};
use std::path::PathBuf;

/// A job file larger than this is none.
const LARGEST_BYTES: usize = 1 << 20;

const PAST_THE_CACHE: &str = "reads and writes go past the page cache unless --buffered is given";
const PATTERN: &str = "--access read --pattern random for randread";
const FLUSH: &str = "once at the end of writing, within the measured time";
const ONE_FIGURE: &str = "all workers together are one figure";
const IN_TURN: &str = "sections of a job file run at once unless one waits for those before it";
const SIZES: &str = "name one size, or a list like 4k,64k that is measured one by one";
const LIMIT: &str = "`linerate load` finds the highest load within it";
const SAVED: &str = "it saves every figure";
const YOURSELF: &str = "run the command yourself: linerate starts no other program";
/// What fio does only with another value than 0.
const OFF_AT_0: [&str; 6] = ["verify", "do_verify", "verify_fatal", "invalidate", "fill_device", "thinktime"];

/// One section of a job file in linerate's words.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// The section's name.
    pub name: String,
    /// It runs at the same time as the section before it: no `stonewall` is between them.
    pub at_once: bool,
    /// Directories, files or block devices.
    pub sources: Vec<PathBuf>,
    /// They are files or devices, by their names.
    pub names_files: bool,
    pub access: Access,
    pub order: AccessOrder,
    /// `filename` is one file for all workers, each of which gets a part; `directory` is a file for each.
    pub layout: FileLayout,
    pub transfer_bytes: u64,
    /// Bytes of each worker; none: not told.
    pub amount_bytes: Option<u64>,
    pub workers: u32,
    pub queue_depth: u32,
    pub engine: Engine,
    pub direct: bool,
    /// Flush at the end.
    pub fsync: bool,
    pub sync: Option<WriteSync>,
    /// `time_based`: that long; none: each worker does its amount once.
    pub seconds: Option<f64>,
    /// Of all workers together.
    pub requests_per_second: Option<f64>,
    /// Of all workers together.
    pub limit_bytes_per_second: Option<f64>,
    /// What linerate does otherwise than fio would.
    pub notes: Vec<String>,
}

/// Why a job file was not taken: everything that cannot be done, each with its line; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct FioJobErrors(pub Vec<FioJobError>);

/// Each reason once, with its lines; of a file full of them the others are counted.
fn listed(reasons: &[FioJobError]) -> String {
    const SHOWN: usize = 40;
    let mut alike: Vec<(String, &str)> = Vec::new();
    for FioJobError { line, why } in reasons {
        match alike.iter_mut().find(|(_, known)| known == why) {
            Some((lines, _)) => *lines = format!("{}, {line}", lines.replace("line ", "lines ")),
            None => alike.push((format!("line {line}"), why)),
        }
    }
    let more = alike.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown: Vec<String> = alike.iter().take(SHOWN).map(|(lines, why)| format!("{lines}: {why}")).collect();
    shown.join("; ") + &more
}

impl From<FioJobError> for FioJobErrors {
    fn from(reason: FioJobError) -> Self {
        FioJobErrors(vec![reason])
    }
}

/// One reason, which names the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct FioJobError {
    /// From 1.
    pub line: usize,
    pub why: String,
}

/// The jobs of a file, in their order.
pub fn parse(text: &str) -> Result<Vec<FioJob>, FioJobErrors> {
    if text.len() > LARGEST_BYTES {
        return Err(wrong(1, "the file is larger than 1 MiB: that is not a job file").into());
    }
    let JobFile { sections, without_effect, mut reasons } = sections(text)?;
    let mut jobs = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let at_once = index > 0 && !section.is_on("stonewall") && !section.is_on("wait_for_previous");
        match job(section) {
            Ok(job) => jobs.push(FioJob { at_once, ..job }),
            Err(FioJobErrors(refused)) => {
                // An option of all sections is refused once.
                let new: Vec<_> = refused.into_iter().filter(|reason| !reasons.contains(reason)).collect();
                reasons.extend(new);
            }
        }
    }
    if !reasons.is_empty() {
        reasons.sort_by_key(|reason| reason.line);
        return Err(FioJobErrors(reasons));
    }
    match jobs.first_mut() {
        None => {
            let why = "there is no job: a job file has a section like [read] with its options below";
            return Err(wrong(1, why).into());
        }
        Some(_) if without_effect.is_empty() => {}
        Some(first) => first.notes.push(format!("{}: no effect here, left out", without_effect.join(", "))),
    }
    Ok(jobs)
}

fn wrong(line: usize, why: impl Into<String>) -> FioJobError {
    FioJobError { line, why: why.into() }
}

/// What a section asks for, and every reason why it cannot be.
fn job(section: &Section) -> Result<FioJob, FioJobErrors> {
    let (mut notes, mut refused) = (Vec::new(), FioJobErrors(Vec::new()));
    let workers = refused.or(section.number("numjobs", 1, 1..=100_000), 1) as u32;
    let (sources, one_file) = refused.or(section.sources(), (Vec::new(), false));
    let (engine, section_notes) = refused.or(section.engine(), (Engine::Psync, None));
    notes.extend(section_notes);
    let depth = refused.or(section.number("iodepth", 1, 1..=4096), 1) as u32;
    if depth > 1 && engine != Engine::IoUring {
        notes.push(format!(
            "iodepth={depth} has no meaning with a blocking engine: one request in flight a worker"
        ));
    }
    let queue_depth = if engine == Engine::IoUring { depth } else { 1 };
    let (order, access) = refused.or(section.pattern(), (AccessOrder::Sequential, Access::Read));
    let size = refused.or(section.size("size"), None).or(refused.or(section.size("filesize"), None));
    let transfer_bytes = refused.or(section.transfer(), 1);
    let shared = one_file && workers > 1;
    let part = size.map(|size| if shared { (size / u64::from(workers)).max(1) } else { size });
    // What is left over is not a request, for fio either.
    let amount_bytes =
        part.map(|bytes| bytes - if bytes > transfer_bytes { bytes % transfer_bytes } else { 0 });
    if shared {
        notes.push(format!(
            "filename with numjobs={workers}: each worker has a part of it, where fio's all go over the whole"
        ));
    }
    let seconds = refused.or(section.seconds(&mut notes), None);
    let of_all = |each: Option<u64>| each.map(|each| each as f64 * f64::from(workers));
    let rate = of_all(refused.or(section.size("rate"), None));
    let requests = of_all(refused.or(section.size("rate_iops"), None));
    if rate.is_some() && requests.is_some() {
        let why = format!("[{}] has both rate and rate_iops; keep one of them", section.name);
        refused.0.push(wrong(section.line, why));
    }
    if requests.is_some() {
        notes.push("rate_iops: requests are sent on schedule, latency counts from the intended start".into());
    }
    let sync = refused.or(section.sync(access, engine, &mut notes), None);
    if let Some(sync) = sync.filter(|_| queue_depth > 1) {
        notes.push(format!(
            "iodepth={queue_depth} with {sync}: as many writes, each with a sync of its own, at once"
        ));
    }
    let job = FioJob {
        name: section.name.clone(),
        at_once: false,
        sources,
        names_files: one_file,
        access,
        order,
        layout: if shared { FileLayout::Segmented } else { FileLayout::FilePerWorker },
        transfer_bytes,
        amount_bytes,
        workers,
        queue_depth,
        engine,
        direct: refused.or(section.direct(), false),
        fsync: section.is_on("end_fsync") || section.is_on("fsync_on_close"),
        sync,
        seconds,
        requests_per_second: requests,
        limit_bytes_per_second: rate,
        notes,
    };
    if refused.0.is_empty() { Ok(job) } else { Err(refused) }
}

impl FioJobErrors {
    /// The value, or one in its place beside the reason why it is none.
    fn or<T>(&mut self, value: Result<T, FioJobError>, otherwise: T) -> T {
        value.unwrap_or_else(|reason| {
            self.0.push(reason);
            otherwise
        })
    }
}

/// One key of fio.
#[derive(Clone, Copy, Debug)]
pub struct FioKey {
    /// The name that fio's manual has first, then its other names.
    pub names: &'static [&'static str],
    /// Options of `linerate disk` for it; none: it needs no option.
    pub ours: &'static [&'static str],
    /// How they are written, or why there is none.
    pub note: &'static str,
    /// A job file may hold it.
    taken: bool,
}

const fn taken(names: &'static [&'static str], ours: &'static [&'static str], note: &'static str) -> FioKey {
    FioKey { names, ours, note, taken: true }
}

const fn other(names: &'static [&'static str], ours: &'static [&'static str], note: &'static str) -> FioKey {
    FioKey { names, ours, note, taken: false }
}

/// What linerate has for each.
pub const FIO_KEYS: [FioKey; 52] = [
    taken(&["name"], &["--name"], ""),
    taken(&["description"], &["--name"], ""),
    taken(&["filename"], &["--source"], ""),
    taken(&["directory"], &["--source"], ""),
    taken(&["rw", "readwrite"], &["--access", "--pattern"], PATTERN),
    taken(&["bs", "blocksize"], &["--transfer"], ""),
    taken(&["size"], &["--amount"], ""),
    taken(&["filesize"], &["--amount"], ""),
    taken(&["numjobs"], &["--workers"], ""),
    taken(&["iodepth"], &["--queue-depth"], ""),
    taken(&["ioengine"], &["--engine"], ""),
    taken(&["direct"], &[], PAST_THE_CACHE),
    taken(&["buffered"], &["--buffered"], ""),
    taken(&["runtime", "timeout"], &["--seconds"], ""),
    taken(&["time_based"], &["--seconds"], "with it a measurement ends by time"),
    taken(&["ramp_time"], &[], "the warm-up is left out of every figure"),
    taken(&["rwmixread"], &["--access"], "--access mixed:70"),
    taken(&["rwmixwrite"], &["--access"], "--access mixed:70 for rwmixwrite=30"),
    taken(&["fsync"], &["--sync", "--every"], "--sync full, and --every N for fsync=N"),
    taken(&["fdatasync"], &["--sync", "--every"], "--sync data, and --every N for fdatasync=N"),
    taken(&["sync"], &["--sync"], "--sync direct (O_DSYNC)"),
    taken(&["end_fsync"], &["--fsync"], FLUSH),
    taken(&["fsync_on_close"], &["--fsync"], FLUSH),
    taken(&["group_reporting"], &[], ONE_FIGURE),
    taken(&["rate"], &["--rate-limit"], "bytes a second, such as 100MB/s"),
    taken(&["rate_iops"], &["--rate"], "requests a second"),
    taken(&["stonewall"], &[], IN_TURN),
    taken(&["wait_for_previous"], &[], IN_TURN),
    taken(&["nrfiles"], &["--layout"], "a file for each worker, or one that all share"),
    taken(&["thread"], &[], "workers are threads"),
    other(&["verify"], &["--verify"], "it stamps each block with its place"),
    other(&["do_verify"], &["--verify"], "it stamps each block with its place"),
    other(&["bsrange", "blocksize_range"], &["--transfer"], SIZES),
    other(&["bssplit"], &["--transfer"], SIZES),
    other(&["random_distribution"], &["--pattern"], "zipf:THETA or hot:PERCENT:HITS"),
    other(&["randseed", "allrandrepeat"], &[], "offsets and data are the same each time"),
    other(&["latency_target"], &[], LIMIT),
    other(&["latency_window"], &[], LIMIT),
    other(&["thinktime"], &["--rate"], "requests on a schedule"),
    other(&["write_bw_log"], &["--output"], SAVED),
    other(&["write_lat_log"], &["--output"], SAVED),
    other(&["write_iops_log"], &["--output"], SAVED),
    other(&["output-format"], &["--format"], "fio-json for fio's own, or json, csv"),
    other(&["minimal"], &["--format"], "csv"),
    other(&["invalidate"], &["--prepare"], "drop-caches"),
    other(&["fill_device"], &["--prepare"], "fill"),
    other(&["loops"], &["--repeats"], ""),
    other(&["steadystate", "ss"], &["--steady-state"], "by SNIA's rule"),
    other(&["section"], &["--fio-job"], IN_TURN),
    other(&["include"], &[], "put the lines of that file into the job file"),
    other(&["exec_prerun"], &[], YOURSELF),
    other(&["exec_postrun"], &[], YOURSELF),
];

/// What changes nothing here: how fio makes its data and its random numbers, batches its calls, counts and prints.
const NO_EFFECT: &str = "randrepeat norandommap softrandommap random_generator refill_buffers scramble_buffers zero_buffers \
    overwrite fallocate create_on_open create_serialize unlink file_service_type openfiles iodepth_batch \
    iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min iodepth_batch_complete_max \
    iodepth_low userspace_reap gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement \
    clocksource percentile_list clat_percentiles lat_percentiles bwavgtime iopsavgtime log_avg_msec eta \
    eta-newline thinktime_blocks per_job_logs write_bw_log write_lat_log write_iops_log log_offset \
    new_group registerfiles fixedbufs nonvectored";

/// It changes nothing here with this value.
fn has_no_effect(name: &str, value: Option<&str>) -> bool {
    NO_EFFECT.split(' ').any(|known| known == name) || OFF_AT_0.contains(&name) && value == Some("0")
}

fn find_key(name: &str) -> Option<&'static FioKey> {
    FIO_KEYS.iter().find(|key| key.names.contains(&name))
}

/// The first name of a key that a job file may hold; else what to do.
fn taken_from_a_file(name: &str) -> Result<&'static str, String> {
    let instead = match find_key(name) {
        Some(key) if key.taken => return Ok(key.names[0]),
        Some(FioKey { ours: [], note, .. }) => (*note).to_string(),
        Some(FioKey { ours, note: "", .. }) => format!("use {}", ours.join(" and ")),
        Some(FioKey { ours, note, .. }) => format!("use {}: {note}", ours.join(" and ")),
        None => "take the line out if it does not matter, or run the job with fio".into(),
    };
    Err(format!("linerate does not take `{name}` from a job file; {instead}"))
}
