//! The disk in windows: the same file or device, read or written again each time.

use super::super::scratch::{Scratch, ScratchSpec};
use super::{FigureContext, FigureKind, FigureSpec, PreparedFigure, ProcessOptions};
use crate::event::Silent;
use crate::measure::access::{
    Access, AccessBench, AccessJob, AccessOrder, Engine, FileLayout, Permissions, Prepared, conduct,
};
use linerate_facts::failure::Failure;
use linerate_system::file::{drop_pages, open_to_read, size_of};
use std::path::{Path, PathBuf};

/// Bytes a direct request, and requests in flight.
const DIRECT_BYTES: u64 = 1 << 20;
const DIRECT_DEPTH: u32 = 16;
/// Bytes a read of a buffered reader: what copying programs and web servers ask for at a time.
const BUFFERED_BYTES: u64 = 64 << 10;
/// A file of our own.
const SCRATCH_BYTES: u64 = 512 << 20;
/// The first buffered window, of which the length of the others follows.
const FIRST_BYTES: u64 = 1 << 20;

/// A source that is ready.
pub(super) struct Reader<'a> {
    place: FigureContext<'a>,
    figure: FigureKind,
    source: PathBuf,
    prepared: Prepared,
    /// Lives as long as it is read.
    _scratch: Option<Scratch>,
    seconds: f64,
    length: u64,
    /// Bytes of a buffered window of each state, once the first one told its rate.
    amounts: [Option<u64>; 2],
}

impl<'a> Reader<'a> {
    pub(super) fn open(
        place: FigureContext<'a>,
        figure: FigureKind,
        figure_spec: &FigureSpec,
    ) -> Result<Self, Failure> {
        let directory = figure_spec.source.is_dir();
        if figure == FigureKind::Writes && !directory {
            return Err(Failure::Usage(format!(
                "source {}: this setting is for writes, and only files of linerate's own are written over; \
                 name a directory on that disk",
                figure_spec.source.display()
            )));
        }
        let spec = ScratchSpec { most_bytes: SCRATCH_BYTES, ..ScratchSpec::default() };
        let scratch = (directory && figure != FigureKind::Writes)
            .then(|| Scratch::write(&figure_spec.source, spec, place.stop))
            .transpose()?;
        let source = scratch.as_ref().map_or_else(|| figure_spec.source.clone(), Scratch::path);
        let length = if figure == FigureKind::Writes { SCRATCH_BYTES } else { length_of(&source)? };
        let mut silent = Silent;
        let bench = bench(place, &mut silent, true);
        let prepared = Prepared::new(&bench, std::slice::from_ref(&source), Permissions::default())?;
        Ok(Reader {
            place,
            figure,
            source,
            prepared,
            _scratch: scratch,
            seconds: figure_spec.seconds,
            length,
            amounts: [None; 2],
        })
    }

    fn job(&self, options: &ProcessOptions, amount: u64) -> AccessJob {
        let buffered = self.figure == FigureKind::BufferedReads;
        let transfer = if buffered { BUFFERED_BYTES } else { DIRECT_BYTES }.min(self.length);
        let whole = |bytes: u64| (bytes / transfer * transfer).max(transfer);
        let engine = if buffered || !options.io_uring { Engine::Psync } else { Engine::IoUring };
        let access = if self.figure == FigureKind::Writes { Access::Write } else { Access::Read };
        AccessJob {
            sources: vec![self.source.clone()],
            workers: 1,
            layout: FileLayout::Segmented,
            transfer_bytes: transfer,
            block_bytes: whole(if buffered { amount.min(self.length) } else { self.length }),
            queue_depth: if engine == Engine::IoUring { DIRECT_DEPTH } else { 1 },
            engine,
            direct: !buffered,
            // A second pass of a buffered reader would come from the page cache.
            seconds: (!buffered).then_some(self.seconds),
            limit_bytes_per_second: options.bytes_per_second,
            seed: 1,
            ..AccessJob::plain(access, AccessOrder::Sequential)
        }
    }

    fn once(&mut self, options: &ProcessOptions, amount: u64) -> Result<f64, Failure> {
        let job = self.job(options, amount);
        if !job.direct {
            forget(&self.source)?;
        }
        let mut silent = Silent;
        let mut bench = bench(self.place, &mut silent, options.io_uring);
        self.prepared.ready_for(&mut bench, &job)?;
        let measured = conduct(&mut bench, &job, &self.prepared)?;
        let failed = measured.access.as_ref().and_then(|access| access.errors.first());
        match failed {
            Some(why) => Err(Failure::Lacks(why.clone())),
            None if bench.stopped() => Err(Failure::Interrupted),
            None => Ok(measured.bytes_per_second),
        }
    }
}

impl PreparedFigure for Reader<'_> {
    fn take(&mut self, options: &ProcessOptions, other: bool) -> Result<f64, Failure> {
        if self.figure != FigureKind::BufferedReads {
            return self.once(options, self.length);
        }
        if let Some(amount) = self.amounts[usize::from(other)] {
            return self.once(options, amount);
        }
        // From a short window to one of the length that was asked for.
        let mut amount = FIRST_BYTES;
        loop {
            let rate = self.once(options, amount)?;
            let fitting = ((rate * self.seconds) as u64).clamp(FIRST_BYTES, self.length);
            let grown = fitting.min(amount.saturating_mul(8));
            if grown <= amount {
                self.amounts[usize::from(other)] = Some(amount);
                return self.once(options, amount);
            }
            amount = grown;
        }
    }
}

fn bench<'a>(place: FigureContext<'a>, silent: &'a mut Silent, io_uring: bool) -> AccessBench<'a> {
    let bench = AccessBench::new(place.sysroot, place.machine, place.stop, silent);
    AccessBench { io_uring, warm_up_seconds: 0.1, ..bench }
}

fn length_of(source: &Path) -> Result<u64, Failure> {
    let lacks = |error: std::io::Error| Failure::Lacks(format!("source {}: {error}", source.display()));
    let length = open_to_read(source, false).and_then(|file| size_of(&file)).map_err(lacks)?;
    // Less than a request has no rate.
    match length {
        ..DIRECT_BYTES => Err(Failure::Lacks(format!(
            "source {}: less than 1 MiB gives no rate; name a larger file",
            source.display()
        ))),
        _ => Ok(length),
    }
}

/// Takes a file or a device out of the page cache; what others have mapped or not yet written stays.
fn forget(source: &Path) -> Result<(), Failure> {
    let lacks = |error: std::io::Error| {
        Failure::Lacks(format!(
            "source {}: it cannot be taken out of the page cache: {error}",
            source.display()
        ))
    };
    drop_pages(&open_to_read(source, false).map_err(lacks)?).map_err(lacks)
}
