//! Connections under TLS whose handshake is not at its end: they have no thread and no permit of a connection, and the
//! first of them goes where there are too many.

use super::Shared;
use super::served_stream::ServedStream;
use super::tally::Tally;
use super::work::Turn;
use crate::tls::Handshake;
use linerate_system::clock;
use linerate_system::lock;
use linerate_transport::admission::{Pending, Permit};
use std::net::{IpAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// From the accept to the end of the handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Those connections, by their numbers.
pub(super) struct PendingHandshakes(Mutex<Pending<u64>>);

/// One of them, as long as it has this.
pub(super) struct PendingEntry<'s> {
    list: &'s PendingHandshakes,
    number: u64,
    pub(super) deadline: Instant,
}

impl PendingHandshakes {
    /// So many at once. Each costs a descriptor and little memory, and a client that is driven out comes again at
    /// once: the more there may be, the less those who say nothing cost the others.
    pub(super) fn new(handshakes: usize) -> Self {
        PendingHandshakes(Mutex::new(Pending::new(handshakes, HANDSHAKE_TIME)))
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Adds a connection; the number of the one that has to go for it, if there is one.
    pub(super) fn add(&self, client: IpAddr, connection: u64) -> (PendingEntry<'_>, Option<u64>) {
        let mut list = lock(&self.0);
        let driven_out = list.make_room();
        let (number, deadline) = list.next_entry();
        list.add(client, connection);
        (PendingEntry { list: self, number, deadline }, driven_out)
    }
}

impl PendingEntry<'_> {
    /// It was not driven out.
    pub(super) fn is_there(&self) -> bool {
        lock(&self.list.0).contains(self.number)
    }
}

impl Drop for PendingEntry<'_> {
    fn drop(&mut self) {
        lock(&self.list.0).remove(self.number);
    }
}

/// By which right a connection is here.
pub(super) enum Admission<'s> {
    /// Its handshake is not at its end.
    Pending(PendingEntry<'s>),
    Admitted(#[expect(dead_code, reason = "it is given back with the connection")] Permit),
}

impl Admission<'_> {
    /// It had to go before its handshake was at its end.
    pub(super) fn is_driven_out(&self) -> bool {
        matches!(self, Admission::Pending(entry) if !entry.is_there())
    }

    /// The same, or its time for that is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Admission::Pending(entry) if !entry.is_there() || entry.deadline <= clock::now())
    }

    /// Whether it may stay, now that its handshake is at its end.
    pub(super) fn is_admitted(&mut self, client: IpAddr, shared: &Shared<'_>) -> bool {
        if matches!(self, Admission::Admitted(_)) {
            return true;
        }
        match shared.permits.take(client) {
            Ok(permit) => {
                Tally::add(&shared.tally.connections, 1);
                *self = Admission::Admitted(permit);
                true
            }
            Err(_) => {
                Tally::add(&shared.tally.refused, 1);
                false
            }
        }
    }
}

/// Who encrypts a connection's bytes.
pub(super) enum Security {
    Plain,
    /// Nothing of the handshake has come yet.
    Silent,
    Agreeing(Box<Handshake>),
    /// The kernel, or this program on the thread that the connection is on.
    Agreed,
}

impl Security {
    /// The connection's bytes, once there is TLS where there is to be; else what it waits for, or its end.
    pub(super) fn stream<'a>(
        &mut self,
        socket: &'a TcpStream,
        shared: &'a Shared<'_>,
    ) -> Result<ServedStream<'a>, Turn> {
        let Some(tls) = &shared.tls else { return Ok(ServedStream::plain(socket, false)) };
        let failed = |error: crate::tls::HandshakeError| {
            tracing::debug!(%error, "TLS");
            Turn::Over
        };
        let mut handshake = match std::mem::replace(self, Security::Agreed) {
            Security::Agreed => return Ok(ServedStream::plain(socket, true)),
            Security::Plain | Security::Silent => Box::new(Handshake::new(tls).map_err(failed)?),
            Security::Agreeing(handshake) => handshake,
        };
        match handshake.go_on(socket).map_err(failed)? {
            Some(interest) => {
                *self = Security::Agreeing(handshake);
                Err(Turn::Waits(interest))
            }
            None => ServedStream::secure(socket, *handshake, &shared.kernel_tls).ok_or(Turn::Over),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_ones_of_the_address_that_has_most_of_them_go_first() {
        let list = PendingHandshakes::new(64);
        let client = |number: u8| IpAddr::from([192, 0, 2, number]);
        let begun = Instant::now();
        let mut silent: Vec<PendingEntry<'_>> = Vec::new();
        for number in 0..64 {
            let (entry, driven_out) = list.add(client(1 + u8::from(number % 4 == 3)), number);
            assert_eq!(driven_out, None);
            silent.push(entry);
        }
        let (third, driven_out) = list.add(client(3), 999);
        assert_eq!(driven_out, Some(0));
        assert!(!silent[0].is_there() && silent[1].is_there() && third.is_there());
        assert!(third.deadline >= begun + HANDSHAKE_TIME);
        drop(silent);
        assert_eq!(list.add(client(1), 1000).1, None, "those that are done leave room");
    }
}
