//! What one stream does: it takes pieces of the files that are on their way, or begins the next file.

use super::finished_files::FinishedFiles;
use super::plan::{GetPlan, WantedFile};
use super::remote::{AHEAD_BYTES, Remote, RemoteFile, begin_part, probe, range_lines};
use super::routes::Routes;
use super::transfer::{Ended, FileTransfer, FileWork};
use super::writer::BlockWriter;
use crate::blocks::{BlockRun, SMALL_BYTES};
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::patience::{LONGEST_BUSY_WAIT, Retries, wait_after};
use crate::stream_tally::StreamTally;
use linerate_system::clock;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Where there is nothing to do for a moment, it is looked again.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Tries of a small file, of the beginning of a large one, and of its end.
pub(super) const MOST_TRIES: u32 = 4;

/// One stream.
pub(super) struct GetStream<'a> {
    /// From 0: the first may begin before the others.
    pub(super) number: usize,
    /// It is one of those that receive.
    pub(super) receives: bool,
    pub(super) plan: &'a GetPlan<'a>,
    pub(super) routes: &'a Routes<'a>,
    /// The one that it uses, and its settings.
    pub(super) route: usize,
    pub(super) settings: &'a ClientSettings<'a>,
    pub(super) finished: &'a FinishedFiles,
    pub(super) tally: &'a StreamTally,
    pub(super) connection: Option<HttpConnection<'a>>,
    pub(super) writer: Option<(Arc<FileTransfer>, BlockWriter)>,
    /// The piece after the one at hand.
    pub(super) ahead: Option<AskedRun>,
}

/// A piece that this stream fetches next.
pub(super) struct AskedRun {
    file: Arc<FileTransfer>,
    piece: BlockRun,
    /// Its request is on the way, over the connection that there is.
    is_asked: bool,
}

/// The folder's list has its length, and it is one.
pub(super) fn is_small(wanted: &WantedFile) -> bool {
    wanted.bytes.is_some_and(|bytes| bytes <= SMALL_BYTES)
}

/// The header lines of a request for a piece.
fn lines_for(file: &FileTransfer, piece: &BlockRun) -> String {
    let mut lines = range_lines(&file.remote, file.range_of(piece));
    if file.remote.has_sums {
        lines.push_str(&format!("Linerate-Block-Bytes: {}\r\n", file.block_bytes));
    }
    lines
}

