//! Files that are whole are put at their places, with one `syncfs` for many small ones; and what became of each.

use super::part::PartFile;
use super::plan::WantedFile;
use super::transfer::FileTransfer;
use crate::archived::AttributeFailures;
use crate::blocks::{FileId, HASH};
use crate::client::TransferError;
use crate::http::url::HttpUrl;
use linerate_measure::run::{TransferFile, TransferOutcome};
use linerate_system::private_folder::sync_file_system;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::agent::to_hex;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// So many small files go to the disk together.
const BATCH: usize = 256;

/// A small file that is whole but for its name.
pub(super) struct LandedFile {
    pub(super) wanted: WantedFile,
    pub(super) part: PartFile,
    pub(super) bytes: u64,
    pub(super) modified: Option<u64>,
    /// What its content was compared by as it came.
    pub(super) verified: Option<&'static str>,
    pub(super) begun: Instant,
}

/// What became of the files.
#[derive(Default)]
pub(super) struct FinishedFiles {
    replace: bool,
    /// What is the same stays also where others are replaced.
    pub(super) keeps_same: bool,
    /// What the one file has to be.
    sha256: Option<String>,
    archive: Option<Arc<AttributeFailures>>,
    reports: Mutex<Vec<TransferFile>>,
    errors: Mutex<Vec<TransferError>>,
    small: Mutex<Vec<LandedFile>>,
    again: AtomicU64,
    method: Mutex<Option<String>>,
}

impl FinishedFiles {
    pub(super) fn new(
        replace: bool,
        keeps_same: bool,
        sha256: Option<String>,
        archive: Option<Arc<AttributeFailures>>,
    ) -> Self {
        FinishedFiles { replace, keeps_same, sha256, archive, ..FinishedFiles::default() }
    }

