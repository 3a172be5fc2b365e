//! Threads for the connections that have something to do. They are few: a connection that waits for its client has
//! none, and is found by epoll when there is news.

use super::connection::{Connection, Turn};
use linerate_system::lock;
use linerate_system::readiness::{Interest, ManySockets};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections that move bytes at once, each on a thread; further ones wait for their turn.
const MOST_MOVING: usize = 64;
/// A thread without work ends after this.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// How threads are used, for those that are on one.
#[derive(Debug, Default)]
pub(super) struct ThreadUse {
    /// Threads that one connection keeps while it waits for its client, too (TLS, PUT); they are not counted as moving.
    held: AtomicUsize,
    /// Connections wait for a thread, and there may be no more.
    is_short: AtomicBool,
}

impl ThreadUse {
    /// The caller keeps its thread until this is dropped.
    pub(super) fn hold(&self) -> HeldThread<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        HeldThread(self)
    }

    /// Who has had a thread for long should give it to another connection.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

/// See [`ThreadUse::hold`].
pub(super) struct HeldThread<'a>(&'a ThreadUse);

impl Drop for HeldThread<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections that have something to do, first come, first served, and the threads that serve them.
pub(super) struct ReadyConnections<'s> {
    state: Mutex<ReadyState<'s>>,
    bell: Condvar,
    usage: &'s ThreadUse,
}

#[derive(Default)]
struct ReadyState<'s> {
    ready: VecDeque<Connection<'s>>,
    threads: usize,
    /// Of them: begun, and not here yet.
    starting: usize,
    /// Of them: waiting for a connection.
    idle: usize,
    over: bool,
}

impl<'s> ReadyConnections<'s> {
    pub(super) fn new(usage: &'s ThreadUse) -> Self {
        ReadyConnections { state: Mutex::default(), bell: Condvar::new(), usage }
    }

    pub(super) fn push(&self, connection: Connection<'s>) {
        let mut state = lock(&self.state);
        state.ready.push_back(connection);
        self.note(&state);
        self.bell.notify_one();
    }

    /// Whether a thread more is wanted; it counts from now on.
    pub(super) fn begin_thread(&self) -> bool {
        let mut state = lock(&self.state);
        let wanted = state.lacks_threads() && state.threads < self.most_threads();
        state.threads += usize::from(wanted);
        state.starting += usize::from(wanted);
        self.note(&state);
        wanted
    }

    /// There is none: those that are there do it.
    pub(super) fn no_thread(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        state.starting -= 1;
    }

    /// No more turns begin.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.over = true;
        let left = std::mem::take(&mut state.ready);
        drop(state);
        self.bell.notify_all();
        drop(left);
    }

    /// A thread's work, until there is none for a while.
    pub(super) fn work(&self, waiting: &WaitingConnections<'s>) {
        lock(&self.state).starting -= 1;
        while let Some(mut connection) = self.next() {
            match connection.turn() {
                Turn::Over => {}
                Turn::Waits(interest) => waiting.add(connection, interest),
                Turn::Yields => self.push(connection),
            }
        }
    }

    fn next(&self) -> Option<Connection<'s>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(connection) = state.ready.pop_front().filter(|_| !state.over) {
                self.note(&state);
                return Some(connection);
            }
            if state.over {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (woken, waited) =
                self.bell.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.ready.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    fn most_threads(&self) -> usize {
        MOST_MOVING + self.usage.held.load(Ordering::Relaxed)
    }

    fn note(&self, state: &ReadyState<'_>) {
        let is_short = state.lacks_threads() && state.threads >= self.most_threads();
        self.usage.is_short.store(is_short, Ordering::Relaxed);
    }
}

impl ReadyState<'_> {
    fn lacks_threads(&self) -> bool {
        self.ready.len() > self.idle + self.starting
    }
}

/// Connections that wait for their clients.
pub(super) struct WaitingConnections<'s> {
    sockets: &'s ManySockets,
    each: Mutex<Waiting<'s>>,
}

struct Waiting<'s> {
    /// By the number under which epoll reports them.
    each: HashMap<u64, Connection<'s>>,
    next: u64,
}

impl<'s> WaitingConnections<'s> {
    /// Numbers below `first` are of others among these sockets.
    pub(super) fn new(sockets: &'s ManySockets, first: u64) -> Self {
        WaitingConnections { sockets, each: Mutex::new(Waiting { each: HashMap::new(), next: first }) }
    }

    /// It has no thread until its client does something. Without room in epoll it ends.
    pub(super) fn add(&self, connection: Connection<'s>, interest: Interest) {
        let mut waiting = lock(&self.each);
        let number = waiting.next;
        waiting.next += 1;
        // Its news is looked for under the same lock.
        match self.sockets.watch_once(connection.socket(), number, interest) {
            Ok(()) => {
                waiting.each.insert(number, connection);
            }
            Err(error) => tracing::debug!(%error, "epoll"),
        }
    }

    /// Of which there is news.
    pub(super) fn take(&self, number: u64) -> Option<Connection<'s>> {
        lock(&self.each).each.remove(&number)
    }

    /// Those that have waited long enough.
    pub(super) fn take_late(&self) -> Vec<Connection<'s>> {
        let now = Instant::now();
        let mut waiting = lock(&self.each);
        let late = waiting.each.extract_if(|_, connection| connection.deadline() <= now);
        late.map(|(_, connection)| connection).collect()
    }

    /// All end.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.each).each);
        drop(all);
    }
}
