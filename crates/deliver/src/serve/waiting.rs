//! Connections that wait for their clients.

use super::connection::Connection;
use linerate_system::clock;
use linerate_system::lock;
use linerate_system::readiness::{Interest, ManySockets};
use std::collections::HashMap;
use std::sync::Mutex;

/// They have no threads, and are found by epoll when there is news.
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
