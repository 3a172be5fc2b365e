//! The other host: control channel (Noise under a shared key), one-time data tokens, receivers, and the
//! client's side of it.
//!
//! [`Agent`] is the server of `linerate agent`; [`Session`] is what a measurement holds of it; [`OwnAgent`]
//! is an agent of our own for a run without `--peer`. One TCP port serves control and data: the first four
//! bytes of a connection tell which (`wire`).

mod allow;
mod client;
mod clients;
mod data_streams;
mod host;
mod network_stream;
mod noise;
mod peer;
mod protocol;
mod rdma;
mod secret;
mod server;
mod session;
mod session_stream;
mod shared;
mod taking;
#[cfg(test)]
mod tests;
mod trial;
mod wire;

pub use crate::flow::stream::StreamSocket;
pub use allow::{AllowList, BearerToken, Network, NetworkError};
pub use client::{AgentSession, SessionBreaker, no_connection};
pub use clients::{AgentLimits, ClientLimits};
pub use host::{AgentSettings, BOOT_ID, Interface, InterfaceOf};
pub use network_stream::{OpenedStream, StreamEnds};
pub use noise::{
    Broken, Channel, ChannelReceiver, ChannelSender, Magic, OPENING_BYTES, initiate_as, respond_as,
    respond_to,
};
pub use peer::{OwnAgent, Peer, find_peers, serve_own, serve_own_on};
pub use protocol::{
    Hello, OpenRequest, PROTOCOL, RdmaReady, SinkOffer, SinkRequest, StreamTicket, TestSample,
};
pub use secret::{
    KEY_VARIABLE, Key, KeyTextError, OneTimeToken, OneTimeTokens, SECRET_BYTES, random, same, to_hex,
};
pub use server::Agent;
pub use session_stream::{Receivers, StoreReceiver};
pub use taking::{TakeRequest, TakenSample};
pub(crate) use wire::connect_within;
pub use wire::{CONTROL_MAGIC, DATA_MAGIC, DeadlineStream, LocalBinding};

#[cfg(any(test, feature = "testing"))]
pub use noise::fuzzing;

/// The port that an agent listens on, unless told otherwise.
pub const DEFAULT_PORT: u16 = 7411;
