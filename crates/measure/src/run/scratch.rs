//! Scratch files for a run without a source: written beside the current directory, and gone whatever happens.
//!
//! A scratch file has no name: O_TMPFILE makes it without one (or it is unlinked at once where the file
//! system has no O_TMPFILE), so not even `kill -9` or a power cut leaves it behind. Workers open it through
//! `/proc/self/fd`.

use crate::measure::access::Series;
use crate::measure::started;
use linerate_facts::failure::Failure;
use linerate_facts::random::Random;
use linerate_facts::room::space_in;
use linerate_facts::units::show_size;
use linerate_model::plan::{Goal, Writing};
use linerate_system::buffers::Pool;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_system::storage::nameless;
use linerate_transport::flow::rate_limit::RateLimit;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a scratch file holds where the disk has room and writes it in the time.
pub(crate) const WISHED_BYTES: u64 = 4 << 30;
/// Less than this measures a cache, not a disk.
const LEAST_BYTES: u64 = 64 << 20;
/// A slow disk gets a shorter file rather than a longer wait.
const WRITING_TIME: Duration = Duration::from_secs(8);
/// Share of the budget that goes to writing at most, and the least that is of use, seconds.
const SHARE_OF_BUDGET: f64 = 0.16;
const LEAST_SECONDS: f64 = 1.0;
/// Bytes a write.
const WRITE_BYTES: usize = 4 << 20;
/// Without O_DIRECT the page cache is flushed after so many bytes, so that what was written in the time is at
/// the disk.
const FLUSH_BYTES: u64 = 16 << 20;

/// How much is written, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchSpec {
    pub most_bytes: u64,
    /// None: however long it takes, and less is none.
    pub time: Option<Duration>,
    /// The most that all writers move together, bytes per second.
    pub rate_limit: Option<f64>,
    /// The writers take only what nobody else wants of the disks.
    pub idle: bool,
}

impl ScratchSpec {
    /// As long as what is written in the time that the budget leaves for it, or of the length that was asked
    /// for.
    pub(crate) fn new(amount: Option<u64>, goal: &Goal) -> Self {
        let share = SHARE_OF_BUDGET * goal.budget_seconds;
        let seconds = share.clamp(LEAST_SECONDS, WRITING_TIME.as_secs_f64());
        let spec = ScratchSpec { rate_limit: goal.rate_limit, idle: goal.idle, ..ScratchSpec::default() };
        match amount {
            Some(most_bytes) => ScratchSpec { most_bytes, time: None, ..spec },
            None => ScratchSpec { time: Some(Duration::from_secs_f64(seconds)), ..spec },
        }
    }

    fn limit(&self) -> Option<RateLimit> {
        self.rate_limit.map(|rate| RateLimit::new(rate, clock::now()))
    }
}

impl Default for ScratchSpec {
    fn default() -> Self {
        ScratchSpec { most_bytes: WISHED_BYTES, time: Some(WRITING_TIME), rate_limit: None, idle: false }
    }
}

/// A nameless file with content that does not compress.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    /// Bytes written.
    pub length_bytes: u64,
    pub writing: Writing,
    /// Why it is shorter than it might be, where that is for want of room.
    pub note: Option<String>,
}

/// A file that is still empty.
struct Blank<'a> {
    directory: &'a Path,
    file: File,
    direct: bool,
    size: u64,
    note: Option<String>,
}

impl Scratch {
    /// Writes one in `directory`, so that part of the disk stays free.
    pub(crate) fn write(directory: &Path, spec: ScratchSpec, stop: &Stop) -> Result<Self, Failure> {
        Blank::make(directory, 1, spec)?.fill(spec, spec.limit().as_ref(), stop)
    }

