//! What client and agent say to each other inside the encrypted channel: one request, one reply, in turn.
//!
//! `Hello` opens a session. Then tests follow one another: `Open` (streams, and their tokens),
//! `Sample` as often as wished, `Settle` where they store, `Close`. `Counters` can be asked at any time. `Rdma` and
//! `EndRdma` are a test by perftest, in place of one by streams.

use super::secret::OneTimeToken;
use super::taking::{TakeRequest, TakenSample};
use crate::flow::stream::{StreamSample, StreamSpec};
use crate::perftest::PerftestSpec;
use linerate_facts::counters::{AgentProcess, NetworkCounters};
use linerate_facts::host::HostSample;
use serde::{Deserialize, Serialize};

/// Version of these messages. `Hello` and `Error` stay as they are in every version and `Hello` may lack what was
/// added since, so that a mismatch is reported in one sentence.
pub const PROTOCOL: u32 = 3;

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum AgentRequest {
    /// The first message.
    Hello {
        /// Version of the messages.
        protocol: u32,
        /// Version of the client's program.
        version: String,
    },
    /// Begin a test.
    Open(OpenRequest),
    /// How far are the streams?
    Sample,
    /// The streams that store take no more, and the disk keeps what came: their samples tell when they have ended.
    Settle,
    /// Take a little of the CPUs that the streams of this test are on (of agents whose `Hello` says so).
    Take(TakeRequest),
    /// End the test.
    Close,
    /// What has the host's network counted since it was started?
    Counters {
        /// Interfaces to tell of; empty: all.
        interfaces: Vec<String>,
    },
    /// Start perftest's server for a test by RDMA (of agents whose `Hello` says so).
    Rdma(PerftestSpec),
    /// The test is over: has its server ended well?
    EndRdma,
}

/// What the agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Reply {
    Hello(Box<Hello>),
    Opened {
        /// In the order of the request.
        tickets: Vec<StreamTicket>,
    },
    Sample(TestSample),
    Taken(TakenSample),
    /// The last sample of a test.
    Closed(TestSample),
    /// The host's network counters.
    Counters {
        counters: Box<NetworkCounters>,
    },
    RdmaReady(RdmaReady),
    RdmaEnded {
        /// Why the server did not end well.
        error: Option<String>,
    },
    /// The request cannot be done; a sentence for the user.
    Error {
        text: String,
    },
}

/// Who the agent is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the messages.
    pub protocol: u32,
    /// Version of the agent's program.
    pub version: String,
    /// Host name.
    pub host: String,
    /// 16 hex digits that differ between any two starts of an agent: addresses with the same ones lead to one
    /// agent.
    pub instance: String,
    /// Logical processors of the host that are online.
    pub cores: u32,
    /// Interface that holds the address of this connection, where the agent can tell.
    pub interface: Option<String>,
    /// MTU of that interface, bytes.
    pub interface_mtu: Option<u32>,
    /// Logical processors on the NUMA node of that interface; empty where it is on none, or where the agent
    /// pins no thread.
    #[serde(default)]
    pub interface_cores: Vec<u32>,
    /// Release of the kernel, such as 6.18.5.
    pub kernel: Option<String>,
    /// Congestion control of TCP where a stream names none.
    pub congestion_control: Option<String>,
    /// Those that a stream may name.
    #[serde(default)]
    pub congestion_controls: Vec<String>,
    /// `net.core.rmem_max`: the largest receive buffer that can be asked for, bytes.
    pub receive_buffer_max_bytes: Option<u64>,
    /// `net.core.wmem_max`, likewise for sending.
    pub send_buffer_max_bytes: Option<u64>,
    /// Payload that all streams of a client together may move, bytes per second.
    pub rate_limit: Option<f64>,
    /// Its receivers can count without copying (`StreamSpec::discard`).
    #[serde(default)]
    pub discards: bool,
    /// It starts perftest's server when asked.
    #[serde(default)]
    pub rdma: bool,
    /// It takes a little of its CPUs when asked; false: its owner does not let it, or it is older.
    #[serde(default)]
    pub takes_cpu: bool,
    /// Of its kernel: who has the same is on the same host.
    pub boot_id: Option<String>,
    /// Length of one test, seconds; then the agent ends it.
    pub time_limit_seconds: Option<f64>,
    /// It can store what it receives; none: it throws all away.
    pub sink: Option<SinkOffer>,
    /// Which process it is: on the same host its work is not another program's.
    pub process: Option<AgentProcess>,
}

/// Perftest's server waits for its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaReady {
    /// TCP port by which both ends of perftest find each other, on the address of the control connection.
    pub tcp_port: u16,
    /// RDMA device there, such as mlx5_0.
    pub device: String,
}

/// Where an agent stores, as its owner lets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkOffer {
    /// Block device below, such as vdb; none: not known, or no device.
    pub disk: Option<String>,
    /// What may be written there now, bytes.
    pub bytes: u64,
}

/// What to do with a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinkRequest {
    /// Store what the streams of workers receive.
    Receive,
    /// The agent writes blocks of its own, and nothing is sent to it.
    WriteAlone,
}

/// A test: what the agent's end of each stream does, and what becomes of the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRequest {
    pub streams: Vec<StreamSpec>,
    /// The streams of workers over TCP: into files of the agent's sink.
    pub sink: Option<SinkRequest>,
    /// Workers that share what room the sink has: those of this test, and of those that follow beside it. Fewer than
    /// those of this test: they alone.
    pub sink_workers: u32,
}

/// What became of the wish for one stream. A refused one does not keep the others from running.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamTicket {
    /// To be used once, within ten seconds.
    Granted {
        /// What the stream must open with.
        token: OneTimeToken,
        /// UDP: where to send to, on the address of the control connection.
        udp_port: Option<u16>,
        /// The agent's limit for this stream, bytes per second: to be kept by the end that sends.
        bytes_per_second: Option<f64>,
    },
    /// Why not, a sentence for the user.
    Refused { why: String },
}

/// How far a test is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestSample {
    /// The agent's host, on its monotonic clock since the session began: the CPU time of the agent, and what two samples
    /// make of its CPUs, its quota and, while a test stores, the sink's disk.
    pub host: HostSample,
    /// Each stream, in the order of the request; one that was refused has ended, with the reason. Empty between tests.
    pub streams: Vec<StreamSample>,
}
