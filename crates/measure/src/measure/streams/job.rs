//! What to send over the network: one figure of `linerate network`. Saved with its result, so that it can be
//! done again.

use linerate_facts::protocol::Protocol;
use linerate_model::plan::Pin;
use linerate_transport::flow::stream::SendMethod;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which way the bulk goes, seen from here.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StreamDirection {
    #[default]
    Send,
    Receive,
    /// Both at once, each with all streams.
    Both,
}

impl StreamDirection {
    /// Whether this end sends (true), or receives (false), in it.
    pub fn has(self, sending: bool) -> bool {
        matches!(
            (self, sending),
            (StreamDirection::Both, _) | (StreamDirection::Send, true) | (StreamDirection::Receive, false)
        )
    }
}

/// What stands behind the senders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderSource {
    /// Buffers that stay in the processor's caches: what most tools measure (*hot*).
    #[default]
    Memory,
    /// A file that the page cache holds (*cached*).
    Cached(PathBuf),
    /// The same file past the page cache (*cold*).
    Cold(PathBuf),
}

impl SenderSource {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            SenderSource::Memory => None,
            SenderSource::Cached(path) | SenderSource::Cold(path) => Some(path),
        }
    }
}

/// How bytes are handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    pub method: SendMethod,
    /// Bytes a call.
    pub write_bytes: u32,
}

/// One figure's worth of streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamsJob {
    pub protocol: Protocol,
    pub direction: StreamDirection,
    /// Over all paths, in each direction; at least one a path is made.
    pub streams: u32,
    /// Only this path; none: all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<usize>,
    pub behind: SenderSource,
    /// Of the senders at both ends.
    pub method: SendMethod,
    /// Bytes a call (TCP).
    pub write_bytes: u32,
    /// Of the agent's senders, where trials chose another way for them than for ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Handover>,
    /// Payload of a datagram (UDP); none: what the path's MTU carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_bytes: Option<u32>,
    /// Over all streams of a direction, bytes of payload per second; none: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// The most that the kernel lets each stream send at any moment, bytes per second; none: as fast as it goes (TCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_bytes_per_second: Option<f64>,
    /// Of the senders; none: the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// SO_SNDBUF and SO_RCVBUF to ask for; none: the kernel's for TCP, linerate's for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u64>,
    pub pin: Pin,
    /// Checksum at both ends.
    pub verify: bool,
    /// Receivers count the bytes and do not copy them (TCP).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_receive_copy: bool,
    /// A request and its answer beside the bulk, one at a time on each path.
    pub latency: bool,
}

impl StreamsJob {
    /// Memory over all paths, as the kernel likes it; one stream a path.
    pub fn plain(protocol: Protocol, direction: StreamDirection) -> Self {
        StreamsJob {
            protocol,
            direction,
            streams: 1,
            method: usual_method(protocol),
            write_bytes: 512 << 10,
            ..StreamsJob::default()
        }
    }
}

/// Before anything was tried.
pub(crate) fn usual_method(protocol: Protocol) -> SendMethod {
    match protocol {
        Protocol::Tcp => SendMethod::Write,
        Protocol::Udp => SendMethod::Trains,
    }
}
