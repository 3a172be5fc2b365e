//! What is to be fetched, and who does it: files that wait, files that are on their way.

use super::transfer::FileTransfer;
use crate::archived::Archived;
use crate::blocks::BlockRun;
use crate::evidence::ServerFacts;
use crate::http::url::HttpUrl;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::flow::rate_limit::RateLimit;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The most small files that a stream asks for at once, and the longest target of them: their requests fit
/// the buffers of a connection, else both of its ends would wait for each other.
const MOST_AT_ONCE: usize = 32;
const SHORT_TARGET_BYTES: usize = 512;
/// Large files that are on their way, for each stream.
const MOST_OPEN: u64 = 4;
/// Requests for sums at once: `linerate serve` computes no more for one client.
const MOST_SUMS_ASKED: usize = 2;

/// A file and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedFile {
    pub(crate) url: HttpUrl,
    pub(crate) destination: PathBuf,
    /// As a folder's list has them.
    pub(crate) bytes: Option<u64>,
    pub(crate) modified: Option<u64>,
    /// Its server has sums, also of a small file before it sends it.
    pub(crate) has_sums: bool,
    /// What it has beside its content, where that is kept.
    pub(crate) archived: Option<Arc<Archived>>,
}

impl WantedFile {
    /// A file of a server, as it or a folder's list says.
    pub(crate) fn new(url: HttpUrl, destination: PathBuf, bytes: Option<u64>, modified: Option<u64>) -> Self {
        WantedFile { url, destination, bytes, modified, has_sums: false, archived: None }
    }

    /// Its zeros are holes here, too.
    pub(super) fn has_holes(&self) -> bool {
        self.archived.as_ref().is_some_and(|archived| archived.has_holes)
    }
}

struct OpenTransfer {
    file: Arc<FileTransfer>,
    wanted: WantedFile,
    begun: Instant,
}

/// See [`GetPlan::next_confirm`].
pub(super) struct SumsTurn<'a>(&'a AtomicUsize);

impl Drop for SumsTurn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Shared by all streams.
pub(super) struct GetPlan<'a> {
    streams: u64,
    waiting: Mutex<Waiting>,
    open: Mutex<Vec<OpenTransfer>>,
    /// Requests for sums that are on their way.
    sums_asked: AtomicUsize,
    rate: Option<RateLimit>,
    /// Bytes that are there.
    there: &'a AtomicU64,
    pub(super) server: &'a ServerFacts,
    stop: &'a Stop,
}

struct Waiting {
    files: VecDeque<WantedFile>,
    /// Streams that have taken one and do not know yet what becomes of it.
    beginning: u32,
}

impl<'a> GetPlan<'a> {
    pub(super) fn new(
        files: Vec<WantedFile>,
        streams: u32,
        rate: Option<RateLimit>,
        there: &'a AtomicU64,
        (server, stop): (&'a ServerFacts, &'a Stop),
    ) -> Self {
        let waiting = Mutex::new(Waiting { files: files.into(), beginning: 0 });
        GetPlan {
            streams: u64::from(streams),
            waiting,
            open: Mutex::default(),
            sums_asked: AtomicUsize::new(0),
            rate,
            there,
            server,
            stop,
        }
    }

    /// The next piece of a file that is on its way; `share`: see [`FileTransfer::next_fetch`].
    pub(super) fn next_fetch(&self, share: Option<f64>) -> Option<(Arc<FileTransfer>, BlockRun)> {
        let open = lock(&self.open);
        let next = |file: &FileTransfer| file.next_fetch(self.streams, share, 0);
        open.iter().find_map(|one| Some((Arc::clone(&one.file), next(&one.file)?)))
    }

    /// The next piece of this file, for the stream that is at one of it: unless the others, who have none, and no other
    /// file to begin, need all that is left.
    pub(super) fn next_of(&self, file: &FileTransfer, share: Option<f64>) -> Option<BlockRun> {
        let others = if lock(&self.waiting).files.is_empty() { self.streams.saturating_sub(1) } else { 0 };
        file.next_fetch(self.streams, share, others)
    }

