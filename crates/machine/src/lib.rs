//! What a server is.

#![forbid(unsafe_code)]

pub mod capture;
pub mod probe;
pub mod rates;
pub mod topology;
