//! `linerate serve` and `linerate get`: the protocol on the wire, transfers between the two and with other
//! programs, deaths of either end, and servers that lie.

mod ahead;
mod bad_input;
mod clients;
mod deaths;
mod from_server;
mod hostile_clients;
mod kept_transfers;
mod liars;
mod many_readers;
mod others;
mod planted;
mod poisoned;
mod progress;
mod puts;
mod s3;
mod tls;
mod transfers;
mod wire;
