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

/// The first reasons; of a file full of them the others are counted.
fn listed(reasons: &[FioJobError]) -> String {
    const SHOWN: usize = 12;
    let more = reasons.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown: Vec<String> = reasons.iter().take(SHOWN).map(ToString::to_string).collect();
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
        return Err(wrong(1, "the file is larger than 1 MiB: that is no job file").into());
    }
    let JobFile { sections, without_effect, mut reasons } = sections(text)?;
    let mut jobs = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        if index > 0 && !section.is_on("stonewall") && !section.is_on("wait_for_previous") {
            reasons.push(wrong(
                section.line,
                format!(
                    "[{}] would run at the same time as [{}], and linerate runs sections one after the \
                     other; add `stonewall` to it",
                    section.name,
                    sections[index - 1].name
                ),
            ));
        }
        match job(section) {
            Ok(job) => jobs.push(job),
            // An option of all sections is refused once.
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
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

fn job(section: &Section) -> Result<FioJob, FioJobError> {
    let mut notes = Vec::new();
    let workers = section.number("numjobs", 1, 1..=100_000)? as u32;
    let (sources, one_file) = section.sources()?;
    let (engine, told) = section.engine()?;
    notes.extend(told);
    let depth = section.number("iodepth", 1, 1..=4096)? as u32;
    if depth > 1 && engine != Engine::IoUring {
        notes.push(format!(
            "iodepth={depth} has no meaning with a blocking engine: one request in flight a worker"
        ));
    }
    let (order, access) = section.pattern()?;
    let size = section.size("size")?.or(section.size("filesize")?);
    let shared = one_file && workers > 1;
    if shared {
        notes.push(format!(
            "filename with numjobs={workers}: each worker has a part of it, where fio's all go over the whole"
        ));
    }
    let seconds = section.seconds(&mut notes)?;
    let rate = section.size("rate")?.map(|bytes| bytes as f64 * f64::from(workers));
    let requests = section.size("rate_iops")?.map(|requests| requests as f64 * f64::from(workers));
    if rate.is_some() && requests.is_some() {
        return Err(wrong(
            section.line,
            format!("[{}] has both rate and rate_iops; keep one of them", section.name),
        ));
    }
    if requests.is_some() {
        notes.push("rate_iops: requests are sent on schedule, latency counts from the intended start".into());
    }
    Ok(FioJob {
        name: section.name.clone(),
        sources,
        names_files: one_file,
        access,
        order,
        layout: if shared { FileLayout::Segmented } else { FileLayout::FilePerWorker },
        transfer_bytes: section.transfer()?,
        amount_bytes: size.map(|size| if shared { (size / u64::from(workers)).max(1) } else { size }),
        workers,
        queue_depth: if engine == Engine::IoUring { depth } else { 1 },
        engine,
        direct: section.direct()?,
        fsync: section.is_on("end_fsync") || section.is_on("fsync_on_close"),
        sync: None,
        seconds,
        requests_per_second: requests,
        limit_bytes_per_second: rate,
        notes,
    })
}

#[cfg(test)]
mod tests;
