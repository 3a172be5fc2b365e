//! What client and agent say to each other inside the encrypted channel: one request, one reply, in turn.
//!
//! `Hello` opens a session. Then tests follow one another: `Open` (workers or streams, and their tokens),
//! `Sample` as often as wished, `Settle` where they store, `Close`. `Counters` can be asked at any time. `Rdma` and
//! `EndRdma` are a test by perftest, in place of one by streams.

use super::secret::OneTimeToken;
use crate::flow::stream::{StreamSample, StreamSpec};
use crate::perftest::PerftestSpec;
use linerate_facts::counters::{AgentProcess, DiskCounters, NetworkCounters};
use linerate_facts::protocol::Protocol;
use linerate_facts::usage::{CpuTimes, Throttle};
use serde::{Deserialize, Serialize};

/// Version of these messages. `Hello` and `Error` stay as they are in every version and `Hello` may lack what was
/// added since, so that a mismatch is reported in one sentence.
pub const PROTOCOL: u32 = 2;

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
    /// How far are the workers?
    Sample,
    /// The workers that store take no more, and the disk keeps what came: their samples tell when they have ended.
    Settle,
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
    Hello(Hello),
    Opened(OpenedStreams),
    Sample(TestSample),
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
    /// Length of one test, seconds; then the agent ends it.
    pub time_limit_seconds: Option<f64>,
    /// It can store what it receives; none: it throws all away.
    pub sink: Option<SinkOffer>,
    /// Which process it is: on the same host its work is no other program's.
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
    /// Store what the workers receive.
    Receive,
    /// The agent writes blocks of its own, and nothing is sent to it.
    WriteAlone,
}

/// A test: its workers or streams, and what to do with the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRequest {
    /// One for each data stream of a `linerate run`.
    pub workers: Vec<WorkerRequest>,
    /// One for each stream of a `linerate network`: what the agent's end does.
    pub streams: Vec<StreamSpec>,
    /// Checksum the bytes (TCP).
    pub verify: bool,
    /// SO_RCVBUF for the data sockets, bytes; none: the system's default, and TCP sizes it by itself.
    pub receive_buffer_bytes: Option<u64>,
    /// Workers over TCP: into files of the agent's sink.
    pub sink: Option<SinkRequest>,
    /// Workers that share what room the sink has: those of this test, and of those that follow beside it. Fewer than
    /// those of this test: they alone.
    pub sink_workers: u32,
}

/// One data stream of a worker.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WorkerRequest {
    pub protocol: Protocol,
}

/// The right to one data stream for each worker and each stream, in the order of the request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpenedStreams {
    pub workers: Vec<WorkerTicket>,
    pub streams: Vec<StreamTicket>,
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

/// The right to one data stream: to be used once, within ten seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerTicket {
    /// What the stream must open with.
    pub token: OneTimeToken,
    /// UDP: where to send to, on the address of the control connection.
    pub udp_port: Option<u16>,
}

/// How far a test is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestSample {
    /// The agent's monotonic clock, nanoseconds since the session began.
    pub nanos: u64,
    /// Each worker, in the order of the request; empty between tests.
    pub workers: Vec<WorkerSample>,
    /// Each stream, likewise; one that was refused has ended, with the reason.
    pub streams: Vec<StreamSample>,
    /// CPU time of all threads of the agent since its start, user and system, nanoseconds.
    pub process_cpu_nanos: u64,
    /// CPU quota of the agent's control group; two samples give the share of throttled periods.
    pub throttle: Throttle,
    /// Ticks by core; two samples give the use of each core.
    pub cpu_times: CpuTimes,
    /// The sink's disk, while a test stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink_disk: Option<DiskCounters>,
}

