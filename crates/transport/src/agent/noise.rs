//! The encrypted channel: a Noise handshake under the shared key, then messages as JSON in encrypted frames.
//!
//! Pattern NN with the key mixed in first (`psk0`): who does not know the key cannot make the first message,
//! and learns nothing from a recording even if the key leaks later (<https://noiseprotocol.org/noise.html>,
//! section 9). A first message can be replayed, so a client counts as known only with its first message
//! *after* the handshake.
//!
//! A frame is a length (u16, big endian) and that many bytes of ciphertext; its plaintext is one byte (1: the
//! message ends here, 0: more follows) and a part of the message.

#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;

use super::secret::Key;
use super::wire::CONTROL_MAGIC;
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, StatelessTransportState};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use thiserror::Error;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// An ephemeral public key and the tag of an empty payload: each of the two handshake messages.
const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;
const TAG_BYTES: usize = 16;
const FLAG_BYTES: usize = 1;
/// Before each frame.
const LENGTH_BYTES: usize = 2;
/// The largest frame that Noise allows.
const FRAME_LIMIT_BYTES: usize = 65_535;
const PART_LIMIT_BYTES: usize = FRAME_LIMIT_BYTES - TAG_BYTES - FLAG_BYTES;

/// First bytes of a connection, mixed into the keys: so that no protocol's messages are taken for another's.
pub type Magic = [u8; 4];
/// What a client sends first, after the magic.
pub const OPENING_BYTES: usize = LENGTH_BYTES + HANDSHAKE_BYTES;

/// Largest first message of a client, which nobody vouches for yet.
pub(crate) const HELLO_LIMIT_BYTES: usize = 1024;
/// Largest request: 256 streams fit.
pub(crate) const REQUEST_LIMIT_BYTES: usize = 256 << 10;
/// Largest reply: 256 streams and a thousand cores fit, and so do the counters of dozens of NICs.
pub(crate) const REPLY_LIMIT_BYTES: usize = 4 << 20;

/// Why the channel cannot go on. After any of these it is of no use any more.
#[derive(Debug, Error)]
pub enum Broken {
    /// The other side closed.
    #[error("the connection was closed")]
    Closed,
    /// Not in time.
    #[error("no answer in time")]
    Late,
    /// The other side frames in another version; its magic ends with this digit.
    #[error("it speaks version {0} of the channel")]
    OtherVersion(char),
    /// The bytes are none of this channel: another program, another key, or somebody changed them.
    #[error("its bytes belong to another program or another key")]
    Foreign,
    /// A message above the limit.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// The message decrypts but is not understood.
    #[error("a message is not understood: {0}")]
    Message(serde_json::Error),
    /// Any other failure of the connection.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe => Broken::Closed,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Broken::Late,
            _ => Broken::Io(error),
        }
    }
}

impl From<snow::Error> for Broken {
    fn from(_: snow::Error) -> Self {
        Broken::Foreign
    }
}

/// An encrypted channel; the connection itself is passed to each call, together with its deadline. The two halves may
/// be used by two threads.
pub struct Channel {
    pub sender: ChannelSender,
    pub receiver: ChannelReceiver,
}

/// The half that encrypts; frames are numbered.
pub struct ChannelSender {
    noise: Arc<StatelessTransportState>,
    next_frame: u64,
}

/// The half that decrypts.
pub struct ChannelReceiver {
    noise: Arc<StatelessTransportState>,
    next_frame: u64,
    /// What came and is not read yet.
    inbox: Vec<u8>,
    plain: Vec<u8>,
    /// The parts of a message that is not whole yet.
    text: Vec<u8>,
}

fn builder<'a>(magic: &'a Magic, key: &'a Key) -> Result<Builder<'a>, Broken> {
    Ok(Builder::new(PATTERN.parse()?).prologue(magic)?.psk(0, key.bytes())?)
}

