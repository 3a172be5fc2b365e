//! What a stream, or a connection of the server, did with its time, and how much it moved.

use linerate_measure::measure::{TcpFigures, WorkerResult};
use linerate_system::counters::thread_cpu;
use linerate_system::lock;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counted by its thread, read at the end.
#[derive(Debug, Default)]
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
}

impl StreamTally {
    pub(crate) fn add_moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Does something of which all time counts, and the CPU time of this thread in it.
    pub(crate) fn active<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begun, cpu) = (Instant::now(), thread_cpu());
        let done = work();
        add(&self.active, begun.elapsed());
        add(&self.cpu, thread_cpu().saturating_sub(cpu));
        done
    }

    /// Does something that asks for the disk: what it does not compute meanwhile it waits.
    pub(crate) fn at_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begun, cpu) = (Instant::now(), thread_cpu());
        let done = work();
        let computed = thread_cpu().saturating_sub(cpu);
        add(&self.waited_disk, begun.elapsed().saturating_sub(computed));
        done
    }

    /// Waits as long as the user's rate limit asks for.
    pub(crate) fn paced<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = wait();
        add(&self.paced, begun.elapsed());
        done
    }

    /// Of its active time this was a wait for the disk.
    pub(crate) fn add_waited_disk(&self, time: Duration) {
        add(&self.waited_disk, time);
    }

    /// What its disk made it wait, while nothing of it was on its thread.
    pub(crate) fn waited_for_disk(&self, time: Duration) {
        add(&self.active, time);
        add(&self.waited_disk, time);
    }

    /// It had something to do all this time, and waited for the other host.
    pub(crate) fn waited_for_client(&self, time: Duration) {
        add(&self.active, time);
    }

    /// What TCP counted of a connection since `before`, which is brought to now.
    pub(crate) fn add_tcp(&self, stream: &TcpStream, before: &mut TcpFigures) {
        let now = TcpFigures::read(Some(stream));
        let mut since = now;
        since.leave_out(before);
        *before = now;
        lock(&self.tcp).join(&since);
    }

    /// Nanoseconds of activity.
    pub(crate) fn active_nanos(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Nanoseconds in which it kept to the user's rate limit.
    pub(crate) fn paced_nanos(&self) -> u64 {
        self.paced.load(Ordering::Relaxed)
    }

    /// As a worker of a flow; `comes_in`: the network is its source.
    pub(crate) fn worker(&self, number: usize, seconds: f64, comes_in: bool) -> WorkerResult {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let share = |nanos: f64| (nanos / read(&self.active).max(1.0)).min(1.0);
        let (busy, disk) = (share(read(&self.cpu)), share(read(&self.waited_disk)));
        // What neither works nor waits for the disk or the clock waits for the other host.
        let network = (1.0 - busy - disk - share(read(&self.paced))).max(0.0);
        let (waiting_source, waiting_sink) = if comes_in { (network, disk) } else { (disk, network) };
        let mut worker = WorkerResult {
            worker: number,
            bytes_per_second: read(&self.moved) / seconds.max(1e-9),
            cpu_share: busy,
            waiting_source,
            waiting_sink,
            ..WorkerResult::default()
        };
        if !comes_in {
            lock(&self.tcp).tell(&mut worker);
        }
        worker
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_anything_to_do_is_nobodys() {
        let tally = StreamTally::default();
        tally.active(|| tally.at_disk(|| std::thread::sleep(Duration::from_millis(30))));
        std::thread::sleep(Duration::from_millis(30));
        let worker = tally.worker(0, 1.0, true);
        assert!(worker.waiting_sink > 0.9 && worker.waiting_source < 0.1, "{worker:?}");
        let worker = tally.worker(0, 1.0, false);
        assert!(worker.waiting_source > 0.9 && worker.waiting_sink < 0.1, "{worker:?}");
    }
}
