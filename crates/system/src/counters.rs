//! CPU time of threads and of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// CPU time of threads that only look on, nanoseconds.
static LOOKED_ON: AtomicU64 = AtomicU64::new(0);

fn clock(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time that the calling thread has used, user and system.
pub fn thread_cpu() -> Duration {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

/// 512-byte blocks that the calling thread has had read from disks, by itself or by the kernel's read-ahead for it; 0
/// where the kernel does not count it (CONFIG_TASK_IO_ACCOUNTING).
pub fn thread_blocks_read() -> u64 {
    // SAFETY: rusage is plain data for which all zeros is a valid value, and the kernel writes one of them.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    u64::try_from(usage.ru_inblock).unwrap_or(0)
}

/// CPU time that all threads of this process have used, user and system, less that of [`looked_on`].
pub fn process_cpu() -> Duration {
    let looked_on = Duration::from_nanos(LOOKED_ON.load(Ordering::Relaxed));
    clock(rustix::time::ClockId::ProcessCPUTime).saturating_sub(looked_on)
}

/// A thread that only looks on has used so much CPU time since it last said so: no cost of what this process
/// does.
pub fn looked_on(time: Duration) {
    LOOKED_ON.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The CPU time of all threads, those that look on too, apart: user and system.
pub fn process_cpu_split() -> (Duration, Duration) {
    // SAFETY: rusage is plain data for which all zeros is a valid value, and the kernel writes one of them.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let span = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (span(usage.ru_utime), span(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_on_is_no_cost_of_the_process() {
        let before = process_cpu();
        let used = std::thread::spawn(|| {
            let begun = thread_cpu();
            while thread_cpu().saturating_sub(begun) < Duration::from_millis(40) {}
            let used = thread_cpu().saturating_sub(begun);
            looked_on(used);
            used
        });
        let used = used.join().expect("a thread");
        // Other tests of this program work meanwhile: what was set aside is certain, what they used is not.
        assert!(used >= Duration::from_millis(40));
        // In this order: what is used between the two readings adds to their difference.
        let without = process_cpu();
        let with_it = clock(rustix::time::ClockId::ProcessCPUTime);
        assert!(with_it.saturating_sub(without) >= used, "{used:?} are set aside");
        assert!(before <= without, "it never goes back");
    }
}
