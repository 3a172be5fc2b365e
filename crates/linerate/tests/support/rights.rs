//! What this user and this machine allow a test to do; what is missing skips it, with a line that says so.

use std::process::{Command, Stdio};

/// This is root.
pub fn root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|ids| ids.split_whitespace().nth(1)).is_some_and(|effective| effective == "0")
}

/// A program is there.
pub fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|directory| std::path::Path::new(directory).join(program).is_file())
}

/// The same; where it is not, a line says that the test is skipped.
pub fn there(program: &str) -> bool {
    let is_there = has(program);
    if !is_there {
        skipped(&format!("{program} is not installed"));
    }
    is_there
}

/// A command ends well, without a word.
pub fn works(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// May make mount namespaces with file systems in them.
pub fn may_mount() -> bool {
    root() && works("unshare", &["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
}

/// May make network namespaces with pairs of virtual interfaces.
pub fn may_make_networks() -> bool {
    root()
        && has("ip")
        && works(
            "unshare",
            &["--net", "ip", "link", "add", "name", "near", "type", "veth", "peer", "name", "far"],
        )
}

/// Says why a test is left out.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
