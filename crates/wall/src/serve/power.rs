//! What the server draws, where it has a meter that we may read: idle, before it plays, and while it plays.

use linerate_facts::counters::power::{NoMeter, PowerReading, PowerRecorder};
use linerate_facts::sysroot::Sysroot;
use std::sync::atomic::AtomicBool;

/// The best meter there is, or why there is none.
#[derive(Debug)]
pub(crate) struct WallMeter {
    recorder: Result<PowerRecorder, NoMeter>,
    /// Before it played.
    idle_watts: Option<f64>,
}

impl WallMeter {
    /// Looks at the idle machine first, for two seconds where there is a meter.
    pub(crate) fn start(sysroot: &Sysroot, commands: &[String]) -> WallMeter {
        let recorder = PowerRecorder::start(sysroot, commands);
        let idle = recorder.as_ref().ok().map(|recorder| recorder.idle(&AtomicBool::new(false)));
        WallMeter { idle_watts: idle.and_then(Result::ok), recorder }
    }

    /// Energy until now.
    pub(crate) fn read(&self) -> Result<PowerReading, NoMeter> {
        self.recorder.as_ref().map(PowerRecorder::read).map_err(Clone::clone)
    }

    /// Less what the idle machine drew.
    pub(crate) fn above_idle(&self, watts: f64) -> Option<f64> {
        self.idle_watts.map(|idle| (watts - idle).max(0.0))
    }
}
