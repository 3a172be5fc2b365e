//! The names of a copy that have no content: links, further names of files, and last the attributes of folders, the deepest
//! first. All below the copy's folder, by openat2, through no link.

use super::finished_files::FinishedFiles;
use super::part::part_path;
use super::plan::WantedFile;
use crate::archived::{Archived, AttributeFailures, MODE, OWNER, TIME};
use crate::client::TransferError;
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

/// A folder that is still written to.
const OWN_FOLDER_MODE: u32 = 0o700;

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
        let failed = finished.failed_places();
        for (wanted, link) in &self.links {
            let made = match link {
                // What has the first name is not this file.
                LinkTo::File(first) if failed.contains(first) => Err(io::Error::other(format!(
                    "{}, of which it is another name, did not come",
                    first.display()
                ))),
                _ => make_name(output, wanted, link, replace, failures),
            };
            match made {
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
fn make_name(
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
    let first = if let LinkTo::File(first) = link { Some(in_folder(first)?) } else { None };
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
