//! The channel of a coordinator and a member: the same Noise channel as the agent's, read by a thread of its own
//! and written by anyone; and those of all members of a coordinator.

use crate::protocol::{MESSAGE_LIMIT_BYTES, MemberReply, MemberRequest};
use linerate_system::{clock, lock};
use linerate_transport::agent::{Broken, Channel, ChannelReceiver, ChannelSender, DeadlineStream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// A message is small, and its reader is always there: a write that takes longer has nobody at its other end.
const WRITE: Duration = Duration::from_secs(3);

/// One end; all clones are the same.
#[derive(Clone)]
pub(crate) struct MemberLink {
    stream: Arc<TcpStream>,
    /// A message is often one packet: its length and itself come by one call.
    receiver: Arc<Mutex<(BufReader<TcpStream>, ChannelReceiver)>>,
    sender: Arc<Mutex<ChannelSender>>,
    /// When something came last, written by the thread that listens: a sign of life wakes nobody else.
    last_arrival: Arc<Mutex<Instant>>,
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
            last_arrival: Arc::new(Mutex::new(clock::now())),
        })
    }

    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), Broken> {
        // Held over the write: frames are numbered.
        lock(&self.sender).send(DeadlineStream::new(&self.stream, WRITE), message)
    }

    /// The next message, whenever it comes. By one thread only.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<T, Broken> {
        let (reader, receiver) = &mut *lock(&self.receiver);
        let message = receiver.receive(reader, MESSAGE_LIMIT_BYTES);
        *lock(&self.last_arrival) = clock::now();
        message
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

/// What a coordinator hears from its members and says to them, by their numbers.
pub(crate) trait MemberWire {
    fn send(&self, number: usize, request: &MemberRequest) -> Result<(), Broken>;

    /// The next reply of any member, signs of life left out; none within this time.
    fn receive(&mut self, within: Duration) -> Option<(usize, Result<MemberReply, Broken>)>;

    /// When something came from this member last.
    fn last_arrival(&self, number: usize) -> Instant;

    /// Ends the connection of this member.
    fn end(&self, number: usize);
}

/// The links of all members.
pub(crate) struct MemberLinks {
    members: Vec<MemberLink>,
    replies: Receiver<(usize, Result<MemberReply, Broken>)>,
}

impl MemberLinks {
    /// Listens to each member on a thread of its own.
    pub(crate) fn listen<'scope>(scope: &'scope Scope<'scope, '_>, links: Vec<MemberLink>) -> MemberLinks {
        let (sender, replies) = channel();
        let listen = |(number, link): (usize, MemberLink)| {
            let (reading, replying) = (link.clone(), sender.clone());
            let started = Builder::new().name("member".into()).spawn_scoped(scope, move || {
                loop {
                    let reply = reading.receive();
                    let ended = reply.is_err();
                    let is_sign = matches!(reply, Ok(MemberReply::Alive));
                    if !is_sign && replying.send((number, reply)).is_err() || ended {
                        return;
                    }
                }
            });
            if let Err(error) = started {
                let error = io::Error::other(format!("no thread to listen to it: {error}"));
                // The receiver is here.
                let _ = sender.send((number, Err(Broken::Io(error))));
            }
            link
        };
        MemberLinks { members: links.into_iter().enumerate().map(listen).collect(), replies }
    }
}

impl MemberWire for MemberLinks {
    fn send(&self, number: usize, request: &MemberRequest) -> Result<(), Broken> {
        self.members[number].send(request)
    }

    fn receive(&mut self, within: Duration) -> Option<(usize, Result<MemberReply, Broken>)> {
        self.replies.recv_timeout(within).ok()
    }

    fn last_arrival(&self, number: usize) -> Instant {
        *lock(&self.members[number].last_arrival)
    }

    fn end(&self, number: usize) {
        self.members[number].end()
    }
}
