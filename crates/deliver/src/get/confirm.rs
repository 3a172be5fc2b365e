//! What is left to do once the bytes are there. What came is compared with the server's: the sums of its blocks, and at the
//! end whether it still has the same file. So is a local file that may have the server's content already.
//!
//! A copy then makes links, further names of files, and last what folders have, the deepest
//! first. Below the folder of the copy and nowhere else, by openat2, and through no link.

use super::finished_files::FinishedFiles;
use super::journal::still_there;
use super::part::part_path;
use super::plan::WantedFile;
use super::remote::{Remote, RemoteFile, probe};
use super::stream::{GetStream, MOST_TRIES, POLL_INTERVAL};
use super::transfer::{FileTransfer, FileWork};
use crate::archived::{Archived, AttributeFailures, MODE, OWNER, TIME};
use crate::blocks::{BlockList, BlockRequest, BlockRun, block_bytes_of, most_sums};
use crate::client::ask::{ask_when_free, length, refuse};
use crate::client::{HttpConnection, TransferError};
use crate::patience::Retries;
use linerate_system::attributes::set_link_time;
use linerate_system::beneath::ConfinedFolder;
use linerate_system::private_folder::sync_file_system;
use linerate_system::user::is_root;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A folder that is still written to.
const OWN_FOLDER_MODE: u32 = 0o700;

impl GetStream<'_> {
    /// Compares sums beside the streams, over a connection of its own, so that none of them waits for the
    /// server to read its blocks. Where the server has no connection for it the streams do that, too, once
    /// they have time.
    pub(super) fn run_confirming(&mut self) {
        while !self.settings.stop.is_ended() && !self.plan.is_over() {
            let Some((_turn, file, piece)) = self.plan.next_confirm() else {
                self.plan.rest(POLL_INTERVAL);
                continue;
            };
            self.leave_lost_route();
            if self.connection.is_none() {
                match HttpConnection::open(self.settings, &file.remote.url) {
                    Ok(open) => self.connection = Some(open),
                    Err(error) => {
                        tracing::debug!(%error, "no connection for the sums alone");
                        let ended = file.give_back(FileWork::Confirm(piece));
                        return self.conclude(&file, ended, None);
                    }
                }
            }
            let first = self.confirm(&file, &piece);
            if matches!(first, Err(TransferError::Overloaded { .. } | TransferError::Broken { .. })) {
                let ended = file.give_back(FileWork::Confirm(piece));
                return self.conclude(&file, ended, None);
            }
            let first = first.map_err(|error| self.blamed(&file, error, 0));
            self.end(&file, FileWork::Confirm(piece), first);
        }
    }

    pub(super) fn confirm_next(&mut self) -> bool {
        let Some((_turn, file, piece)) = self.plan.next_confirm() else { return false };
        let confirmed = self.confirm(&file, &piece);
        let confirmed = confirmed.map_err(|error| self.blamed(&file, error, 0));
        self.end(&file, FileWork::Confirm(piece), confirmed);
        true
    }

    /// Asks for the server's sums of these blocks, and compares.
    fn confirm(&mut self, file: &FileTransfer, piece: &BlockRun) -> Result<(), TransferError> {
        let mut first = piece.start;
        while first < piece.end {
            let count = (piece.end - first).min(most_sums(file.block_bytes));
            let asked = BlockRequest { block_bytes: file.block_bytes, first, count };
            let again_bytes = file.compare(first, &self.sums(&file.remote, asked)?)?;
            if again_bytes > 0 {
                self.finished.came_again(&file.remote.url, again_bytes);
                self.plan.uncount(again_bytes);
            }
            first += count;
        }
        Ok(())
    }

    /// The server's sums of these blocks.
    fn sums(&mut self, remote: &RemoteFile, request: BlockRequest) -> Result<Vec<u64>, TransferError> {
        let url = &remote.url;
        let sums_url = url.with_target(&format!("{}?{}", url.path(), request.query()));
        let tag = remote.entity_tag.as_deref();
        let lines = tag.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
        let head = ask_when_free(&mut self.connection, self.settings, "GET", &sums_url, &lines)?;
        refuse(&head, &sums_url)?;
        let bytes = length(&head, &sums_url)?;
        let no_length = || TransferError::NoLength { url: sums_url.to_string() };
        let body = self.connection.as_mut().ok_or_else(no_length)?.read_text(Some(bytes), &sums_url)?;
        BlockList::parse(&body, request).map_err(|why| TransferError::Blocks { url: url.to_string(), why })
    }

    /// If the local file has the server's content (compared by block sums), only its modification time is set; the
    /// request size doubles, so a difference is found early.
    pub(super) fn has_same_content(
        &mut self,
        wanted: &WantedFile,
        remote: &RemoteFile,
    ) -> Result<bool, TransferError> {
        let place = &wanted.destination;
        let is_as_long = |here: std::fs::Metadata| here.is_file() && here.len() == remote.bytes;
        let may_be = self.finished.keeps_same && remote.has_sums;
        if !may_be || !std::fs::symlink_metadata(place).is_ok_and(is_as_long) {
            return Ok(false);
        }
        let Some((modified, here)) = remote.modified().zip(File::open(place).ok()) else { return Ok(false) };
        let block_bytes = block_bytes_of(remote.bytes);
        let (mut first, mut most, blocks) = (0, 1, remote.bytes.div_ceil(block_bytes));
        while first < blocks {
            let asked = BlockRequest { block_bytes, first, count: most.min(blocks - first) };
            let of_server: BTreeMap<u64, u64> = (first..).zip(self.sums(remote, asked)?).collect();
            let (lengths, stop) = ((block_bytes, remote.bytes), self.settings.stop);
            let own = self.tally.at_disk(|| still_there(&here, &of_server, lengths, None, stop));
            self.settings.check_stop()?;
            if own.map_or(0, |own| own.len() as u64) < asked.count {
                return Ok(false);
            }
            first += asked.count;
            most = (2 * most).min(most_sums(block_bytes));
        }
        Ok(here.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified)).is_ok())
    }

    /// The server has the same file at the end as at the beginning.
    pub(super) fn check_unchanged(&mut self, file: &FileTransfer) -> Result<(), TransferError> {
        self.leave_lost_route();
        let (remote, mut retries) = (&file.remote, Retries::new(MOST_TRIES, Duration::ZERO));
        loop {
            let error = match probe(&mut self.connection, self.settings, &remote.url) {
                Ok(Remote::File(now)) if now.is_same(remote) => return Ok(()),
                Ok(_) => self.blamed(file, TransferError::Changed { url: remote.url.to_string() }, 0),
                Err(error) => error,
            };
            tracing::debug!(%error, "the server did not confirm that the file is unchanged");
            self.connection = None;
            let wait = retries.failed(error.may_pass(), false, error.retry_after());
            if wait.is_none_or(|wait| self.plan.rest(wait)) {
                return Err(error);
            }
        }
    }
}

