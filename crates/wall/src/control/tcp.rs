//! The TCP control channel: a listener, the way in, and messages in encrypted frames.
//!
//! Who does not know the key never gets a byte, but for one exception: a linerate whose channel has another
//! version is told this one's.

use super::REQUEST_BYTES;
use super::connection::{ControlConnection, Disconnected, Wire, serve};
use super::outbox::Item;
use super::state::{ControlState, refusal};
use linerate_transport::admission::{PendingEntry, TIME_TO_PROVE, prepare_control};
use linerate_transport::agent::{Channel, ChannelReceiver, Magic, OPENING_BYTES, respond_to};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// First bytes of a control connection of a wall; the digit is the version of the framing. Mixed into the
/// keys, so that an agent's channel under the same key cannot be taken for a wall's.
pub(crate) const MAGIC: Magic = *b"LRw1";
/// Messages of this protocol; grows with each that an older side would not understand.
pub(crate) const PROTOCOL: u32 = 1;
/// The first message of a client, which nobody vouches for yet: the handshake's first message may be a
/// replay.
const GREETING_BYTES: usize = 1024;
/// Read at once.
const CHUNK_BYTES: usize = 16 << 10;

/// What both sides say first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// Version of the program.
    pub linerate: String,
    pub protocol: u32,
}

impl Greeting {
    /// Ours.
    pub(crate) fn ours() -> Greeting {
        Greeting { linerate: env!("CARGO_PKG_VERSION").into(), protocol: PROTOCOL }
    }

    /// As text.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Accepts connections, for ever.
pub(crate) async fn listen(listener: TcpListener, state: Arc<ControlState>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (sender, ended) = oneshot::channel();
                let (entry, crowded_out) = state.pending.add(address.ip(), sender);
                drop(crowded_out);
                tokio::spawn(open(stream, address.ip(), state.clone(), (entry, ended)));
            }
            // No file descriptor to be had, or a connection that died in the queue (accept(2)): wait instead of
            // spinning.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Proves that it may stay, unless another takes its place before.
async fn open(
    mut stream: TcpStream,
    address: IpAddr,
    state: Arc<ControlState>,
    (entry, crowded_out): (PendingEntry<oneshot::Sender<()>>, oneshot::Receiver<()>),
) {
    let admitted = tokio::select! {
        admitted = tokio::time::timeout(TIME_TO_PROVE, admit(&mut stream, &state)) => admitted,
        _ = crowded_out => return,
    };
    let (Ok(Ok(channel)), Some(_)) = (admitted, entry.take()) else {
        tracing::info!(%address, "control connection refused: late, crowded out, or with another key");
        return;
    };
    let mut wire = TcpWire { stream, channel };
    let Ok(permit) = state.admitted.take(address) else {
        tracing::info!(%address, "control connection refused: too many of this origin or in all");
        let text = refusal("too many connections: close some that are not needed");
        let _ = tokio::time::timeout(TIME_TO_PROVE, wire.send(Item::Text(text))).await;
        return;
    };
    tracing::info!(%address, "control connection admitted");
    serve(&mut wire, ControlConnection::new(&state, permit, false)).await;
    tracing::info!(%address, "control connection ended");
}

/// Magic, handshake, greeting.
async fn admit(stream: &mut TcpStream, state: &ControlState) -> io::Result<Channel> {
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
    let responded = respond_to(&MAGIC, &opening[..], &state.key);
    let (mut channel, answer) = responded.map_err(|_| foreign())?;
    stream.write_all(&answer).await?;
    prepare_control(&*stream)?;
    let greeting = receive(stream, &mut channel.receiver, GREETING_BYTES).await?;
    // Of another protocol: it is told ours, and judges for itself.
    let theirs: Greeting = serde_json::from_slice(&greeting).map_err(|_| foreign())?;
    let ours = channel.sender.encrypt(&Greeting::ours().text()).map_err(|_| foreign())?;
    stream.write_all(&ours).await?;
    if theirs.protocol == PROTOCOL { Ok(channel) } else { Err(foreign()) }
}

/// A message; what came of the next one stays in `receiver` where this is dropped.
async fn receive(
    stream: &mut TcpStream,
    receiver: &mut ChannelReceiver,
    limit: usize,
) -> io::Result<Vec<u8>> {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        if let Some(text) = receiver.pop(limit).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            return Ok(text);
        }
        match stream.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => receiver.push(&chunk[..length]),
        }
    }
}

struct TcpWire {
    stream: TcpStream,
    channel: Channel,
}

impl Wire for TcpWire {
    async fn receive(&mut self) -> Result<Vec<u8>, Disconnected> {
        receive(&mut self.stream, &mut self.channel.receiver, REQUEST_BYTES).await.map_err(|_| Disconnected)
    }

    async fn send(&mut self, item: Item) -> Result<(), Disconnected> {
        // Previews are for the page.
        let Item::Text(text) = item else { return Ok(()) };
        let sealed = self.channel.sender.encrypt(text.as_bytes()).map_err(|_| Disconnected)?;
        self.stream.write_all(&sealed).await.map_err(|_| Disconnected)
    }

    /// To close with unread bytes would reset the connection (RFC 1122, 4.2.2.13), and the last words would
    /// be lost with it.
    async fn end(&mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = [0; CHUNK_BYTES];
        while matches!(self.stream.read(&mut rest).await, Ok(length) if length > 0) {}
    }
}
