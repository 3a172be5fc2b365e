//! CPU time of threads and of the process.

use std::time::Duration;

fn clock(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time that the calling thread has used, user and system.
pub fn thread_cpu() -> Duration {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time that all threads of this process have used, user and system.
pub fn process_cpu() -> Duration {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

/// The same apart: user and system.
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
