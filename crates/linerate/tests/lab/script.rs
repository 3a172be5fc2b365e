//! The lab keeps its word: the speeds that it was told, one sentence on what is wrong, nothing left behind in
//! any ending.
//!
//! Needs root and the tools of `lab/lab up`; without them, or with LINERATE_LAB=0, each test says that it is
//! skipped. With LINERATE_LAB=1 a lab that cannot be made is a failure.

mod endings;
mod parts;
mod refused;
mod speeds;
mod study;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// One lab of a test, taken down whatever happens.
struct Lab {
    name: String,
}

impl Lab {
    /// A name of its own for each test of each process; none where this machine cannot have a lab.
    fn named(test: &str) -> Option<Lab> {
        let wanted = std::env::var("LINERATE_LAB").unwrap_or_default();
        let lacking = lacking();
        if wanted == "0" {
            eprintln!("skipped: LINERATE_LAB=0");
            return None;
        }
        if let Some(lacking) = lacking {
            assert_ne!(wanted, "1", "LINERATE_LAB=1, but {lacking}");
            eprintln!("skipped: {lacking}");
            return None;
        }
        Some(Lab { name: format!("test-{test}-{}", std::process::id()) })
    }

    /// A command of the lab script: `up`, `run`, `down`, … with the lab's name put in.
    fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut child = Command::new(script());
        child.arg(command).args(["--name", &self.name]).args(arguments);
        child
    }

    fn call(&self, command: &str, arguments: &[&str]) -> Output {
        self.command(command, arguments).stdin(Stdio::null()).output().expect("the lab script starts")
    }

    fn succeed(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.call(command, arguments);
        assert!(output.status.success(), "lab {command} {arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What is left of the lab anywhere on the machine; empty after `down`.
    fn remains(&self) -> Vec<String> {
        let mut remains = Vec::new();
        let loops = Command::new("losetup").args(["--list", "--noheadings"]).output().expect("losetup");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let text = format!("{}{mounts}", String::from_utf8_lossy(&loops.stdout));
        remains.extend(text.lines().filter(|line| line.contains(&self.name)).map(String::from));
        for dir in ["/run/linerate-lab", "/run/netns", "/tmp"] {
            remains.extend(entries(dir).into_iter().filter(|path| path.contains(&self.name)));
        }
        for controller in entries("/sys/fs/cgroup") {
            remains.extend(entries(&controller).into_iter().filter(|path| path.contains(&self.name)));
        }
        remains
    }

    fn assert_nothing_remains(&self, after: &str) {
        let remains = self.remains();
        assert!(remains.is_empty(), "after {after} there is still:\n{}", remains.join("\n"));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.call("down", &[]);
    }
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab/lab")
}

/// Why no lab can be made here.
fn lacking() -> Option<String> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&id.stdout).trim() != "0" {
        return Some("a lab needs root".into());
    }
    for tool in ["losetup", "mkfs.xfs", "ip", "tc", "nsenter", "flock", "dd"] {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Some(format!("a lab needs {tool}; ./test installs it"));
        }
    }
    // Containers with a root that may not mount are common.
    let may = Command::new("unshare").args(["--mount", "--net", "true"]).stderr(Stdio::null()).status();
    (!may.is_ok_and(|status| status.success())).then(|| "this root may not make namespaces".into())
}

fn entries(dir: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}
