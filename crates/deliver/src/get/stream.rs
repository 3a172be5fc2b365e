//! What one stream does: it takes pieces of the files that are on their way, or begins the next file.

use super::client::{ClientSettings, HttpConnection};
use super::copies::FileCopy;
use super::dealing::PieceWatch;
use super::error::GetError;
use super::landed::Landings;
use super::mirrors::compare_listed;
use super::pieces::Piece;
use super::plan::{GetPlan, WantedFile};
pub(super) use super::remote::LOOK;
use super::remote::{Remote, RemoteFile, ask_again, connected, length, probe, refuse_answer};
use super::transfer::{Ended, FileTransfer, Work};
use super::ways::Ways;
use super::writer::BlockWriter;
use crate::http::ranges::{ByteRange, parse_content_range};
use crate::stream_tally::StreamTally;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A file of at most so many bytes comes in one answer, into memory.
pub(super) const SMALL_BYTES: u64 = 1 << 20;
/// The next piece is asked for when so much of this one is still to come: more than a socket's buffers hold.
const AHEAD_BYTES: u64 = 16 << 20;
/// The first wait after a failure; each further one is twice as long.
const WAIT: Duration = Duration::from_millis(100);

/// One stream.
pub(super) struct GetStream<'a> {
    pub(super) plan: &'a GetPlan<'a>,
    pub(super) ways: &'a Ways<'a>,
    /// The one that it uses, and its settings.
    pub(super) way: usize,
    pub(super) settings: &'a ClientSettings<'a>,
    pub(super) landings: &'a Landings,
    pub(super) tally: &'a StreamTally,
    pub(super) connection: Option<HttpConnection<'a>>,
    /// To a server that is asked for what is no part of a file, where that is not the one of its way.
    pub(super) aside: Option<HttpConnection<'a>>,
    pub(super) writer: Option<(Arc<FileTransfer>, BlockWriter)>,
    /// The piece after the one at hand.
    pub(super) ahead: Option<AskedPiece>,
}

/// A piece that this stream fetches next.
pub(super) struct AskedPiece {
    file: Arc<FileTransfer>,
    piece: Piece,
    /// Its request is on the way, over the connection that there is.
    is_asked: bool,
}

/// The folder's list has its length, and it is one.
pub(super) fn is_small(wanted: &WantedFile) -> bool {
    wanted.bytes.is_some_and(|bytes| bytes <= SMALL_BYTES)
}

/// The header lines of a request for a piece.
fn lines_for(file: &FileTransfer, remote: &RemoteFile, piece: &Piece) -> String {
    let (from, bytes) = file.bytes_of(piece);
    let mut lines = String::new();
    if remote.has_ranges {
        lines = format!("Range: bytes={from}-{}\r\n", from + bytes - 1);
        lines.push_str(&remote.condition().unwrap_or_default());
    }
    if remote.has_sums {
        lines.push_str(&format!("Linerate-Block-Bytes: {}\r\n", file.block_bytes));
    }
    lines
}

