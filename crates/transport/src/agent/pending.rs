//! The agent's pending connections, each with a thread of its own: they have shown neither key nor token yet.

use crate::admission::{self, SharedPending};
use linerate_system::lock;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that have shown neither key nor token yet. Their number, and that of their threads, is bounded.
pub(crate) struct PendingThreads {
    list: SharedPending<Arc<PendingThread>>,
    /// Threads whose connection has ended by itself: they end at once, but on a busy machine they are there for a while.
    ending: Mutex<Vec<Arc<PendingThread>>>,
}

pub(crate) struct PendingThread {
    /// Its thread has it.
    stream: Weak<TcpStream>,
    /// None: it has not begun, or goes on with a connection that was admitted.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A connection's entry in the list; it is taken out when this is dropped.
pub(crate) struct PendingEntry {
    threads: Arc<PendingThreads>,
    entry: admission::PendingEntry<Arc<PendingThread>>,
}

impl PendingThreads {
    /// At most `bound` connections, each for `patience`.
    pub(crate) fn new(bound: usize, patience: Duration) -> Self {
        PendingThreads { list: SharedPending::new(bound, patience), ending: Mutex::default() }
    }

    /// Adds a connection, for which room is made, and serves it on a thread of its own.
    pub(crate) fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
        address: IpAddr,
        serve: impl FnOnce(Arc<TcpStream>, PendingEntry) + Send + 'static,
    ) -> io::Result<()> {
        self.join_ending();
        let stream = Arc::new(stream);
        let pending = Arc::new(PendingThread { stream: Arc::downgrade(&stream), thread: Mutex::default() });
        let (entry, crowded_out) = self.list.add(address, pending.clone());
        if let Some(crowded_out) = crowded_out {
            tracing::warn!(%address, "a pending connection is crowded out: too many at once");
            crowded_out.end();
        }
        let entry = PendingEntry { threads: self.clone(), entry };
        // Held until the handle is there: who ends the thread waits for that.
        let mut thread = lock(&pending.thread);
        let begin = std::thread::Builder::new().name("pending".into());
        *thread = Some(begin.spawn(move || serve(stream, entry))?);
        Ok(())
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        self.list.take_all().iter().for_each(|pending| pending.end());
        self.join_ending();
    }

    /// Waits for the threads of those that ended: so the bound holds for threads, however fast connections come and go.
    fn join_ending(&self) {
        let ending = std::mem::take(&mut *lock(&self.ending));
        ending.iter().for_each(|pending| pending.join());
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

impl PendingThread {
    /// Closes the connection and waits for its thread, which wakes at once: so the bound holds for threads, too.
    fn end(&self) {
        let _ = self.stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        self.join();
    }

    fn join(&self) {
        let thread = lock(&self.thread).take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl PendingEntry {
    /// Until when key or token must be shown.
    pub(crate) fn deadline(&self) -> Instant {
        self.entry.deadline
    }

    /// Leaves the list because key or token were right. False: it was crowded out before, and must not go on.
    pub(crate) fn admit(self) -> bool {
        self.entry.take().is_some()
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        lock(&self.threads.ending).extend(self.entry.take());
    }
}
