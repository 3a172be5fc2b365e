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
