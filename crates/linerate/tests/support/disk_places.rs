//! Places that tests need root for: small file systems in memory, loop devices on them. Taken down whatever
//! happens.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why this machine cannot have such places; none: it can.
pub fn lacking() -> Option<String> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&id.stdout).trim() != "0" {
        return Some("file systems and loop devices need root".into());
    }
    let may = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return Some("this root may not mount".into());
    }
    let loops = Command::new("losetup").arg("-f").stdout(Stdio::null()).stderr(Stdio::null()).status();
    (!loops.is_ok_and(|status| status.success())).then(|| "there are no loop devices".into())
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

/// A loop device on a file of its own, which is as long as it says and holds nothing.
pub struct Loop {
    pub device: PathBuf,
}

impl Loop {
    pub fn new(directory: &Path, name: &str, mib: u64) -> Loop {
        let image = directory.join(name);
        std::fs::File::create(&image).expect("an image").set_len(mib << 20).expect("sparse");
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Loop { device: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()) }
    }

    pub fn text(&self) -> &str {
        self.device.to_str().expect("a plain path")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

/// Runs a tool that has to succeed.
pub fn succeed(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().expect("the tool starts");
    assert!(output.status.success(), "{tool} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
