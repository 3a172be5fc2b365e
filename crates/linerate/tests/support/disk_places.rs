//! Places that tests need root for: small file systems in memory, loop devices on them. Taken down whatever
//! happens.

use super::process::Ends;
use super::{rights, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why this machine cannot have such places; none: it can.
pub fn lacking() -> Option<String> {
    if !rights::root() {
        return Some("file systems and loop devices need root".into());
    }
    if !rights::works("unshare", &["--mount", "true"]) {
        return Some("this root may not mount".into());
    }
    (!rights::works("losetup", &["-f"])).then(|| "there are no loop devices".into())
}

/// This machine can have such places; none, and why, where it cannot.
pub fn can_mount() -> Option<()> {
    lacking().map_or(Some(()), |why| {
        rights::skipped(&why);
        None
    })
}

/// A file system in memory.
pub struct Tmpfs {
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Tmpfs {
    /// Of so many MiB, with these further options of mount.
    pub fn new(mib: u32, options: &str) -> Tmpfs {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mount");
        std::fs::create_dir(&path).expect("a mount point");
        let size = format!("size={mib}m,mode=0700{options}");
        let path_text = path.to_str().expect("a plain path");
        succeed("mount", &["-t", "tmpfs", "-o", &size, "linerate-test", path_text]);
        Tmpfs { path, _directory: directory }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}

/// A loop device on a file of its own, which is as long as it says and holds nothing; gone with the value.
pub struct LoopDevice {
    pub device: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl LoopDevice {
    /// On a file of this name in this folder.
    pub fn on(directory: &Path, name: &str, mib: u64) -> LoopDevice {
        let image = directory.join(name);
        std::fs::File::create(&image).expect("an image").set_len(mib << 20).expect("sparse");
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).ended();
        made.gives(0);
        LoopDevice { device: PathBuf::from(made.stdout.trim()), _folder: None }
    }

    /// On a file in a folder of its own; none, with a message, where this machine cannot have one.
    pub fn of_mib(mib: u64) -> Option<LoopDevice> {
        if !rights::root() || !rights::works("losetup", &["-f"]) {
            rights::skipped("a loop device needs root and losetup");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut device = LoopDevice::on(folder.path(), "disk", mib);
        device._folder = Some(folder);
        Some(device)
    }

    /// `/dev/loop7`.
    pub fn text(&self) -> &str {
        text(&self.device)
    }

    /// `loop7`.
    pub fn name(&self) -> &str {
        self.text().trim_start_matches("/dev/")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

/// Runs a tool that has to succeed.
pub fn succeed(tool: &str, arguments: &[&str]) {
    Command::new(tool).args(arguments).ended().gives(0);
}
