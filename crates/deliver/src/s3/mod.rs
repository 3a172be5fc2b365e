//! Object stores that speak S3, as source of `get` and sink of `put`: what such a store adds to HTTP. The bytes move
//! over the connections, streams and files of every other transfer.

pub(crate) mod abort;
pub mod answers;
mod body;
pub mod credentials;
mod error;
pub(crate) mod list;
pub mod listed_uploads;
mod location;
mod names;
pub(crate) mod requests;
mod sending;
pub mod signature;
mod store;
mod sums;
mod tag_md5;
mod unfinished;
pub(crate) mod upload;

pub use error::S3Error;
pub use location::{S3Location, S3LocationError};
pub use names::file_below;
pub use store::S3Store;
pub(crate) use sums::BlockSums;
pub use sums::{ObjectSum, SumAlgorithm};
pub(crate) use tag_md5::TagMd5;
