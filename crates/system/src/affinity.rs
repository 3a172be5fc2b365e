//! Which processor a thread runs on.

use std::io;

/// Pins the calling thread to one logical processor.
pub fn pin_to(core: u32) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    if core as usize >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(core as usize);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run on any of these processors again.
pub fn allow(cores: &[u32]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores.iter().filter(|core| (**core as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*core as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Lets the calling thread's sleeps end when they are over: the kernel would put them off by up to 50 µs, to
/// wake up less often (PR_SET_TIMERSLACK, prctl(2)).
pub fn wake_on_time() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
