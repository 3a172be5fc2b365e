//! What fio's JSON holds of a job, its sides and the disks below it, in the units of fio 2 and 3.

use crate::lenient::{Number, Text};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One job, or all of a group with `group_reporting`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub(crate) jobname: Text,
    pub(crate) groupid: Number,
    pub(crate) error: Number,
    pub(crate) elapsed: Number,
    /// Milliseconds of all its processes.
    pub(crate) job_runtime: Number,
    #[serde(rename = "job options")]
    pub(crate) options: Option<BTreeMap<String, Text>>,
    read: FioSide,
    pub(crate) write: FioSide,
    /// Both together, with `unified_rw_reporting`, which may be beside each of them.
    mixed: FioSide,
    pub(crate) trim: FioSide,
    pub(crate) sync: FioSide,
    /// Percent of a CPU, of each process.
    pub(crate) usr_cpu: Number,
    pub(crate) sys_cpu: Number,
    pub(crate) hostname: Text,
}

/// Reads, writes, trims or flushes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FioSide {
    io_bytes: Number,
    /// KiB a second.
    bw: Number,
    /// Since fio 3.
    bw_bytes: Number,
    iops: Number,
    /// Milliseconds.
    pub(crate) runtime: Number,
    total_ios: Number,
    pub(crate) clat_ns: Times,
    pub(crate) lat_ns: Times,
    /// Microseconds, of fio 2.
    pub(crate) clat: Times,
    pub(crate) lat: Times,
}

/// How long requests took.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    pub(crate) min: Number,
    pub(crate) max: Number,
    pub(crate) mean: Number,
    pub(crate) stddev: Number,
    #[serde(rename = "N")]
    pub(crate) count: Number,
    pub(crate) percentile: BTreeMap<String, Number>,
}

/// A block device over the whole time of fio.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Disk {
    pub(crate) name: Text,
    pub(crate) read_ios: Number,
    pub(crate) write_ios: Number,
    pub(crate) read_merges: Number,
    pub(crate) write_merges: Number,
    pub(crate) read_sectors: Number,
    pub(crate) write_sectors: Number,
    /// Milliseconds of all requests.
    pub(crate) in_queue: Number,
    /// Percent.
    pub(crate) util: Number,
    /// Of a volume: its own disks follow it.
    pub(crate) aggr_util: Number,
}

impl FioSide {
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bw_bytes.positive().unwrap_or(self.bw.or_zero() * 1024.0)
    }

    /// fio 2 writes KiB under the same name.
    pub(crate) fn bytes(&self) -> f64 {
        let moved = self.bytes_per_second() * self.runtime.or_zero() / 1000.0;
        let written = self.io_bytes.or_zero();
        let in_kib = (written * 1024.0 - moved).abs() < (written - moved).abs();
        if self.bw_bytes.get().is_none() && in_kib { written * 1024.0 } else { written }
    }

    pub(crate) fn operations(&self) -> f64 {
        let counted = self.total_ios.positive();
        counted.unwrap_or(self.iops.or_zero() * self.runtime.or_zero() / 1000.0)
    }

    pub(crate) fn operations_per_second(&self) -> f64 {
        self.iops.or_zero()
    }
}

impl Job {
    /// Share of a CPU that each of its processes used; none: it did nothing.
    pub(crate) fn cpu_share(&self) -> f64 {
        (self.usr_cpu.or_zero() + self.sys_cpu.or_zero()) / 100.0
    }

    /// What failed, in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let number = self.error.positive()?;
        let why = std::io::Error::from_raw_os_error(number as i32);
        Some(format!("fio's job {} failed: {why}", self.jobname.0))
    }

    /// Reads; where reads and writes are only counted as one, both.
    pub(crate) fn reads(&self) -> &FioSide {
        let apart = self.read.operations() + self.write.operations() > 0.0;
        if apart { &self.read } else { &self.mixed }
    }

    /// How many ran at once, where the times say it: a group is written as one job.
    pub(crate) fn processes(&self) -> Option<f64> {
        let longest = self.reads().runtime.or_zero().max(self.write.runtime.or_zero());
        let all = self.job_runtime.positive().filter(|_| longest > 0.0)?;
        Some((all / longest).round().clamp(1.0, 1e6))
    }

    pub(crate) fn trims(&self) -> bool {
        self.trim.operations() > 0.0
    }
}
