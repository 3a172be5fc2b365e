//! One figure made ready once and taken again and again, so that two states of a machine can be held against
//! each other in turns: files written, peers connected and workers placed before the first window.

mod disk;
mod network;
mod path;

use crate::measure::streams::StreamDirection;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::Pin;
use linerate_system::stop::Stop;
use std::path::PathBuf;

/// What a window measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Large reads past the page cache, several in flight.
    DirectReads,
    /// One reader through the page cache, as most programs are; what it reads is not in the cache.
    BufferedReads,
    /// Large writes past the page cache, several in flight, over files of our own.
    Writes,
    /// A stream from memory.
    Network(Protocol, StreamDirection),
    /// From the disk to the peer.
    Path(Protocol),
}

impl FigureKind {
    /// It goes over the network.
    pub fn has_network(self) -> bool {
        matches!(self, FigureKind::Network(..) | FigureKind::Path(_))
    }
}

impl std::fmt::Display for FigureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FigureKind::DirectReads => f.write_str("disk, direct reads"),
            FigureKind::BufferedReads => f.write_str("disk, buffered reads"),
            FigureKind::Writes => f.write_str("disk, direct writes"),
            FigureKind::Network(protocol, direction) => write!(f, "network, {protocol} {direction}"),
            FigureKind::Path(protocol) => write!(f, "path, {protocol}"),
        }
    }
}

/// On what a figure is taken.
#[derive(Clone, Debug)]
pub struct FigureSpec {
    /// A directory (a file of our own is made there), a file or a block device.
    pub source: PathBuf,
    /// Addresses of agents; empty: a receiver of our own on loopback.
    pub peers: Vec<String>,
    pub key_file: Option<PathBuf>,
    /// Length of a window.
    pub seconds: f64,
}

/// What this process may do differently from one window to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessOptions {
    pub pin: Pin,
    pub io_uring: bool,
    /// Payload per second that a stream keeps to; none: as fast as it goes.
    pub bytes_per_second: Option<f64>,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        ProcessOptions { pin: Pin::Auto, io_uring: true, bytes_per_second: None }
    }
}

/// A figure that is ready.
pub trait PreparedFigure {
    /// Measures one window; bytes per second. `other`: in the second of the two states, which may be many
    /// times as fast as the first.
    fn take(&mut self, options: &ProcessOptions, other: bool) -> Result<f64, Failure>;
}

/// Where all of it happens.
#[derive(Clone, Copy, Debug)]
pub struct FigureContext<'a> {
    pub sysroot: &'a Sysroot,
    pub machine: &'a Machine,
    /// Set by Ctrl-C.
    pub stop: &'a Stop,
}

/// Makes a figure ready, lets `work` take it as often as it likes, and takes down what was made.
pub fn with_prepared<T>(
    place: FigureContext<'_>,
    figure: FigureKind,
    ground: &FigureSpec,
    work: impl FnOnce(&mut dyn PreparedFigure) -> T,
) -> Result<T, Failure> {
    match figure {
        FigureKind::DirectReads | FigureKind::BufferedReads | FigureKind::Writes => {
            Ok(work(&mut disk::Reader::open(place, figure, ground)?))
        }
        FigureKind::Network(protocol, direction) => network::with(place, protocol, direction, ground, work),
        FigureKind::Path(protocol) => path::with(place, protocol, ground, work),
    }
}
