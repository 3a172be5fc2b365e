//! What the user named as a source, looked at once: what it is, what stands behind it, and whether it may be
//! written.

use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::source::devices_behind;
use linerate_machine::probe::{DiskKind, Machine};
use linerate_system::file::size_of;
use linerate_system::storage::{Opening, open, reopen};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Sector where none is told: direct I/O in multiples of it works everywhere.
const USUAL_SECTOR_BYTES: u64 = 4096;

/// What the user allows.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// Files and block devices, by path or name, whose content may be destroyed.
    pub destroy_data: Vec<String>,
    /// Files that linerate makes have a name and stay.
    pub keep: bool,
    /// Files that are not written by then stay as short as they are; none: however long it takes.
    pub shorten_after: Option<Duration>,
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Files are made in it.
    Directory,
    /// A file or a block device of so many bytes.
    File(u64),
    Device(u64),
}

/// One source.
#[derive(Debug)]
pub(crate) struct AccessTarget {
    pub path: PathBuf,
    pub kind: SourceKind,
    /// Disks at the bottom, by kernel name; empty where there are none to be seen.
    pub leaves: Vec<String>,
    /// Direct I/O is a multiple of it, bytes.
    pub sector_bytes: u64,
    /// Number of the file system that holds it.
    pub file_system: u64,
    /// Held so that nobody mounts it while it is written.
    alone: Option<File>,
}

impl AccessTarget {
    /// Looks at a path.
    pub(crate) fn look(sysroot: &Sysroot, machine: &Machine, path: &Path) -> Result<Self, Failure> {
        let lacks = |why: String| Failure::Lacks(format!("source {}: {why}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => lacks("not there; check the path".into()),
            _ => lacks(format!("{error}; check the path")),
        })?;
        let behind = devices_behind(sysroot, machine, path);
        let behind = behind.known();
        let sector = behind.and_then(|behind| behind.logical_block_bytes.known().copied());
        let file_type = metadata.file_type();
        let length = || {
            let file = open(path, Opening::default()).map_err(|error| lacks(not_opened(&error)))?;
            size_of(&file).map_err(|error| lacks(format!("its size cannot be read: {error}; name another")))
        };
        let kind = match () {
            () if file_type.is_dir() => SourceKind::Directory,
            () if file_type.is_file() => SourceKind::File(length()?),
            () if file_type.is_block_device() => SourceKind::Device(length()?),
            () => return Err(lacks("neither a directory, a file nor a block device; name one".into())),
        };
        if matches!(kind, SourceKind::File(0) | SourceKind::Device(0)) {
            return Err(lacks(
                "empty: there is nothing to read; name a directory, and linerate makes a file".into(),
            ));
        }
        Ok(AccessTarget {
            path: path.to_path_buf(),
            kind,
            leaves: behind.map(|behind| behind.leaves.clone()).unwrap_or_default(),
            sector_bytes: u64::from(sector.unwrap_or(0)).max(if sector.is_some() {
                1
            } else {
                USUAL_SECTOR_BYTES
            }),
            file_system: metadata.dev(),
            alone: None,
        })
    }

    /// The resource that stands behind it: its disk, else its path.
    pub(crate) fn resource(&self) -> String {
        match &self.leaves[..] {
            [leaf] => format!("disk:{leaf}"),
            [] => format!("disk:{}", self.path.display()),
            several => format!("disk:{}", several.join("+")),
        }
    }

    /// Refuses to write what is not ours, unless its loss was named; holds a device alone.
    pub(crate) fn allow_writes(
        &mut self,
        sysroot: &Sysroot,
        machine: &Machine,
        permissions: &Permissions,
    ) -> Result<(), Failure> {
        let shown = self.path.display();
        if self.kind == SourceKind::Directory || self.alone.is_some() {
            return Ok(());
        }
        if !permissions.destroy_data.iter().any(|name| self.is_called(name)) {
            let what = if matches!(self.kind, SourceKind::File(_)) {
                "a file that is there"
            } else {
                "a block device"
            };
            return Err(Failure::Usage(format!(
                "source {shown} is {what}: writing destroys what it holds; name a directory instead, or say \
                 --destroy-data {shown} if that is meant"
            )));
        }
        if matches!(self.kind, SourceKind::Device(_)) {
            if let Some(use_of_it) = used_by(sysroot, machine, &self.path) {
                return Err(Failure::Lacks(format!(
                    "source {shown}: {use_of_it}; linerate writes no device that is in use, whatever \
                     --destroy-data says"
                )));
            }
            let how = Opening { write: true, alone: true, ..Opening::default() };
            let held = open(&self.path, how).map_err(|error| {
                let why = match error.kind() {
                    ErrorKind::ResourceBusy => {
                        "in use (mounted, swap, or part of an array); linerate writes \
                                                no device that is in use"
                            .into()
                    }
                    ErrorKind::ReadOnlyFilesystem => "the device is read-only".into(),
                    _ => not_opened(&error),
                };
                Failure::Lacks(format!("source {shown}: {why}"))
            })?;
            self.alone = Some(held);
        }
        Ok(())
    }

