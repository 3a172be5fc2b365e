//! What simulations need within the product: bugs that they must find, a network without sockets, and on it a server that
//! fails.

#[macro_use]
pub(crate) mod planted;
pub(crate) mod network;
pub(crate) mod server;
