//! What linerate reads from outside, one function for each fuzz target: bytes in, panic where a promise is
//! broken.
//!
//! The same functions run over the saved corpus in `crates/linerate/tests/fast/fuzz_corpus.rs`, so that
//! `cargo test` knows every case that was found once.

mod control;
mod deliver;
mod expectations;
mod firmware;
mod foreign;
mod iperf3;
mod machine;
mod network_counters;
mod paper;
mod pci;
mod perftest;
mod processes;
mod run;
mod stream;
mod sysroot;
mod tarball;
mod udp;
mod wall;
mod wall_control;
mod watch_recording;
mod words;

pub use control::control;
pub use deliver::{copy_half, http_range, http_request, http_response, index_page, s3_answer};
pub use expectations::expectations;
pub use firmware::{dmidecode, smbios};
pub use foreign::{foreign_results, listings, lstopo};
pub use iperf3::iperf3;
pub use machine::machine_toml;
pub use network_counters::network_counters;
pub use paper::paper_toml;
pub use pci::{lspci, pci_config};
pub use perftest::perftest;
pub use processes::processes;
pub use run::{run_edits, run_json};
pub use stream::stream;
pub use sysroot::sysroot;
pub use tarball::tarball;
pub use udp::udp;
pub use wall::{movie_toml, rtp};
pub use wall_control::wall_control;
pub use watch_recording::watch_recording;
pub use words::{fio_job, units, words};

/// Values taken from the front of an input; zeros where nothing is left.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.slice(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// At most `length` bytes.
    pub(crate) fn slice(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
