//! Disks, by `/proc/diskstats`.

use serde::{Deserialize, Serialize};

/// One whole disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskRates {
    /// The kernel's name (`nvme0n1`).
    pub name: String,
    pub model: Option<String>,
    /// Bytes.
    pub size_bytes: Option<u64>,
    pub read: DiskWay,
    pub write: DiskWay,
    pub discard: DiskWay,
    /// Requests flushed per second.
    pub flushes_per_second: Option<f64>,
    /// Mean number of requests in the disk or waiting for it over the interval (weighted time ÷ time):
    /// `aqu-sz` of iostat.
    pub queue_depth: Option<f64>,
    /// Share of the interval with at least one request in the disk: `%util` of iostat.
    pub busy_share: Option<f64>,
    /// Counter: time of all requests together, seconds.
    pub weighted_seconds: f64,
    /// Counter: time with at least one request in the disk, seconds.
    pub busy_seconds: f64,
    /// Counter.
    pub flushes: u64,
    /// Requests in the disk at the very moment.
    pub in_flight: u64,
    /// The most bytes per second, read and written together, that this watch has seen of it.
    pub best_bytes_per_second: Option<f64>,
    /// What a run of linerate has measured of it on this host; none where no such run is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bytes_per_second: Option<f64>,
    /// True for loop, RAM, device-mapper and md devices, whose bytes are those of disks below.
    pub is_virtual: bool,
}

impl DiskRates {
    /// Where its bars end: at what was measured of it, or at more that was seen since; none where it was never measured,
    /// for what was merely seen is nothing that a disk is full at.
    pub fn scale_bytes_per_second(&self) -> Option<f64> {
        let measured = self.measured_bytes_per_second.filter(|rate| *rate > 0.0)?;
        Some(measured.max(self.best_bytes_per_second.unwrap_or(0.0)))
    }
}

/// Reads, writes or discards of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskWay {
    pub bytes_per_second: Option<f64>,
    /// Completed requests (IOPS).
    pub requests_per_second: Option<f64>,
    /// Mean time from queueing to completion of those that completed, milliseconds; none where none did.
    pub latency_ms: Option<f64>,
    pub merged_per_second: Option<f64>,
    /// Mean size of those that completed, bytes.
    pub request_bytes: Option<f64>,
    /// Counter, bytes.
    pub bytes: u64,
    /// Counter.
    pub requests: u64,
    /// Counter: requests that were merged with others before they were given to the disk.
    pub merged: u64,
    /// Counter: time of all requests together, seconds.
    pub seconds: f64,
}
