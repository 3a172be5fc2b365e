//! What an accelerator of MLPerf Storage reads, by the benchmark's own configurations: a batch of samples, then as long
//! busy with it as a real one of that kind is. `dlrm` is left out: it reads some columns of its files, and the bytes of
//! those are in no configuration.

use super::rows;

/// One emulated accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Model and accelerator: `unet3d/h100`.
    pub name: &'static str,
    /// Samples of a batch: `reader.batch_size`.
    pub samples: f64,
    /// Mean length of a sample: `dataset.record_length_bytes`, of flux `record_length`.
    pub sample_bytes: f64,
    /// How long it works on a batch: `train.computation_time`.
    pub seconds: f64,
    /// The share of the time that it must be busy for a run to count: `metric.au`.
    pub busy: f64,
    /// Repository, revision and file.
    pub source: &'static str,
}

impl Load {
    /// What one that never waits reads, bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.samples * self.sample_bytes / self.seconds
    }
}

/// All that are known.
pub fn all() -> Vec<Load> {
    rows(include_str!("loads.txt"), |[name, samples, sample_bytes, seconds, busy], source| {
        Some(Load {
            name,
            samples: samples.parse().ok()?,
            sample_bytes: sample_bytes.parse().ok()?,
            seconds: seconds.parse().ok()?,
            busy: busy.parse().ok()?,
            source,
        })
    })
}

/// The load of this name.
pub fn named(name: &str) -> Option<Load> {
    all().into_iter().find(|load| load.name == name)
}
