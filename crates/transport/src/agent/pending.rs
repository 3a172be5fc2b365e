//! The agent's pending connections, each with a thread of its own: they have shown neither key nor token yet.

use crate::admission::Pending;
use linerate_system::lock;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that have shown neither key nor token yet. Their number, and that of their threads, is bounded.
pub(crate) struct PendingThreads {
    list: Mutex<Pending<PendingThread>>,
    /// Threads whose connection has ended by itself: they end at once, but on a busy machine they are there for a while.
    ending: Mutex<Vec<JoinHandle<()>>>,
}

struct PendingThread {
    stream: Arc<TcpStream>,
    thread: JoinHandle<()>,
}

/// A connection's entry in the list; it is taken out when this is dropped.
pub(crate) struct PendingEntry {
    threads: Arc<PendingThreads>,
    number: u64,
    deadline: Instant,
}

impl PendingThreads {
    /// At most `bound` connections, each for `patience`.
    pub(crate) fn new(bound: usize, patience: Duration) -> Self {
        PendingThreads { list: Mutex::new(Pending::new(bound, patience)), ending: Mutex::default() }
    }

    /// Adds a connection, for which room is made, and serves it on a thread of its own.
    pub(crate) fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
        address: IpAddr,
        serve: impl FnOnce(Arc<TcpStream>, PendingEntry) + Send + 'static,
    ) -> io::Result<()> {
        loop {
            self.join_ending();
            let mut list = lock(&self.list);
            if let Some(crowded_out) = list.make_room() {
                drop(list);
                tracing::warn!(%address, "a pending connection is crowded out: too many at once");
                crowded_out.end();
                continue;
            }
            let (number, deadline) = list.next_entry();
            let stream = Arc::new(stream);
            // An entry is taken out when it is dropped, for which it takes the lock that is held here. Where no
            // thread is to be had, its closure is dropped within `spawn`: so it does not own the entry.
            let entry = Arc::new(Mutex::new(Some(PendingEntry { threads: self.clone(), number, deadline })));
            let (carried, theirs) = (entry.clone(), stream.clone());
            let spawned = std::thread::Builder::new().name("pending".into()).spawn(move || {
                let taken = lock(&carried).take();
                if let Some(entry) = taken {
                    serve(theirs, entry);
                }
            });
            // The thread's first use of the list waits for this lock, so it finds its entry.
            if let Ok(thread) = spawned {
                list.add(address, PendingThread { stream, thread });
                return Ok(());
            }
            drop(list);
            return spawned.map(|_| ());
        }
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        let all = lock(&self.list).take_all();
        for entry in all {
            entry.connection.end();
        }
        self.join_ending();
    }

    /// Waits for the threads of those that ended: so the bound holds for threads, however fast connections come and go.
    fn join_ending(&self) {
        let ending = std::mem::take(&mut *lock(&self.ending));
        for thread in ending {
            let _ = thread.join();
        }
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        lock(&self.list).len()
    }
}

impl PendingThread {
    /// Closes the connection and waits for its thread, which wakes at once: so the bound holds for threads, too.
    fn end(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.thread.join();
    }
}

impl PendingEntry {
    /// Until when key or token must be shown.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Leaves the list because key or token were right. False: it was crowded out before, and must not go on.
    pub(crate) fn admit(self) -> bool {
        lock(&self.threads.list).remove(self.number).is_some()
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        let removed = lock(&self.threads.list).remove(self.number);
        if let Some(PendingThread { thread, .. }) = removed {
            lock(&self.threads.ending).push(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Connects from a loopback address, accepts the connection; it waits until it is turned away, then tells
    /// its number.
    fn connect(
        threads: &Arc<PendingThreads>,
        listener: &TcpListener,
        origin: &str,
        gone: &std::sync::mpsc::Sender<u64>,
    ) -> TcpStream {
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (theirs, _) = listener.accept().expect("a connection");
        let gone = gone.clone();
        threads
            .accept(theirs, origin.parse().expect("an address"), move |stream, entry| {
                let _ = (&*stream).read(&mut [0]);
                let number = entry.number;
                assert!(!entry.admit(), "crowded out already");
                gone.send(number).expect("somebody listens");
            })
            .expect("let in");
        ours
    }

    #[test]
    fn a_flood_from_one_origin_drives_out_itself_oldest_first() {
        let threads = Arc::new(PendingThreads::new(4, Duration::from_secs(60)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let (sender, gone) = std::sync::mpsc::channel();
        let mut kept = vec![connect(&threads, &listener, "192.0.2.1", &sender)];
        for _ in 0..10 {
            kept.push(connect(&threads, &listener, "198.51.100.7", &sender));
            assert!(threads.len() <= 4);
        }
        let order: Vec<u64> = gone.try_iter().collect();
        assert_eq!(order, [1, 2, 3, 4, 5, 6, 7], "number 0, of another origin, stays");
        // Two addresses of one IPv6 network are one origin.
        kept.push(connect(&threads, &listener, "2001:db8::1", &sender));
        kept.push(connect(&threads, &listener, "2001:db8::2", &sender));
        kept.push(connect(&threads, &listener, "203.0.113.1", &sender));
        assert_eq!(gone.try_iter().collect::<Vec<_>>(), [8, 9, 11]);
        threads.clear();
        assert_eq!(threads.len(), 0);
        assert_eq!(gone.try_iter().count(), 4);
    }
}