    /// Writes one in each directory, all at the same time.
    pub(crate) fn write_all(
        directories: &[PathBuf],
        spec: ScratchSpec,
        stop: &Stop,
    ) -> Result<Vec<Self>, Failure> {
        let device = |path: &PathBuf| std::fs::metadata(path).map(|found| found.dev()).ok();
        let devices: Vec<Option<u64>> = directories.iter().map(device).collect();
        let blanks = directories.iter().zip(&devices).map(|(directory, own)| {
            let sharing = devices.iter().filter(|other| other.is_some() && *other == own).count();
            Blank::make(directory, sharing as u64, spec)
        });
        let blanks = blanks.collect::<Result<Vec<_>, _>>()?;
        let limit = spec.limit();
        let limit = limit.as_ref();
        std::thread::scope(|scope| {
            let write = |blank: Blank| started(spec.idle, || blank.fill(spec, limit, stop));
            let writers: Vec<_> = blanks.into_iter().map(|blank| scope.spawn(move || write(blank))).collect();
            let panicked = |_| Err(Failure::Lacks("a writer of a scratch file panicked: report this".into()));
            writers.into_iter().map(|writer| writer.join().unwrap_or_else(panicked)).collect()
        })
    }

    /// A path that opens the file as long as this value lives.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

impl<'a> Blank<'a> {
    fn make(directory: &'a Path, sharing: u64, spec: ScratchSpec) -> Result<Self, Failure> {
        let room = space_in(directory, sharing).map_err(|error| lacks(directory, &explain(&error)))?;
        let whole = |bytes: u64| bytes / WRITE_BYTES as u64 * WRITE_BYTES as u64;
        let size = whole(spec.most_bytes.min(room.bytes));
        if size < LEAST_BYTES.min(spec.most_bytes) {
            return Err(lacks(directory, &room.too_little(LEAST_BYTES.min(spec.most_bytes))));
        }
        let short = room.bytes < spec.most_bytes;
        if short && spec.time.is_none() {
            return Err(lacks(
                directory,
                &format!(
                    "--amount {}: {} of {} are free, of which {} are left alone",
                    show_size(spec.most_bytes),
                    show_size(room.free),
                    show_size(room.total),
                    show_size(room.left_alone)
                ),
            ));
        }
        let note = short.then(|| {
            format!(
                "the scratch file in {} is at most {}: {} of the disk stay free",
                directory.display(),
                show_size(size),
                show_size(room.left_alone)
            )
        });
        let (file, direct) = nameless(directory).map_err(|error| lacks(directory, &error.to_string()))?;
        Ok(Blank { directory, file, direct, size, note })
    }

