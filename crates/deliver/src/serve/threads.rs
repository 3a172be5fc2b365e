//! Threads for the connections that have something to do. They are few: a connection that waits for a thread is in a queue
//! in which the clients take turns, however much each of them has in it; one that waits for its client has none, and is
//! found by epoll when there is news.

use super::block_sums::MOST_AT_ONCE;
use super::connection::Connection;
use super::work::Turn;
pub(super) use super::work::{ThreadUse, Work};
use linerate_system::affinity::yield_to_others;
use linerate_system::readiness::{Interest, ManySockets};
use linerate_system::{clock, lock};
use linerate_transport::admission::origin;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Connections that move bytes at once, each on a thread; further ones wait for their turn.
const MOST_MOVING: usize = 64;
/// Lists that are made, and those that wait for what is in their way.
const MOST_LISTING: usize = 8;
/// A thread without work ends after this.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// The threads of a server, and the connections that are with them.
pub(super) struct ServerThreads<'s> {
    moving: ReadyConnections<'s>,
    listing: ReadyConnections<'s>,
    summing: ReadyConnections<'s>,
    pub(super) waiting: WaitingConnections<'s>,
}

impl<'s> ServerThreads<'s> {
    pub(super) fn new(usage: &'s ThreadUse, waiting: WaitingConnections<'s>) -> Self {
        ServerThreads {
            moving: ReadyConnections::new(MOST_MOVING, Some(usage)),
            listing: ReadyConnections::new(MOST_LISTING, None),
            summing: ReadyConnections::new(MOST_AT_ONCE, None),
            waiting,
        }
    }

    /// Gives a connection to a thread, as soon as there is one.
    pub(super) fn push<'scope, 'env>(
        &'env self,
        work: Work,
        connection: Connection<'s>,
        scope: &'scope Scope<'scope, 'env>,
    ) {
        self.of(work).push(connection);
        self.begin_threads(work, scope);
    }

    /// Begins the threads that are wanted; one that cannot begin now is tried again with the next call.
    pub(super) fn begin_threads<'scope, 'env>(&'env self, work: Work, scope: &'scope Scope<'scope, 'env>) {
        let ready = self.of(work);
        let name = match work {
            Work::Move => "connection",
            Work::List => "list",
            Work::Sum => "sums",
        };
        while ready.begin_thread() {
            let run = move || self.run(work, scope);
            if Builder::new().name(name.into()).spawn_scoped(scope, run).is_err() {
                return ready.no_thread();
            }
        }
    }

    /// No more turns begin.
    pub(super) fn end(&self) {
        self.all().into_iter().for_each(ReadyConnections::end);
    }

    /// No connection is with a thread, is to have one, or waits for its client. First those with threads: what leaves one
    /// meanwhile waits already.
    pub(super) fn is_idle(&self) -> bool {
        self.all().into_iter().all(ReadyConnections::is_idle) && self.waiting.is_empty()
    }

    fn all(&self) -> [&ReadyConnections<'s>; 3] {
        [&self.moving, &self.listing, &self.summing]
    }

    /// A thread's life, until it has had nothing to do for a while.
    fn run<'scope, 'env>(&'env self, work: Work, scope: &'scope Scope<'scope, 'env>) {
        if work != Work::Move {
            yield_to_others();
        }
        let ready = self.of(work);
        ready.began();
        while let Some(mut connection) = ready.next() {
            match connection.turn(work) {
                Turn::Over => {}
                Turn::Waits(interest) => self.waiting.add(connection, interest),
                Turn::GoesTo(next) if work == Work::Move => self.push(next, connection, scope),
                // A thread has the niceness of the one that begins it: threads that move bytes are not begun from here.
                // The socket has room, which epoll reports at once.
                Turn::GoesTo(_) => self.waiting.add(connection, Interest::Write),
            }
        }
    }

    fn of(&self, work: Work) -> &ReadyConnections<'s> {
        match work {
            Work::Move => &self.moving,
            Work::List => &self.listing,
            Work::Sum => &self.summing,
        }
    }
}

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

/// Entries by their client: one of each in turn, those of one client first come, first served.
struct FairQueue<T> {
    of_client: HashMap<IpAddr, VecDeque<T>>,
    /// Clients that have entries, the next one first.
    turns: VecDeque<IpAddr>,
    count: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        FairQueue { of_client: HashMap::new(), turns: VecDeque::new(), count: 0 }
    }
}

impl<T> FairQueue<T> {
    fn push(&mut self, client: IpAddr, entry: T) {
        let client = origin(client);
        let own = self.of_client.entry(client).or_default();
        if own.is_empty() {
            self.turns.push_back(client);
        }
        own.push_back(entry);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let own = self.of_client.get_mut(&client)?;
        let entry = own.pop_front();
        if own.is_empty() {
            self.of_client.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.count -= 1;
        entry
    }

    fn len(&self) -> usize {
        self.count
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Connections that wait for their client have no threads, and are found by epoll when there is news.
pub(super) struct WaitingConnections<'s> {
    sockets: &'s ManySockets,
    /// By their numbers, under which epoll reports them.
    each: Mutex<HashMap<u64, Connection<'s>>>,
}

impl<'s> WaitingConnections<'s> {
    pub(super) fn new(sockets: &'s ManySockets) -> Self {
        WaitingConnections { sockets, each: Mutex::default() }
    }

    /// It has no thread until its client does something. Without room in epoll it ends.
    pub(super) fn add(&self, connection: Connection<'s>, interest: Interest) {
        let number = connection.number();
        let mut each = lock(&self.each);
        // Who drives it out looks for it under the same lock, and so does the one who finds its news.
        if connection.is_driven_out() {
            return;
        }
        match self.sockets.watch_once(connection.socket(), number, interest) {
            Ok(()) => drop(each.insert(number, connection)),
            Err(error) => tracing::debug!(%error, "epoll"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.each).is_empty()
    }

    /// Of which there is news.
    pub(super) fn take(&self, number: u64) -> Option<Connection<'s>> {
        lock(&self.each).remove(&number)
    }

    /// Those that have waited long enough.
    pub(super) fn take_late(&self) -> Vec<Connection<'s>> {
        let now = clock::now();
        let mut each = lock(&self.each);
        let late = each.extract_if(|_, connection| connection.deadline() <= now);
        late.map(|(_, connection)| connection).collect()
    }

    /// All end.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.each));
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_many_entries_lets_others_go_between() {
        let mut queue = FairQueue::default();
        let client = |number: u8| IpAddr::from([192, 0, 2, number]);
        for entry in 0..100 {
            queue.push(client(1), entry);
        }
        queue.push(client(2), 200);
        queue.push(client(3), 300);
        let first: Vec<i32> = (0..5).filter_map(|_| queue.pop()).collect();
        assert_eq!(first, [0, 200, 300, 1, 2]);
        queue.push(client(2), 201);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(201), Some(4)]);
        let rest = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!((rest, queue.len(), queue.is_empty(), queue.of_client.len()), (95, 0, true, 0));
    }
}
