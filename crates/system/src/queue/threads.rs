//! The same depth without io_uring (it is off in many containers): blocking calls on threads.

use super::sync::perform;
use super::{Completion, Queue, Transfer, check};
use crate::buffers::{Lease, Pool, Region};
use crate::counters::thread_cpu;
use crate::lock;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One thread a request in flight, but no more than this: what is queued above it waits.
const MOST_THREADS: usize = 64;

type Work = (Lease, Transfer);

/// A closed loop of threads that do one request at a time each.
#[derive(Debug)]
pub struct ThreadQueue {
    work: Option<Sender<Work>>,
    finished: Receiver<Completion>,
    workers: Vec<std::thread::JoinHandle<()>>,
    region: Arc<Region>,
    files: usize,
    in_flight: usize,
    /// CPU time of the workers, nanoseconds.
    cpu_nanos: Arc<AtomicU64>,
}

impl ThreadQueue {
    /// Threads for as many requests in flight as the pool has blocks. They inherit the caller's CPU affinity.
    pub fn new(files: Vec<Arc<File>>, pool: &Pool) -> io::Result<Self> {
        let (work, todo) = channel::<Work>();
        let (finished, done) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let cpu_nanos = Arc::new(AtomicU64::new(0));
        let mut queue = ThreadQueue {
            work: Some(work),
            finished: done,
            workers: Vec::new(),
            region: Arc::clone(&pool.region),
            files: files.len(),
            in_flight: 0,
            cpu_nanos: Arc::clone(&cpu_nanos),
        };
        for number in 0..pool.blocks().clamp(1, MOST_THREADS) {
            let (todo, finished, files) = (Arc::clone(&todo), finished.clone(), files.clone());
            let cpu_nanos = Arc::clone(&cpu_nanos);
            let name = format!("io-{number}");
            let body = move || serve(&todo, &finished, &files, &cpu_nanos);
            queue.workers.push(std::thread::Builder::new().name(name).spawn(body)?);
        }
        Ok(queue)
    }
}

fn serve(
    todo: &Mutex<Receiver<Work>>,
    finished: &Sender<Completion>,
    files: &[Arc<File>],
    cpu_nanos: &AtomicU64,
) {
    let mut counted = thread_cpu();
    loop {
        let next = lock(todo).recv();
        let Ok((mut lease, transfer)) = next else { return };
        let result = perform(&transfer, &mut lease, files);
        let used = thread_cpu();
        cpu_nanos.fetch_add(used.saturating_sub(counted).as_nanos() as u64, Ordering::Relaxed);
        counted = used;
        if finished.send(Completion { lease, result }).is_err() {
            return;
        }
    }
}

impl Queue for ThreadQueue {
    fn submit(&mut self, lease: Lease, transfer: Transfer) {
        check(&transfer, self.files, lease.len());
        assert!(lease.is_of(&self.region), "a block of another pool");
        if let Some(work) = &self.work {
            self.in_flight += 1;
            // Were all threads gone, `turn` would say so.
            let _ = work.send((lease, transfer));
        }
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()> {
        let gone = || io::Error::other("the I/O threads are gone: please report this");
        if self.in_flight == 0 {
            std::thread::sleep(wait.unwrap_or_default());
            return Ok(());
        }
        let before = done.len();
        if let Some(wait) = wait {
            match self.finished.recv_timeout(wait) {
                Ok(first) => done.push(first),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        loop {
            match self.finished.try_recv() {
                Ok(next) => done.push(next),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(gone()),
            }
        }
        self.in_flight -= done.len() - before;
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn helpers_cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    fn method(&self) -> String {
        format!("blocking calls on {} threads (no io_uring)", self.workers.len())
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        // Closing the queue ends the workers after what they hold; one that is stuck in the kernel is left to
        // itself.
        self.work = None;
        let patience = Instant::now() + Duration::from_millis(300);
        for worker in self.workers.drain(..) {
            while !worker.is_finished() && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            if worker.is_finished() {
                let _ = worker.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Action;

    #[test]
    fn the_cpu_time_of_the_threads_is_counted() {
        const BLOCK: usize = 4 << 20;
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(BLOCK as u64).expect("a size");
        let mut pool = Pool::new(1, BLOCK).expect("a pool");
        let mut threads = ThreadQueue::new(vec![Arc::new(file)], &pool).expect("threads");
        let (own, mut lease) = (thread_cpu(), pool.take());
        let mut done = Vec::new();
        for _ in 0..100 {
            let read = Transfer { action: Action::Read, file: 0, offset: 0, from: 0, length: BLOCK };
            threads.submit(lease.take().expect("the block"), read);
            threads.turn(Some(Duration::from_secs(5)), &mut done).expect("a completion");
            lease = done.pop().map(|done| done.lease);
        }
        let own = thread_cpu() - own;
        // 400 MiB of zeros take the reader some tens of milliseconds, and the caller next to nothing.
        assert!(threads.helpers_cpu() > Duration::from_millis(5), "{:?}", threads.helpers_cpu());
        assert!(threads.helpers_cpu() > own, "{:?} and {own:?}", threads.helpers_cpu());
    }
}