impl GetStream<'_> {
    /// Until nothing is left to do; the way that it has then.
    pub(super) fn run(&mut self) -> usize {
        while !self.settings.stop.load(Ordering::Relaxed) {
            if self.ways.is_lost(self.way) {
                self.change_way();
            }
            let tally = self.tally;
            if !tally.at_work(|| self.step()) {
                if self.plan.is_over() {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        self.way
    }

    /// Another way has it from now on.
    fn change_way(&mut self) {
        self.connection = None;
        if let Some(AskedPiece { file, piece, .. }) = self.ahead.take() {
            let ended = file.give_back(Work::Fetch(piece));
            self.conclude(&file, ended, false);
        }
        self.way = self.ways.instead_of(self.way);
        self.settings = self.ways.settings(self.way);
    }

    /// The next thing that is to be done, if there is any now.
    fn step(&mut self) -> bool {
        let deal = self.ways.deal(self.way);
        if self.ahead.is_none() && self.compare_next(deal.server) {
            return true;
        }
        let next = self.ahead.take().or_else(|| {
            let (file, piece) = self.plan.next_fetch(&deal)?;
            Some(AskedPiece { file, piece, is_asked: false })
        });
        if let Some(AskedPiece { file, piece, is_asked }) = next {
            let before = self.tally.moved();
            let fetched = self.fetch(&file, &piece, is_asked);
            let came = self.tally.moved() - before;
            if fetched.is_ok() {
                self.ways.succeeded(self.way);
            } else {
                // Of blocks that are not whole nothing stays.
                self.plan.comes_again(came.saturating_sub(file.bytes_there_of(&piece)));
            }
            let fetched = fetched.map_err(|error| self.blamed(&file, error, self.way, came));
            self.end(&file, Work::Fetch(piece), fetched);
            return true;
        }
        if self.plan.is_crowded() && self.confirm_next() {
            return true;
        }
        let small = self.plan.next_small(is_small, deal.server);
        if !small.is_empty() {
            self.begin_small(small);
            return true;
        }
        match self.plan.next_file(deal.server) {
            Some(file) => {
                self.begin(file);
                self.plan.begun();
                true
            }
            None => {
                self.confirm_next() || self.end_unservable() || {
                    // What was taken is given out again once the stream that was at it has seen that.
                    self.plan.revoke_late(&deal);
                    false
                }
            }
        }
    }

    /// A small file is fetched whole, a large one is opened for all streams.
    pub(super) fn begin(&mut self, wanted: WantedFile) {
        let mut failures = 0;
        loop {
            let begun = match is_small(&wanted) {
                true => self.fetch_small(&wanted, None),
                false => self.open(&wanted),
            };
            match begun {
                Ok(()) => return,
                Err(error) => {
                    self.drop_connections();
                    failures += 1;
                    // A connection that breaks is none of the file's; a server that is not there is at once.
                    let again =
                        error.may_pass() && !matches!(error, GetError::Unreachable { .. }) && failures < 4;
                    if !again || self.wait(failures) {
                        self.cannot_begin(wanted, error);
                        return;
                    }
                }
            }
        }
    }

    /// The file fails; where a server or a NIC is to blame, and there are others, one of theirs has it later.
    fn cannot_begin(&mut self, mut wanted: WantedFile, error: GetError) {
        let way = if is_small(&wanted) { Some(self.way) } else { self.way_to_reference(&wanted) };
        let way = way.unwrap_or(self.way);
        let has_it = |server| !wanted.left_out.contains(&server);
        let (server, found_at) = (self.ways.server_of(way), self.plan.locations.found_at());
        if self.ways.blames(way, (&error, 0), found_at, has_it) {
            self.plan.put_back(wanted);
            if !self.ways.is_lost(way) {
                self.wait(self.ways.failures(way));
            }
        } else if server != found_at && !error.is_of_this_host() {
            wanted.left_out.push(server);
            self.plan.put_back(wanted);
            self.ways.refused(server, &error, self.plan.files);
        } else {
            self.landings.failed(&wanted, error, 0);
        }
    }

    /// Whether it is over meanwhile.
    pub(super) fn wait(&self, failures: u32) -> bool {
        let until = Instant::now() + WAIT * 2u32.saturating_pow(failures.saturating_sub(1).min(5));
        while Instant::now() < until && !self.settings.stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        self.settings.stop.load(Ordering::Relaxed)
    }

    /// To the server that says what a large file is: the first one that lives, and may be asked for it.
    fn way_to_reference(&self, wanted: &WantedFile) -> Option<usize> {
        let server = self.ways.first_server(|server| !wanted.left_out.contains(&server))?;
        self.ways.way_to(server, self.way)
    }

    /// The file is at its place already, and counts as come.
    pub(super) fn is_there(
        &self,
        wanted: &WantedFile,
        bytes: u64,
        modified: Option<u64>,
    ) -> Result<bool, GetError> {
        let is_there = self.landings.is_there(wanted, bytes, modified)?;
        if is_there {
            self.plan.was_there(bytes);
        }
        Ok(is_there)
    }

    /// So much of what came differs, and has to come again.
    pub(super) fn comes_again(&self, bytes: u64) {
        self.landings.came_again(bytes);
        self.plan.comes_again(bytes);
    }

    /// After an error nobody can say what comes next on them.
    pub(super) fn drop_connections(&mut self) {
        (self.connection, self.aside) = (None, None);
    }

    fn open(&mut self, wanted: &WantedFile) -> Result<(), GetError> {
        let way = self.way_to_reference(wanted).unwrap_or(self.way);
        let reference = self.ways.server_of(way);
        let copies: Vec<FileCopy> = (0..self.ways.servers())
            .map(|server| FileCopy::new(self.plan.locations.url_of(wanted, server)))
            .collect();
        let (connection, settings) = self.asking(way);
        let remote = match probe(connection, settings, &copies[reference].url)? {
            Remote::File(remote) => remote,
            Remote::Folder(url) => return Err(GetError::Folder { url: url.to_string() }),
        };
        if reference != self.plan.locations.found_at() {
            compare_listed(wanted, &remote, self.landings.has_sha256())?;
        }
        if self.is_there(wanted, remote.bytes, remote.modified())? {
            return Ok(());
        }
        if remote.bytes <= SMALL_BYTES {
            return self.fetch_small(wanted, Some(remote));
        }
        let copies = (copies, reference);
        let (file, kept) = FileTransfer::begin(remote, copies, &wanted.destination, self.settings.stop)?;
        let file = Arc::new(file);
        self.plan.add(Arc::clone(&file), wanted.clone(), kept);
        let ended = file.begun();
        self.conclude(&file, ended, false);
        Ok(())
    }

    /// Work is done, or failed; the last one of a file puts it at its place.
    pub(super) fn end(&mut self, file: &Arc<FileTransfer>, work: Work, result: Result<(), GetError>) {
        let failed = result.is_err();
        if let Err(error) = &result {
            tracing::debug!(%error, "a piece did not come");
            self.drop_connections();
            if let Some(AskedPiece { file, piece, .. }) = self.ahead.take() {
                // It is of the same file, whose end is what follows.
                drop(file.give_back(Work::Fetch(piece)));
            }
        }
        let ended = file.done(work, result);
        self.conclude(file, ended, failed);
    }

    /// What follows from a file's end, for the one who was the last at it.
    pub(super) fn conclude(&mut self, file: &Arc<FileTransfer>, ended: Ended, failed: bool) {
        let failures = file.failures().max(self.ways.failures(self.way));
        match ended {
            Ended::NotYet if failed => drop(self.wait(failures)),
            Ended::NotYet => {}
            Ended::Whole if self.voids_changed(file) => {}
            Ended::Whole => {
                self.writer = None;
                let unchanged = self.is_unchanged(file);
                let land = |wanted: &WantedFile, begun| match unchanged {
                    Ok(()) => self.landings.large(wanted, file, begun, self.settings.stop),
                    Err(error) => self.landings.lost(wanted, file, error),
                };
                self.tally.at_disk(|| self.plan.ended(file, land));
            }
            Ended::Failed(error) => {
                self.writer = None;
                self.plan.ended(file, |wanted, _| self.landings.lost(wanted, file, error));
            }
        }
    }

    fn fetch(&mut self, file: &Arc<FileTransfer>, piece: &Piece, is_asked: bool) -> Result<(), GetError> {
        let watch = file.watch(piece);
        let fetched = self.fetch_watched(file, piece, is_asked, &watch);
        file.unwatch(&watch);
        self.connection.iter_mut().for_each(|connection| connection.ends_with(None));
        if matches!(fetched, Err(GetError::Revoked)) && watch.revoked.load(Ordering::Relaxed) {
            self.ways.was_late(self.way, watch.rate());
        }
        fetched
    }

    fn fetch_watched(
        &mut self,
        file: &Arc<FileTransfer>,
        piece: &Piece,
        is_asked: bool,
        watch: &PieceWatch,
    ) -> Result<(), GetError> {
        let (from, bytes) = file.bytes_of(piece);
        let remote = self.compared_copy(file)?;
        let url = &remote.url;
        let ends = Some(&watch.revoked);
        if !is_asked {
            connected(&mut self.connection, self.settings, url)?;
        }
        self.connection.iter_mut().for_each(|connection| connection.ends_with(ends));
        let asked = match self.connection.as_mut().filter(|_| is_asked) {
            // A server may close a connection that it kept, also between two answers.
            Some(connection) => match connection.answer(url) {
                Err(GetError::Broken { .. }) => {
                    self.connection = None;
                    None
                }
                answered => Some(answered?),
            },
            None => None,
        };
        let head = match asked {
            Some(head) => head,
            None => {
                let lines = lines_for(file, remote, piece);
                ask_again(&mut self.connection, self.settings, "GET", url, &lines)?
            }
        };
        self.connection.iter_mut().for_each(|connection| connection.ends_with(ends));
        refuse_answer(&mut self.connection, self.settings, &head, url)?;
        let own_length = length(&head, url)?;
        if let Some(connection) = self.connection.as_mut().filter(|_| own_length != bytes) {
            connection.spend();
        }
        let now = RemoteFile::new(url, &head, remote.bytes);
        // Not every server repeats them with a part.
        let other = |now: &Option<String>, then: &Option<String>| now.is_some() && now != then;
        let is_other =
            other(&now.entity_tag, &remote.entity_tag) || other(&now.last_modified, &remote.last_modified);
        if is_other || remote.has_ranges && head.status == 200 {
            return Err(GetError::Changed { url: url.to_string() });
        }
        let part = head.headers.text("content-range").and_then(parse_content_range);
        let wanted = ByteRange { first: from, last: from + bytes - 1 };
        let is_part = match part {
            Some((range, whole)) => range == wanted && whole.is_none_or(|whole| whole == remote.bytes),
            None => !remote.has_ranges && head.status == 200,
        };
        if !is_part || own_length != bytes {
            return Err(GetError::OtherPart { url: url.to_string() });
        }
        self.receive(file, remote, piece, watch)
    }

    fn receive(
        &mut self,
        file: &Arc<FileTransfer>,
        remote: &RemoteFile,
        piece: &Piece,
        watch: &PieceWatch,
    ) -> Result<(), GetError> {
        if !self.writer.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, file)) {
            self.writer = None;
            let writer = BlockWriter::new(file)?;
            self.landings.writes_by(writer.method());
            self.writer = Some((Arc::clone(file), writer));
        }
        let (plan, next) = (self.plan, &mut self.ahead);
        let (ways, way) = (self.ways, self.way);
        let last = Cell::new(Instant::now());
        let paid = |bytes| {
            watch.came(bytes);
            plan.came(bytes);
            let now = Instant::now();
            ways.came(way, bytes, now.duration_since(last.replace(now)));
        };
        // Asked for before this one is whole, so that the connection is never without a part that is on its
        // way.
        let ahead = |connection: &mut HttpConnection<'_>, left: u64| {
            if next.is_some() || left > AHEAD_BYTES || !connection.serves_ahead(&remote.url) {
                return;
            }
            let Some(piece) = plan.next_of(file, &ways.deal(way)) else { return };
            let sent = connection.send(&[("GET", &remote.url, &lines_for(file, remote, &piece))]);
            *next = Some(AskedPiece { file: Arc::clone(file), piece, is_asked: sent.is_ok() });
        };
        let (Some((_, writer)), Some(connection)) = (&mut self.writer, &mut self.connection) else {
            let error = io::ErrorKind::NotConnected.into();
            return Err(GetError::Broken { url: remote.url.to_string(), error });
        };
        let piece = (piece, ways.server_of(way));
        let received = writer.receive(connection, file, piece, self.tally, paid, ahead);
        if received.is_err() {
            connection.spend();
        }
        received
    }
}
