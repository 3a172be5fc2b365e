//! The cells of a grid: every combination of what was asked for, and the order in which they are visited. How much each
//! worker reads or writes, where the user did not say, is as much as fits the sources, a tenth of each disk left alone.

use super::super::scratch::WISHED_BYTES;
use crate::measure::access::{Access, AccessJob, AccessOrder, Engine, FileLayout};
use linerate_facts::failure::Failure;
use linerate_facts::random::Random;
use linerate_facts::room::space_in;
use linerate_facts::units::show_size;
use linerate_system::file::size_of;
use linerate_system::storage::{Opening, open};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Requests in flight of one worker where none is told.
const USUAL_DEPTH: u32 = 16;
/// Transfer sizes where none is told.
const SEQUENTIAL_BYTES: u64 = 1 << 20;
const RANDOM_BYTES: u64 = 4 << 10;

/// Less than this measures a cache, not a disk.
const LEAST_BYTES: u64 = 16 << 20;

/// How much each worker has; what is not known is fitted to the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerParts {
    /// Bytes of one worker in all.
    pub amount_bytes: Option<u64>,
    /// Contiguous bytes of one worker.
    pub block_bytes: Option<u64>,
}

/// Everything that may vary, and what is the same in all cells.
#[derive(Clone, Debug)]
pub struct DiskGrid {
    /// What is the same in all cells; of it nothing is looked at that may vary.
    pub alike: AccessJob,
    /// None: one a source.
    pub workers: Vec<u32>,
    /// None: 1 MiB in sequence, 4 KiB at random and where writes are synced.
    pub transfers: Vec<u64>,
    /// None: 16 with io_uring, else 1, also where writes are synced.
    pub queue_depths: Vec<u32>,
    pub accesses: Vec<Access>,
    pub orders: Vec<AccessOrder>,
    pub layouts: Vec<FileLayout>,
    pub engines: Vec<Engine>,
    pub parts: WorkerParts,
}

impl DiskGrid {
    /// Nobody said how large the parts are.
    pub(crate) fn sizes_itself(&self) -> bool {
        self.parts.amount_bytes.is_none() && self.parts.block_bytes.is_none()
    }

    /// All combinations, the accesses of one setting side by side.
    pub fn cells(&self) -> Result<Vec<AccessJob>, Failure> {
        let room = room(&self.alike.sources, self.sizes_itself())?;
        let mut cells = Vec::new();
        for order in &self.orders {
            for transfer in self.transfers_of(*order) {
                for layout in &self.layouts {
                    for engine in &self.engines {
                        for depth in self.depths_of(*engine) {
                            for workers in self.workers_or_usual() {
                                for access in &self.accesses {
                                    let mut job = self.job(*order, *access, *layout, *engine, workers);
                                    (job.transfer_bytes, job.queue_depth) = (transfer, depth);
                                    set_parts(&mut job, self.parts, room)?;
                                    cells.push(job);
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(cells)
    }

    /// How many cells there are, without making them.
    pub(super) fn combinations(&self) -> u64 {
        let count = |many: usize| many as u64;
        let transfers: u64 = self.orders.iter().map(|order| count(self.transfers_of(*order).len())).sum();
        let depths: u64 = self.engines.iter().map(|engine| count(self.depths_of(*engine).len())).sum();
        [
            transfers,
            depths,
            count(self.layouts.len()),
            count(self.accesses.len()),
            count(self.workers.len().max(1)),
        ]
        .into_iter()
        .fold(1, u64::saturating_mul)
    }

    fn job(
        &self,
        order: AccessOrder,
        access: Access,
        layout: FileLayout,
        engine: Engine,
        workers: u32,
    ) -> AccessJob {
        AccessJob {
            workers,
            access,
            order,
            layout,
            segments: 0,
            queue_depth: 1,
            engine,
            direct: self.alike.direct && engine != Engine::Mmap,
            ..self.alike.clone()
        }
    }

    fn workers_or_usual(&self) -> Vec<u32> {
        if self.workers.is_empty() { vec![self.alike.sources.len() as u32] } else { self.workers.clone() }
    }

    fn transfers_of(&self, order: AccessOrder) -> Vec<u64> {
        match (&self.transfers[..], order) {
            ([], AccessOrder::Sequential) if self.alike.sync.is_none() => vec![SEQUENTIAL_BYTES],
            ([], _) => vec![RANDOM_BYTES],
            (values, _) => values.to_vec(),
        }
    }

    fn depths_of(&self, engine: Engine) -> Vec<u32> {
        match (&self.queue_depths[..], engine) {
            ([], Engine::IoUring) if self.alike.sync.is_none() => vec![USUAL_DEPTH],
            ([], _) => vec![1],
            (values, _) => values.to_vec(),
        }
    }
}

/// The numbers below `count` in an order that the seed chooses (Fisher and Yates): no cell always follows the
/// same one, none is always first on a device that was idle.
pub(crate) fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = Random::new(seed);
    for last in (1..count).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

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
fn set_parts(job: &mut AccessJob, parts: WorkerParts, room: u64) -> Result<(), Failure> {
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
    use std::collections::HashSet;

    fn grid(directory: &std::path::Path) -> DiskGrid {
        DiskGrid {
            alike: AccessJob {
                sources: vec![directory.to_path_buf()],
                ..AccessJob::plain(Access::Read, AccessOrder::Sequential)
            },
            workers: vec![33, 66, 132],
            transfers: vec![1 << 20, 4 << 20, 16 << 20],
            queue_depths: vec![1, 16],
            accesses: vec![Access::Read, Access::Write],
            orders: vec![AccessOrder::Sequential, AccessOrder::Random],
            layouts: vec![FileLayout::FilePerWorker, FileLayout::Segmented, FileLayout::Strided],
            engines: vec![Engine::IoUring],
            parts: WorkerParts { block_bytes: Some(64 << 20), amount_bytes: Some(128 << 20) },
        }
    }

    #[test]
    fn every_combination_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let cells = grid(directory.path()).cells().expect("cells");
        assert_eq!(cells.len(), 3 * 3 * 2 * 2 * 2 * 3);
        assert_eq!(grid(directory.path()).combinations(), cells.len() as u64);
        let different: HashSet<String> = cells.iter().map(|job| format!("{job:?}")).collect();
        assert_eq!(different.len(), cells.len());
        assert!(cells.iter().all(|job| job.block_bytes == 64 << 20 && job.segments == 2));
    }

    #[test]
    fn what_is_not_reported_is_usual() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut plain = grid(directory.path());
        (plain.workers, plain.transfers, plain.queue_depths) = (Vec::new(), Vec::new(), Vec::new());
        plain.layouts.truncate(1);
        let cells = plain.cells().expect("cells");
        let seen: Vec<(u64, u32, u32)> =
            cells.iter().map(|job| (job.transfer_bytes, job.queue_depth, job.workers)).collect();
        assert_eq!(seen, [(1 << 20, 16, 1), (1 << 20, 16, 1), (4096, 16, 1), (4096, 16, 1)]);
    }

    #[test]
    fn each_repeat_has_its_own_order_and_each_seed_the_same() {
        let first = shuffled(20, 7);
        assert_eq!(first, shuffled(20, 7));
        assert_ne!(first, shuffled(20, 8));
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 20);
        // Nobody is favoured: over many repeats each cell is first about as often.
        let mut times = [0u32; 4];
        (0..4000).for_each(|seed| times[shuffled(4, seed)[0]] += 1);
        assert!(times.iter().all(|times| (800..1200).contains(times)), "{times:?}");
    }

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
