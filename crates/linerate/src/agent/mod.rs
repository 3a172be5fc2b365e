//! The other host: control channel (Noise under a shared key), one-time data tokens, receivers, and the client's side of it.
//!
//! [`Agent`] is the server of `linerate agent`; [`Session`] is what a measurement holds of it; [`OwnAgent`] is an agent of our own
//! for a run without `--peer`. One TCP port serves control and data: the first four bytes of a connection tell which (`wire`).

mod admission;
mod client;
mod key;
mod lane;
mod noise;
mod own;
mod peer;
mod protocol;
mod secret;
mod server;
mod session;
mod wire;

pub use client::{Cutter, Session};
pub use key::{KEY_VARIABLE, Key};
#[doc(hidden)]
pub use noise::fuzzing;
pub use own::{OwnAgent, serve_own, serve_own_on};
pub use peer::parse_peer;
pub use protocol::{Hello, LaneRequest, LaneSample, LaneTicket, OpenRequest, Opened, PROTOCOL, Sample};
pub use secret::Token;
pub use server::{Agent, Limits, MtuOf, Receivers};
pub use wire::{CONTROL_MAGIC, DATA_MAGIC};

/// The port that an agent listens on, unless told otherwise.
pub const DEFAULT_PORT: u16 = 7411;
