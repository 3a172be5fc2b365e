//! Threads that take only what nobody else wants: of the CPUs (SCHED_IDLE, sched(7)) and of the disks (the idle
//! class of ioprio_set(2), which the schedulers bfq and mq-deadline heed).

use std::io;

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

#[cfg(test)]
mod tests {
    use super::*;

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
