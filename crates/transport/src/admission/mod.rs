//! One admission control for everything that listens: linerate's agent, the iperf3 server, the pages, the wall's
//! control.
//!
//! - A connection that has proved nothing yet is *pending*: there are few of them, each with a deadline, and from a
//!   full list goes the oldest of the origin that has most ([`SharedPending`]).
//! - Who may stay holds a *permit*: all are counted, and one origin gets half of them at most ([`Permits`]).
//! - Where there is one permit alone, who had it last lets others go first ([`Turns`]).
//!
//! What counts as one origin is an IPv4 address, or an IPv6 network of 64 bits ([`origin`]).

mod listen;
mod origin;
mod pending;
mod permits;
mod turns;

pub use listen::{ListenError, accept, accept_all, listen, prepare_control};
pub(crate) use listen::{NO_DESCRIPTOR, listen_or_at};
pub(crate) use origin::canonical;
pub use origin::origin;
pub(crate) use pending::{Pending, PendingConnection};
pub use pending::{PendingEntry, SharedPending};
pub use permits::{NoPermit, Permit, Permits};
pub(crate) use turns::Turns;

use std::time::Duration;

/// Connections that may be pending at once, where nothing else is said.
pub const PENDING_CONNECTIONS: usize = 64;
/// Time that a pending connection has to prove that it may stay, where nothing else is said.
pub const TIME_TO_PROVE: Duration = Duration::from_secs(3);