    /// Where the file is at its place already it gets its attributes, and counts as there; an error where another one is.
    pub(super) fn accept_existing(
        &self,
        wanted: &WantedFile,
        (bytes, modified): (u64, Option<u64>),
        stop: &Stop,
    ) -> Result<bool, TransferError> {
        let path = &wanted.destination;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => TransferError::Interrupted,
            _ => TransferError::Destination { path: path.clone(), error },
        };
        let there = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            there => there.map_err(failed)?,
        };
        let takes_place = self.replace && !there.is_dir();
        if takes_place && !self.keeps_same {
            return Ok(false);
        }
        let same = there.is_file() && there.len() == bytes && modified == Some(FileId::new(&there).seconds());
        let right = || match &self.sha256 {
            None => Ok(true),
            Some(wanted) => {
                let own: Sha256 = read_all(&mut File::open(path)?, stop)?;
                Ok(to_hex(&own.finalize()) == *wanted)
            }
        };
        if !same || !right().map_err(failed)? {
            let error = TransferError::AlreadyThere { path: path.clone() };
            return if takes_place { Ok(false) } else { Err(error) };
        }
        if let (Some(archived), Some(failures)) = (&wanted.archived, &self.archive) {
            archived.set_at_place(path, failures);
        }
        self.report(TransferFile {
            bytes,
            kept_bytes: bytes,
            ..report_of(wanted, TransferOutcome::AlreadyThere)
        });
        Ok(true)
    }

    /// Where files should be that did not come: another may be there.
    pub(super) fn failed_places(&self) -> BTreeSet<PathBuf> {
        let reports = lock(&self.reports);
        reports.iter().filter(|file| file.error.is_some()).map(|file| file.path.clone()).collect()
    }

    /// A link was made, or was there.
    pub(super) fn link_made(&self, wanted: &WantedFile, is_new: bool) {
        let outcome = if is_new { TransferOutcome::Fetched } else { TransferOutcome::AlreadyThere };
        self.report(report_of(wanted, outcome));
    }

    /// Its name, and what it has beside its content. That comes last: with another owner it is no part any more that a
    /// later start would go on with.
    fn land(&self, part: &PartFile, wanted: &WantedFile) -> Result<(), TransferError> {
        let (Some(archived), Some(failures)) = (&wanted.archived, &self.archive) else {
            return part.land(self.replace);
        };
        archived.set_at(&part.file, failures);
        part.land_as_it_is(self.replace)
    }

    /// A small file waits for others.
    pub(super) fn add_small(&self, file: LandedFile) {
        let mut small = lock(&self.small);
        small.push(file);
        if small.len() >= BATCH {
            let batch = std::mem::take(&mut *small);
            drop(small);
            self.land_batch(batch);
        }
    }

    /// Those that still wait.
    pub(super) fn finish(&self) {
        let batch = std::mem::take(&mut *lock(&self.small));
        self.land_batch(batch);
    }

    fn land_batch(&self, batch: Vec<LandedFile>) {
        let Some(first) = batch.first() else { return };
        for file in &batch {
            file.part.set_modified(file.modified);
        }
        // All of them are on the disk before any has its name.
        let synced = sync_file_system(&first.part.file);
        let mut folders = BTreeSet::new();
        for file in batch {
            let landed = match &synced {
                Ok(()) => self.check_sha256(&file.part, &file.wanted, &Stop::new()),
                Err(error) => {
                    Err(file.part.failed(io::Error::new(error.kind(), error.to_string()), file.bytes))
                }
            };
            let landed = landed.and_then(|verified| self.land(&file.part, &file.wanted).map(|()| verified));
            match landed {
                Ok(verified) => {
                    folders.insert(file.part.folder().to_path_buf());
                    let verified = [verified, file.verified.map(String::from)];
                    self.report(TransferFile {
                        bytes: file.bytes,
                        seconds: clock::since(file.begun).as_secs_f64(),
                        verified: verified.into_iter().flatten().collect(),
                        ..report_of(&file.wanted, TransferOutcome::Fetched)
                    });
                }
                Err(error) => {
                    file.part.discard();
                    self.failed(&file.wanted, error, 0);
                }
            }
        }
        // The names, too; where that fails they are there all the same, until the power does.
        for folder in folders {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
    }

    /// A large file is whole: compared, on the disk, at its place.
    pub(super) fn land_large(&self, wanted: &WantedFile, file: &FileTransfer, begun: Instant, stop: &Stop) {
        let bytes = file.remote.bytes;
        file.part.set_modified(file.remote.modified());
        let of_store = self.compared_with_store(file, stop);
        let checked = of_store.and_then(|sum| Ok((sum, self.check_sha256(&file.part, wanted, stop)?)));
        let landed = checked.and_then(|verified| {
            file.part.file.sync_all().map_err(|error| file.part.failed(error, bytes))?;
            self.land(&file.part, wanted)?;
            let _ = file.part.sync_folder();
            Ok(verified)
        });
        match landed {
            Ok((of_store, sha256)) => {
                let verified = [file.is_verified().then(|| HASH.into()), of_store.map(String::from), sha256];
                self.report(TransferFile {
                    bytes,
                    kept_bytes: file.kept_bytes(),
                    seconds: clock::since(begun).as_secs_f64(),
                    verified: verified.into_iter().flatten().collect(),
                    ..report_of(wanted, TransferOutcome::Fetched)
                });
            }
            Err(error) => self.unfinished(wanted, file, error),
        }
    }

    /// By which sum of an object store the whole was compared, where it has one.
    fn compared_with_store(
        &self,
        file: &FileTransfer,
        stop: &Stop,
    ) -> Result<Option<&'static str>, TransferError> {
        let url = &file.remote.url;
        if let Some(sums) = &file.object_sums {
            return sums.compared(|block| file.block_length(block), url).map(Some);
        }
        // It goes from the first byte to the last: the file is read again.
        let Some(md5) = &file.remote.md5 else { return Ok(None) };
        digest_of::<Md5>(&file.part, stop).and_then(|own| md5.compared(own, url)).map(Some)
    }

    /// Compares the SHA-256 that the user gave; returns its name where there was one.
    fn check_sha256(
        &self,
        part: &PartFile,
        wanted: &WantedFile,
        stop: &Stop,
    ) -> Result<Option<String>, TransferError> {
        let Some(sum) = &self.sha256 else { return Ok(None) };
        match to_hex(&digest_of::<Sha256>(part, stop)?.finalize()) {
            own if own == *sum => Ok(Some("sha256".into())),
            found => Err(TransferError::Sha256 { url: wanted.url.to_string(), found, wanted: sum.clone() }),
        }
    }

    /// A file did not come to its end; what came stays where another start can go on with it.
    pub(super) fn unfinished(&self, wanted: &WantedFile, file: &FileTransfer, error: TransferError) {
        if error.spoils_part() || !file.can_go_on() {
            file.part.discard();
            return self.failed(wanted, error, 0);
        }
        self.failed(wanted, error, file.bytes_there());
    }

    /// Nothing is at the place; `there` bytes are beside it.
    pub(super) fn failed(&self, wanted: &WantedFile, error: TransferError, there: u64) {
        let outcome = if there > 0 { TransferOutcome::Unfinished } else { TransferOutcome::Failed };
        self.report(TransferFile {
            bytes: there,
            error: Some(error.to_string()),
            ..report_of(wanted, outcome)
        });
        lock(&self.errors).push(error);
    }

    fn report(&self, file: TransferFile) {
        // Whatever a file was compared by covers all of it.
        let is_compared = file.outcome != TransferOutcome::Fetched || !file.verified.is_empty();
        let kept_not_compared_bytes = if is_compared { 0 } else { file.kept_bytes };
        lock(&self.reports).push(TransferFile { kept_not_compared_bytes, ..file });
    }

    /// So much of what came differs, and has to come again.
    pub(super) fn came_again(&self, url: &HttpUrl, bytes: u64) {
        tracing::warn!(%url, bytes, "bytes differ from the server's and come again");
        self.again.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn writes_by(&self, method: &str) {
        lock(&self.method).get_or_insert_with(|| method.into());
    }

    /// All reports, all errors, bytes that came again, and what wrote.
    pub(super) fn take_results(&self) -> (Vec<TransferFile>, Vec<TransferError>, u64, String) {
        let reports = std::mem::take(&mut *lock(&self.reports));
        let errors = std::mem::take(&mut *lock(&self.errors));
        let method = lock(&self.method).clone().unwrap_or_else(|| "pwrite".into());
        (reports, errors, self.again.load(Ordering::Relaxed), method)
    }
}

fn report_of(wanted: &WantedFile, outcome: TransferOutcome) -> TransferFile {
    TransferFile::new(wanted.url.to_string(), wanted.destination.clone(), outcome)
}

/// Of all of a part.
fn digest_of<D: Digest>(part: &PartFile, stop: &Stop) -> Result<D, TransferError> {
    let mut file: &File = &part.file;
    file.seek(SeekFrom::Start(0)).and_then(|_| read_all(&mut file, stop)).map_err(|error| {
        match error.kind() {
            io::ErrorKind::Interrupted => TransferError::Interrupted,
            _ => part.failed(error, 0),
        }
    })
}

fn read_all<D: Digest>(file: &mut impl Read, stop: &Stop) -> io::Result<D> {
    let mut digest = D::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest),
            read => digest.update(&buffer[..read]),
        }
        if stop.is_ended() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
        }
    }
}
