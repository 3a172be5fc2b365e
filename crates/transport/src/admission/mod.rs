//! One admission control for everything that listens: linerate's agent, the iperf3 server, the pages, the
//! wall's control.
//!
//! - A connection that has proved nothing yet is *pending*: there are few of them, each with a deadline, and from a
//!   full list goes the oldest of the origin that has most ([`SharedPending`]).
//! - Who may stay holds a *permit*: all are counted, and one origin gets half of them at most ([`Permits`]).
//! - Where there is one permit alone, who had it last lets others go first ([`Turns`]).
//!
//! What counts as one origin is an IPv4 address, or an IPv6 network of 64 bits ([`origin`]).

mod listen;
mod permits;

pub use listen::{ListenError, accept, accept_all, listen, prepare_control};
pub(crate) use listen::{NO_DESCRIPTOR, listen_or_at};
pub use permits::{NoPermit, Permit, Permits, origin};
pub(crate) use permits::{Turns, canonical};

use linerate_system::{clock, lock};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections that may be pending at once, where nothing else is said.
pub const PENDING_CONNECTIONS: usize = 64;
/// Time that a pending connection has to prove that it may stay, where nothing else is said.
pub const TIME_TO_PROVE: Duration = Duration::from_secs(3);

/// The list; `C` is what its owner keeps of a connection.
#[derive(Debug)]
pub(crate) struct Pending<C> {
    bound: usize,
    patience: Duration,
    next_number: u64,
    /// Oldest first.
    entries: Vec<PendingConnection<C>>,
}

/// One connection of the list.
#[derive(Debug)]
pub(crate) struct PendingConnection<C> {
    pub(crate) number: u64,
    pub(crate) origin: IpAddr,
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
    pub(crate) connection: C,
}

impl<C> Pending<C> {
    /// At most `bound` connections, each of which has `patience` to prove that it may stay.
    pub(crate) fn new(bound: usize, patience: Duration) -> Self {
        Pending { bound: bound.max(1), patience, next_number: 0, entries: Vec::new() }
    }

    /// Takes out the one that has to go before another may come; none where there is room.
    pub(crate) fn make_room(&mut self) -> Option<C> {
        if self.entries.len() < self.bound {
            return None;
        }
        #[cfg(test)]
        planted!(OldestOfAllGoes, return Some(self.entries.remove(0).connection));
        let origins: Vec<IpAddr> = self.entries.iter().map(|entry| entry.origin).collect();
        Some(self.entries.remove(most_crowding(&origins)?).connection)
    }

    /// Adds a connection after [`Pending::make_room`]; its number and deadline.
    pub(crate) fn add(&mut self, peer: IpAddr, connection: C) -> (u64, Instant) {
        let (number, since) = (self.next_number, clock::now());
        let deadline = since + self.patience;
        self.next_number += 1;
        self.entries.push(PendingConnection { number, origin: origin(peer), since, deadline, connection });
        (number, deadline)
    }

    /// Takes a connection out; none: it had to go before.
    pub(crate) fn remove(&mut self, number: u64) -> Option<C> {
        let place = self.entries.iter().position(|entry| entry.number == number)?;
        Some(self.entries.remove(place).connection)
    }

    /// Whether a connection is in it still.
    fn contains(&self, number: u64) -> bool {
        self.entries.iter().any(|entry| entry.number == number)
    }

    /// Takes all out, oldest first; what is to wait on is given back with [`Pending::keep`].
    pub(crate) fn take_all(&mut self) -> Vec<PendingConnection<C>> {
        std::mem::take(&mut self.entries)
    }

    /// Gives back what [`Pending::take_all`] took.
    pub(crate) fn keep(&mut self, entry: PendingConnection<C>) {
        self.entries.push(entry);
    }

    /// The connections, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.entries.iter().map(|entry| &entry.connection)
    }

    /// None is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// A list that threads or tasks share.
#[derive(Debug)]
pub struct SharedPending<C>(Arc<Mutex<Pending<C>>>);

/// A connection's entry in it; it is taken out when this is dropped.
#[derive(Debug)]
pub struct PendingEntry<C> {
    list: Arc<Mutex<Pending<C>>>,
    number: u64,
    /// Until then it has to prove that it may stay.
    pub deadline: Instant,
}

impl<C> SharedPending<C> {
    /// At most `bound` connections, each of which has `patience` to prove that it may stay.
    pub fn new(bound: usize, patience: Duration) -> Self {
        SharedPending(Arc::new(Mutex::new(Pending::new(bound, patience))))
    }

    /// Adds a connection; with its entry comes the connection that has to go for it.
    pub fn add(&self, peer: IpAddr, connection: C) -> (PendingEntry<C>, Option<C>) {
        let mut list = lock(&self.0);
        let crowded_out = list.make_room();
        let (number, deadline) = list.add(peer, connection);
        (PendingEntry { list: self.0.clone(), number, deadline }, crowded_out)
    }

    /// Takes all out, oldest first.
    pub(crate) fn take_all(&self) -> Vec<C> {
        lock(&self.0).take_all().into_iter().map(|entry| entry.connection).collect()
    }

    /// None is pending.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<C> PendingEntry<C> {
    /// It was not crowded out.
    pub fn is_there(&self) -> bool {
        lock(&self.list).contains(self.number)
    }

    /// Takes the connection out, which may stay. None: it was crowded out before, and must not go on.
    pub fn take(&self) -> Option<C> {
        lock(&self.list).remove(self.number)
    }
}

impl<C> Drop for PendingEntry<C> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The first of the origin that has most.
fn most_crowding(origins: &[IpAddr]) -> Option<usize> {
    let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
    origins.iter().for_each(|origin| *crowds.entry(*origin).or_default() += 1);
    let worst = crowds.values().max()?;
    origins.iter().position(|origin| crowds.get(origin) == Some(worst))
}
