//! Who has which part of what: workers dealt round the sources, their blocks in a file each or in a shared
//! one.

use super::{AccessJob, FileLayout};
use linerate_transport::flow::access::Area;

/// Where one worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerPart {
    /// Index of the source.
    pub source: usize,
    /// Which of the source's workers it is, and how many there are.
    pub position: u64,
    pub of: u64,
}

/// Workers are dealt round the sources, as with the `@` of IOR: worker 0 on the first, worker 1 on the second
/// …
pub(crate) fn place(job: &AccessJob, worker: u32) -> WorkerPart {
    let sources = job.sources.len().max(1) as u64;
    let worker = u64::from(worker);
    let source = worker % sources;
    let of = (u64::from(job.workers) + sources - 1 - source) / sources;
    WorkerPart { source: source as usize, position: worker / sources, of }
}

/// Whose part a worker reads: with `reorder` that of the next one, which lies on the next source.
pub(crate) fn reads_part_of(job: &AccessJob, worker: u32) -> u32 {
    if job.reorder { (worker + 1) % job.workers.max(1) } else { worker }
}

/// Bytes of one worker.
pub(crate) fn part_bytes(job: &AccessJob) -> u64 {
    job.block_bytes.saturating_mul(job.segments)
}

/// Files that a directory needs: index and length. One for each of its workers, or one for all.
pub(crate) fn files_of(job: &AccessJob, source: usize) -> Vec<(usize, u64)> {
    let on = (0..job.workers).map(|worker| place(job, worker)).find(|place| place.source == source);
    let Some(of) = on.map(|place| place.of) else { return Vec::new() };
    match job.layout {
        FileLayout::FilePerWorker => (0..of as usize).map(|index| (index, part_bytes(job))).collect(),
        FileLayout::Segmented | FileLayout::Strided => vec![(0, part_bytes(job).saturating_mul(of))],
    }
}

/// The part within the worker's own file of `length` bytes, whole requests only; none where not even one
/// fits.
pub(crate) fn own_file(job: &AccessJob, length: u64) -> Option<Area> {
    let bytes = part_bytes(job).min(length) / job.transfer_bytes * job.transfer_bytes;
    (bytes > 0).then(|| Area::whole(0, 0, bytes))
}

/// The part within a file or device of `length` bytes that the source's workers share. Where it is too short
/// for all that the job asks for, each gets less, and all the same; none where not even a request each fits.
pub(crate) fn shared(job: &AccessJob, place: WorkerPart, length: u64) -> Option<Area> {
    let transfer = job.transfer_bytes;
    if job.layout == FileLayout::Strided {
        let block = job.block_bytes.min(length / place.of / transfer * transfer);
        let row = block * place.of;
        let blocks = length.checked_div(row).map_or(0, |fit| job.segments.min(fit));
        let area =
            Area { file: 0, offset: place.position * block, block_bytes: block, stride_bytes: row, blocks };
        return (blocks > 0).then_some(area);
    }
    let bytes = part_bytes(job).min(length / place.of) / transfer * transfer;
    (bytes > 0).then(|| Area::whole(0, place.position * bytes, bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Access, AccessOrder, Engine};
    use super::*;
    use std::collections::HashSet;

    /// A job of 64 KiB requests, changed by each test as it needs.
    pub(crate) fn job(sources: usize, workers: u32, layout: FileLayout) -> AccessJob {
        AccessJob {
            sources: (0..sources).map(|index| format!("/source{index}").into()).collect(),
            workers,
            layout,
            transfer_bytes: 64 << 10,
            block_bytes: 256 << 10,
            segments: 3,
            engine: Engine::Psync,
            direct: false,
            seed: 1,
            ..AccessJob::plain(Access::Read, AccessOrder::Sequential)
        }
    }

    #[test]
    fn workers_are_dealt_round() {
        let job = job(3, 7, FileLayout::Segmented);
        let sources: Vec<usize> = (0..7).map(|worker| place(&job, worker).source).collect();
        assert_eq!(sources, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!((place(&job, 6).position, place(&job, 6).of, place(&job, 1).of), (2, 3, 2));
        assert_eq!(files_of(&job, 0), [(0, 3 * 3 * (256 << 10))]);
        assert!(
            files_of(&self::job(3, 2, FileLayout::FilePerWorker), 2).is_empty(),
            "no worker comes so far"
        );
    }

    #[test]
    fn parts_of_a_shared_file_do_not_overlap_and_fill_it() {
        for layout in [FileLayout::Segmented, FileLayout::Strided] {
            let job = job(1, 4, layout);
            let mut seen = HashSet::new();
            for worker in 0..4 {
                let area = shared(&job, place(&job, worker), files_of(&job, 0)[0].1).expect("a part");
                for index in 0..area.requests(job.transfer_bytes) {
                    assert!(seen.insert(area.offset_of(index, job.transfer_bytes)), "{layout:?}");
                }
            }
            assert_eq!(seen.len() as u64 * job.transfer_bytes, files_of(&job, 0)[0].1, "{layout:?}");
            assert_eq!(seen.iter().max(), Some(&(files_of(&job, 0)[0].1 - job.transfer_bytes)));
        }
    }

    #[test]
    fn a_file_that_is_too_short_gives_each_less() {
        for layout in [FileLayout::Segmented, FileLayout::Strided] {
            let job = job(1, 4, layout);
            let length = (500 << 10) + 17;
            for worker in 0..4 {
                let area = shared(&job, place(&job, worker), length).expect("a part");
                let last = area.requests(job.transfer_bytes) - 1;
                assert!(area.offset_of(last, job.transfer_bytes) + job.transfer_bytes <= length);
            }
            assert_eq!(shared(&job, place(&job, 0), 100 << 10), None, "not even one request each");
        }
        assert_eq!(own_file(&job(1, 1, FileLayout::FilePerWorker), 1000), None);
    }

    #[test]
    fn reordered_nobody_reads_its_own() {
        let mut job = job(2, 5, FileLayout::FilePerWorker);
        job.reorder = true;
        let read: HashSet<u32> = (0..5).map(|worker| reads_part_of(&job, worker)).collect();
        assert_eq!(read.len(), 5, "each part is read once");
        assert!((0..5).all(|worker| reads_part_of(&job, worker) != worker));
    }
}
