//! Messages in encrypted frames, between byte buffers: the same for the server's asynchronous connections and
//! the client's blocking one.

use linerate_transport::agent::{Broken, Channel, Key, Magic, respond_as};
use std::io::{self, Read, Write};

/// First bytes of a control connection of a wall; the digit is the version of the framing. Mixed into the
/// keys, so that an agent's channel under the same key cannot be taken for a wall's.
pub(crate) const MAGIC: Magic = *b"LRw1";

/// A length stands before each frame.
const LENGTH_BYTES: usize = 2;

/// One side of a channel.
pub(crate) struct Frames {
    channel: Channel,
    /// What came and is not yet read.
    inbox: Vec<u8>,
    /// The parts of a message that is not yet whole.
    text: Vec<u8>,
    /// Largest message that is taken.
    limit: usize,
}

impl Frames {
    /// After the handshake.
    pub(crate) fn new(channel: Channel, limit: usize) -> Frames {
        Frames { channel, inbox: Vec::new(), text: Vec::new(), limit }
    }

    /// The same, once it is known who speaks.
    pub(crate) fn with_limit(self, limit: usize) -> Frames {
        Frames { limit, ..self }
    }

    /// A message as it goes over the wire.
    pub(crate) fn seal(&mut self, text: &[u8]) -> Result<Vec<u8>, Broken> {
        self.channel.encrypt(text)
    }

    /// Takes what came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// The next message that is whole.
    pub(crate) fn pop(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        loop {
            let Some((length, rest)) = self.inbox.split_first_chunk::<LENGTH_BYTES>() else {
                return Ok(None);
            };
            let length = usize::from(u16::from_be_bytes(*length));
            // A frame's tag and flag are no part of the message: a little generous.
            if self.text.len() + length > self.limit.saturating_add(64) {
                return Err(Broken::TooLong(self.limit));
            }
            let Some(frame) = rest.get(..length) else { return Ok(None) };
            let whole = self.channel.open_frame(frame, &mut self.text)?;
            self.inbox.drain(..LENGTH_BYTES + length);
            if whole {
                return Ok(Some(std::mem::take(&mut self.text)));
            }
        }
    }
}

/// The server's half of the handshake: what the client sent after the magic; the channel, and what goes back.
pub(crate) fn respond(opening: &[u8], key: &Key) -> Result<(Channel, Vec<u8>), Broken> {
    let mut exchange = Exchange { come: opening, goes: Vec::new() };
    let channel = respond_as(&MAGIC, &mut exchange, key)?;
    Ok((channel, exchange.goes))
}

/// The handshake's two messages, between buffers.
struct Exchange<'a> {
    come: &'a [u8],
    goes: Vec<u8>,
}

impl Read for Exchange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.come.read(buffer)
    }
}

impl Write for Exchange<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.goes.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
