//! Object stores that speak S3, as source of `get` and sink of `put`: what such a store adds to HTTP. The bytes move
//! over the connections, streams and files of every other transfer.

pub mod answers;
pub mod credentials;
mod error;
pub(crate) mod list;
mod location;
pub(crate) mod requests;
mod sending;
pub mod signature;
mod store;
mod sums;
mod unfinished;
pub(crate) mod upload;

pub use error::S3Error;
pub use location::{S3Location, S3LocationError, file_below};
pub use store::S3Store;
pub(crate) use sums::{BlockSums, TagMd5};
pub use sums::{ObjectSum, SumAlgorithm};
