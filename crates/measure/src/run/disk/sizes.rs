//! How much each worker reads or writes, where the user did not say: as much as fits the sources, a tenth of
//! each disk left alone.

use super::super::scratch::WISHED_BYTES;
use super::WorkerParts;
use crate::measure::access::{AccessJob, FileLayout};
use linerate_facts::failure::Failure;
use linerate_facts::room::space_in;
use linerate_facts::units::show_size;
use linerate_system::file::size_of;
use linerate_system::storage::{Opening, open};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Less than this measures a cache, not a disk.
const LEAST_BYTES: u64 = 16 << 20;

/// Bytes that every source has: what a file or a device holds, or what may be written in a directory. A
/// source that cannot be looked at is told later, in its own words.
pub(crate) fn room(sources: &[PathBuf], needed: bool) -> Result<u64, Failure> {
    let mut least = u64::MAX;
    for path in sources {
        let Ok(metadata) = std::fs::metadata(path) else { continue };
        let here = if metadata.is_dir() {
            let same = |other: &&PathBuf| {
                std::fs::metadata(other).is_ok_and(|other| other.is_dir() && other.dev() == metadata.dev())
            };
            in_directory(path, sources.iter().filter(same).count().max(1) as u64, needed)?
        } else {
            open(path, Opening::default()).and_then(|file| size_of(&file)).unwrap_or(u64::MAX)
        };
        least = least.min(here);
    }
    Ok(least)
}

fn in_directory(path: &Path, sharing: u64, needed: bool) -> Result<u64, Failure> {
    let Ok(room) = space_in(path, sharing) else { return Ok(WISHED_BYTES) };
    if needed && room.bytes < LEAST_BYTES {
        return Err(Failure::Lacks(format!(
            "no room in {}: {}; name another directory, or a file to read, with --source",
            path.display(),
            room.too_little(LEAST_BYTES)
        )));
    }
    Ok(WISHED_BYTES.min(room.bytes))
}

/// Sets block and segments of a job from what was told and what there is room for.
pub(crate) fn set_parts(job: &mut AccessJob, parts: WorkerParts, room: u64) -> Result<(), Failure> {
    let transfer = job.transfer_bytes;
    let workers = u64::from(job.workers).div_ceil(job.sources.len().max(1) as u64).max(1);
    let whole = |bytes: u64| (bytes / transfer * transfer).max(transfer);
    let all = parts.amount_bytes.unwrap_or_else(|| whole(room / workers));
    job.block_bytes = match parts.block_bytes {
        Some(block) => block,
        // Workers side by side, request by request.
        None if job.layout == FileLayout::Strided => transfer,
        None => whole(all),
    };
    job.segments = match parts.amount_bytes {
        Some(amount) => amount.div_ceil(job.block_bytes.max(1)),
        None if parts.block_bytes.is_some() => 1,
        None => all / job.block_bytes.max(1),
    };
    if parts.amount_bytes.is_some_and(|amount| amount % transfer != 0) {
        return Err(Failure::Usage(format!(
            "--amount {}: no multiple of the transfer size of {}; give one",
            show_size(all),
            show_size(transfer)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::access::{Access, AccessOrder};

    fn parts(layout: FileLayout, workers: u32, worker_parts: WorkerParts) -> (u64, u64) {
        let mut job = AccessJob {
            sources: vec!["/a".into(), "/b".into()],
            workers,
            layout,
            transfer_bytes: 1 << 20,
            segments: 0,
            ..AccessJob::plain(Access::Read, AccessOrder::Sequential)
        };
        set_parts(&mut job, worker_parts, 100 << 20).expect("sizes");
        (job.block_bytes >> 20, job.segments)
    }

    #[test]
    fn what_is_reported_holds_and_the_rest_is_fitted() {
        let mib = |bytes: u64| Some(bytes << 20);
        let file = FileLayout::FilePerWorker;
        assert_eq!(parts(file, 4, WorkerParts::default()), (50, 1));
        assert_eq!(
            parts(file, 3, WorkerParts::default()),
            (50, 1),
            "the source with the most workers counts"
        );
        assert_eq!(parts(FileLayout::Strided, 4, WorkerParts::default()), (1, 50));
        assert_eq!(parts(file, 4, WorkerParts { amount_bytes: mib(12), ..WorkerParts::default() }), (12, 1));
        let both = WorkerParts { amount_bytes: mib(12), block_bytes: mib(4) };
        assert_eq!(parts(file, 4, both), (4, 3));
        assert_eq!(parts(file, 4, WorkerParts { block_bytes: mib(4), ..WorkerParts::default() }), (4, 1));
        assert_eq!(parts(file, 1000, WorkerParts::default()), (1, 1), "never less than a request");
    }
}