/// Links and folders of a copy.
#[derive(Default)]
pub(crate) struct ArchivedNames {
    folders: Vec<(PathBuf, Archived)>,
    pub(super) links: Vec<(WantedFile, LinkTo)>,
    /// The first name of each file that has several.
    first_names: BTreeMap<[u64; 2], PathBuf>,
}

/// What a name is made of that has no content of its own.
pub(crate) enum LinkTo {
    Target(OsString),
    /// Another name of this file.
    File(PathBuf),
}

impl ArchivedNames {
    pub(super) fn folder(&mut self, place: &Path, archived: Option<Archived>) {
        self.folders.extend(archived.map(|archived| (place.to_path_buf(), archived)));
    }

    /// A file to be fetched is given back, unless it is one more name of another.
    pub(super) fn file(&mut self, wanted: WantedFile) -> Option<WantedFile> {
        let Some(inode) = wanted.archived.as_ref().and_then(|archived| archived.inode) else {
            return Some(wanted);
        };
        if let Some(first) = self.first_names.get(&inode) {
            let first = LinkTo::File(first.clone());
            self.links.push((wanted, first));
            return None;
        }
        self.first_names.insert(inode, wanted.destination.clone());
        Some(wanted)
    }

    /// Makes a folder of the copy, which nobody else may look into before it has its mode; one that is there may be
    /// written to until then.
    pub(super) fn make_folder(output: &Path, folder: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(OWN_FOLDER_MODE).create(folder)?;
        let mode = std::fs::symlink_metadata(folder)?.mode();
        if mode & OWN_FOLDER_MODE != OWN_FOLDER_MODE {
            let mode = Permissions::from_mode(mode & 0o7777 | OWN_FOLDER_MODE);
            // Where it may not be changed, it is as it was.
            let _ = folder_below(output, folder).and_then(|folder| folder.set_permissions(mode));
        }
        Ok(())
    }

