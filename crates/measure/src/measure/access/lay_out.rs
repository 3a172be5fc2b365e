//! Writes the files that will be read: really written, since reading a hole or an allocated extent costs the
//! disk nothing.

use super::bench::AccessBench;
use super::{AccessJob, Engine};
use crate::event::Event;
use crate::measure::{Stage, started};
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::Errno;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::file::drop_pages;
use linerate_transport::flow::access::{
    self, AccessCounters, AccessFile, AccessOrder, AccessStart, Area, BlockStamp, Pace, Walk,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes a request, where no stamp asks for another size.
const REQUEST_BYTES: u64 = 4 << 20;

/// A stretch of a file that holds no data yet.
#[derive(Debug)]
pub(crate) struct Blank {
    /// Whose it is, for the caller.
    pub file_index: usize,
    /// Index of the source: one file of each is written at a time.
    pub source: usize,
    pub file: AccessFile,
    pub from: u64,
    pub to: u64,
}

/// One being written.
struct Writing {
    blank: Blank,
    from: u64,
    running: access::RunningAccess,
    counters: Arc<AccessCounters>,
    /// It ends then, and the rest stays blank.
    until: Option<Instant>,
    stop: Arc<AtomicBool>,
}

/// Writes the blanks, those of different sources at once; gives how far each file holds data now. With
/// `shorten_after` what is not written by then stays blank.
pub(crate) fn lay_out(
    bench: &mut AccessBench<'_>,
    mut blanks: Vec<Blank>,
    job: &AccessJob,
    shorten_after: Option<Duration>,
) -> Result<Vec<(usize, u64)>, Failure> {
    if blanks.is_empty() {
        return Ok(Vec::new());
    }
    let bytes: u64 = blanks.iter().map(|blank| blank.to - blank.from).sum();
    let name = format!("writing {} to read", show_size(bytes));
    bench.listener.hear(&Event::Started { stage: Stage::Disk, name, seconds: 0.0 });
    let begin = clock::now();
    let mut writing: Vec<Writing> = Vec::new();
    let mut done: Vec<(usize, u64)> = Vec::new();
    let mut outcome = Ok(());
    let mut finished = 0;
    blanks.reverse();
    while !blanks.is_empty() || !writing.is_empty() {
        let over = shorten_after.is_some_and(|after| clock::since(begin) > after);
        let all = over || outcome.is_err();
        if all {
            blanks.clear();
        }
        let now = clock::now();
        let enough = |one: &&Writing| all || one.until.is_some_and(|until| now > until);
        writing.iter().filter(enough).for_each(|one| one.stop.store(true, Ordering::Relaxed));
        while let Some(at) = next(&blanks, &writing) {
            let until =
                shorten_after.map(|after| now + share_of_time(&blanks, at, after, clock::since(begin)));
            let (blank, io_uring) = (blanks.remove(at), bench.io_uring);
            match started(bench.idle, || start(blank, job, io_uring, begin, until)) {
                Ok(started) => writing.push(started),
                Err(failure) => outcome = Err(failure),
            }
        }
        for at in (0..writing.len()).rev().filter(|at| writing[*at].running.ended()).collect::<Vec<_>>() {
            let ended = writing.remove(at);
            finished += ended.counters.progress.mark().bytes;
            match finish(ended) {
                Ok(written) => done.push(written),
                Err(failure) => outcome = outcome.and(Err(failure)),
            }
        }
        let moved = finished + writing.iter().map(|one| one.counters.progress.mark().bytes).sum::<u64>();
        let bytes_per_second = moved as f64 / clock::since(begin).as_secs_f64();
        bench.listener.hear(&Event::Progress { stage: Stage::Disk, bytes_per_second });
        if bench.stop.wait(POLL_INTERVAL) {
            writing.iter().for_each(|one| one.stop.store(true, Ordering::Relaxed));
            writing.into_iter().for_each(|one| drop(finish(one)));
            return Err(Failure::Interrupted);
        }
    }
    outcome.map(|()| done)
}

/// The last blank of a source at which nobody writes.
fn next(blanks: &[Blank], writing: &[Writing]) -> Option<usize> {
    blanks.iter().rposition(|blank| writing.iter().all(|one| one.blank.source != blank.source))
}

/// Files of one source share its time: each gets its part of what is left, so that none stays empty.
fn share_of_time(blanks: &[Blank], at: usize, all: Duration, passed: Duration) -> Duration {
    let left = blanks.iter().filter(|blank| blank.source == blanks[at].source).count();
    all.saturating_sub(passed) / u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

fn start(
    blank: Blank,
    job: &AccessJob,
    io_uring: bool,
    begin: Instant,
    until: Option<Instant>,
) -> Result<Writing, Failure> {
    let transfer = request_bytes(job, blank.to);
    let from = blank.from / transfer * transfer;
    let lacks = |why: String| Failure::Lacks(format!("{}: {why}", blank.file.label));
    let area = Area::whole(0, from, blank.to - from);
    let walk = Walk::new(vec![area], AccessOrder::Sequential, transfer, job.seed)
        .ok_or_else(|| lacks("nothing to write".into()))?;
    let counters = Arc::new(AccessCounters::new(begin));
    let order = AccessStart {
        core: None,
        files: vec![blank.file.clone()],
        walk,
        read_share: 0.0,
        transfer_bytes: transfer as usize,
        queue_depth: 4,
        engine: Engine::IoUring,
        pace: match job.limit_bytes_per_second {
            // One file of each source is written at a time.
            Some(limit) => Pace::Held { bytes_per_second: limit / job.sources.len().max(1) as f64 },
            None => Pace::Closed,
        },
        amount_bytes: Some(blank.to - from),
        fsync_at_end: true,
        sync: None,
        stamp: job.verify.then_some(BlockStamp { seed: job.seed }),
        seed: job.seed ^ blank.file_index as u64,
        io_uring,
        begin,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let running = access::start(order, Arc::clone(&counters), Arc::clone(&stop))
        .map_err(|error| lacks(format!("it cannot be written: {error}")))?;
    Ok(Writing { blank, from, running, counters, until, stop })
}

/// Large requests that divide the length; with stamps those of the job, since a stamp covers a request.
fn request_bytes(job: &AccessJob, length: u64) -> u64 {
    let mut bytes = job.transfer_bytes;
    while !job.verify && bytes * 2 <= REQUEST_BYTES && length.is_multiple_of(bytes * 2) {
        bytes *= 2;
    }
    bytes
}

fn finish(writing: Writing) -> Result<(usize, u64), Failure> {
    let label = writing.blank.file.label.clone();
    let full = "the disk became full while it was written; make room, or fewer --workers, a smaller --block";
    let outcome = writing
        .running
        .join()
        .map_err(|error| Failure::Lacks(format!("{label}: it cannot be written: {error}")))?;
    if let Some(error) = outcome.errors.first() {
        let why = if error.errno == Some(Errno::NOSPC) { full.to_string() } else { error.why.clone() };
        return Err(Failure::Lacks(format!("{label}: at {}: {why}", show_size(error.offset))));
    }
    // Through the page cache it would answer the reads.
    let _ = drop_pages(&writing.blank.file.file);
    Ok((writing.blank.file_index, writing.from + outcome.writes.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_source_share_its_time() {
        let blank = |source| {
            let file = Arc::new(tempfile::tempfile().expect("a file"));
            let file = AccessFile { file, label: String::new() };
            Blank { file_index: 0, source, file, from: 0, to: 1 << 30 }
        };
        let blanks = [blank(0), blank(0), blank(1), blank(0), blank(0)];
        let (all, passed) = (Duration::from_secs(8), Duration::from_secs(2));
        assert_eq!(share_of_time(&blanks, 2, all, passed), Duration::from_secs(6));
        assert_eq!(share_of_time(&blanks, 4, all, passed), Duration::from_millis(1500));
        assert_eq!(share_of_time(&blanks, 0, all, 2 * all), Duration::ZERO);
    }
}
