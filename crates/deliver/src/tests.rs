//! What simulations need within the product: bugs that they must find, a network without sockets, and on it a server that
//! fails.

pub(crate) mod network;
mod planted;
pub(crate) mod server;

pub(crate) use planted::PlantedBug;
