//! What the experiment of a session takes of this host: a little of the CPUs that its receiving threads are on.

use crate::flow::cpu_taker::{PIECE, take_cpu};
use crate::flow::rate_limit::RateLimit;
use linerate_system::stop::Stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Of a CPU no more is taken, by all sessions together.
const MOST_OF_A_CPU: f64 = 0.1;
/// Without another request nothing more is taken after this.
const LONGEST: Duration = Duration::from_secs(1);

/// What a client wants to have taken from now on. It asks again some times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TakeRequest {
    /// What was missed since the first request with this number is caught up.
    pub slot: u64,
    /// CPU time a second, of all CPUs together, nanoseconds.
    pub nanos_per_second: f64,
    /// Nothing is taken after this, nor after a second.
    pub millis: u64,
}

/// What was taken for a session until now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TakenSample {
    /// Nanoseconds.
    pub cpu_nanos: u64,
    /// CPUs that its streams are on, one for each stream.
    pub cpus: Vec<u32>,
}

/// Why nothing is taken: a sentence for the client's user.
#[derive(Debug, Error)]
pub(crate) enum TakeRefusal {
    #[error("its owner lets no client take of its CPUs (--no-experiment)")]
    NotAllowed,
    #[error("no test is running of which anything could be taken")]
    NoTest,
    #[error("it has no thread to take with: {0}")]
    NoThread(#[from] io::Error),
}

/// The takers of a session. Dropping this ends them.
pub(crate) struct CpuTakers {
    /// Every session that takes has one.
    taking: Arc<()>,
    taken: Arc<AtomicU64>,
    by_cpu: BTreeMap<u32, CpuTaker>,
    slot: u64,
    until: Instant,
}

struct CpuTaker {
    limit: Arc<RateLimit>,
    stop: Arc<Stop>,
}

impl Drop for CpuTaker {
    fn drop(&mut self) {
        self.stop.end();
    }
}

impl CpuTakers {
    /// None yet.
    pub(crate) fn new(taking: &Arc<()>, now: Instant) -> Self {
        let (taking, by_cpu) = (Arc::clone(taking), BTreeMap::new());
        CpuTakers { taking, taken: Arc::default(), by_cpu, slot: 0, until: now }
    }

    /// Takes so much of these CPUs, one for each of the session's streams with what it uses of it, and of no others any more.
    pub(crate) fn take(
        &mut self,
        request: TakeRequest,
        cpus: &[(u32, u64)],
        now: Instant,
    ) -> Result<TakenSample, TakeRefusal> {
        let rates = rates(request.nanos_per_second, cpus, MOST_OF_A_CPU / self.sessions() as f64);
        // A request that comes too late is a new one: nobody asked for what it missed.
        let goes_on = self.slot == request.slot && now < self.until;
        self.slot = request.slot;
        let until = now + LONGEST.min(Duration::from_millis(request.millis));
        self.until = until;
        self.by_cpu.retain(|cpu, _| rates.contains_key(cpu));
        for (cpu, rate) in rates {
            // What a taker owes and what it has missed are its slot's.
            match self.by_cpu.get(&cpu).filter(|_| goes_on) {
                Some(taker) => taker.limit.close_at(until),
                None => {
                    let limit = &self.taker(cpu, now)?.limit;
                    limit.open(rate, now, until);
                    // It pays first: who asks for a new slot all the time gets no more than others.
                    limit.charge_read(PIECE.as_nanos() as usize, now);
                }
            }
        }
        let cpus = cpus.iter().map(|(cpu, _)| *cpu).collect();
        Ok(TakenSample { cpu_nanos: self.taken.load(Ordering::Relaxed), cpus })
    }

    /// That take now, with this one.
    fn sessions(&self) -> usize {
        // One copy is the agent's own.
        Arc::strong_count(&self.taking).saturating_sub(1).max(1)
    }

