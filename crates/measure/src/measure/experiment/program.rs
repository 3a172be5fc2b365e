//! A flow that is not linerate's: what is taken of it, and who counts its bytes. Nothing of it can be raised. And why
//! of any flow nothing was taken, or why what was taken says nothing.

use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_model::shares::Hopeless;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, Key, LocalBinding, OpenedStream, Peer, StreamEnds};
use linerate_transport::flow::stream::{StreamRole, StreamSpec};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Counts a flow that linerate does not move.
pub trait ForeignFlow {
    /// Bytes so far; none: it is not there any more.
    fn bytes(&mut self) -> Option<u64>;

    /// They are counted no more often than this.
    fn pause(&self) -> Duration;
}

/// What is taken of what a program uses.
pub struct ProgramTakerSpec {
    /// The program's name.
    pub name: String,
    pub disks: Vec<ProgramDisk>,
    /// By the kernel, what it sends goes over this, by so many connections; and an agent behind it.
    pub nic: Option<(String, NicAgent)>,
    pub connections: usize,
    /// All CPUs that its threads may run on; empty: nothing is taken of them.
    pub cores: Vec<u32>,
    /// Share of the time in which it needs a CPU.
    pub cpu_busy: f64,
    /// Ids of what may be busy and cannot be taken from.
    pub untaken: Vec<String>,
    /// Threads that move its bytes, and what each moves at once.
    pub threads: u32,
    pub step_bytes: u64,
    pub round_trip_seconds: f64,
    /// Observing and taking together.
    pub longest: Duration,
}

/// A disk, and a file on it that is read beside the program.
#[derive(Debug)]
pub struct ProgramDisk {
    /// By the kernel.
    pub name: String,
    /// Open past the page cache.
    pub file: File,
    pub label: String,
    /// Where the program is in it.
    pub position: u64,
    pub bytes: u64,
    pub block_bytes: u64,
}

/// An agent behind the NIC over which a program sends: what is sent there beside the program is taken from the NIC.
pub struct NicAgent {
    pub reach: AgentReach,
    key: Key,
}

/// How this host reaches an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentReach {
    pub address: SocketAddr,
    /// Where its control connection begins.
    pub local: Option<SocketAddr>,
    pub round_trip_seconds: f64,
    /// It lets this host move no more than so much, bytes per second.
    pub rate_limit: Option<f64>,
}

impl NicAgent {
    /// How it is reached. A session may be idle for too long until a user agrees: the takers have one of their own.
    pub fn ask(peer: &Peer) -> Result<Self, Failure> {
        let session = AgentSession::connect(peer.address, &peer.key)?;
        let round_trip = || {
            let begin = clock::now();
            session.sample().map(|_| clock::since(begin).as_secs_f64())
        };
        let reach = AgentReach {
            address: peer.address,
            local: session.local_address(),
            round_trip_seconds: round_trip()?.min(round_trip()?).min(round_trip()?),
            rate_limit: session.hello().rate_limit,
        };
        Ok(NicAgent { reach, key: peer.key.clone() })
    }

    /// Opens so many streams, by which the taker sends, and which end with the session.
    pub(super) fn open(
        &self,
        streams: usize,
        stop: &Stop,
    ) -> Result<(AgentSession, Vec<TcpStream>), Failure> {
        let own = StreamSpec::new(Protocol::Tcp, StreamRole::Send);
        let ends = vec![StreamEnds { theirs: own.other_end(), own }; streams];
        let session = AgentSession::connect(self.reach.address, &self.key)?;
        let opened = session.open_streams(ends, LocalBinding::default(), stop)?;
        let tcp = |opened: Result<OpenedStream, Failure>| opened?.socket.into_tcp();
        let streams = opened.into_iter().map(tcp).collect::<Result<_, _>>()?;
        Ok((session, streams))
    }
}

/// In a sentence after `Not measured: `.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error("the path is too far for slots of a second")]
    FarPath,
    #[error("a source cannot be read past the page cache (O_DIRECT): a taker would read memory")]
    CachedSource,
    #[error("the agent bounds what this host may move")]
    AgentRateLimit,
    /// Of the flow that is taken from, or of an agent, in its own words.
    #[error("{0}")]
    Flow(String),
    #[error("{path}: {error}")]
    UnreadSource { path: String, error: io::Error },
    #[error("a taker did not start: {0}")]
    NoTaker(io::Error),
    #[error("{0}")]
    Hopeless(Hopeless),
    #[error("nothing that it uses is busy and can be taken from")]
    NothingToTake,
    #[error("the flow ended before anything was taken")]
    FlowEnded,
    #[error(
        "in two slots the flow moved less than three quarters of what it had moved before, so no more was taken"
    )]
    Spared,
}
