//! The same depth without io_uring (it is off in many containers): blocking `pread` and `pwrite` on threads.

use super::sync::perform;
use super::{Done, Queue, Transfer, check};
use crate::buffers::{Lease, Pool};
use crate::counters::thread_cpu;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One thread a request in flight, but no more than this: what is queued above it waits.
const MOST_THREADS: usize = 64;

type Work = (usize, Transfer, Lease);
type Finished = (usize, Lease, io::Result<usize>);

/// A closed loop of threads that do one request at a time each.
#[derive(Debug)]
pub struct ThreadQueue {
    work: Option<Sender<Work>>,
    finished: Receiver<Finished>,
    workers: Vec<std::thread::JoinHandle<()>>,
    blocks: Vec<Option<Lease>>,
    files: usize,
    block_bytes: usize,
    in_flight: usize,
    /// CPU time of the workers, nanoseconds.
    cpu_nanos: Arc<AtomicU64>,
}

impl ThreadQueue {
    /// Threads for `slots` requests in flight. They inherit the caller's CPU affinity.
    pub fn new(slots: usize, block_bytes: usize, files: Vec<Arc<File>>) -> io::Result<Self> {
        let mut pool = Pool::new(slots, block_bytes)?;
        let blocks = (0..slots).map(|_| pool.take()).collect();
        let (work, todo) = channel::<Work>();
        let (finished, done) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let cpu_nanos = Arc::new(AtomicU64::new(0));
        let mut queue = ThreadQueue {
            work: Some(work),
            finished: done,
            workers: Vec::new(),
            blocks,
            files: files.len(),
            block_bytes,
            in_flight: 0,
            cpu_nanos: Arc::clone(&cpu_nanos),
        };
        for number in 0..slots.clamp(1, MOST_THREADS) {
            let (todo, finished, files) = (Arc::clone(&todo), finished.clone(), files.clone());
            let cpu_nanos = Arc::clone(&cpu_nanos);
            let name = format!("io-{number}");
            let body = move || serve(&todo, &finished, &files, &cpu_nanos);
            queue.workers.push(std::thread::Builder::new().name(name).spawn(body)?);
        }
        Ok(queue)
    }

    fn home(&mut self, (slot, lease, result): Finished, done: &mut Vec<Done>) {
        self.blocks[slot] = Some(lease);
        self.in_flight -= 1;
        done.push(Done { slot, result });
    }
}

fn serve(
    todo: &Mutex<Receiver<Work>>,
    finished: &Sender<Finished>,
    files: &[Arc<File>],
    cpu_nanos: &AtomicU64,
) {
    let mut told = thread_cpu();
    loop {
        let next = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((slot, transfer, mut lease)) = next else { return };
        let result = perform(&transfer, &mut lease, files);
        let used = thread_cpu();
        cpu_nanos.fetch_add(used.saturating_sub(told).as_nanos() as u64, Ordering::Relaxed);
        told = used;
        if finished.send((slot, lease, result)).is_err() {
            return;
        }
    }
}

impl Queue for ThreadQueue {
    fn slots(&self) -> usize {
        self.blocks.len()
    }

    fn block(&mut self, slot: usize) -> Option<&mut [u8]> {
        self.blocks[slot].as_mut().map(Lease::bytes_mut)
    }

    fn submit(&mut self, slot: usize, transfer: Transfer) {
        check(&transfer, self.files, self.block_bytes);
        let lease = self.blocks[slot].take();
        assert!(lease.is_some(), "the slot is taken");
        if let (Some(lease), Some(work)) = (lease, &self.work) {
            self.in_flight += 1;
            // Were all threads gone, `turn` would say so.
            let _ = work.send((slot, transfer, lease));
        }
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Done>) -> io::Result<()> {
        let gone = || io::Error::other("the I/O threads are gone: please report this");
        if self.in_flight == 0 {
            std::thread::sleep(wait.unwrap_or_default());
            return Ok(());
        }
        if let Some(wait) = wait {
            match self.finished.recv_timeout(wait) {
                Ok(first) => self.home(first, done),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        loop {
            match self.finished.try_recv() {
                Ok(next) => self.home(next, done),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(gone()),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn helpers_cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    fn method(&self) -> String {
        format!("pread and pwrite on {} threads (no io_uring)", self.workers.len())
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        // Closing the queue ends the workers after what they hold; one that is stuck in the kernel is left to itself.
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
