//! The TCP control channel: a listener, the way in, and messages in encrypted frames.
//!
//! Who does not know the key never gets a byte, but for one exception: a linerate whose channel has another version is told this one's.

use super::frames::{Frames, MAGIC, respond};
use super::hall::Hall;
use super::limits::{ADMISSION, REQUEST_BYTES};
use super::outbox::Item;
use super::seat::{Gone, Seat, Wire, converse};
use crate::agent::{OPENING_BYTES, prepare_control};
use crate::web::Place;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Messages of this protocol; grows with each that an older side would not understand.
pub const PROTOCOL: u32 = 1;
/// The first message of a client, which nobody vouches for yet: the handshake's first message may be a replay.
const GREETING_BYTES: usize = 1024;
/// Read at once.
const CHUNK_BYTES: usize = 16 << 10;

/// What both sides say first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the program.
    pub linerate: String,
    pub protocol: u32,
}

impl Greeting {
    /// Ours.
    pub fn ours() -> Greeting {
        Greeting { linerate: env!("CARGO_PKG_VERSION").into(), protocol: PROTOCOL }
    }

    /// As text.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Lets connections in, for ever.
pub async fn listen(listener: TcpListener, hall: Arc<Hall>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // No place: closed without a word.
                if let Some(place) = hall.strangers.take(address.ip()) {
                    tokio::spawn(visited(stream, address.ip(), place, hall.clone()));
                }
            }
            // No file descriptor to be had, or a connection that died in the queue (accept(2)): wait instead of spinning.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn visited(mut stream: TcpStream, address: std::net::IpAddr, stranger: Place, hall: Arc<Hall>) {
    let Ok(Ok(frames)) = tokio::time::timeout(ADMISSION, admit(&mut stream, &hall)).await else { return };
    drop(stranger);
    let mut wire = TcpWire { stream, frames };
    let Some(place) = hall.known.take(address) else {
        let text = super::hall::refusal("too many connections: close some that are not needed");
        let _ = tokio::time::timeout(ADMISSION, wire.send(Item::Text(text))).await;
        return;
    };
    let seat = Seat::new(&hall, place, false);
    converse(&mut wire, seat).await;
}

/// Magic, handshake, greeting.
async fn admit(stream: &mut TcpStream, hall: &Hall) -> io::Result<Frames> {
    let foreign = || io::Error::from(io::ErrorKind::InvalidData);
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        if magic[..3] == MAGIC[..3] {
            stream.write_all(&MAGIC).await?;
        }
        return Err(foreign());
    }
    let mut opening = [0; OPENING_BYTES];
    stream.read_exact(&mut opening).await?;
    let (channel, reply) = respond(&opening, &hall.key).map_err(|_| foreign())?;
    stream.write_all(&reply).await?;
    prepare_control(&*stream)?;
    let mut frames = Frames::new(channel, GREETING_BYTES);
    let greeting = receive(stream, &mut frames).await?;
    // Of another protocol: it is told ours, and judges for itself.
    let theirs: Greeting = serde_json::from_slice(&greeting).map_err(|_| foreign())?;
    let ours = frames.seal(&Greeting::ours().text()).map_err(|_| foreign())?;
    stream.write_all(&ours).await?;
    if theirs.protocol == PROTOCOL { Ok(frames.with_limit(REQUEST_BYTES)) } else { Err(foreign()) }
}

/// A message; what came of the next one stays in `frames` where this is dropped.
async fn receive(stream: &mut TcpStream, frames: &mut Frames) -> io::Result<Vec<u8>> {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        if let Some(text) = frames.pop().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            return Ok(text);
        }
        match stream.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => frames.push(&chunk[..length]),
        }
    }
}

struct TcpWire {
    stream: TcpStream,
    frames: Frames,
}

impl Wire for TcpWire {
    async fn receive(&mut self) -> Result<Vec<u8>, Gone> {
        receive(&mut self.stream, &mut self.frames).await.map_err(|_| Gone)
    }

    async fn send(&mut self, item: Item) -> Result<(), Gone> {
        // Previews are for the page.
        let Item::Text(text) = item else { return Ok(()) };
        let sealed = self.frames.seal(text.as_bytes()).map_err(|_| Gone)?;
        self.stream.write_all(&sealed).await.map_err(|_| Gone)
    }

    /// To close with unread bytes would reset the connection (RFC 1122, 4.2.2.13), and the last words would be lost with it.
    async fn end(&mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = [0; CHUNK_BYTES];
        while matches!(self.stream.read(&mut rest).await, Ok(length) if length > 0) {}
    }
}
