//! Process groups: ending a program with all that it started itself, or with the one that started it; whether this one
//! has its terminal. A child that is this program again: what it is handed down, and that it does not outlive its parent.

use crate::clock;
use crate::stop::Stop;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal,
};
use rustix::thread::set_name;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A kernel without pidfd_open(2) (before 5.3, or a filter) reports no end: it is asked for this often.
const WITHOUT_PIDFD: Duration = Duration::from_millis(20);

/// Lists of processes call this one so from now on, 15 bytes of it (PR_SET_NAME); to be called by its first thread.
pub fn name_process(name: &CStr) {
    // What cannot be named keeps the name of its file.
    let _ = set_name(name);
}

/// Kills the group of this number (`Command::process_group(0)` makes it that of the child). A group that has
/// ended is none.
pub fn kill_group(id: u32) {
    if let Some(group) = i32::try_from(id).ok().filter(|id| *id > 1).and_then(Pid::from_raw) {
        // What has ended by itself needs no signal.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Waits until a child has ended, or until then, or until `stop`; how it ended, if it has.
pub fn end_of(child: &mut Child, stop: &Stop, moment: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        let ended = child.try_wait()?;
        let left = moment.saturating_duration_since(clock::now());
        if ended.is_some() || left.is_zero() || stop.is_ended() {
            return Ok(ended);
        }
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        if !pidfd.is_ok_and(|pidfd| stop.wait_readable(&pidfd, Some(left)).is_ok()) {
            stop.wait(left.min(WITHOUT_PIDFD));
        }
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

/// Sends a signal to a child that was not waited for yet; a number that is no signal is none.
pub fn signal(child: u32, signal: i32) {
    let child = i32::try_from(child).ok().filter(|id| *id > 1).and_then(Pid::from_raw);
    if let Some((child, signal)) = child.zip(Signal::from_named_raw(signal)) {
        // What has ended by itself needs no signal.
        let _ = kill_process(child, signal);
    }
}

/// Gives standard input, output and error up: their readers see the end, and what is still written is nowhere.
pub fn leave_streams() -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: plain numbers; a standard stream stays open, as another file.
        if unsafe { libc::dup2(nowhere.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets children that start from now on have this descriptor; its number there.
pub fn hand_down(what: &impl AsFd) -> io::Result<RawFd> {
    fcntl_setfd(what, FdFlags::empty())?;
    Ok(what.as_fd().as_raw_fd())
}

/// Takes the pipe that `parent` handed down under this number, for this process alone, which is killed (SIGKILL) when
/// the parent's thread that started it ends. None: `parent` is not the parent, or there is no such pipe. Asked once,
/// before anything else is opened.
pub fn handed_down(number: RawFd, parent: u32) -> Option<File> {
    let is_parent =
        || getppid().is_some_and(|pid| i64::from(pid.as_raw_nonzero().get()) == i64::from(parent));
    if number <= libc::STDERR_FILENO || !is_parent() {
        return None;
    }
    set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    // It may have ended before it was asked for.
    if !is_parent() {
        return None;
    }
    // SAFETY: borrowed for this call only, which fails where nothing is open under the number.
    fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
    // SAFETY: open, and nobody's in this process: it came with the program, and is no standard stream.
    let pipe = unsafe { File::from_raw_fd(number) };
    fcntl_setfd(&pipe, FdFlags::CLOEXEC).ok()?;
    Some(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

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

    #[test]
    fn a_pipe_is_handed_down_to_children_and_taken_by_them_alone() {
        use std::io::Read;
        let (mut from, into) = io::pipe().expect("a pipe");
        let number = hand_down(&into).expect("handed down");
        let wrote = Command::new("sh").args(["-c", &format!("echo told >&{number}")]).status();
        drop(into);
        let mut text = String::new();
        from.read_to_string(&mut text).expect("read");
        assert!(wrote.is_ok_and(|status| status.success()) && text == "told\n", "{text}");
        // Of nobody's parent, of a standard stream, and where nothing is open.
        let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        assert!(handed_down(number, parent + 1).is_none());
        assert!(handed_down(libc::STDOUT_FILENO, parent).is_none());
    }

    #[test]
    fn the_end_of_a_child_is_waited_for_until_a_moment_or_a_stop() {
        let (stop, begun, long) = (Stop::new(), Instant::now(), Duration::from_secs(60));
        let mut child = Command::new("sh").args(["-c", "sleep 0.05; exit 7"]).spawn().expect("a shell");
        assert_eq!(end_of(&mut child, &stop, Instant::now()).expect("a child"), None);
        let ended = end_of(&mut child, &stop, begun + long).expect("a child");
        assert_eq!(ended.and_then(|status| status.code()), Some(7));
        let mut child = Command::new("sleep").arg("60").spawn().expect("a child");
        stop.end();
        assert_eq!(end_of(&mut child, &stop, begun + long).expect("a child"), None);
        child.kill().and_then(|()| child.wait()).expect("an end");
        assert!(begun.elapsed() < long / 2);
    }

    #[test]
    fn a_child_gets_a_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a child");
        signal(child.id(), 1 << 20);
        assert!(child.try_wait().expect("a child").is_none());
        signal(child.id(), libc::SIGTERM);
        assert!(!child.wait().expect("an end").success());
    }
}
