//! What the datagrams of a stream look like: payload with a number and a time at its start, and the few
//! messages around it.
//!
//! ```text
//! payload   0 tag (8)         8 number (8)   16 sent at, ns (8)   24 anything
//! message   0 message tag (8) 8 kind (8)     16 value (8)         24 zeros up to 64
//! ```
//!
//! Numbers are big-endian and count from 0. The tags are parts of the stream's token: who does not know it
//! cannot make a datagram that is believed. Probes and feedback, which hold a sender without a rate, are
//! those of `flow::wire`. No answer is larger than its question.

use super::super::wire::StreamToken;

/// What a payload datagram begins with, bytes.
pub const HEADER_BYTES: usize = 24;
/// Length of every message, probe and feedback.
pub(crate) const MESSAGE_BYTES: usize = 64;
/// No stream sends so many datagrams: a larger number is forged or broken, and not believed.
pub const MOST_DATAGRAMS: u64 = 1 << 44;

/// The tags of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    payload: [u8; 8],
    message: [u8; 8],
}

/// The header of a payload datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number in the stream, from 0.
    pub number: u64,
    /// When it was handed to the kernel, nanoseconds on the sender's clock.
    pub sent_nanos: u64,
}

/// What the two ends tell one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramMessage {
    /// Sender: are you there? With its clock in nanoseconds.
    Hello(u64),
    /// Receiver: yes; with its socket's buffer in bytes.
    Ready(u64),
    /// Sender: that was all; so many datagrams. Said again until it is answered, since it may be lost.
    End(u64),
    /// Receiver: the end arrived.
    Ended,
}

impl Tags {
    /// Those of the stream with this token.
    pub fn of(token: &StreamToken) -> Self {
        let (mut payload, mut message) = ([0; 8], [0; 8]);
        // The last 16 bytes are the mark of probes and feedback (`flow::wire`).
        payload.copy_from_slice(&token[..8]);
        message.copy_from_slice(&token[8..16]);
        if payload == message {
            message[0] ^= 0xff; // one token in 2^64; the two must differ all the same
        }
        Tags { payload, message }
    }

    /// Writes the header of a payload datagram, which is at least `HEADER_BYTES` long.
    pub fn write(&self, header: Header, datagram: &mut [u8]) {
        if let Some(tag) = datagram.first_chunk_mut::<8>() {
            *tag = self.payload;
        }
        renumber(header, datagram);
    }

    /// The header of a datagram, if it is payload of this stream.
    #[inline]
    pub fn read(&self, datagram: &[u8]) -> Option<Header> {
        let start = datagram.first_chunk::<HEADER_BYTES>()?;
        let (tag, rest) = start.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let sent_nanos = rest.first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        (*tag == self.payload && number < MOST_DATAGRAMS)
            .then_some(Header { number, sent_nanos: u64::from_be_bytes(*sent_nanos) })
    }

    /// A message as a datagram.
    pub fn message(&self, message: DatagramMessage) -> [u8; MESSAGE_BYTES] {
        let (kind, value) = match message {
            DatagramMessage::Hello(nanos) => (1u64, nanos),
            DatagramMessage::Ready(buffer_bytes) => (2, buffer_bytes),
            DatagramMessage::End(datagrams) => (3, datagrams),
            DatagramMessage::Ended => (4, 0),
        };
        let mut datagram = [0; MESSAGE_BYTES];
        datagram[..8].copy_from_slice(&self.message);
        datagram[8..16].copy_from_slice(&kind.to_be_bytes());
        datagram[16..24].copy_from_slice(&value.to_be_bytes());
        datagram
    }

    /// The message that a datagram is, if it is one.
    pub fn read_message(&self, datagram: &[u8]) -> Option<DatagramMessage> {
        if datagram.len() != MESSAGE_BYTES {
            return None;
        }
        let rest = datagram.strip_prefix(&self.message)?;
        let (kind, rest) = rest.split_first_chunk::<8>()?;
        let value = u64::from_be_bytes(*rest.first_chunk::<8>()?);
        match u64::from_be_bytes(*kind) {
            1 => Some(DatagramMessage::Hello(value)),
            2 => Some(DatagramMessage::Ready(value)),
            3 if value <= MOST_DATAGRAMS => Some(DatagramMessage::End(value)),
            4 => Some(DatagramMessage::Ended),
            _ => None,
        }
    }
}

/// Writes the header of a datagram that has its tag already. Whole words: a sender does nothing else with
/// each datagram.
#[inline]
pub(crate) fn renumber(header: Header, datagram: &mut [u8]) {
    if let Some(start) = datagram.first_chunk_mut::<HEADER_BYTES>() {
        let [_, number, sent_nanos] = start.as_chunks_mut::<8>().0 else { return };
        *number = header.number.to_be_bytes();
        *sent_nanos = header.sent_nanos.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_survives_the_wire(token: [u8; 32], number in 0..MOST_DATAGRAMS, sent_nanos: u64, length in HEADER_BYTES..200usize) {
            let (tags, header) = (Tags::of(&token), Header { number, sent_nanos });
            let mut datagram = vec![7; length];
            tags.write(header, &mut datagram);
            prop_assert_eq!(tags.read(&datagram), Some(header));
            prop_assert_eq!(tags.read_message(&datagram), None);
            prop_assert!(datagram[HEADER_BYTES..].iter().all(|byte| *byte == 7));
            prop_assert_eq!(tags.read(&datagram[..HEADER_BYTES - 1]), None);
        }

        #[test]
        fn messages_survive_the_wire(token: [u8; 32], value in 0..MOST_DATAGRAMS) {
            let tags = Tags::of(&token);
            for message in [DatagramMessage::Hello(value), DatagramMessage::Ready(value), DatagramMessage::End(value), DatagramMessage::Ended] {
                let datagram = tags.message(message);
                prop_assert_eq!(tags.read_message(&datagram), Some(message));
                prop_assert_eq!(tags.read(&datagram), None);
                prop_assert_eq!(tags.read_message(&datagram[1..]), None);
            }
        }

        #[test]
        fn anything_else_is_foreign(token: [u8; 32], other: [u8; 32], bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assume!(token[..8] != other[..8] && token[8..16] != other[8..16]);
            let (ours, theirs) = (Tags::of(&token), Tags::of(&other));
            let mut datagram = bytes;
            datagram.resize(64, 0);
            theirs.write(Header { number: 1, sent_nanos: 2 }, &mut datagram);
            prop_assert_eq!(ours.read(&datagram), None);
            prop_assert_eq!(ours.read_message(&theirs.message(DatagramMessage::End(1))), None);
        }
    }

    #[test]
    fn numbers_that_no_stream_reaches_are_not_believed() {
        let tags = Tags::of(&[3; 32]);
        let mut datagram = [0; 64];
        tags.write(Header { number: MOST_DATAGRAMS, sent_nanos: 0 }, &mut datagram);
        assert_eq!(tags.read(&datagram), None);
        assert_eq!(tags.read_message(&tags.message(DatagramMessage::End(u64::MAX))), None);
    }
}
