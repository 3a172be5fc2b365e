//! Process groups: ending a program with all that it started itself; whether this one has its terminal.

use rustix::process::{Pid, Signal, kill_process_group};

/// Kills the group of this number (`Command::process_group(0)` makes it that of the child). A group that has
/// ended is none.
pub fn kill_group(id: u32) {
    if let Some(group) = i32::try_from(id).ok().filter(|id| *id > 1).and_then(Pid::from_raw) {
        // What has ended by itself needs no signal.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Standard error is a terminal that this process's group has the use of. A terminal that is not the one that
/// controls it has no groups to tell apart.
pub fn is_in_foreground() -> bool {
    // SAFETY: both calls take and give plain numbers.
    let (front, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    front == -1 || front == own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_group_ends_as_a_whole_and_nobody_else() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & wait"]).process_group(0).stdin(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        kill_group(0);
        kill_group(1);
        assert!(child.try_wait().expect("a child").is_none());
        kill_group(child.id());
        assert!(!child.wait().expect("an end").success());
    }
}