/// How far a worker is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerSample {
    /// Payload bytes received.
    pub bytes: u64,
    /// When the last of them came, on the clock of `Sample::nanos`.
    pub bytes_nanos: u64,
    /// Datagrams received (UDP).
    pub datagrams: u64,
    /// Drops by the socket's buffer (UDP), in the kernel's unit.
    pub socket_drops: u64,
    /// CPU time of the receiving thread, nanoseconds.
    pub cpu_nanos: u64,
    /// CRC-64/NVME of the stream so far, where it is verified.
    pub checksum: u64,
    /// Receive buffer as the kernel granted it (SO_RCVBUF), bytes.
    pub buffer_bytes: u64,
    /// Storing: time that it waited for bytes, for the disk, and for the fsync at its end, nanoseconds.
    pub waiting_network_nanos: u64,
    pub waiting_disk_nanos: u64,
    pub sync_nanos: u64,
    /// The stream has ended; all of the above is final.
    pub ended: bool,
    /// Why it ended, where it was not by its sender or by `Close`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perftest::RdmaOperation;
    use proptest::prelude::*;

    fn sink() -> impl Strategy<Value = Option<SinkRequest>> {
        prop::sample::select(vec![None, Some(SinkRequest::Receive), Some(SinkRequest::WriteAlone)])
    }

    fn again<T: Serialize + serde::de::DeserializeOwned>(said: &T) -> T {
        serde_json::from_slice(&serde_json::to_vec(said).expect("JSON")).expect("understood")
    }

    proptest! {
        #[test]
        fn what_is_said_of_a_sink_is_understood(
            sink in sink(), sink_workers in any::<u32>(), disk in any::<Option<String>>(), bytes in any::<u64>(),
            times in any::<[u64; 3]>(), error in any::<Option<String>>(), ended in any::<bool>(),
        ) {
            let request = AgentRequest::Open(OpenRequest { sink, sink_workers, ..OpenRequest::default() });
            let AgentRequest::Open(heard) = again(&request) else { panic!("another request") };
            prop_assert_eq!((heard.sink, heard.sink_workers), (sink, sink_workers));
            let offer = SinkOffer { disk, bytes };
            prop_assert_eq!(again(&offer), offer);
            let [waiting_network_nanos, waiting_disk_nanos, sync_nanos] = times;
            let worker = WorkerSample {
                waiting_network_nanos,
                waiting_disk_nanos,
                sync_nanos,
                error,
                ended,
                ..WorkerSample::default()
            };
            let sample = TestSample { workers: vec![worker], ..TestSample::default() };
            let Reply::Sample(heard) = again(&Reply::Sample(sample.clone())) else { panic!("another reply") };
            prop_assert_eq!(heard, sample);
        }

        #[test]
        fn what_is_said_of_rdma_is_understood(
            write in any::<bool>(), both_ways in any::<bool>(), numbers in any::<[u32; 3]>(), tcp_port in any::<u16>(),
            text in "\\PC{0,40}", error in any::<Option<String>>(),
        ) {
            let operation = if write { RdmaOperation::Write } else { RdmaOperation::Read };
            let [seconds, queue_pairs, message_bytes] = numbers;
            let spec = PerftestSpec { operation, both_ways, seconds, queue_pairs, message_bytes };
            let AgentRequest::Rdma(heard) = again(&AgentRequest::Rdma(spec)) else { panic!("another request") };
            prop_assert_eq!(heard, spec);
            let ready = RdmaReady { tcp_port, device: text };
            let Reply::RdmaReady(heard) = again(&Reply::RdmaReady(ready.clone())) else { panic!("another reply") };
            prop_assert_eq!(heard, ready);
            let Reply::RdmaEnded { error: heard } = again(&Reply::RdmaEnded { error: error.clone() }) else {
                panic!("another reply")
            };
            prop_assert_eq!(heard, error);
        }

        #[test]
        fn odd_words_about_a_sink_are_refused_or_understood(text in "\\PC{0,40}", number in any::<i64>()) {
            let text = serde_json::to_string(&text).expect("JSON");
            for said in [
                format!("{{\"ask\":\"open\",\"sink\":{text},\"sink_workers\":{number}}}"),
                format!("{{\"ask\":\"open\",\"sink_workers\":{text}}}"),
                format!("{{\"ask\":\"settle\",\"more\":{text}}}"),
            ] {
                if let Ok(heard) = serde_json::from_str::<AgentRequest>(&said) {
                    again(&heard);
                }
            }
            let offer = format!("{{\"disk\":{text},\"bytes\":{number}}}");
            let heard = serde_json::from_str::<SinkOffer>(&offer);
            prop_assert_eq!(heard.is_ok(), number >= 0);
        }
    }
}
