//! The one door through which linerate changes a machine's settings. Only `tune` opens it, and only for what
//! the user asked it to change; readers have no way to it but by [`Sysroot::writer`].

use super::Sysroot;
use super::tree_location::TreeLocation;
use linerate_system::side_file::ReplacingFile;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the settings of the live machine are. Anything else is refused, whatever a catalogue or a journal
/// says.
const SETTINGS: [&str; 3] = ["/sys/", "/proc/sys/", "/proc/irq/"];
/// Where the files are from which other programs read settings at boot.
const DROP_INS: [&str; 5] =
    ["/etc/sysctl.d/", "/etc/udev/rules.d/", "/etc/tmpfiles.d/", "/etc/systemd/system/", "/etc/modprobe.d/"];

/// A tree that cannot be written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a recording in an archive cannot be changed: unpack it and name the folder with --root")]
pub struct ReadOnlyTree;

/// May write: into the live machine, or into a directory in place of one, and then nowhere else.
#[derive(Clone, Debug)]
pub struct Writer(Sysroot);

impl Sysroot {
    /// The door for writing into the same tree.
    pub fn writer(&self) -> Result<Writer, ReadOnlyTree> {
        match &self.place {
            TreeLocation::Live | TreeLocation::Directory(_) if self.recording.is_none() => {
                Ok(Writer(self.clone()))
            }
            _ => Err(ReadOnlyTree),
        }
    }
}

impl Writer {
    /// Writes a setting in one call. The file is there already: none is made.
    pub fn set(&self, absolute: &Path, bytes: &[u8]) -> io::Result<()> {
        let path = self.below(absolute, &SETTINGS)?;
        if matches!(self.0.place, TreeLocation::Live) {
            let mut file = OpenOptions::new().write(true).open(path)?;
            // The kernel takes a setting from one call, never from two.
            let written = file.write(bytes)?;
            return if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) };
        }
        if !std::fs::metadata(&path)?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let file = OpenOptions::new().write(true).open(path)?;
        overwrite(&file, bytes)
    }

    /// Puts a whole file in place (a new one renamed over it, so that no reader finds half of one), or takes
    /// it away.
    pub fn drop_in(&self, absolute: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
        let path = self.below(absolute, &DROP_INS)?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        match bytes {
            Some(bytes) => {
                std::fs::create_dir_all(&folder)?;
                let mut new = ReplacingFile::beside(&path, 0o644)?;
                new.file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
                new.file.write_all(bytes)?;
                new.file.sync_all()?;
                new.put(&path)?;
            }
            None => {
                std::fs::remove_file(&path)?;
                // A folder for drop-ins to one unit is ours alone, if nothing is left in it.
                if folder.extension().is_some_and(|end| end == "d")
                    && folder.parent().is_some_and(|up| up.ends_with("system"))
                    && std::fs::remove_dir(&folder).is_ok()
                {
                    return File::open(folder.parent().unwrap_or(&folder))?.sync_all();
                }
            }
        }
        File::open(folder)?.sync_all()
    }

    /// The path in the tree of something that begins with one of the allowed folders.
    fn below(&self, absolute: &Path, allowed: &[&str]) -> io::Result<PathBuf> {
        let text = absolute.to_str().unwrap_or_default();
        let climbs = absolute.components().any(|part| part == std::path::Component::ParentDir);
        if climbs || !allowed.iter().any(|folder| text.starts_with(folder)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no place of a setting"));
        }
        match &self.0.place {
            TreeLocation::Directory(root) => {
                Ok(root.join(self.0.resolve(absolute).map_err(io::Error::other)?))
            }
            _ => Ok(absolute.to_path_buf()),
        }
    }
}

/// Replaces a small file's content where it lies. At no moment is it empty or half: a process that is killed
/// in between leaves the new content, at worst with line ends behind it.
fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    let before = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(1 << 20);
    let mut padded = bytes.to_vec();
    padded.resize(before.max(bytes.len()), b'\n');
    file.write_all_at(&padded, 0)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Writer) {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(root.path().join("proc/sys/vm")).expect("directories");
        std::fs::write(root.path().join("proc/sys/vm/swappiness"), "60\n").expect("a file");
        let writer = Sysroot::recorded(root.path()).writer().expect("a directory can be written");
        (root, writer)
    }

    #[test]
    fn a_setting_is_replaced_whole() {
        let (root, writer) = tree();
        let at = Path::new("/proc/sys/vm/swappiness");
        for value in ["7\n", "1000000\n", "60\n"] {
            writer.set(at, value.as_bytes()).expect("a setting");
            assert_eq!(
                std::fs::read_to_string(root.path().join("proc/sys/vm/swappiness")).expect("text"),
                value
            );
        }
    }

    #[test]
    fn nothing_is_made_and_nothing_outside_is_touched() {
        let (root, writer) = tree();
        let outside = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(outside.path().join("x"), "x").expect("a file");
        std::os::unix::fs::symlink(outside.path(), root.path().join("proc/sys/out")).expect("a link");
        let fails = |path: &str| writer.set(Path::new(path), b"1\n").expect_err("refused");
        assert_eq!(fails("/proc/sys/vm/none").kind(), io::ErrorKind::NotFound);
        for path in
            ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/1/mem", "/proc/sys/out/x", "/proc/sys/vm"]
        {
            fails(path);
        }
        assert_eq!(std::fs::read_to_string(outside.path().join("x")).expect("text"), "x");
        assert!(writer.drop_in(Path::new("/etc/passwd"), Some(b"")).is_err());
    }

    #[test]
    fn a_drop_in_comes_and_goes() {
        let (root, writer) = tree();
        let at = Path::new("/etc/sysctl.d/90-linerate.conf");
        writer.drop_in(at, Some(b"vm.swappiness = 10\n")).expect("written");
        let folder = root.path().join("etc/sysctl.d");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
        writer.drop_in(at, None).expect("removed");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
    }
}
