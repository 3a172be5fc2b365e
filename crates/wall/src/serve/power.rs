//! What the server draws, where it has a meter that we may read: idle, before it plays, and while it plays.

use linerate_facts::counters::power::{PowerReading, PowerRecorder};
use linerate_facts::sysroot::Sysroot;
use std::sync::atomic::AtomicBool;

/// The best meter there is, or why there is none.
#[derive(Debug)]
pub(crate) struct Meter {
    recorder: Result<PowerRecorder, String>,
    /// Before it played.
    idle_watts: Option<f64>,
}

impl Meter {
    /// Looks at the idle machine first, for two seconds where there is a meter.
    pub(crate) fn start(sysroot: &Sysroot, commands: &[String]) -> Meter {
        let recorder = PowerRecorder::start(sysroot, commands).map_err(|why| why.to_string());
        let idle = recorder.as_ref().ok().map(|recorder| recorder.idle(&AtomicBool::new(false)));
        Meter { idle_watts: idle.and_then(Result::ok), recorder }
    }

    /// Energy until now.
    pub(crate) fn read(&self) -> Result<PowerReading, String> {
        self.recorder.as_ref().map(PowerRecorder::read).map_err(Clone::clone)
    }

    /// Less what the idle machine drew.
    pub(crate) fn above_idle(&self, watts: f64) -> Option<f64> {
        self.idle_watts.map(|idle| (watts - idle).max(0.0))
    }
}

/// Watts between two readings; the sentence says why there are none.
pub(crate) fn watts(
    earlier: &Result<PowerReading, String>,
    later: &Result<PowerReading, String>,
) -> Result<f64, String> {
    let (earlier, later) = (earlier.as_ref().map_err(Clone::clone)?, later.as_ref().map_err(Clone::clone)?);
    later.mean_since(earlier).map_err(|why| why.to_string())
}
