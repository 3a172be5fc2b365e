//! Files over HTTP/1.1: [`serve`] gives folders to any client and takes files, [`get`] fetches from any
//! server, over several streams, resumed after any death, [`put`] brings files to one; both say what limited
//! them. [`http`] is what all need of the protocol, [`s3`] what object stores add to it.

#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate linerate_testing;
#[cfg(test)]
mod tests;

pub mod archived;
pub mod blocks;
mod body_paths;
mod client;
mod dialled;
mod evidence;
pub mod file_bytes;
mod flow_sockets;
pub mod get;
pub mod http;
pub mod index_page;
pub mod listing;
mod patience;
mod progress;
pub mod put;
pub mod s3;
pub mod serve;
mod stream_tally;
mod stream_windows;
pub mod tls;
mod transfer_run;

pub use client::TransferError;
pub use dialled::{AwaitedConnections, DialledConnections};
pub use evidence::TransferLimit;
pub use progress::{ProgressWatch, TransferProgress};
pub use transfer_run::{TransferEnd, served_run};
