//! The records of a client's connection once both ends have agreed on keys (RFC 8446 section 5): each is decrypted where it
//! was received, by the cipher of rustls's provider. rustls's own buffers ask the socket for 4 KiB at a time, and copy what
//! is decrypted twice more: together a third of what a copy cost its receiver (bench/README.md).

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks,
    OutboundPlainMessage,
};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets, HandshakeType,
    InvalidMessage, PeerIncompatible, ProtocolVersion, Tls13CipherSuite,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

/// The bytes before a record: its type, a version, its length.
const RECORD_HEADER_BYTES: usize = 5;
/// Plain bytes of a record at most …
const PLAIN_BYTES: usize = 16 << 10;
/// … and with its padding and its tag.
const MOST_RECORD_BYTES: usize = PLAIN_BYTES + 256;
/// Received at once: it stays in a CPU's second cache, and holds a record.
const RECEIVED_BYTES: usize = 256 << 10;
/// Encrypted before the socket is asked to take it.
const SENT_RECORDS: usize = 4;
/// The first byte of a handshake message that a client may leave alone: a ticket for a next connection.
const NEW_SESSION_TICKET: u8 = 4;
const HANDSHAKE_HEADER_BYTES: usize = 4;
const CLOSE_NOTIFY: u8 = 0;

/// How far the present record was read.
#[derive(Default)]
pub(super) struct RecordState {
    header: [u8; RECORD_HEADER_BYTES],
    /// Bytes of the header that were read.
    known: usize,
    /// Bytes of the record that were not.
    left: usize,
}

/// Reads no byte beyond a record before the next read: what follows the handshake is for others to decrypt.
pub(super) struct SingleRecords<'a> {
    pub(super) socket: &'a TcpStream,
    pub(super) state: &'a mut RecordState,
}

impl Read for SingleRecords<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let RecordState { header, known, left } = self.state;
        let wanted = if *left > 0 { *left } else { RECORD_HEADER_BYTES - *known };
        let room = wanted.min(into.len());
        let read = (&mut &*self.socket).read(&mut into[..room])?;
        if *left > 0 {
            *left -= read;
            return Ok(read);
        }
        header[*known..*known + read].copy_from_slice(&into[..read]);
        *known += read;
        if *known == RECORD_HEADER_BYTES {
            *left = usize::from(u16::from_be_bytes([header[3], header[4]]));
            *known = 0;
        }
        Ok(read)
    }
}

/// What both ends send, from the first byte behind the handshake on.
pub(super) struct ClientRecords {
    decrypter: Box<dyn MessageDecrypter>,
    /// Records that were decrypted.
    read: u64,
    received: Box<[u8]>,
    /// Of these not decrypted yet.
    held: Range<usize>,
    /// Decrypted, and not taken yet.
    plain: Range<usize>,
    /// Of a ticket still to come.
    ticket_left: usize,
    /// The server has said that nothing more comes.
    is_ended: bool,
    encrypter: Box<dyn MessageEncrypter>,
    /// Records that were encrypted.
    written: u64,
    /// As many keep the keys secret.
    most_written: u64,
    /// Encrypted, of which so many bytes are with the kernel.
    outgoing: (Vec<u8>, usize),
}

impl ClientRecords {
    /// Nothing of it was received yet.
    pub(super) fn new(suite: &Tls13CipherSuite, secrets: ExtractedSecrets) -> Result<Self, Error> {
        let (read, (read_key, read_iv)) = (secrets.rx.0, key_of(secrets.rx.1)?);
        let (written, (write_key, write_iv)) = (secrets.tx.0, key_of(secrets.tx.1)?);
        Ok(ClientRecords {
            decrypter: suite.aead_alg.decrypter(read_key, read_iv),
            read,
            received: vec![0; RECEIVED_BYTES].into_boxed_slice(),
            held: 0..0,
            plain: 0..0,
            ticket_left: 0,
            is_ended: false,
            encrypter: suite.aead_alg.encrypter(write_key, write_iv),
            written,
            most_written: suite.common.confidentiality_limit,
            outgoing: (Vec::new(), 0),
        })
    }

    /// It need not ask its socket for the next bytes.
    pub(super) fn holds_bytes(&self) -> bool {
        !self.plain.is_empty() || self.is_ended || !self.next_record().is_ok_and(|record| record.is_none())
    }