    fn taker(&mut self, cpu: u32, now: Instant) -> io::Result<&CpuTaker> {
        if !self.by_cpu.contains_key(&cpu) {
            let (limit, stop) = (Arc::new(RateLimit::closed(now)), Arc::new(Stop::new()));
            take_cpu(cpu, Arc::clone(&limit), Arc::clone(&self.taken), Arc::clone(&stop))?;
            self.by_cpu.insert(cpu, CpuTaker { limit, stop });
        }
        Ok(&self.by_cpu[&cpu])
    }
}

/// What to take of each CPU, as large a part as the streams on it have of what all use; of none more than this part of its
/// time.
fn rates(nanos_per_second: f64, cpus: &[(u32, u64)], most: f64) -> BTreeMap<u32, f64> {
    let mut rates = BTreeMap::new();
    // What is not a number takes nothing.
    if nanos_per_second > 0.0 {
        // One that has used nothing yet has a place, too.
        let all: f64 = cpus.iter().map(|(_, used)| *used as f64 + 1.0).sum();
        for (cpu, used) in cpus {
            *rates.entry(*cpu).or_default() += nanos_per_second * (*used as f64 + 1.0) / all;
        }
    }
    rates.values_mut().for_each(|rate: &mut f64| *rate = rate.min(most * 1e9));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So much later than any clock shows: no thread takes meanwhile, and what it might take shows in its limit.
    fn later(seconds: f64) -> Instant {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(linerate_system::clock::now) + Duration::from_secs_f64(3600.0 + seconds)
    }

    fn ask(takers: &mut CpuTakers, slot: u64, nanos_per_second: f64, seconds: f64) {
        let request = TakeRequest { slot, nanos_per_second, millis: 60_000 };
        takers.take(request, &[(0, 0)], later(seconds)).expect("a thread");
    }

    /// May something be taken at this moment? Then it is.
    fn takes(takers: &CpuTakers, seconds: f64) -> bool {
        let now = later(seconds);
        let may = takers.by_cpu.values().find(|taker| taker.limit.next_read(now).is_none());
        may.inspect(|taker| taker.limit.charge_read(PIECE.as_nanos() as usize, now)).is_some()
    }

    /// CPU time taken in these thousandths of a second, as a part of it.
    fn taken(takers: &CpuTakers, from: u32, to: u32) -> f64 {
        let pieces = (from..to).map(|at| (0..50).filter(|_| takes(takers, f64::from(at) / 1e3)).count());
        pieces.sum::<usize>() as f64 * PIECE.as_secs_f64() / (f64::from(to - from) / 1e3)
    }

    #[test]
    fn nothing_is_taken_a_second_after_the_last_request() {
        let mut takers = CpuTakers::new(&Arc::default(), later(0.0));
        ask(&mut takers, 1, 0.05e9, 0.0);
        assert!((taken(&takers, 0, 900) - 0.05).abs() < 0.001);
        ask(&mut takers, 1, 0.05e9, 0.9);
        assert!((taken(&takers, 900, 1_900) - 0.05).abs() < 0.001, "it goes on");
        assert_eq!(taken(&takers, 1_900, 9_000), 0.0);
        // What was missed meanwhile was asked for by nobody.
        ask(&mut takers, 1, 0.05e9, 9.0);
        assert!((taken(&takers, 9_000, 9_900) - 0.05).abs() < 0.001);
        ask(&mut takers, 2, 0.0, 9.9);
        assert!(takers.by_cpu.is_empty());
    }

    #[test]
    fn never_more_than_a_tenth_of_a_cpu_is_taken_whatever_is_asked_for() {
        let agent = Arc::new(());
        let mut takers = CpuTakers::new(&agent, later(0.0));
        ask(&mut takers, 1, 1e15, 0.0);
        assert!((taken(&takers, 0, 500) - 0.1).abs() < 0.002);
        let mut hasty = 0.0;
        for at in 500..1_000 {
            ask(&mut takers, u64::from(at), f64::INFINITY, f64::from(at) / 1e3);
            hasty += taken(&takers, at, at + 1) / 500.0;
        }
        assert!(hasty <= 0.1, "{hasty}");
        // Two sessions have it together.
        let other = CpuTakers::new(&agent, later(0.0));
        ask(&mut takers, 2_000, 1e15, 1.0);
        assert!((taken(&takers, 1_000, 1_500) - 0.05).abs() < 0.002);
        drop(other);
    }

    #[test]
    fn a_cpu_gives_as_much_as_the_streams_on_it_use() {
        let of = |nanos| rates(nanos, &[(0, 599), (3, 199), (0, 199)], 1.0).into_iter().collect::<Vec<_>>();
        assert_eq!(of(1e8), [(0, 0.8e8), (3, 0.2e8)]);
        assert!(of(f64::NAN).is_empty() && of(-1.0).is_empty());
    }
}
