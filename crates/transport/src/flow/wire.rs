//! What goes over a UDP data path besides payload: admission, the sender's probes, the receiver's feedback.
//!
//! Payload datagrams carry no header of our own, so that a block read from a disk can be cut into datagrams
//! where it lies (UDP_SEGMENT). Loss is still exact: after every burst a small *probe* says how much was sent
//! before it, and the answer how much had arrived. Both are told from payload by 16 bytes of the stream's
//! secret token. An answer is never larger than what it answers, so a forged sender gains nothing.

/// First bytes of the admission datagram and of its answer.
pub(crate) const ADMISSION_MAGIC: [u8; 4] = *b"LRu1";
/// Length of the admission datagram: magic and token. Its answer is shorter.
pub(crate) const ADMISSION_BYTES: usize = 4 + 32;
/// Length of a probe and of a feedback datagram.
pub(crate) const PROBE_BYTES: usize = 64;

/// The one-time secret of a data stream.
pub type StreamToken = [u8; 32];

/// The admission datagram.
pub fn admission(token: &StreamToken) -> [u8; ADMISSION_BYTES] {
    let mut datagram = [0; ADMISSION_BYTES];
    datagram[..4].copy_from_slice(&ADMISSION_MAGIC);
    datagram[4..].copy_from_slice(token);
    datagram
}

/// The receiver's answer to an admission: magic, the token's first half, its buffer in bytes.
pub fn admitted(token: &StreamToken, buffer_bytes: u64) -> [u8; 28] {
    let mut datagram = [0; 28];
    datagram[..4].copy_from_slice(&ADMISSION_MAGIC);
    datagram[4..20].copy_from_slice(&token[..16]);
    datagram[20..].copy_from_slice(&buffer_bytes.to_be_bytes());
    datagram
}

/// Reads the answer to an admission: the receiver's buffer in bytes.
pub fn read_admitted(datagram: &[u8], token: &StreamToken) -> Option<u64> {
    let rest = datagram.strip_prefix(&ADMISSION_MAGIC)?.strip_prefix(&token[..16])?;
    Some(u64::from_be_bytes(rest.try_into().ok()?))
}

/// What the sender had sent before the probe, and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Payload bytes sent before it.
    pub sent_bytes: u64,
    /// The sender's clock, nanoseconds.
    pub nanos: u64,
}

/// The answer: the probe again, and what had arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The probe that is answered.
    pub probe: Probe,
    /// Payload bytes received before the probe was.
    pub received_bytes: u64,
    /// Datagrams of payload received.
    pub datagrams: u64,
    /// Drops by the receiving socket's buffer, in the kernel's unit.
    pub socket_drops: u64,
    /// How long the probe lay in the receiver's socket buffer before the receiver came to it, nanoseconds.
    pub held_nanos: u64,
}

fn numbers_of<const N: usize>(datagram: &[u8], token: &StreamToken) -> Option<[u64; N]> {
    if datagram.len() != PROBE_BYTES {
        return None;
    }
    let rest = datagram.strip_prefix(&token[16..])?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

fn with_words(token: &StreamToken, words: &[u64]) -> [u8; PROBE_BYTES] {
    let mut datagram = [0; PROBE_BYTES];
    datagram[..16].copy_from_slice(&token[16..]);
    for (bytes, word) in datagram[16..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    datagram
}

impl Probe {
    /// As a datagram.
    pub fn datagram(&self, token: &StreamToken) -> [u8; PROBE_BYTES] {
        with_words(token, &[self.sent_bytes, self.nanos])
    }

    /// From a datagram, if it is one.
    pub fn read(datagram: &[u8], token: &StreamToken) -> Option<Self> {
        let [sent_bytes, nanos] = numbers_of(datagram, token)?;
        Some(Probe { sent_bytes, nanos })
    }
}

impl Feedback {
    /// As a datagram.
    pub fn datagram(&self, token: &StreamToken) -> [u8; PROBE_BYTES] {
        let Probe { sent_bytes, nanos } = self.probe;
        let Feedback { received_bytes, datagrams, socket_drops, held_nanos, .. } = *self;
        with_words(token, &[sent_bytes, nanos, received_bytes, datagrams, socket_drops, held_nanos])
    }

    /// From a datagram, if it is one.
    pub fn read(datagram: &[u8], token: &StreamToken) -> Option<Self> {
        let [sent_bytes, nanos, received_bytes, datagrams, socket_drops, held_nanos] =
            numbers_of(datagram, token)?;
        let probe = Probe { sent_bytes, nanos };
        Some(Feedback { probe, received_bytes, datagrams, socket_drops, held_nanos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn feedback_survives_the_wire(token: [u8; 32], sent: u64, nanos: u64, received: u64, datagrams: u64, drops: u64, held: u64) {
            let probe = Probe { sent_bytes: sent, nanos };
            prop_assert_eq!(Probe::read(&probe.datagram(&token), &token), Some(probe));
            let feedback = Feedback { probe, received_bytes: received, datagrams, socket_drops: drops, held_nanos: held };
            prop_assert_eq!(Feedback::read(&feedback.datagram(&token), &token), Some(feedback));
            prop_assert_eq!(read_admitted(&admitted(&token, received), &token), Some(received));
        }

        #[test]
        fn anything_else_is_payload(token: [u8; 32], other: [u8; 32], bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Feedback::read(&bytes, &token), read_admitted(&bytes, &token));
            prop_assume!(token != other);
            prop_assert_eq!(Probe::read(&Probe::default().datagram(&other), &token), None);
        }
    }
}