    /// All that one call to the socket brought, as far as there is room; none at the end. An end without a goodbye is one,
    /// too: what has a length is known by it.
    pub(super) fn read(&mut self, mut socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let now = self.plain.len().min(into.len() - taken);
            into[taken..taken + now]
                .copy_from_slice(&self.received[self.plain.start..self.plain.start + now]);
            self.plain.start += now;
            taken += now;
            if taken == into.len() || self.is_ended {
                return Ok(taken);
            }
            if let Some(record) = self.next_record().map_err(invalid_record)? {
                self.decrypt(record).map_err(invalid_record)?;
                if self.plain.is_empty() && taken == 0 && !self.is_ended {
                    // Nothing for the reader, who may look whether to go on.
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            } else if taken > 0 {
                return Ok(taken);
            } else {
                self.make_room();
                let received = socket.read(&mut self.received[self.held.end..])?;
                self.held.end += received;
                self.is_ended = received == 0;
            }
        }
    }

    /// For a record at least: what was received of one moves to the front where it would not end within.
    fn make_room(&mut self) {
        if self.held.is_empty() || self.received.len() - self.held.end < MOST_RECORD_BYTES {
            self.received.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
    }

    /// Where the next record lies, with its header; none where it has not come whole.
    fn next_record(&self) -> Result<Option<Range<usize>>, Error> {
        let held = &self.received[self.held.clone()];
        let Some(&[kind, _, _, high, low]) = held.first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if ContentType::from(kind) != ContentType::ApplicationData {
            return Err(InvalidMessage::InvalidContentType.into());
        }
        if length > MOST_RECORD_BYTES {
            return Err(Error::PeerSentOversizedRecord);
        }
        let end = RECORD_HEADER_BYTES + length;
        Ok((held.len() >= end).then_some(self.held.start..self.held.start + end))
    }

    fn decrypt(&mut self, record: Range<usize>) -> Result<(), Error> {
        let begin = record.start + RECORD_HEADER_BYTES;
        let encrypted = &mut self.received[begin..record.end];
        let message =
            InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, encrypted);
        let message = self.decrypter.decrypt(message, self.read)?;
        self.read += 1;
        self.held.start = record.end;
        match message.typ {
            // Nothing stands before them within a record of TLS 1.3.
            ContentType::ApplicationData => self.plain = begin..begin + message.payload.len(),
            ContentType::Handshake => self.ticket_left = passed_ticket(self.ticket_left, message.payload)?,
            ContentType::Alert => match message.payload {
                [_, CLOSE_NOTIFY] => self.is_ended = true,
                [_, why] => return Err(Error::AlertReceived(AlertDescription::from(*why))),
                _ => return Err(InvalidMessage::MessageTooShort.into()),
            },
            _ => return Err(InvalidMessage::InvalidContentType.into()),
        }
        Ok(())
    }

    /// Takes some of them, or none for now.
    pub(super) fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let taken = &bytes[..bytes.len().min(SENT_RECORDS * PLAIN_BYTES)];
        for plain in taken.chunks(PLAIN_BYTES) {
            if self.written >= self.most_written {
                // Another connection has other keys: what is missing is put over that.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let message = OutboundPlainMessage {
                typ: ContentType::ApplicationData,
                version: ProtocolVersion::TLSv1_2,
                payload: OutboundChunks::Single(plain),
            };
            let encrypted = self.encrypter.encrypt(message, self.written).map_err(invalid_record)?;
            self.written += 1;
            self.outgoing.0.extend_from_slice(&encrypted.encode());
        }
        // What the socket has no room for goes with the next call, which says what else is wrong.
        let _ = self.flush(socket);
        Ok(taken.len())
    }

    /// What was taken is with the kernel.
    pub(super) fn flush(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        let (outgoing, sent) = &mut self.outgoing;
        while *sent < outgoing.len() {
            match socket.write(&outgoing[*sent..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => *sent += written,
            }
        }
        outgoing.clear();
        *sent = 0;
        Ok(())
    }
}

fn key_of(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), Error> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(PeerIncompatible::NoCipherSuitesInCommon.into()),
    }
}

/// What is left of a ticket behind these bytes of handshake messages, `left` of which belong to one that has begun. New keys
/// (RFC 8446 section 4.6.3) end the connection: a client asks over another one for what is missing.
fn passed_ticket(left: usize, bytes: &[u8]) -> Result<usize, Error> {
    let passed = left.min(bytes.len());
    let (mut left, mut bytes) = (left - passed, &bytes[passed..]);
    while let Some((&[NEW_SESSION_TICKET, a, b, c], rest)) =
        bytes.split_first_chunk::<HANDSHAKE_HEADER_BYTES>()
    {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        left = length.saturating_sub(rest.len());
        bytes = &rest[length.min(rest.len())..];
    }
    match bytes.first() {
        None => Ok(left),
        Some(kind) => Err(Error::InappropriateHandshakeMessage {
            expect_types: vec![HandshakeType::NewSessionTicket],
            got_type: HandshakeType::from(*kind),
        }),
    }
}

fn invalid_record(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
