//! Files over HTTP/1.1: [`serve`] gives folders to any client, [`get`] fetches from any server, over several
//! streams, resumed after any death, and says what limited it. [`http`] is what both need of the protocol.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod get;
pub mod http;
pub mod listing;
pub mod serve;
