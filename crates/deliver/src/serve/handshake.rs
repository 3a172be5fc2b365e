//! Connections under TLS whose handshake is not at its end: they have no thread and no permit of a connection, and the
//! first of them goes where there are too many.

use super::Shared;
use super::served_stream::ServedStream;
use super::tally::Tally;
use super::work::Turn;
use crate::tls::Handshake;
use linerate_system::clock;
use linerate_transport::admission::{PendingEntry, Permit};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

/// From the accept to the end of the handshake.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// By which right a connection is here.
pub(super) enum Admission {
    /// Its handshake is not at its end.
    Pending(PendingEntry<u64>),
    Admitted(#[expect(dead_code, reason = "it is given back with the connection")] Permit),
}

impl Admission {
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