/// The client's side of the agent's channel.
pub(crate) fn initiate(wire: impl Read + Write, key: &Key) -> Result<Channel, Broken> {
    initiate_as(&CONTROL_MAGIC, wire, key)
}

/// The agent's side of its channel, after the magic was read.
pub(crate) fn respond(wire: impl Read + Write, key: &Key) -> Result<Channel, Broken> {
    respond_as(&CONTROL_MAGIC, wire, key)
}

/// The client's side: sends the magic and the first message, awaits the second.
pub fn initiate_as(magic: &Magic, mut wire: impl Read + Write, key: &Key) -> Result<Channel, Broken> {
    let mut state = builder(magic, key)?.build_initiator()?;
    let mut opening = magic.to_vec();
    opening.extend(handshake_frame(&mut state)?);
    wire.write_all(&opening)?;
    let mut length = [0; 2];
    wire.read_exact(&mut length)?;
    if length == magic[..2] {
        // A server of another version shows its magic in place of an answer.
        let mut rest = [0; 2];
        wire.read_exact(&mut rest)?;
        let known = rest[0] == magic[2] && rest[1].is_ascii_graphic();
        return Err(if known { Broken::OtherVersion(rest[1].into()) } else { Broken::Foreign });
    }
    read_handshake(&mut wire, length, &mut state)?;
    Channel::new(state)
}

/// The server's side, after the magic was read. Nothing is sent before the client's message proved that it
/// was made with the key.
pub fn respond_as(magic: &Magic, mut wire: impl Read + Write, key: &Key) -> Result<Channel, Broken> {
    let (channel, answer) = respond_to(magic, &mut wire, key)?;
    wire.write_all(&answer)?;
    Ok(channel)
}

/// The same, where the caller sends the answer.
pub fn respond_to(magic: &Magic, mut opening: impl Read, key: &Key) -> Result<(Channel, Vec<u8>), Broken> {
    let mut state = builder(magic, key)?.build_responder()?;
    let mut length = [0; 2];
    opening.read_exact(&mut length)?;
    read_handshake(&mut opening, length, &mut state)?;
    let answer = handshake_frame(&mut state)?;
    Ok((Channel::new(state)?, answer))
}

fn handshake_frame(state: &mut HandshakeState) -> Result<Vec<u8>, Broken> {
    let mut message = [0; HANDSHAKE_BYTES];
    let length = state.write_message(&[], &mut message)?;
    let mut frame = (length as u16).to_be_bytes().to_vec();
    frame.extend(&message[..length]);
    Ok(frame)
}

fn read_handshake(wire: &mut impl Read, length: [u8; 2], state: &mut HandshakeState) -> Result<(), Broken> {
    if usize::from(u16::from_be_bytes(length)) != HANDSHAKE_BYTES {
        return Err(Broken::Foreign);
    }
    let mut message = [0; HANDSHAKE_BYTES];
    wire.read_exact(&mut message)?;
    state.read_message(&message, &mut [0; HANDSHAKE_BYTES])?;
    Ok(())
}

impl Channel {
    fn new(state: HandshakeState) -> Result<Channel, Broken> {
        let noise = Arc::new(state.into_stateless_transport_mode()?);
        let sender = ChannelSender { noise: noise.clone(), next_frame: 0 };
        let (inbox, plain, text) = Default::default();
        Ok(Channel { sender, receiver: ChannelReceiver { noise, next_frame: 0, inbox, plain, text } })
    }
}

impl ChannelSender {
    /// Sends one message.
    pub fn send(&mut self, mut wire: impl Write, message: &impl Serialize) -> Result<(), Broken> {
        let frames = self.encrypt(&serde_json::to_vec(message).map_err(Broken::Message)?)?;
        Ok(wire.write_all(&frames)?)
    }

