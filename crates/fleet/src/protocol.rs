//! What coordinator and member say to each other, and the channel for it: the same Noise channel as the agent's, read by a
//! thread of its own and written by anyone; a coordinator has those of all members together.
//!
//! A member opens with `Hello`. Then the coordinator asks for the clock some times, and for windows: `Prepare`
//! (connections to the receivers), `Begin` at a moment of the member's clock, and the member's `Done`; for disks
//! `PrepareDisks`, `BeginDisks` and `DisksDone`. Between these a member says `Alive` every second.

use crate::spec::FleetDiskSpec;
use linerate_facts::usage::CoreUse;
use linerate_machine::probe::Machine;
use linerate_measure::run::fleet::{FlowFigures, HostLoad};
use linerate_system::{clock, lock};
use linerate_transport::agent::{Broken, Channel, ChannelReceiver, ChannelSender, DeadlineStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufReader};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// First bytes of a member's connection; the digit is the version of the framing.
pub(crate) const FLEET_MAGIC: [u8; 4] = *b"LRf1";
/// Version of these messages. `Hello` up to its `version`, and `Refused`, stay as they are in every version.
pub(crate) const FLEET_PROTOCOL: u32 = 3;
/// The port that a coordinator listens on in a job, unless another is named.
pub const DEFAULT_COORDINATOR_PORT: u16 = 7412;
/// How often a member says that it is there.
pub(crate) const ALIVE: Duration = Duration::from_secs(1);
/// Largest message: a machine of many NICs and disks.
const MESSAGE_LIMIT_BYTES: usize = 4 << 20;

/// Bytes a second, seconds or a share: no host has more.
const MOST_OF_FIGURE: f64 = 1e15;
const MOST_COUNTED: u64 = 1 << 50;
const IMPOSSIBLE: &str = "it reported what cannot be; is linerate the same on all hosts?";

/// A message is small, and its reader is always there: a write that takes longer has nobody at its other end.
const WRITE_TIME: Duration = Duration::from_secs(3);

/// Who a member is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberHello {
    pub protocol: u32,
    pub version: String,
    /// As the coordinator's list calls it; none where the launcher did not say.
    pub name: Option<String>,
    pub host: String,
    pub rank: Option<u32>,
    /// Processes of its job.
    pub size: Option<u32>,
    /// Where it takes data.
    pub data_port: u16,
    /// Its addresses, for `--network`.
    pub addresses: Vec<IpAddr>,
}

/// One flow that a member is to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowRequest {
    /// Number of the receiver.
    pub to: usize,
    pub address: SocketAddr,
    pub streams: u32,
    /// Payload of all its streams together; none: as fast as it goes.
    pub bytes_per_second: Option<f64>,
    /// It sends what it reads from the sources that were prepared, not memory.
    pub disks: bool,
    /// Small requests go beside it.
    pub asks: bool,
}

/// What a member is to read and write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskRequest {
    pub spec: FleetDiskSpec,
    pub limit_bytes_per_second: Option<f64>,
    /// The sources are on a file system that all members share, and their files are read by other members.
    pub shared: Option<SharedFiles>,
}

/// A member's place among those that share files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedFiles {
    /// In the names of the files: no other fleet has it.
    pub id: String,
    /// One file for all, in which each has its part.
    pub one_file: bool,
    pub member: u32,
    pub members: u32,
    /// Whose data it reads.
    pub reads_of: u32,
}

/// What the coordinator asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MemberRequest {
    Welcome,
    /// Not admitted; a sentence for the user.
    Refused {
        why: String,
    },
    Clock,
    /// Open the connections of these flows.
    Prepare {
        window: u32,
        flows: Vec<FlowRequest>,
    },
    /// Send, from this moment of the member's clock on; who only receives looks at its CPUs meanwhile.
    Begin {
        window: u32,
        at_nanos: i64,
        warm_up_seconds: f64,
        seconds: f64,
    },
    /// Make and fill the files.
    PrepareDisks {
        window: u32,
        request: Box<DiskRequest>,
    },
    /// Read or write them once, from this moment of the member's clock on.
    BeginDisks {
        window: u32,
        at_nanos: i64,
        writes: bool,
    },
    /// The end: no more is asked.
    Leave,
}