impl GetStream<'_> {
    /// Until nothing is left to do; the route that it has then.
    pub(super) fn run(&mut self) -> usize {
        if self.number > 0 {
            let plan = self.plan;
            plan.server.windows.wait_for_first(|| plan.is_over() || plan.rest(POLL_INTERVAL));
        }
        while !self.settings.stop.is_ended() {
            if self.routes.is_lost(self.route) {
                self.change_route();
            }
            let tally = self.tally;
            if !tally.at_work(|| self.step()) {
                if self.plan.is_over() {
                    break;
                }
                self.plan.rest(POLL_INTERVAL);
            }
        }
        self.receives_no_more();
        self.route
    }

    /// It has no piece to fetch.
    fn receives_no_more(&mut self) {
        if std::mem::take(&mut self.receives) {
            self.plan.server.windows.stream_ended();
        }
    }

    /// It uses another route from now on.
    fn change_route(&mut self) {
        let lost = self.route;
        self.leave_lost_route();
        self.routes.move_stream(lost, self.route);
        if let Some(AskedRun { file, piece, .. }) = self.ahead.take() {
            let ended = file.give_back(FileWork::Fetch(piece));
            self.conclude(&file, ended, None);
        }
    }

    /// What is asked for next goes by a route that works.
    pub(super) fn leave_lost_route(&mut self) {
        if self.routes.is_lost(self.route) {
            let next = self.routes.instead_of(self.route);
            (self.route, self.settings, self.connection) = (next, self.routes.settings(next), None);
        }
    }

    /// The next thing that is to be done, if there is any now.
    fn step(&mut self) -> bool {
        let next = self.ahead.take().or_else(|| {
            let (file, piece) = self.plan.next_fetch(self.routes.share(self.route))?;
            Some(AskedRun { file, piece, is_asked: false })
        });
        if let Some(AskedRun { file, piece, is_asked }) = next {
            let before = self.tally.moved();
            let fetched = self.fetch(&file, &piece, is_asked);
            let came = self.tally.moved() - before;
            if fetched.is_ok() {
                self.routes.succeeded(self.route);
            } else {
                // Of blocks that are not whole nothing stays.
                self.plan.uncount(came.saturating_sub(file.bytes_there_of(&piece)));
            }
            let fetched = fetched.map_err(|error| self.blamed(&file, error, came));
            self.end(&file, FileWork::Fetch(piece), fetched);
            return true;
        }
        if self.plan.is_crowded() && self.confirm_next() {
            return true;
        }
        let small = self.plan.next_small(is_small);
        if !small.is_empty() {
            self.begin_small(small);
            return true;
        }
        match self.plan.next_file() {
            Some(file) => {
                self.begin(file);
                self.plan.file_begun();
                true
            }
            None => {
                self.receives_no_more();
                self.confirm_next()
            }
        }
    }

    /// The error as the file's; or as that of one address, or of one NIC, where others may have it.
    pub(super) fn blamed(&self, file: &FileTransfer, error: TransferError, came: u64) -> TransferError {
        let address = self.connection.as_ref().map(HttpConnection::address);
        let other = address
            .filter(|own_address| error.is_of_copy() && Some(own_address.address) != file.remote.address);
        if let Some(own_address) = other.filter(|own_address| own_address.differs()) {
            let address = own_address.address.to_string();
            return TransferError::OtherCopy { url: file.remote.url.to_string(), address };
        }
        let is_of_route = file.remote.has_ranges && self.routes.blames(self.route, &error, came);
        if is_of_route { TransferError::Revoked } else { error }
    }

    /// A small file is fetched whole, a large one is opened for all streams.
    pub(super) fn begin(&mut self, wanted: WantedFile) {
        let mut retries = Retries::new(MOST_TRIES, Duration::ZERO);
        loop {
            let ended = match is_small(&wanted) {
                true => self.fetch_small(&wanted, None),
                false => self.open(&wanted),
            };
            let Err(error) = ended else { return };
            self.connection = None;
            // A connection that breaks is none of the file's; a server that is not there is at once.
            let is_away = matches!(error, TransferError::Unreachable { .. });
            let may_pass = error.may_pass() || matches!(error, TransferError::Differs { .. });
            let wait = retries.failed(may_pass, is_away, error.retry_after());
            if wait.is_none_or(|wait| self.plan.rest(wait)) {
                return self.cannot_begin(wanted, error);
            }
        }
    }

    /// The file fails; where the NIC is to blame, and there are others, a stream of theirs has it later.
    fn cannot_begin(&mut self, wanted: WantedFile, error: TransferError) {
        if !self.routes.blames(self.route, &error, 0) {
            return self.finished.failed(&wanted, error, 0);
        }
        self.plan.put_back(wanted);
        if !self.routes.is_lost(self.route) {
            self.plan.rest(wait_after(self.routes.failures(self.route)));
        }
    }

    /// As [`FinishedFiles::accept_existing`]; its bytes count as come.
    pub(super) fn accept_existing(
        &self,
        wanted: &WantedFile,
        bytes: u64,
        modified: Option<u64>,
    ) -> Result<bool, TransferError> {
        let is_there = self.finished.accept_existing(wanted, (bytes, modified), self.settings.stop)?;
        if is_there {
            self.plan.count_there(bytes);
        }
        Ok(is_there)
    }

    fn open(&mut self, wanted: &WantedFile) -> Result<(), TransferError> {
        let remote = match probe(&mut self.connection, self.settings, &wanted.url)? {
            Remote::File(remote) => remote,
            Remote::Folder(folder) => return Err(TransferError::Folder { url: folder.url.to_string() }),
        };
        self.plan.server.learn(remote.rate_limit);
        if self.accept_existing(wanted, remote.bytes, remote.modified())? {
            return Ok(());
        }
        if remote.bytes <= SMALL_BYTES {
            return self.fetch_small(wanted, Some(remote));
        }
        if self.adopt_same_content(wanted, &remote)?
            && self.accept_existing(wanted, remote.bytes, remote.modified())?
        {
            return Ok(());
        }
        let remote = RemoteFile { has_holes: wanted.has_holes(), ..remote };
        let (file, kept) = FileTransfer::begin(remote, &wanted.destination, self.settings.stop)?;
        let file = Arc::new(file);
        self.plan.add(Arc::clone(&file), wanted.clone(), kept);
        let ended = file.check_end();
        self.conclude(&file, ended, None);
        Ok(())
    }

    /// Work is done, or failed; the last one of a file puts it at its place.
    pub(super) fn end(
        &mut self,
        file: &Arc<FileTransfer>,
        work: FileWork,
        result: Result<(), TransferError>,
    ) {
        let least_wait = result.as_ref().err().map(|error| error.retry_after().unwrap_or_default());
        if let Err(error) = &result {
            tracing::debug!(%error, "a piece did not come");
            self.connection = None;
            if let Some(AskedRun { file, piece, .. }) = self.ahead.take() {
                // It is of the same file, whose end is what follows.
                drop(file.give_back(FileWork::Fetch(piece)));
            }
        }
        let ended = file.done(work, result);
        self.conclude(file, ended, least_wait);
    }

    /// What follows from a file's end, for the one who was the last at it. `least_wait`: the work failed, and its server
    /// wants so much time before the next.
    pub(super) fn conclude(&mut self, file: &Arc<FileTransfer>, ended: Ended, least_wait: Option<Duration>) {
        let failures = file.failures().max(self.routes.failures(self.route));
        match ended {
            Ended::NotYet => {
                if let Some(least) = least_wait {
                    self.plan.rest(wait_after(failures).max(least.min(LONGEST_BUSY_WAIT)));
                }
            }
            Ended::Whole => {
                self.writer = None;
                let unchanged = self.check_unchanged(file);
                let land = |wanted: &WantedFile, begun| match unchanged {
                    Ok(()) => self.finished.land_large(wanted, file, begun, self.settings.stop),
                    Err(error) => self.finished.unfinished(wanted, file, error),
                };
                self.tally.at_disk(|| self.plan.end_file(file, land));
            }
            Ended::Failed(error) => {
                self.writer = None;
                self.plan.end_file(file, |wanted, _| self.finished.unfinished(wanted, file, error));
            }
        }
    }

    fn fetch(
        &mut self,
        file: &Arc<FileTransfer>,
        piece: &BlockRun,
        is_asked: bool,
    ) -> Result<(), TransferError> {
        let (part, lines) = (file.range_of(piece), lines_for(file, piece));
        begin_part(&mut self.connection, self.settings, &file.remote, part, &lines, is_asked)?;
        if !self.writer.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, file)) {
            self.writer = None;
            let writer = BlockWriter::new(file)?;
            self.finished.writes_by(writer.method());
            self.writer = Some((Arc::clone(file), writer));
        }
        if !std::mem::replace(&mut self.receives, true) {
            self.plan.server.windows.stream_started();
        }
        let (plan, next) = (self.plan, &mut self.ahead);
        let (routes, route, url) = (self.routes, self.route, &file.remote.url);
        let last = Cell::new(clock::now());
        let paid = |bytes| {
            plan.server.windows.add_bytes(bytes);
            plan.add_bytes(bytes);
            let now = clock::now();
            routes.add_bytes(route, bytes, now.duration_since(last.replace(now)));
        };
        // Asked for before this one is whole, so that the connection is never without a part that is on its
        // way.
        let ahead = |connection: &mut HttpConnection<'_>, left: u64| {
            if next.is_some() || left > AHEAD_BYTES || !connection.serves_ahead(url) {
                return;
            }
            let Some(piece) = plan.next_of(file, routes.share(route)) else { return };
            let sent = connection.send(&[("GET", url, &lines_for(file, &piece))]);
            *next = Some(AskedRun { file: Arc::clone(file), piece, is_asked: sent.is_ok() });
        };
        let (Some((_, writer)), Some(connection)) = (&mut self.writer, &mut self.connection) else {
            return Err(TransferError::broken(url, io::ErrorKind::NotConnected.into()));
        };
        let received = writer.receive(connection, file, piece, self.tally, paid, ahead);
        if received.is_err() {
            connection.spend();
        }
        received
    }
}
