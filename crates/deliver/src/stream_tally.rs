//! What a stream, or a connection of the server, did with its time, and how much it moved.

use linerate_measure::measure::{TcpFigures, WorkerResult};
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use linerate_system::lock;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counted by its thread, or by several whose sum it is; read at the end, or meanwhile.
#[derive(Debug)]
pub(crate) struct StreamTally {
    /// Bytes that came, or went, of files.
    pub(crate) moved: AtomicU64,
    /// Nanoseconds in which it had something to do.
    active: AtomicU64,
    /// Of them: in which it waited for the disk.
    waited_disk: AtomicU64,
    /// Of them: in which it kept to the user's rate limit.
    paced: AtomicU64,
    /// Nanoseconds of its CPU.
    cpu: AtomicU64,
    /// What TCP counted of its connections, as far as it sends.
    tcp: Mutex<TcpFigures>,
    born: Instant,
    present: PresentWork,
}

/// What the one thread of a tally is at, which is not part of the sums yet: when it began, in nanoseconds after the
/// tally was made; 0: it is not at it.
#[derive(Debug, Default)]
struct PresentWork {
    active: AtomicU64,
    at_disk: AtomicU64,
    paced: AtomicU64,
    /// CPU time of the thread that is in the sums already.
    cpu: AtomicU64,
}

impl Default for StreamTally {
    fn default() -> Self {
        StreamTally {
            moved: AtomicU64::new(0),
            active: AtomicU64::new(0),
            waited_disk: AtomicU64::new(0),
            paced: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            tcp: Mutex::default(),
            born: clock::now(),
            present: PresentWork::default(),
        }
    }
}

/// The sums of a tally at one time, in nanoseconds, or what was added between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamFigures {
    pub(crate) moved: u64,
    pub(crate) active: u64,
    waited_disk: u64,
    pub(crate) paced: u64,
    cpu: u64,
}

impl StreamFigures {
    pub(crate) fn since(&self, then: &StreamFigures) -> StreamFigures {
        StreamFigures {
            moved: self.moved.saturating_sub(then.moved),
            active: self.active.saturating_sub(then.active),
            waited_disk: self.waited_disk.saturating_sub(then.waited_disk),
            paced: self.paced.saturating_sub(then.paced),
            cpu: self.cpu.saturating_sub(then.cpu),
        }
    }

    /// As a worker of a flow; `comes_in`: the network is its source.
    pub(crate) fn worker(&self, number: usize, seconds: f64, comes_in: bool) -> WorkerResult {
        let share = |nanos: u64| (nanos as f64 / (self.active as f64).max(1.0)).min(1.0);
        let (busy, disk) = (share(self.cpu), share(self.waited_disk));
        // What neither works nor waits for the disk or the clock waits for the other host.
        let network = (1.0 - busy - disk - share(self.paced)).max(0.0);
        let (waiting_source, waiting_sink) = if comes_in { (network, disk) } else { (disk, network) };
        WorkerResult {
            worker: number,
            bytes_per_second: self.moved as f64 / seconds.max(1e-9),
            cpu_share: busy,
            waiting_source,
            waiting_sink,
            active_bytes_per_second: self.moved as f64 / (self.active as f64 * 1e-9).max(1e-9),
            ..WorkerResult::default()
        }
    }
}