/// What a member says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MemberReply {
    Hello(MemberHello),
    /// What it is, after its welcome.
    Machine(Box<Machine>),
    /// Its monotonic clock, and the time of day, nanoseconds since 1970.
    Clock {
        nanos: i64,
        unix_nanos: i64,
    },
    Alive,
    /// Connections of the window are there; those that are not, with the reason.
    Ready {
        window: u32,
        failures: Vec<FlowFailure>,
    },
    Done {
        window: u32,
        /// When its flows really began, of its clock.
        began_nanos: i64,
        flows: Vec<FlowReport>,
        load: HostLoad,
    },
    DisksDone {
        window: u32,
        began_nanos: i64,
        disks: Vec<DiskReport>,
    },
}

/// A flow that could not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowFailure {
    pub to: usize,
    pub why: String,
}

/// What a flow carried, counted at its receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowReport {
    pub to: usize,
    #[serde(flatten)]
    pub figures: FlowFigures,
}

/// What a member reports is summed up and compared, so that one wrong figure would be in many.
fn are_possible<'a>(figures: impl IntoIterator<Item = &'a f64>) -> bool {
    figures.into_iter().all(|figure| (0.0..MOST_OF_FIGURE).contains(figure))
}

/// The same of the loads of its CPUs.
pub(crate) fn is_possible(load: &HostLoad) -> bool {
    let busiest = load.busiest.as_ref().map_or(0.0, CoreUse::busy);
    are_possible(&[load.busy, load.throttled, load.steal, busiest])
}

impl FlowReport {
    /// As it was reported, or a failure.
    pub(crate) fn checked(self) -> FlowReport {
        #[cfg(test)]
        planted!(AnyFigure, return self);
        let FlowFigures { bytes_per_second, retransmitted_share, p99_seconds, .. } = &self.figures;
        let figures = [bytes_per_second, retransmitted_share, p99_seconds].into_iter().flatten();
        let is_counted = bytes_per_second.is_some() && self.figures.retransmits < MOST_COUNTED;
        match &self.figures.failure {
            Some(why) => FlowReport::failed(self.to, why),
            None if is_counted && are_possible(figures.chain(&self.figures.samples)) => self,
            None => FlowReport::failed(self.to, IMPOSSIBLE),
        }
    }

    /// Of a flow that has no figure.
    pub(crate) fn failed(to: usize, why: impl Into<String>) -> FlowReport {
        FlowReport { to, figures: FlowFigures { failure: Some(why.into()), ..FlowFigures::default() } }
    }
}

/// What came of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskReport {
    pub source: String,
    /// Disks behind it, by kernel name.
    pub disks: Vec<String>,
    pub bytes: u64,
    /// Until its last worker had done its part.
    pub bytes_per_second: f64,
    pub first_done_bytes_per_second: f64,
    pub p99_seconds: Option<f64>,
    /// Of the member's clock.
    pub ended_nanos: i64,
    /// Why it has no figure.
    pub failure: Option<String>,
}

impl DiskReport {
    /// As it was reported, or a failure.
    pub(crate) fn checked(self) -> DiskReport {
        let figures = [self.bytes_per_second, self.first_done_bytes_per_second];
        let is_right = self.bytes < MOST_COUNTED && are_possible(figures.iter().chain(&self.p99_seconds));
        let impossible = (!is_right).then(|| IMPOSSIBLE.into());
        DiskReport { failure: self.failure.or(impossible), ..self }
    }
}

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
        lock(&self.sender).send(DeadlineStream::new(&self.stream, WRITE_TIME), message)
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
