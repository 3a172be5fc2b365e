//! Connections that wait for a thread, and how many threads there are for them.

use super::connection::Connection;
use super::fair_queue::FairQueue;
use super::work::ThreadUse;
use linerate_system::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A thread without work ends after this.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// Connections that have something to do, one client's after another's.
pub(super) struct ReadyConnections<'s> {
    state: Mutex<ReadyState<'s>>,
    wake: Condvar,
    /// Threads at most.
    most: usize,
    /// Threads that are held come on top; it learns where they are too few.
    usage: Option<&'s ThreadUse>,
}

#[derive(Default)]
struct ReadyState<'s> {
    ready: FairQueue<Connection<'s>>,
    threads: usize,
    /// Of them: begun, and not here yet.
    starting: usize,
    /// Of them: waiting for a connection.
    idle: usize,
    over: bool,
}

impl<'s> ReadyConnections<'s> {
    pub(super) fn new(most: usize, usage: Option<&'s ThreadUse>) -> Self {
        ReadyConnections { state: Mutex::default(), wake: Condvar::new(), most, usage }
    }

    pub(super) fn push(&self, connection: Connection<'s>) {
        let mut state = lock(&self.state);
        if state.over {
            drop(state);
            return drop(connection);
        }
        state.ready.push(connection.client(), connection);
        self.note(&state);
        self.wake.notify_one();
    }

    /// Whether a thread more is wanted; it counts from now on.
    pub(super) fn begin_thread(&self) -> bool {
        let mut state = lock(&self.state);
        let wanted = !state.over && state.lacks_threads() && state.threads < self.most_threads();
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

    /// The calling thread is one that was begun.
    pub(super) fn began(&self) {
        lock(&self.state).starting -= 1;
    }

    /// No more turns begin.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.over = true;
        let left = std::mem::take(&mut state.ready);
        drop(state);
        self.wake.notify_all();
        drop(left);
    }

    /// The next connection for a thread; none: the thread ends.
    pub(super) fn next(&self) -> Option<Connection<'s>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(connection) = state.ready.pop() {
                self.note(&state);
                return Some(connection);
            }
            if state.over {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (woken, waited) =
                self.wake.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.ready.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Nothing is to be done, and nothing is done.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.ready.is_empty() && state.threads == state.idle
    }

    fn most_threads(&self) -> usize {
        self.most + self.usage.map_or(0, ThreadUse::held)
    }

    fn note(&self, state: &ReadyState<'_>) {
        if let Some(usage) = self.usage {
            usage.set_short(state.lacks_threads() && state.threads >= self.most_threads());
        }
    }
}

impl ReadyState<'_> {
    fn lacks_threads(&self) -> bool {
        self.ready.len() > self.idle + self.starting
    }
}
