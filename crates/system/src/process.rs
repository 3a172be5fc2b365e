//! Process groups: ending a program with all that it started itself, or with the one that started it; whether this one
//! has its terminal.

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Kills the group of this number (`Command::process_group(0)` makes it that of the child). A group that has
/// ended is none.
pub fn kill_group(id: u32) {
    if let Some(group) = i32::try_from(id).ok().filter(|id| *id > 1).and_then(Pid::from_raw) {
        // What has ended by itself needs no signal.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Has the kernel kill the program when the thread that starts it ends, however it ends (`PR_SET_PDEATHSIG`, prctl(2)):
/// nothing is left running, also where this process was killed. What the program starts itself is not meant.
pub fn end_with_starter(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
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
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut sleep = Command::new("sleep");
            sleep.arg("60").stdin(Stdio::null());
            end_with_starter(&mut sleep);
            sleep.spawn().expect("sleep")
        };
        let mut child = std::thread::spawn(start).join().expect("a thread");
        let deadline = Instant::now() + Duration::from_secs(10);
        while child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

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
