//! Which CPU a thread runs on, and after which others.

use std::io;

/// Pins the calling thread to one CPU.
pub fn pin_to(core: u32) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    if core as usize >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(core as usize);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The same within what the calling thread may run on: the program may have been started on some CPUs only
/// (taskset, systemd's CPUAffinity=), which the kernel would let any of its threads leave.
pub fn pin_within_allowed(core: u32) -> io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let is_allowed = (core as usize) < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(core as usize);
    if is_allowed { pin_to(core) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Lets the calling thread run on any of these CPUs again.
pub fn allow(cores: &[u32]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores.iter().filter(|core| (**core as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*core as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The number of the calling thread, as `/proc/self/task` has it.
pub fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Lets the calling thread's sleeps end when they are over: the kernel would put them off by up to 50 µs, to
/// wake up less often (PR_SET_TIMERSLACK, prctl(2)).
pub fn wake_on_time() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Lets other threads go before the calling one, for the rest of its life (nice(2) of 15): beside a busy thread it gets
/// a thirtieth of a CPU, and all that is free.
pub fn yield_to_others() {
    let _ = rustix::process::setpriority_process(None, 15);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_not_pinned_outside_of_what_it_may_run_on() {
        let now = rustix::thread::sched_getaffinity(None).expect("affinity");
        let cores: Vec<u32> =
            (0..rustix::thread::CpuSet::MAX_CPU as u32).filter(|core| now.is_set(*core as usize)).collect();
        let (first, last) = (cores[0], cores[cores.len() - 1]);
        pin_within_allowed(first).expect("pinned");
        assert!(pin_within_allowed(u32::MAX).is_err());
        assert_eq!(pin_within_allowed(last).is_ok(), first == last, "of {cores:?}");
        let pinned = rustix::thread::sched_getaffinity(None).expect("affinity");
        assert!(pinned.is_set(first as usize) && pinned.count() == 1);
    }
}