    /// A handle of its own on a file or a device, past the page cache where that is wished and works.
    pub(crate) fn open(&self, how: Opening) -> io::Result<File> {
        tracing::debug!(path = ?self.path, ?how, "source opened");
        // The device that was found unused, whatever its name leads to by now.
        let opened = self.alone.as_ref().map_or_else(|| open(&self.path, how), |held| reopen(held, how));
        match opened {
            Err(error) if how.direct && error.kind() == ErrorKind::InvalidInput => {
                self.open(Opening { direct: false, ..how })
            }
            opened => opened,
        }
    }

    /// The handle that holds the device alone.
    pub(crate) fn held(&self) -> Option<&File> {
        self.alone.as_ref()
    }

    /// A bare name is that of a device: files of one name are many.
    fn is_called(&self, name: &str) -> bool {
        let name = Path::new(name);
        let device = matches!(self.kind, SourceKind::Device(_));
        name == self.path
            || device && self.path.file_name().is_some_and(|own| own == name.as_os_str())
            || name.canonicalize().is_ok_and(|real| self.path.canonicalize().is_ok_and(|own| own == real))
    }
}

fn not_opened(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "no permission to open it; run as its owner or as root, or join the group that owns it (often \
             `disk`)"
                .into()
        }
        _ => format!("it cannot be opened: {error}; name another"),
    }
}

/// What else uses a block device, as a phrase; none: nothing that can be seen.
fn used_by(sysroot: &Sysroot, machine: &Machine, path: &Path) -> Option<String> {
    let number = linerate_system::attributes::block_device_number(path).ok()??;
    let disk = machine.disks.iter().find(|disk| disk.number.known() == Some(&number))?;
    let above: Vec<_> = machine.disks.iter().filter(|other| other.members.contains(&disk.name)).collect();
    let names = |kind: fn(DiskKind) -> bool| {
        let names: Vec<&str> =
            above.iter().filter(|other| kind(other.kind)).map(|other| other.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(mounted) = machine.file_systems.iter().find(|fs| fs.devices.contains(&disk.name)) {
        return Some(format!("it is mounted at {}", mounted.mount_point.display()));
    }
    if let Some(partitions) = names(|kind| kind == DiskKind::Partition) {
        return Some(format!("it has partitions ({partitions})"));
    }
    if let Some(holders) = names(|kind| kind != DiskKind::Partition) {
        return Some(format!("it is part of {holders}"));
    }
    let holders = sysroot.list(format!("/sys/class/block/{}/holders", disk.name));
    if !holders.is_empty() {
        return Some(format!("it is limited by {}", holders.join(", ")));
    }
    let real = path.canonicalize().ok()?;
    let stacked = machine.disks.iter().find(|other| other.backing_file.as_ref() == Some(&real))?;
    Some(format!("{} lies on it", stacked.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_machine::probe::probe;

    fn target(path: &Path) -> AccessTarget {
        let sysroot = Sysroot::live();
        AccessTarget::look(&sysroot, &probe(&sysroot), path).expect("it is there")
    }

    #[test]
    fn a_file_that_is_there_is_written_only_where_its_loss_was_named() {
        let sysroot = Sysroot::live();
        let machine = probe(&sysroot);
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(8192).expect("a length");
        let mut target = target(file.path());
        assert_eq!(target.kind, SourceKind::File(8192));
        let refused = target.allow_writes(&sysroot, &machine, &Permissions::default()).expect_err("refused");
        assert_eq!(refused.exit_status(), 2);
        assert!(refused.to_string().contains("--destroy-data"), "{refused}");
        let bare = file.path().file_name().expect("a name").to_string_lossy().into_owned();
        let named = |name: String| Permissions { destroy_data: vec![name], ..Permissions::default() };
        assert!(target.allow_writes(&sysroot, &machine, &named(bare)).is_err(), "files of one name are many");
        let path = file.path().display().to_string();
        target.allow_writes(&sysroot, &machine, &named(path)).expect("named");
    }

    #[test]
    fn what_is_not_there_or_empty_is_one_sentence() {
        let sysroot = Sysroot::live();
        let machine = probe(&sysroot);
        let empty = tempfile::NamedTempFile::new().expect("a file");
        for path in [Path::new("/nonexistent/place"), empty.path(), Path::new("/dev/null")] {
            let failure = AccessTarget::look(&sysroot, &machine, path).expect_err("nothing to read");
            assert_eq!(failure.exit_status(), 3);
            assert!(failure.to_string().contains("; "), "{failure}");
        }
    }
}
