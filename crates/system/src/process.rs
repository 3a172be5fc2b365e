//! Processes and what the kernel does for them. Groups: ending a program with all that it started itself, or
//! with the one that started it; whether this one has its terminal. A child that is this program again: what
//! it is handed down, and that it does not outlive its parent.
//!
//! What a process asks of the kernel for itself: its limits of resources, and how deep cores may sleep while
//! it works.
//!
//! Threads may take only what nobody else wants: of the CPUs (SCHED_IDLE, sched(7)) and of the disks (the idle
//! class of ioprio_set(2), which the schedulers bfq and mq-deadline heed).

use crate::clock;
use crate::stop::Stop;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getppid, getrlimit, kill_process, kill_process_group,
    pidfd_open, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::set_name;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
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

/// Sends a signal to a child that was not waited for yet; a number that is not a signal is none.
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
    // SAFETY: open, and nobody's in this process: it came with the program, and is not a standard stream.
    let pipe = unsafe { File::from_raw_fd(number) };
    fcntl_setfd(&pipe, FdFlags::CLOEXEC).ok()?;
    Some(pipe)
}

/// Soft limit of memory that this process may lock (RLIMIT_MEMLOCK), bytes; `None` is unlimited.
pub fn memlock_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Hard limit of the same: as much may this process give itself; `None` is unlimited.
pub fn memlock_most_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).maximum
}

/// Sets the soft limit of the same, at most the hard one; needs no privilege.
pub fn set_memlock_bytes(current: Option<u64>) -> io::Result<()> {
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current, maximum }).map_err(io::Error::from)
}

/// ioprio_set(2): of one thread.
const IOPRIO_WHO_PROCESS: libc::c_long = 1;
/// Class 3, above thirteen bits of data (include/uapi/linux/ioprio.h).
const IOPRIO_CLASS_IDLE: libc::c_long = 3 << 13;

/// Does `work` on a thread that is idle, and waits for it. Threads that it starts are idle as well: they inherit
/// both classes (clone(2)). Where that is refused, `work` is done all the same.
pub fn done_idle<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let body = || {
        // Who has to know it asks before.
        let _ = become_idle();
        work()
    };
    let done = std::thread::scope(|scope| scope.spawn(body).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether a thread of this process may be idle: a seccomp filter may forbid it.
pub fn check_allowed() -> io::Result<()> {
    let outcome = std::thread::spawn(become_idle).join();
    outcome.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}

fn become_idle() -> io::Result<()> {
    let priority: libc::c_int = 0;
    // By its number: musl's own function refuses, since POSIX means the whole process where Linux means a thread.
    // SAFETY: 0 is the calling thread; the kernel's `sched_param` is one int, read during the call alone.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers; 0 is the calling thread.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE) };
    if set != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's door for it; open to root only, unless an administrator said otherwise.
const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// No core sleeps deeper than asked for as long as this lives; the kernel takes it back when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct Awake {
    _held: std::fs::File,
}

impl Awake {
    /// Asks for cores that wake up within this many microseconds (PM QoS,
    /// docs.kernel.org/power/pm_qos_interface.html).
    pub fn hold(microseconds: i32) -> io::Result<Awake> {
        let mut device = OpenOptions::new().write(true).open(LATENCY_DEVICE)?;
        device.write_all(&microseconds.to_ne_bytes())?;
        Ok(Awake { _held: device })
    }
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

    #[test]
    fn the_soft_limit_goes_down_and_up_again() {
        let (now, most) = (super::memlock_bytes(), super::memlock_most_bytes());
        super::set_memlock_bytes(Some(now.unwrap_or(u64::MAX).min(64 << 10))).expect("down");
        assert_eq!(super::memlock_most_bytes(), most);
        super::set_memlock_bytes(now).expect("up");
        assert_eq!(super::memlock_bytes(), now);
    }

    #[test]
    fn the_limit_is_the_one_that_proc_shows() {
        let text = std::fs::read_to_string("/proc/self/limits").expect("/proc is mounted");
        let line = text.lines().find(|line| line.starts_with("Max locked memory")).expect("the line");
        let soft = line.split_ascii_whitespace().nth(3).expect("a soft limit");
        assert_eq!(soft.parse().ok(), super::memlock_bytes());
    }

    fn classes() -> (i32, i64) {
        // SAFETY: plain numbers; 0 is the calling thread.
        unsafe { (libc::sched_getscheduler(0), libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0)) }
    }

    #[test]
    fn what_an_idle_thread_starts_is_idle_and_the_caller_is_not() {
        if let Err(error) = check_allowed() {
            return eprintln!("skipped: no idle threads here: {error}");
        }
        let before = classes();
        let of_child = done_idle(|| std::thread::spawn(classes).join().expect("a thread"));
        assert_eq!(of_child, (libc::SCHED_IDLE, IOPRIO_CLASS_IDLE));
        assert_eq!(classes(), before);
    }
}
