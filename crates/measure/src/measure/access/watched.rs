//! What was watched while the workers of a job worked.

use super::meter::Boundary;
use super::{Burst, DeviceUse};
use crate::measure::window::WindowObservation;

/// Windows or one window, with what the devices did meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub seen: WindowObservation,
    pub timed: bool,
    pub devices: Vec<DeviceUse>,
    /// When the first worker had done its part (seconds since the common zero), and the bytes of all until
    /// then.
    pub first_done: Option<(f64, u64)>,
    /// A change of level in the series of short windows.
    pub burst: Option<Burst>,
    pub area_bytes: u64,
    pub asked_bytes: u64,
    pub cores: Vec<u32>,
}

impl Watched {
    /// What the devices and the workers' threads did between two moments.
    pub(crate) fn between(&mut self, begin: &Boundary, end: &Boundary) {
        self.devices = end.devices.since(&begin.devices);
        self.seen.workers = end.workers_since(begin);
    }
}