impl StreamTally {
    pub(crate) fn add_moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Does something of which all time counts, and the CPU time of this thread in it, once it is done: several
    /// threads may.
    pub(crate) fn active<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begun, cpu) = (clock::now(), thread_cpu());
        let done = work();
        add_time(&self.active, clock::since(begun));
        add_time(&self.cpu, thread_cpu().saturating_sub(cpu));
        done
    }

    /// The same of a tally of one thread: what it is at can be seen meanwhile.
    pub(crate) fn at_work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.present.cpu.store(clock::nanos(thread_cpu()), Ordering::Relaxed);
        let begun = self.begins(&self.present.active);
        let done = work();
        self.present.active.store(0, Ordering::Relaxed);
        add_time(&self.active, clock::since(begun));
        self.count_cpu();
        done
    }

    fn begins(&self, what: &AtomicU64) -> Instant {
        let now = clock::now();
        what.store(clock::nanos(now.duration_since(self.born)).max(1), Ordering::Relaxed);
        now
    }

    fn count_cpu(&self) {
        let now = clock::nanos(thread_cpu());
        let before = self.present.cpu.swap(now, Ordering::Relaxed);
        self.cpu.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
    }

    /// Does something that asks for the disk: what it does not compute meanwhile it waits.
    pub(crate) fn at_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        let cpu = thread_cpu();
        let begun = self.begins(&self.present.at_disk);
        let done = work();
        self.present.at_disk.store(0, Ordering::Relaxed);
        let computed = thread_cpu().saturating_sub(cpu);
        self.add_waited_disk(clock::since(begun).saturating_sub(computed));
        done
    }

    /// Waits as long as the user's rate limit asks for.
    pub(crate) fn paced<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = self.begins(&self.present.paced);
        let done = wait();
        self.present.paced.store(0, Ordering::Relaxed);
        add_time(&self.paced, clock::since(begun));
        done
    }

    /// Of its active time this was a wait for the disk.
    pub(crate) fn add_waited_disk(&self, time: Duration) {
        add_time(&self.waited_disk, time);
        // A piece may last for minutes.
        if self.present.active.load(Ordering::Relaxed) > 0 {
            self.count_cpu();
        }
    }

    /// What its disk made it wait, while nothing of it was on its thread.
    pub(crate) fn waited_for_disk(&self, time: Duration) {
        add_time(&self.active, time);
        add_time(&self.waited_disk, time);
    }

    /// It had something to do all this time, and waited for the other host.
    pub(crate) fn waited_for_client(&self, time: Duration) {
        add_time(&self.active, time);
    }

    /// What TCP counted of a connection since `before`, which is brought to now.
    pub(crate) fn add_tcp(&self, stream: &TcpStream, before: &mut TcpFigures) {
        let now = TcpFigures::read(Some(stream));
        let mut since = now;
        since.leave_out(before);
        *before = now;
        lock(&self.tcp).join(&since);
    }

    /// The sums, with what its thread is at now.
    pub(crate) fn figures(&self) -> StreamFigures {
        let now = clock::nanos(clock::since(self.born));
        let present = |since: &AtomicU64| match since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StreamFigures {
            moved: read(&self.moved),
            active: read(&self.active) + present(&self.present.active),
            waited_disk: read(&self.waited_disk) + present(&self.present.at_disk),
            paced: read(&self.paced) + present(&self.present.paced),
            cpu: read(&self.cpu),
        }
    }

    /// As a worker of a flow; `comes_in`: the network is its source.
    pub(crate) fn worker(&self, number: usize, seconds: f64, comes_in: bool) -> WorkerResult {
        let mut worker = self.figures().worker(number, seconds, comes_in);
        if !comes_in {
            lock(&self.tcp).tell(&mut worker);
        }
        worker
    }
}

fn add_time(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(clock::nanos(time), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    #[test]
    fn time_without_anything_to_do_is_nobodys() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let tally = StreamTally::default();
        tally.active(|| tally.at_disk(|| clock.advance(Duration::from_millis(30))));
        clock.advance(Duration::from_millis(30));
        let worker = tally.worker(0, 1.0, true);
        assert!(worker.waiting_sink > 0.9 && worker.waiting_source < 0.1, "{worker:?}");
        let worker = tally.worker(0, 1.0, false);
        assert!(worker.waiting_source > 0.9 && worker.waiting_sink < 0.1, "{worker:?}");
    }

    #[test]
    fn what_a_stream_is_at_is_seen_before_it_ends() {
        let tally = StreamTally::default();
        let before = tally.figures();
        let wait = || std::thread::sleep(Duration::from_millis(30));
        tally.at_work(|| {
            wait();
            let worker = tally.figures().since(&before).worker(0, 1.0, true);
            assert!(worker.waiting_source > 0.9, "it waits for the network: {worker:?}");
            let then = tally.figures();
            tally.at_disk(|| {
                wait();
                let worker = tally.figures().since(&then).worker(0, 1.0, true);
                assert!(worker.waiting_sink > 0.9, "it waits for the disk: {worker:?}");
            });
            let then = tally.figures();
            tally.paced(|| {
                wait();
                let now = tally.figures().since(&then);
                assert!(now.paced > 20_000_000 && now.active >= now.paced, "{now:?}");
            });
            let begun = Instant::now();
            let mut sum = 0u64;
            while begun.elapsed() < Duration::from_millis(30) {
                sum = sum.wrapping_mul(31).wrapping_add(1);
            }
            tally.at_disk(|| std::hint::black_box(sum));
            assert!(tally.figures().cpu > 0, "its CPU time, too");
        });
        let (now, later) = (tally.figures(), tally.figures());
        assert_eq!(later, now, "nothing goes on");
        assert!(now.active >= now.waited_disk + now.paced && now.active > 110_000_000, "{now:?}");
    }
}