    fn fill(self, spec: ScratchSpec, limit: Option<&RateLimit>, stop: &Stop) -> Result<Scratch, Failure> {
        let Blank { directory, file, direct, size, note } = self;
        let (length_bytes, writing) = fill(&file, Extent { size, direct, time: spec.time }, limit, stop)
            .map_err(|error| lacks(directory, &explain(&error)))?;
        if stop.is_ended() {
            return Err(Failure::Interrupted);
        }
        if length_bytes < LEAST_BYTES.min(size) / 4 && limit.is_none() {
            let (written, seconds) = (show_size(length_bytes), writing.seconds);
            return Err(lacks(directory, &format!("the disk took only {written} in {seconds:.0} s")));
        }
        if !direct {
            let _ = linerate_system::file::drop_pages(&file);
        }
        Ok(Scratch { file, length_bytes, writing, note })
    }
}

fn lacks(directory: &Path, why: &str) -> Failure {
    Failure::Lacks(format!(
        "no scratch file in {}: {why}; name a file to read with --source FILE, or another directory with \
         --source DIR",
        directory.display()
    ))
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "the disk became full while it was written".into(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".into(),
        _ => error.to_string(),
    }
}

/// How much is written, how, and for how long.
struct Extent {
    size: u64,
    direct: bool,
    time: Option<Duration>,
}

/// Writes up to `size` bytes within the time; gives how many, and how that went.
fn fill(file: &File, extent: Extent, limit: Option<&RateLimit>, stop: &Stop) -> io::Result<(u64, Writing)> {
    let Extent { size, direct, time } = extent;
    let mut pool = Pool::new(1, WRITE_BYTES)?;
    let Some(mut block) = pool.take() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    Random::new(0).fill(block.bytes_mut());
    let begin = clock::now();
    let (mut written, mut series) = (0, Series::new());
    while written < size && time.is_none_or(|time| clock::since(begin) < time) && !stop.is_ended() {
        // Each block differs, so that a disk that finds equal blocks gains nothing.
        block.bytes_mut()[..8].copy_from_slice(&written.to_ne_bytes());
        if let Some(limit) = limit {
            limit.pay(WRITE_BYTES as u64, |time| stop.wait(time));
        }
        file.write_all_at(block.bytes(), written)?;
        written += WRITE_BYTES as u64;
        if !direct && written.is_multiple_of(FLUSH_BYTES) {
            file.sync_data()?;
        }
        series.look(clock::since(begin), || written);
    }
    file.sync_all()?;
    let seconds = clock::since(begin).as_secs_f64();
    let bytes_per_second = written as f64 / seconds.max(1e-9);
    Ok((written, Writing { seconds, bytes_per_second, burst: series.burst(), spares_reads: false }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_scratch_file_has_no_name_and_can_be_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let few = ScratchSpec { most_bytes: 128 << 20, ..ScratchSpec::default() };
        let scratch = match Scratch::write(directory.path(), few, &Stop::new()) {
            Ok(scratch) => scratch,
            Err(failure) => {
                eprintln!("skipped: {failure}");
                return;
            }
        };
        assert_eq!(std::fs::read_dir(directory.path()).expect("a list").count(), 0);
        let again = File::open(scratch.path()).expect("opened through /proc");
        assert_eq!(again.metadata().expect("metadata").len(), scratch.length_bytes);
    }

    #[test]
    fn no_directory_is_one_sentence() {
        let failure = Scratch::write(Path::new("/nonexistent/place"), ScratchSpec::default(), &Stop::new())
            .expect_err("no place");
        assert_eq!(failure.exit_status(), 3);
        assert!(failure.to_string().contains("--source"), "{failure}");
    }

    #[test]
    fn writing_is_a_part_of_the_budget() {
        let goal = |budget_seconds| Goal { budget_seconds, ..Goal::default() };
        let spec = |budget: f64| ScratchSpec::new(None, &goal(budget));
        let seconds = |budget: f64| spec(budget).time.expect("a time").as_secs_f64();
        assert_eq!((seconds(50.0), seconds(300.0), seconds(f64::INFINITY)), (8.0, 8.0, 8.0));
        assert!((seconds(20.0) - 3.2).abs() < 1e-9 && seconds(0.5) == 1.0);
        let asked = ScratchSpec::new(Some(8 << 30), &goal(50.0));
        assert_eq!((asked.most_bytes, asked.time), (8 << 30, None), "as long as it takes");
    }

    #[test]
    fn several_are_written_at_once_and_no_longer_than_the_time() {
        let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
        let paths: Vec<PathBuf> = directories.iter().map(|one| one.path().to_path_buf()).collect();
        let spec = ScratchSpec {
            most_bytes: 96 << 20,
            time: Some(Duration::from_secs(2)),
            ..ScratchSpec::default()
        };
        let begin = Instant::now();
        let written = match Scratch::write_all(&paths, spec, &Stop::new()) {
            Ok(written) => written,
            Err(failure) => return eprintln!("skipped: {failure}"),
        };
        assert_eq!(written.len(), 3);
        for scratch in &written {
            let Writing { seconds, bytes_per_second, .. } = scratch.writing;
            assert!((seconds * bytes_per_second / scratch.length_bytes as f64 - 1.0).abs() < 1e-6);
        }
        // The last write and the flush come on top, on a busy machine.
        assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    }

    #[test]
    fn all_writers_together_keep_to_a_rate_limit() {
        let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let paths: Vec<PathBuf> = directories.iter().map(|one| one.path().to_path_buf()).collect();
        let limit = 40e6;
        let spec = ScratchSpec {
            time: Some(Duration::from_secs(1)),
            rate_limit: Some(limit),
            ..ScratchSpec::default()
        };
        let begin = Instant::now();
        let written = match Scratch::write_all(&paths, spec, &Stop::new()) {
            Ok(written) => written,
            Err(failure) => return eprintln!("skipped: {failure}"),
        };
        // A block of each may be ahead of the rate.
        let bytes: u64 = written.iter().map(|one| one.length_bytes).sum();
        let most = limit * begin.elapsed().as_secs_f64() + 3.0 * WRITE_BYTES as f64;
        assert!(bytes as f64 <= most && bytes >= WRITE_BYTES as u64, "{bytes} bytes, {most} allowed");
    }
}
