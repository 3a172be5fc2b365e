//! Threads for the connections that have something to do. They are few: a connection that waits for its client has
//! none, and is found by epoll when there is news.

use super::block_sums::MOST_AT_ONCE;
use super::connection::Connection;
use super::ready::{ReadyConnections, WaitingConnections};
use super::work::Turn;
pub(super) use super::work::{ThreadUse, Work};
use linerate_system::affinity::yield_to_others;
use linerate_system::readiness::Interest;
use std::thread::{Builder, Scope};

/// Connections that move bytes at once, each on a thread; further ones wait for their turn.
const MOST_MOVING: usize = 64;
/// Lists that are made, and those that wait for what is in their way.
const MOST_LISTING: usize = 8;

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