    /// The next blocks whose sums are to be compared, with the right to ask for sums, for as long as it is kept. None: no
    /// blocks wait, or as many sums are asked for as a server computes for one client.
    pub(super) fn next_confirm(&self) -> Option<(SumsTurn<'_>, Arc<FileTransfer>, BlockRun)> {
        let more = |asked: usize| (asked < MOST_SUMS_ASKED).then_some(asked + 1);
        self.sums_asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        let (turn, open) = (SumsTurn(&self.sums_asked), lock(&self.open));
        let (file, piece) = open.iter().find_map(|one| Some((&one.file, one.file.next_confirm()?)))?;
        Some((turn, Arc::clone(file), piece))
    }

    /// So many files wait for their sums alone that no other should be begun before them.
    pub(super) fn is_crowded(&self) -> bool {
        lock(&self.open).len() as u64 >= MOST_OPEN * self.streams
    }

    /// The next file, whatever it is. Whoever takes it calls [`GetPlan::file_begun`] afterwards.
    pub(super) fn next_file(&self) -> Option<WantedFile> {
        let mut waiting = lock(&self.waiting);
        let next = waiting.files.pop_front()?;
        waiting.beginning += 1;
        Some(next)
    }

    /// The next small ones, to be asked for at once: fewer towards the end, so that no stream has many while
    /// others have none. Whoever takes them calls [`GetPlan::file_begun`] for each.
    pub(super) fn next_small(&self, is_small: impl Fn(&WantedFile) -> bool) -> Vec<WantedFile> {
        let mut waiting = lock(&self.waiting);
        let share = waiting.files.len() / (2 * self.streams.max(1) as usize);
        let most = share.clamp(1, MOST_AT_ONCE);
        let fits = |file: &&WantedFile| is_small(file) && file.url.target.len() <= SHORT_TARGET_BYTES;
        let count = waiting.files.iter().take(most).take_while(fits).count();
        waiting.beginning += count as u32;
        waiting.files.drain(..count).collect()
    }

    /// A file that was taken is for another stream, before [`GetPlan::file_begun`] is called for it.
    pub(super) fn put_back(&self, wanted: WantedFile) {
        lock(&self.waiting).files.push_back(wanted);
    }

    pub(super) fn file_begun(&self) {
        lock(&self.waiting).beginning -= 1;
    }

    /// A file begins, of which an earlier start had fetched so many bytes.
    pub(super) fn add(&self, file: Arc<FileTransfer>, wanted: WantedFile, kept: u64) {
        self.there.fetch_add(kept, Ordering::Relaxed);
        lock(&self.open).push(OpenTransfer { file, wanted, begun: clock::now() });
    }

    /// The last stream of a file has its end; `land` gets what it was.
    pub(super) fn end_file(&self, file: &Arc<FileTransfer>, land: impl FnOnce(&WantedFile, Instant)) {
        let found = lock(&self.open)
            .iter()
            .find(|one| Arc::ptr_eq(&one.file, file))
            .map(|one| (one.wanted.clone(), one.begun));
        let Some((wanted, begun)) = found else { return };
        land(&wanted, begun);
        lock(&self.open).retain(|one| !Arc::ptr_eq(&one.file, file));
    }

    /// Nothing waits, and nothing is on its way.
    pub(super) fn is_over(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.files.is_empty() && waiting.beginning == 0 && lock(&self.open).is_empty()
    }

    /// So much came: counted, and the rate of all streams together is kept to.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.there.fetch_add(bytes, Ordering::Relaxed);
        if let Some(rate) = &self.rate {
            rate.pay(bytes, |time| self.stop.wait(time));
        }
    }

    /// Sleeps so long, or until it is stopped, which it returns.
    pub(super) fn rest(&self, time: Duration) -> bool {
        self.stop.wait(time)
    }

    /// A file was at its place already.
    pub(super) fn count_there(&self, bytes: u64) {
        self.there.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much of what came was lost, or is not believed any more: it comes again, and is paid for again.
    pub(super) fn uncount(&self, bytes: u64) {
        let less = |there: u64| Some(there.saturating_sub(bytes));
        let _ = self.there.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Those that were on their way when all ended, and those that were not begun.
    pub(super) fn take_left(&self) -> (Vec<(Arc<FileTransfer>, WantedFile)>, Vec<WantedFile>) {
        let open = lock(&self.open).drain(..).map(|one| (one.file, one.wanted)).collect();
        (open, lock(&self.waiting).files.drain(..).collect())
    }
}
