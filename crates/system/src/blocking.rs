//! The same seam without io_uring (it is off in many containers): blocking `pread` and `send` on a few threads.

use crate::buffers::Lease;
use crate::counters::thread_cpu;
use crate::io::{Completion, Io, Operation};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Threads beyond this bring no more depth to a device; what is queued above it waits.
const MOST_THREADS: usize = 32;

/// A closed loop of threads that do one operation at a time each.
#[derive(Debug)]
pub struct Threads {
    work: Option<Sender<(Operation, Lease, u64)>>,
    done: Receiver<Completion>,
    workers: Vec<std::thread::JoinHandle<()>>,
    depth: usize,
    in_flight: usize,
    /// CPU time of the workers, nanoseconds.
    cpu_nanos: Arc<AtomicU64>,
}

impl Threads {
    /// Threads for at most `depth` operations in flight over these files and sockets. They inherit the caller's CPU affinity.
    pub fn new(depth: usize, files: Vec<OwnedFd>) -> io::Result<Self> {
        let files = Arc::new(files);
        let (work, todo) = channel::<(Operation, Lease, u64)>();
        let (finished, done) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let cpu_nanos = Arc::new(AtomicU64::new(0));
        let mut workers = Vec::new();
        for number in 0..depth.clamp(1, MOST_THREADS) {
            let (todo, finished, files) = (Arc::clone(&todo), finished.clone(), Arc::clone(&files));
            let cpu_nanos = Arc::clone(&cpu_nanos);
            let worker = std::thread::Builder::new().name(format!("io-{number}")).spawn(move || {
                let mut told = thread_cpu();
                loop {
                    let next = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((operation, mut lease, tag)) = next else { return };
                    let result = perform(operation, &mut lease, &files);
                    let used = thread_cpu();
                    cpu_nanos.fetch_add(used.saturating_sub(told).as_nanos() as u64, Ordering::Relaxed);
                    told = used;
                    if finished.send(Completion { tag, operation, lease, result }).is_err() {
                        return;
                    }
                }
            })?;
            workers.push(worker);
        }
        Ok(Threads { work: Some(work), done, workers, depth: depth.max(1), in_flight: 0, cpu_nanos })
    }
}

fn perform(operation: Operation, lease: &mut Lease, files: &[OwnedFd]) -> io::Result<usize> {
    match operation {
        Operation::Read { file, offset, length } => {
            let buffer = &mut lease.bytes_mut()[..length];
            Ok(rustix::io::retry_on_intr(|| rustix::io::pread(files[file].as_fd(), &mut *buffer, offset))?)
        }
        Operation::Send { socket, from, length, train_bytes } => {
            let step = if train_bytes == 0 { length.max(1) } else { train_bytes };
            let mut sent = 0;
            while sent < length {
                let part = &lease.bytes()[from + sent..from + length.min(sent + step)];
                match rustix::net::send(files[socket].as_fd(), part, rustix::net::SendFlags::NOSIGNAL) {
                    Ok(moved) => sent += moved,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) if sent > 0 && train_bytes > 0 => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(sent)
        }
    }
}

impl Io for Threads {
    fn submit(&mut self, operation: Operation, lease: Lease, tag: u64) -> Result<(), Lease> {
        if self.in_flight >= self.depth {
            return Err(lease);
        }
        let Some(work) = &self.work else { return Err(lease) };
        match work.send((operation, lease, tag)) {
            Ok(()) => {
                self.in_flight += 1;
                Ok(())
            }
            Err(refused) => Err(refused.0.1),
        }
    }

    fn reap(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.in_flight == 0 {
            std::thread::sleep(timeout);
            return Ok(());
        }
        let before = completions.len();
        match self.done.recv_timeout(timeout) {
            Ok(first) => completions.push(first),
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the I/O threads are gone")),
        }
        completions.extend(self.done.try_iter());
        self.in_flight -= (completions.len() - before).min(self.in_flight);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn helpers_cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    fn method(&self) -> String {
        format!("pread and send on {} threads (no io_uring)", self.workers.len())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Closing the queue ends the workers after what they hold; a worker stuck in the kernel is left to itself.
        self.work = None;
        let patience = std::time::Instant::now() + Duration::from_secs(2);
        for worker in self.workers.drain(..) {
            while !worker.is_finished() && std::time::Instant::now() < patience {
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
    use crate::buffers::Pool;

    #[test]
    fn the_work_of_the_threads_is_told() {
        const BLOCK: usize = 4 << 20;
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(BLOCK as u64).expect("a size");
        let mut pool = Pool::new(1, BLOCK).expect("a pool");
        let mut threads = Threads::new(1, vec![file.into()]).expect("threads");
        let (own, mut lease) = (thread_cpu(), pool.take());
        let mut completions = Vec::new();
        for _ in 0..100 {
            let block = lease.take().expect("the block");
            threads.submit(Operation::Read { file: 0, offset: 0, length: BLOCK }, block, 0).expect("room");
            threads.reap(Duration::from_secs(5), &mut completions).expect("a completion");
            lease = completions.pop().map(|completion| completion.lease);
        }
        let own = thread_cpu() - own;
        // 400 MiB of zeros take the reader some tens of milliseconds, and the caller next to nothing.
        assert!(threads.helpers_cpu() > Duration::from_millis(5), "{:?}", threads.helpers_cpu());
        assert!(threads.helpers_cpu() > own, "{:?} and {own:?}", threads.helpers_cpu());
    }
}
