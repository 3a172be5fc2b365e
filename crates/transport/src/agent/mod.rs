//! The other host: control channel (Noise under a shared key), one-time data tokens, receivers, and the
//! client's side of it.
//!
//! [`Agent`] is the server of `linerate agent`; [`Session`] is what a measurement holds of it; [`OwnAgent`]
//! is an agent of our own for a run without `--peer`. One TCP port serves control and data: the first four
//! bytes of a connection tell which (`wire`).

mod allow;
mod bearer;
mod bound;
mod client;
mod clients;
mod deal;
mod host;
mod key;
mod limits;
mod noise;
mod own;
mod peer;
mod pending;
mod protocol;
mod rdma;
mod receivers;
mod secret;
mod server;
mod session;
mod session_stream;
mod shared;
mod sink;
mod ssh;
mod stream_client;
mod stream_request;
mod taking;
mod tcp;
#[cfg(test)]
mod tests;
mod tokens;
mod trial;
mod udp;
mod wire;

pub use crate::flow::stream::StreamSocket;
pub use allow::{AllowList, Network, NetworkError};
pub use bearer::BearerToken;
pub use bound::LocalBinding;
pub(crate) use bound::connect_within;
pub use client::no_connection;
pub use client::{AgentSession, SessionBreaker};
pub use clients::ClientLimits;
pub use host::{BOOT_ID, Interface, InterfaceOf};
pub use key::{KEY_VARIABLE, Key};
pub use limits::{AgentLimits, AgentSettings};
#[cfg(any(test, feature = "testing"))]
pub use noise::fuzzing;
pub use noise::{
    Broken, Channel, ChannelReceiver, ChannelSender, Magic, OPENING_BYTES, initiate_as, respond_as,
    respond_to,
};
pub use own::{OwnAgent, serve_own, serve_own_on};
pub use peer::{Peer, find_peers};
pub use protocol::Hello;
pub use protocol::{OpenRequest, PROTOCOL, RdmaReady, SinkOffer, SinkRequest, StreamTicket, TestSample};
pub use receivers::{Receivers, StoreReceiver};
pub use secret::{KeyTextError, OneTimeToken};
pub use secret::{SECRET_BYTES, random, same, to_hex};
pub use server::Agent;
pub use stream_client::{OpenedStream, StreamEnds};
pub use taking::{TakeRequest, TakenSample};
pub use tokens::OneTimeTokens;
pub use wire::DeadlineStream;
pub use wire::{CONTROL_MAGIC, DATA_MAGIC};

/// The port that an agent listens on, unless told otherwise.
pub const DEFAULT_PORT: u16 = 7411;
