//! The channel of a coordinator and a member: the same Noise channel as the agent's, read by a thread of its own
//! and written by anyone.

use crate::protocol::MESSAGE_LIMIT_BYTES;
use linerate_system::lock;
use linerate_transport::agent::{Broken, Channel, ChannelReceiver, ChannelSender, DeadlineStream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A message is small, and its reader is always there: a write that takes longer has nobody at its other end.
const WRITE: Duration = Duration::from_secs(3);

/// One end; all clones are the same.
#[derive(Clone)]
pub(crate) struct MemberLink {
    stream: Arc<TcpStream>,
    /// A message is often one packet: its length and itself come by one call.
    receiver: Arc<Mutex<(BufReader<TcpStream>, ChannelReceiver)>>,
    sender: Arc<Mutex<ChannelSender>>,
}

impl MemberLink {
    /// After the handshake.
    pub(crate) fn new(stream: TcpStream, channel: Channel) -> io::Result<MemberLink> {
        // Deadlines of the handshake end here: a member may be asked nothing for long.
        stream.set_read_timeout(None)?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(MemberLink {
            stream: Arc::new(stream),
            receiver: Arc::new(Mutex::new((reader, channel.receiver))),
            sender: Arc::new(Mutex::new(channel.sender)),
        })
    }

    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), Broken> {
        // Held over the write: frames are numbered.
        lock(&self.sender).send(DeadlineStream::new(&self.stream, WRITE), message)
    }

    /// The next message, whenever it comes. By one thread only.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<T, Broken> {
        let (reader, receiver) = &mut *lock(&self.receiver);
        receiver.receive(reader, MESSAGE_LIMIT_BYTES)
    }

    /// The same within a time.
    pub(crate) fn receive_within<T: DeserializeOwned>(&self, time: Duration) -> Result<T, Broken> {
        self.stream.set_read_timeout(Some(time))?;
        let message = self.receive();
        self.stream.set_read_timeout(None)?;
        message
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Nothing more is received, also by a thread that waits for it; what was begun can still be answered.
    pub(crate) fn end_reading(&self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends it at both ends, also for a thread that reads.
    pub(crate) fn end(&self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
