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

use crate::support::lab::{Lab, folder};
use crate::support::process::{Ends, ProcessEnd};
use std::path::PathBuf;
use std::process::Command;

/// One lab of a test, which is not up yet.
fn named(test: &str) -> Option<Lab> {
    Lab::named(&format!("test-{test}"))
}

impl Lab {
    fn call(&self, command: &str, arguments: &[&str]) -> ProcessEnd {
        self.command(command, arguments).ended()
    }

    /// What is left of the lab anywhere on the machine; empty after `down`.
    fn remains(&self) -> Vec<String> {
        let mut remains = Vec::new();
        let loops = Command::new("losetup").args(["--list", "--noheadings"]).ended();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let text = format!("{}{mounts}", loops.stdout);
        remains.extend(text.lines().filter(|line| line.contains(self.name())).map(String::from));
        for dir in ["/run/linerate-lab", "/run/netns", "/tmp"] {
            remains.extend(entries(dir).into_iter().filter(|path| path.contains(self.name())));
        }
        for controller in entries("/sys/fs/cgroup") {
            remains.extend(entries(&controller).into_iter().filter(|path| path.contains(self.name())));
        }
        remains
    }

    fn assert_nothing_remains(&self, after: &str) {
        let remains = self.remains();
        assert!(remains.is_empty(), "after {after} there is still:\n{}", remains.join("\n"));
    }
}

fn script() -> PathBuf {
    folder().join("lab")
}

fn entries(dir: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}
