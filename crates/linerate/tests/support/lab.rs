//! A lab of measured speeds, if this machine can have one (LINERATE_LAB as in `lab/script.rs`): made by its
//! script, taken down with the value.

use super::agent::StartedAgent;
use super::process::Ends;
use super::{program, rights};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A lab that is up.
pub struct Lab {
    pub name: String,
}

impl Lab {
    /// Made with these options; none, with a message, where this machine cannot have a lab.
    pub fn up(test: &str, options: &[&str]) -> Option<Lab> {
        let lab = Lab::named(test)?;
        lab.succeed("up", options);
        Some(lab)
    }

    /// One that is not up yet, with a name of its own for each test of each process.
    pub fn named(test: &str) -> Option<Lab> {
        if let Some(lacking) = lacking() {
            assert_ne!(std::env::var("LINERATE_LAB").as_deref(), Ok("1"), "LINERATE_LAB=1, but {lacking}");
            rights::skipped(&lacking);
            return None;
        }
        Some(Lab { name: format!("{test}-{}", std::process::id()) })
    }

    /// Its name, which its devices and groups bear.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The script with a command of its own, on this lab.
    pub fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut child = Command::new(folder().join("lab"));
        child.args([command, "--name", &self.name]).args(arguments).stdin(Stdio::null());
        child.env("LINERATE", program());
        child
    }

    /// The same, for its output; it must end well.
    #[track_caller]
    pub fn succeed(&self, command: &str, arguments: &[&str]) -> String {
        let ended = self.command(command, arguments).ended();
        ended.gives(0);
        ended.stdout
    }

    /// The block device of its only disk.
    pub fn device(&self) -> String {
        let mount = self.succeed("mounts", &[]);
        let device = Command::new("findmnt").args(["-no", "SOURCE", mount.trim()]).ended();
        device.stdout.trim().into()
    }

    /// `linerate` with these words on a side of the lab.
    pub fn linerate(&self, side: &str, words: &[&str]) -> Command {
        self.command(side, &[&["--", &program()], words].concat())
    }

    /// An agent on a side of the lab.
    pub fn agent(&self, side: &str, listen: &str, words: &[&str]) -> StartedAgent {
        StartedAgent::of(self.linerate(side, &[]), listen, words)
    }

    /// An agent on the peer, which runs another kernel for all that linerate can tell: the CPUs that it is on are its own.
    pub fn agent_elsewhere(&self, listen: &str, words: &[&str]) -> StartedAgent {
        // The one is another whenever it is read.
        let elsewhere = "mount --bind /proc/sys/kernel/random/{uuid,boot_id} && exec \"$@\"";
        let begin = self.command("peer", &["--", "bash", "-c", elsewhere, "bash", &program()]);
        StartedAgent::of(begin, listen, words)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command("down", &[]).output();
    }
}

/// Where the lab's scripts are.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab")
}

/// Why there can be no lab here.
pub fn lacking() -> Option<String> {
    if std::env::var("LINERATE_LAB").is_ok_and(|wanted| wanted == "0") {
        return Some("LINERATE_LAB=0".into());
    }
    if !rights::root() {
        return Some("a lab needs root".into());
    }
    let tools = ["mkfs.xfs", "losetup", "nsenter", "flock", "ip", "tc", "dd"];
    if let Some(tool) = tools.iter().find(|tool| !rights::has(tool)) {
        return Some(format!("a lab needs {tool}; ./test installs it"));
    }
    // Containers with a root that may not mount are common.
    let may = rights::works("unshare", &["--mount", "--net", "true"]);
    (!may).then(|| "this root may not make namespaces".into())
}