    /// Makes the links, then gives the folders what they have.
    pub(super) fn finish(
        mut self,
        output: &Path,
        replace: bool,
        finished: &FinishedFiles,
        failures: &AttributeFailures,
    ) {
        let output = if output.as_os_str().is_empty() { Path::new(".") } else { output };
        for (wanted, link) in &self.links {
            match make_links(output, wanted, link, replace, failures) {
                Ok(is_new) => finished.link_made(wanted, is_new),
                Err(error) => {
                    let path = wanted.destination.clone();
                    let error = match error.kind() {
                        io::ErrorKind::AlreadyExists => TransferError::AlreadyThere { path },
                        _ => TransferError::Destination { path, error },
                    };
                    finished.failed(wanted, error, 0);
                }
            }
        }
        self.folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.components().count()));
        for (folder, archived) in &self.folders {
            match folder_below(output, folder) {
                Ok(opened) => archived.set_at(&opened, failures),
                Err(error) => failures.add(MODE, &error),
            }
        }
        // The names and the modes, too; where that fails they are there all the same, until the power does.
        let _ = File::open(output).and_then(|folder| sync_file_system(&folder));
    }
}

/// A folder of the copy, open.
fn folder_below(output: &Path, folder: &Path) -> io::Result<File> {
    let path = folder.strip_prefix(output).unwrap_or(folder);
    File::open(ConfinedFolder::open(output)?.folder(path)?.entry_path(OsStr::new(".")))
}

/// Makes one name; false where it was there.
fn make_links(
    output: &Path,
    wanted: &WantedFile,
    link: &LinkTo,
    replace: bool,
    failures: &AttributeFailures,
) -> io::Result<bool> {
    let top = ConfinedFolder::open(output)?;
    let in_folder = |path: &Path| {
        let path = path.strip_prefix(output).unwrap_or(path);
        let folder = top.folder(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
        Ok::<_, io::Error>((folder, name))
    };
    let (folder, name) = in_folder(&wanted.destination)?;
    let place = folder.entry_path(&name);
    let first = match link {
        LinkTo::File(first) => Some(in_folder(first)?),
        LinkTo::Target(_) => None,
    };
    let first = first.as_ref().map(|(folder, name)| folder.entry_path(name));
    let there = std::fs::symlink_metadata(&place).ok();
    let is_made = there.as_ref().is_some_and(|there| match (link, &first) {
        (LinkTo::Target(target), _) => std::fs::read_link(&place).is_ok_and(|own| own == *target),
        (_, Some(first)) => std::fs::symlink_metadata(first)
            .is_ok_and(|first| (first.dev(), first.ino()) == (there.dev(), there.ino())),
        _ => false,
    });
    if !is_made {
        let takes_place = replace && there.as_ref().is_some_and(|there| !there.is_dir());
        let side = folder.entry_path(part_path(Path::new(&name)).as_os_str());
        let new_name = if takes_place { &side } else { &place };
        if takes_place {
            let _ = std::fs::remove_file(&side);
        }
        match (link, &first) {
            (LinkTo::Target(target), _) => symlink(target, new_name)?,
            (_, Some(first)) => std::fs::hard_link(first, new_name)?,
            _ => {}
        }
        if takes_place {
            std::fs::rename(&side, &place)?;
        }
    }
    if let (LinkTo::Target(_), Some(archived)) = (link, &wanted.archived) {
        if is_root() {
            let [user, group] = archived.owner;
            failures.add_of(OWNER, lchown(&place, Some(user), Some(group)));
        }
        let timed = set_link_time(&place, archived.seconds, archived.nanos);
        failures.add_of(TIME, timed);
    }
    Ok(!is_made)
}