    /// All frames of a message, one after another.
    pub fn encrypt(&mut self, text: &[u8]) -> Result<Vec<u8>, Broken> {
        if text.len() > REPLY_LIMIT_BYTES {
            return Err(Broken::TooLong(REPLY_LIMIT_BYTES));
        }
        let mut frames = Vec::with_capacity(text.len() + 64);
        let parts = text.len().div_ceil(PART_LIMIT_BYTES).max(1);
        for index in 0..parts {
            let start = index * PART_LIMIT_BYTES;
            let end = text.len().min(start + PART_LIMIT_BYTES);
            let ends = u8::from(index + 1 == parts);
            self.add_frame(&[&[ends], &text[start..end]].concat(), &mut frames)?;
        }
        Ok(frames)
    }

    fn add_frame(&mut self, plain: &[u8], frames: &mut Vec<u8>) -> Result<(), Broken> {
        let mut frame = vec![0; plain.len() + TAG_BYTES];
        let length = self.noise.write_message(self.next_frame, plain, &mut frame)?;
        self.next_frame += 1;
        frames.extend((length as u16).to_be_bytes());
        frames.extend(&frame[..length]);
        Ok(())
    }
}

impl ChannelReceiver {
    /// Receives one message of at most `limit` bytes, and takes no byte that follows it.
    pub fn receive<T: DeserializeOwned>(&mut self, wire: impl Read, limit: usize) -> Result<T, Broken> {
        let text = self.decrypt(wire, limit)?;
        serde_json::from_slice(&text).map_err(Broken::Message)
    }

    fn decrypt(&mut self, mut wire: impl Read, limit: usize) -> Result<Vec<u8>, Broken> {
        loop {
            if let Some(text) = self.pop(limit)? {
                return Ok(text);
            }
            let length = self.inbox.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
            let came = self.inbox.len();
            self.inbox.resize(LENGTH_BYTES + usize::from(length), 0);
            wire.read_exact(&mut self.inbox[came..])?;
        }
    }

    /// Takes what came, in any pieces.
    pub fn push(&mut self, bytes: &[u8]) {
        self.inbox.extend(bytes);
    }

