//! Whose datagrams are believed.
//!
//! A server tells a screen who will send to it and under which SSRC. Without one, the first stream that comes
//! is believed, and nothing else while it lasts: anybody can send to a port, and two streams in one picture
//! are none.

use crate::rtp::PAYLOAD_TYPE;
use std::net::{IpAddr, SocketAddr};

/// A stream that is silent for so long may be followed by another, nanoseconds.
const SILENCE: i64 = 1_000_000_000;

/// What a server announced of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub ssrc: u32,
    /// Where it may come from; a port of 0 stands for any.
    pub from: Vec<SocketAddr>,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Of the stream that is shown.
    Ours,
    /// The first of a stream that is shown from now on.
    First,
    /// Counted, not believed.
    Foreign,
}

/// The stream that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub ssrc: u32,
    pub from: SocketAddr,
}

/// Lets one stream in.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    expected: Option<Expected>,
    /// Of a session description; else any dynamic one.
    payload_type: Option<u8>,
    held: Option<Stream>,
    /// When its last datagram came, nanoseconds since 1970.
    heard: i64,
}

impl Gate {
    /// Waits for the first stream of this payload type, or of any.
    pub(crate) fn new(payload_type: Option<u8>) -> Gate {
        Gate { payload_type, ..Gate::default() }
    }

    /// From now on only this one.
    pub(crate) fn expect(&mut self, expected: Expected) {
        if self.held.is_some_and(|held| !expected.names(held)) {
            self.held = None;
        }
        self.expected = Some(expected);
    }

    /// The stream that is believed.
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.held
    }

    /// Whether to believe a datagram.
    #[inline]
    pub(crate) fn admit(&mut self, payload_type: u8, stream: Stream, now: i64) -> Admission {
        let known = match self.payload_type {
            Some(expected) => payload_type == expected,
            // RFC 3551: dynamic types begin here.
            None => payload_type >= PAYLOAD_TYPE,
        };
        if !known {
            return Admission::Foreign;
        }
        if self.held == Some(stream) {
            self.heard = now;
            return Admission::Ours;
        }
        self.admit_another(stream, now)
    }

    fn admit_another(&mut self, stream: Stream, now: i64) -> Admission {
        let first = self.held.is_none();
        match &self.expected {
            Some(expected) if !expected.names(stream) => return Admission::Foreign,
            // A tile that moved to another NIC of its server is the same stream.
            Some(_) if !first => {
                (self.held, self.heard) = (Some(stream), now);
                return Admission::Ours;
            }
            None if !first && now.saturating_sub(self.heard) < SILENCE => return Admission::Foreign,
            _ => {}
        }
        (self.held, self.heard) = (Some(stream), now);
        Admission::First
    }
}

impl Expected {
    fn names(&self, stream: Stream) -> bool {
        let ip = |address: SocketAddr| -> IpAddr { address.ip().to_canonical() };
        let from = stream.from;
        self.ssrc == stream.ssrc
            && self
                .from
                .iter()
                .any(|may| ip(*may) == ip(from) && (may.port() == 0 || may.port() == from.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(ssrc: u32, from: &str) -> Stream {
        Stream { ssrc, from: from.parse().expect("an address") }
    }

    #[test]
    fn the_first_stream_is_held_until_it_is_silent() {
        let mut gate = Gate::new(None);
        let (ours, forged) = (stream(1, "10.0.0.1:5000"), stream(1, "10.0.0.2:5000"));
        assert_eq!(gate.admit(96, ours, 0), Admission::First);
        assert_eq!(gate.admit(96, ours, 10), Admission::Ours);
        assert_eq!(gate.admit(0, ours, 10), Admission::Foreign, "audio");
        assert_eq!(gate.admit(96, stream(2, "10.0.0.1:5000"), 20), Admission::Foreign);
        assert_eq!(gate.admit(96, forged, SILENCE), Admission::Foreign);
        assert_eq!(gate.admit(96, forged, SILENCE + 10), Admission::First);
        assert_eq!(gate.admit(96, ours, SILENCE + 20), Admission::Foreign);
        assert_eq!(gate.stream(), Some(forged));
        assert_eq!(Gate::new(Some(112)).admit(96, ours, 0), Admission::Foreign);
    }

    #[test]
    fn who_is_expected_is_let_in_at_once_and_nobody_else() {
        let mut gate = Gate::new(None);
        assert_eq!(gate.admit(96, stream(9, "10.0.0.9:1"), 0), Admission::First);
        let from = ["10.0.0.1:0", "10.0.1.1:0"].map(|text| text.parse().expect("an address"));
        gate.expect(Expected { ssrc: 7, from: from.to_vec() });
        assert_eq!(gate.admit(96, stream(9, "10.0.0.9:1"), 1), Admission::Foreign);
        assert_eq!(gate.admit(96, stream(7, "10.0.0.9:1"), 1), Admission::Foreign);
        assert_eq!(gate.admit(96, stream(7, "[::ffff:10.0.0.1]:6000"), 1), Admission::First);
        assert_eq!(gate.admit(96, stream(7, "10.0.1.1:6001"), 2), Admission::Ours, "another NIC");
    }
}
