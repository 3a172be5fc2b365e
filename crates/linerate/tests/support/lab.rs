//! A lab of measured speeds, if this machine can have one (LINERATE_LAB as in `lab/script.rs`): made by its
//! script, taken down with the value.

#![allow(dead_code, reason = "each test takes the part that it needs")]

use super::program;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A lab that is up.
pub struct Lab {
    name: String,
}

impl Lab {
    /// Made with these options; none, with a message, where this machine cannot have a lab.
    pub fn up(test: &str, options: &[&str]) -> Option<Lab> {
        if let Some(lacking) = lacking() {
            assert_ne!(std::env::var("LINERATE_LAB").as_deref(), Ok("1"), "LINERATE_LAB=1, but {lacking}");
            eprintln!("skipped: {lacking}");
            return None;
        }
        let lab = Lab { name: format!("{test}-{}", std::process::id()) };
        lab.succeed("up", options);
        Some(lab)
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
    pub fn succeed(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.command(command, arguments).output().expect("the lab script starts");
        assert!(output.status.success(), "lab {command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
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
    let user = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&user.stdout).trim() != "0" {
        return Some("a lab needs root".into());
    }
    let tools = ["mkfs.xfs", "losetup", "nsenter", "flock", "ip", "tc"];
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--help").output().is_err());
    if let Some(tool) = missing {
        return Some(format!("a lab needs {tool}"));
    }
    let may = Command::new("unshare").args(["--mount", "--net", "true"]).stderr(Stdio::null()).status();
    (!may.is_ok_and(|status| status.success())).then(|| "this root may not make namespaces".into())
}