    /// The next message that is whole, of at most `limit` bytes. Memory grows with what arrived and decrypted, never
    /// with what a length promises.
    pub fn pop(&mut self, limit: usize) -> Result<Option<Vec<u8>>, Broken> {
        while let Some((length, rest)) = self.inbox.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*length));
            let part = length.checked_sub(TAG_BYTES + FLAG_BYTES).ok_or(Broken::Foreign)?;
            if self.text.len() + part > limit {
                return Err(Broken::TooLong(limit));
            }
            let Some(frame) = rest.get(..length) else { break };
            self.plain.resize(length, 0);
            let opened = self.noise.read_message(self.next_frame, frame, &mut self.plain);
            self.inbox.drain(..LENGTH_BYTES + length);
            let (flag, part) = self.plain[..opened?].split_first().ok_or(Broken::Foreign)?;
            self.next_frame += 1;
            self.text.extend(part);
            match flag {
                1 => return Ok(Some(std::mem::take(&mut self.text))),
                // An empty part that promises more could be repeated without end.
                0 if !part.is_empty() => {}
                _ => return Err(Broken::Foreign),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::fuzzing::{Script, key};
    use super::*;
    use crate::agent::protocol::{AgentRequest, Reply};
    use proptest::prelude::*;

    fn pair() -> (Channel, Channel) {
        fuzzing::pair(&CONTROL_MAGIC)
    }

    #[test]
    fn messages_of_any_length_come_over_up_to_the_limit() {
        let (mut client, mut agent) = pair();
        for length in [0, 1, PART_LIMIT_BYTES - 2, PART_LIMIT_BYTES - 1, PART_LIMIT_BYTES, 300_000] {
            let text = "y".repeat(length);
            let mut wire = Vec::new();
            agent.sender.send(&mut wire, &text).expect("sent");
            assert!(!wire.windows(8).any(|window| window == b"yyyyyyyy"), "encrypted");
            let back: String = client.receiver.receive(wire.as_slice(), REPLY_LIMIT_BYTES).expect("received");
            assert_eq!(back, text);
        }
        let frames = client.sender.encrypt(&[b'1'; 5000]).expect("frames");
        assert!(matches!(
            agent.receiver.decrypt(frames.as_slice(), HELLO_LIMIT_BYTES),
            Err(Broken::TooLong(1024))
        ));
        assert!(matches!(client.sender.encrypt(&vec![0; REPLY_LIMIT_BYTES + 1]), Err(Broken::TooLong(_))));
    }

    #[test]
    fn a_changed_or_repeated_frame_is_refused() {
        let (mut client, mut agent) = pair();
        let frames = client.sender.encrypt(b"\"text\"").expect("frames");
        for place in 2..frames.len() {
            let mut changed = frames.clone();
            changed[place] ^= 1;
            assert!(
                matches!(agent.receiver.decrypt(changed.as_slice(), 100), Err(Broken::Foreign)),
                "byte {place}"
            );
        }
        assert_eq!(agent.receiver.decrypt(frames.as_slice(), 100).expect("the frame"), b"\"text\"");
        assert!(matches!(agent.receiver.decrypt(frames.as_slice(), 100), Err(Broken::Foreign)), "a replay");
    }

    #[test]
    fn another_key_gets_no_byte_out_of_the_agent() {
        let mut recording = Script(&[], 0);
        let other = Key::from_hex(&"5b".repeat(32)).expect("a key");
        let mut state =
            builder(&CONTROL_MAGIC, &other).expect("a builder").build_initiator().expect("a state");
        let opening = handshake_frame(&mut state).expect("a frame");
        recording.0 = &opening;
        assert!(matches!(respond(&mut recording, &key()), Err(Broken::Foreign)));
        assert_eq!(recording.1, 0);
    }

    proptest! {
        // Each case makes a channel, which costs some milliseconds in a debug build.
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn random_openings_are_refused_without_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200), honest: bool) {
            let mut bytes = bytes;
            if honest && bytes.len() >= 2 {
                bytes[..2].copy_from_slice(&(HANDSHAKE_BYTES as u16).to_be_bytes());
            }
            let mut script = Script(&bytes, 0);
            prop_assert!(respond(&mut script, &key()).is_err());
            prop_assert_eq!(script.1, 0);
            prop_assert!(initiate(Script(&bytes, 0), &key()).is_err());
        }

        #[test]
        fn random_frames_are_refused_with_bounded_memory(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let (_, mut agent) = pair();
            prop_assert!(agent.receiver.decrypt(bytes.as_slice(), HELLO_LIMIT_BYTES).is_err());
            prop_assert!(agent.receiver.inbox.capacity() <= 2 * (HELLO_LIMIT_BYTES + 17));
            prop_assert!(agent.receiver.plain.capacity() <= 2 * (HELLO_LIMIT_BYTES + 17));
        }

        #[test]
        fn random_plaintext_under_the_right_key_never_panics(text in "\\PC{0,300}", whole in 0..4) {
            let (mut client, mut agent) = pair();
            let text = match whole {
                0 => text,
                1 => format!("{{\"ask\":\"open\",\"workers\":[{text}]}}"),
                2 => format!("{{\"ask\":\"open\",\"streams\":[{{{text}}}]}}"),
                _ => format!("{{\"answer\":\"sample\",\"streams\":[{{{text}}}]}}"),
            };
            let frames = client.sender.encrypt(text.as_bytes()).expect("frames");
            let _ = agent.receiver.receive::<AgentRequest>(frames.as_slice(), REQUEST_LIMIT_BYTES);
            let frames = agent.sender.encrypt(text.as_bytes()).expect("frames");
            let _ = client.receiver.receive::<Reply>(frames.as_slice(), REPLY_LIMIT_BYTES);
        }
    }
}
