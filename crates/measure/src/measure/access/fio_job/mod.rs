//! fio's job files (fio 3.x, `fio(1)`): the common part as jobs of our own, everything else refused by its
//! name, its line and what to do.
//!
//! Pure text in, jobs out. What fio would do otherwise than linerate is told in `notes`, never left to be
//! found out.

mod keys;
mod section;
pub mod values;

use super::{Access, AccessOrder, Engine, FileLayout, WriteSync};
pub use keys::{FIO_KEYS, FioKey};
use section::{JobFile, Section, sections};
use std::path::PathBuf;

/// A job file larger than this is none.
const LARGEST_BYTES: usize = 1 << 20;

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
    // What is left over is no request, for fio either.
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

#[cfg(test)]
mod tests;
