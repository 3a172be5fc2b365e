//! iperf3's protocol, spoken as its client and as its server, so that linerate measures also where only the
//! other end is installed.
//!
//! [`run_client`] takes a [`Test`] to an iperf3 server and gives an [`Outcome`]: what this end counted and
//! what the other one says. [`Server`] answers iperf3's clients. The protocol proves nothing about who asks;
//! what is done about that stands in `server`.

mod client;
mod control;
mod data;
mod figures;
mod open;
mod parameters;
mod running;
mod server;
mod tally;
mod workers;

pub use client::run_client;
pub use figures::{CpuUse, IntervalProgress, IntervalReport, StreamFigures, TestOutcome};
pub use open::{DEFAULT_PORT, parse_address};
pub use parameters::{Iperf3Test, TestDirection};
pub use server::{AdmitsClient, Iperf3Limits, Iperf3Server, ServerEvent};

pub use crate::flow::stream::TcpSample;

/// What strangers send, for the fuzzer: bytes in, nothing but values out.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {

    use super::{control, figures, parameters};

    /// A message as a server takes it.
    pub fn parameters(bytes: &[u8]) {
        if let Ok(value) = control::message(bytes, control::PARAMETERS_BYTES)
            && let Ok(read) = parameters::Parameters::from_json(&value)
        {
            assert_eq!(
                parameters::Parameters::from_json(&read.to_json()).is_ok(),
                read.omit_seconds <= 600.0
            );
        }
    }

    /// A message as both ends take it.
    pub fn results(bytes: &[u8]) {
        if let Ok(value) = control::message(bytes, control::RESULTS_BYTES)
            && let Ok(read) = figures::Results::from_json(&value)
        {
            assert!(figures::Results::from_json(&read.to_json()).is_ok(), "{read:?}");
        }
    }

    /// The start of a connection.
    pub fn cookie(bytes: &[u8]) {
        if let Some(cookie) = control::cookie(bytes) {
            assert!(!cookie.text().is_empty());
        }
    }
}
