//! The one door to `/sys` and `/proc`: the live system, or a directory where somebody recorded them.
//!
//! Readers ask for absolute paths (`/sys/class/net`); the root is put before them. Symbolic links of a recorded tree are
//! resolved inside that tree, so that a reading never leaves it.

use crate::fact::Fact;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No attribute of `/sys` or `/proc` that linerate reads is larger; more is cut off, so that a hostile tree costs no memory.
const LARGEST_ATTRIBUTE_BYTES: u64 = 4 << 20;

/// Where readers read from.
#[derive(Clone, Debug)]
pub struct Sysroot {
    root: PathBuf,
}

impl Sysroot {
    /// The machine that linerate runs on.
    pub fn live() -> Self {
        Sysroot { root: PathBuf::from("/") }
    }

    /// A recorded tree that holds `sys/` and `proc/`.
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Sysroot { root: root.into() }
    }

    /// True for the machine itself: then system calls may be asked, too.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path under the root, symbolic links not followed.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let path = absolute.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file, trimmed at the end; the error is a phrase for `Fact::Unknown`.
    pub fn text(&self, absolute: impl AsRef<Path>) -> Result<String, String> {
        use std::io::Read;
        let absolute = absolute.as_ref();
        let path = self.resolve(absolute)?;
        let describe = |error: std::io::Error| format!("{}: {}", absolute.display(), plain(&error));
        // Opening a FIFO that somebody put into a recorded tree would wait for its writer.
        if !self.is_live() && !std::fs::metadata(&path).map_err(describe)?.is_file() {
            return Err(format!("{}: no regular file", absolute.display()));
        }
        let file = std::fs::File::open(path).map_err(describe)?;
        let mut bytes = Vec::new();
        file.take(LARGEST_ATTRIBUTE_BYTES).read_to_end(&mut bytes).map_err(describe)?;
        // Strings of the device tree end in a zero byte.
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches(|c: char| c == '\0' || c.is_whitespace())
            .to_string())
    }

    /// The bytes of a file (a table of the firmware), at most 4 MiB of them; the error is a phrase for `Fact::Unknown`.
    pub fn bytes(&self, absolute: impl AsRef<Path>) -> Result<Vec<u8>, String> {
        use std::io::Read;
        let absolute = absolute.as_ref();
        let path = self.resolve(absolute)?;
        let describe = |error: std::io::Error| format!("{}: {}", absolute.display(), plain(&error));
        // As in `text`: a FIFO would wait for its writer.
        if !self.is_live() && !std::fs::metadata(&path).map_err(describe)?.is_file() {
            return Err(format!("{}: no regular file", absolute.display()));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(describe)?;
        file.take(LARGEST_ATTRIBUTE_BYTES).read_to_end(&mut bytes).map_err(describe)?;
        Ok(bytes)
    }

    /// A file's text as a fact.
    pub fn fact(&self, absolute: impl AsRef<Path>) -> Fact<String> {
        match self.text(absolute) {
            Ok(text) => Fact::Known(text),
            Err(why) => Fact::unknown(why),
        }
    }

    /// A file's text parsed as a number or the like.
    pub fn parse<T: FromStr>(&self, absolute: impl AsRef<Path>) -> Fact<T> {
        let absolute = absolute.as_ref();
        match self.text(absolute) {
            Ok(text) => match text.trim().parse() {
                Ok(value) => Fact::Known(value),
                Err(_) => Fact::unknown(format!("{}: “{}” is no number", absolute.display(), shorten(&text))),
            },
            Err(why) => Fact::unknown(why),
        }
    }

    /// Names in a directory, sorted; empty where it cannot be read.
    pub fn list(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let Ok(path) = self.resolve(absolute.as_ref()) else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The absolute path (without the root) that a path leads to after all its symbolic links.
    pub fn follow(&self, absolute: impl AsRef<Path>) -> Option<PathBuf> {
        if self.is_live() {
            return absolute.as_ref().canonicalize().ok();
        }
        let resolved = self.resolve(absolute.as_ref()).ok()?;
        let inside = resolved.strip_prefix(&self.root).ok()?;
        Some(Path::new("/").join(inside))
    }

    /// Something is there.
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        self.resolve(absolute.as_ref()).is_ok_and(|path| path.exists())
    }

    /// A directory is there (symbolic links followed).
    pub fn is_directory(&self, absolute: impl AsRef<Path>) -> bool {
        self.resolve(absolute.as_ref()).is_ok_and(|path| path.is_dir())
    }

    /// Last component of what a symbolic link points to (`device/driver` → `mlx5_core`), which need not be there; `None`
    /// where the path is no link.
    pub fn link_name(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let absolute = absolute.as_ref();
        let directory = self.resolve(absolute.parent()?).ok()?;
        let target = std::fs::read_link(directory.join(absolute.file_name()?)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Walks the path component by component; a link that is absolute or climbs stays within the root.
    fn resolve(&self, absolute: &Path) -> Result<PathBuf, String> {
        if self.is_live() {
            return Ok(absolute.to_path_buf());
        }
        let mut inside = PathBuf::new();
        let mut pending: Vec<std::ffi::OsString> = components(absolute);
        let mut links = 0;
        while let Some(next) = pending.pop() {
            if next == ".." {
                inside.pop();
                continue;
            }
            let candidate = inside.join(&next);
            match std::fs::read_link(self.root.join(&candidate)) {
                Ok(target) => {
                    links += 1;
                    if links > 40 {
                        return Err(format!("{}: too many symbolic links", absolute.display()));
                    }
                    if target.is_absolute() {
                        inside = PathBuf::new();
                    }
                    pending.extend(components(&target));
                }
                Err(_) => inside = candidate,
            }
        }
        Ok(self.root.join(inside))
    }
}

/// Components of a path, last first, without the root and `.`.
fn components(path: &Path) -> Vec<std::ffi::OsString> {
    use std::path::Component;
    let mut parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}

/// An I/O error without the number that the standard library adds.
fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "not there".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Sysroot) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let real = root.path().join("sys/devices/pci0000:00/0000:00:03.0/net/eth0");
        std::fs::create_dir_all(&real).expect("directories");
        std::fs::create_dir_all(root.path().join("sys/class/net")).expect("directories");
        std::fs::write(real.join("mtu"), "9000\n\0").expect("a file");
        symlink("../../devices/pci0000:00/0000:00:03.0/net/eth0", root.path().join("sys/class/net/eth0"))
            .expect("a link");
        symlink("../../../bus/pci/drivers/mlx5_core", real.join("driver")).expect("a link");
        let sysroot = Sysroot::recorded(root.path());
        (root, sysroot)
    }

    #[test]
    fn links_are_followed_within_the_tree() {
        let (_root, sysroot) = tree();
        assert_eq!(sysroot.parse::<u32>("/sys/class/net/eth0/mtu"), Fact::Known(9000));
        assert_eq!(
            sysroot.follow("/sys/class/net/eth0"),
            Some(PathBuf::from("/sys/devices/pci0000:00/0000:00:03.0/net/eth0"))
        );
        assert_eq!(sysroot.link_name("/sys/class/net/eth0/driver").as_deref(), Some("mlx5_core"));
        assert_eq!(sysroot.link_name("/sys/class/net/eth0/mtu"), None);
        assert!(sysroot.is_directory("/sys/class/net/eth0"));
        assert!(!sysroot.is_directory("/sys/class/net/eth0/mtu"));
        assert_eq!(sysroot.list("/sys/class/net"), ["eth0"]);
    }

    #[test]
    fn a_link_never_leads_out_of_a_recorded_tree() {
        let (root, sysroot) = tree();
        let out = |name: &str, target: &str| symlink(target, root.path().join(name)).expect("a link");
        out("absolute", "/proc/version");
        out("climbing", "../../../../../../../../../../proc/version");
        out("loop", "loop");
        for name in ["/absolute", "/climbing", "/loop"] {
            assert!(sysroot.text(name).is_err(), "{name} was read");
        }
        assert!(sysroot.text("/sys").expect_err("a directory").contains("no regular file"));
    }

    #[test]
    fn what_is_not_there_says_so() {
        let (_root, sysroot) = tree();
        assert_eq!(sysroot.parse::<u32>("/proc/none").why(), Some("/proc/none: not there"));
        assert!(sysroot.list("/proc/none").is_empty());
        assert!(!sysroot.exists("/proc/none"));
    }
}
