//! Takes a little of a CPU for a time: what a flow loses by that tells whether the CPU limits it.

use super::rate_limit::RateLimit;
use linerate_system::affinity;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use linerate_system::stop::Stop;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// CPU time that is taken at once: short beside a time slice of the scheduler (3 ms), so that nothing waits long for it.
pub(crate) const PIECE: Duration = Duration::from_micros(300);
/// The stop is looked at as often at least.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Starts a thread that computes on this CPU for as long as the limit lets it, in nanoseconds of CPU time for bytes.
/// What it got is counted in `taken`, nanoseconds. Each piece costs the same, so that takers on several CPUs whose limits
/// open at once take at the same moments: a thread that one of them stops finds no other CPU free.
pub fn take_cpu(
    core: u32,
    limit: Arc<RateLimit>,
    taken: Arc<AtomicU64>,
    stop: Arc<Stop>,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("cpu taker".into()).spawn(move || {
        // One that may not run there takes nothing of it.
        if affinity::pin_within_allowed(core).is_err() {
            return;
        }
        affinity::wake_on_time();
        while !stop.is_ended() {
            if let Some(debt) = limit.next_read(clock::now()) {
                stop.wait(debt.min(LONGEST_SLEEP));
                continue;
            }
            let used = compute(PIECE).as_nanos() as u64;
            limit.charge_read(PIECE.as_nanos() as usize, clock::now());
            taken.fetch_add(used, Ordering::Relaxed);
        }
    })
}

/// Arithmetic in registers, which touches neither memory nor a lock, for so much CPU time. Gives what it was.
fn compute(time: Duration) -> Duration {
    let begin = thread_cpu();
    let mut value = 1u64;
    loop {
        let used = thread_cpu().saturating_sub(begin);
        if used >= time {
            return used;
        }
        for _ in 0..1_000 {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU that the test may use.
    fn own_cpu() -> u32 {
        let is_allowed = |core: u32| {
            let pinned = std::thread::spawn(move || affinity::pin_within_allowed(core).is_ok());
            pinned.join().unwrap_or(false)
        };
        (0..1024).find(|core| is_allowed(*core)).expect("a CPU")
    }

    #[test]
    fn it_takes_what_it_is_let_and_nothing_after_the_end() {
        let (stop, taken) = (Arc::new(Stop::new()), Arc::new(AtomicU64::new(0)));
        let begin = clock::now();
        let limit = Arc::new(RateLimit::closed(begin));
        let taker =
            take_cpu(own_cpu(), Arc::clone(&limit), Arc::clone(&taken), Arc::clone(&stop)).expect("a thread");
        let from = begin + Duration::from_millis(20);
        limit.open(0.1e9, from, from + Duration::from_millis(200));
        std::thread::sleep(Duration::from_millis(260));
        let after = taken.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(taken.load(Ordering::Relaxed), after, "nothing after its end");
        // A busy machine gives less; none gives more than a piece too much, but for interrupts, which kernels without
        // IRQ_TIME_ACCOUNTING charge to the thread that they come upon.
        assert!((1_000_000..=40_000_000).contains(&after), "{after} ns of 20 ms");
        stop.end();
        taker.join().expect("it ends");
    }
}
