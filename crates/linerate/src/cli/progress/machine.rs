//! The machine while something works on it: a thread samples it once a second.

use linerate_facts::sysroot::Sysroot;
use linerate_system::counters::{looked_on, thread_cpu};
use linerate_system::lock;
use linerate_system::stop::Stop;
use linerate_watch::latest_moment::LatestMoment;
use linerate_watch::{LiveWatch, WatchSpec};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The machine is sampled this often: often enough for an eye, and about 4 ms of CPU time each.
const SAMPLE: Duration = Duration::from_secs(1);

/// The newest sample, and the past.
#[derive(Clone)]
pub(in crate::cli) struct MachineView {
    pub(in crate::cli) latest: Arc<LatestMoment>,
    /// Why there are no samples.
    blind: Arc<Mutex<Option<String>>>,
    stop: Arc<Stop>,
}

impl fmt::Debug for MachineView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MachineView").finish_non_exhaustive()
    }
}

impl MachineView {
    /// Samples once a second, on a thread of its own; none where the system gives none.
    pub(in crate::cli) fn start() -> Option<MachineView> {
        let view = MachineView { latest: Arc::default(), blind: Arc::default(), stop: Arc::default() };
        let theirs = view.clone();
        std::thread::Builder::new().name("watch".into()).spawn(move || theirs.sample()).ok()?;
        Some(view)
    }

    /// No more samples; nobody waits for one that hangs in the kernel.
    pub(in crate::cli) fn stop(&self) {
        self.stop.end();
    }

    /// Why there are no samples, where there are none.
    pub(super) fn blind(&self) -> Option<String> {
        lock(&self.blind).clone()
    }

    fn sample(&self) {
        let spec = WatchSpec {
            measured: Default::default(),
            interval: SAMPLE,
            nics: Vec::new(),
            disks: Vec::new(),
            power_commands: Vec::new(),
            lean: true,
        };
        let mut counted = thread_cpu();
        let mut watch = match LiveWatch::start(&Sysroot::live(), &spec) {
            Ok(watch) => watch,
            Err(why) => return *lock(&self.blind) = Some(why.to_string()),
        };
        while let Some(moment) = watch.next(&self.stop) {
            self.latest.tell(moment);
            count_as_onlooker(&mut counted);
        }
    }
}

/// CPU time of this thread since it was last counted is no cost of what is measured.
pub(super) fn count_as_onlooker(counted: &mut Duration) {
    let now = thread_cpu();
    looked_on(now.saturating_sub(*counted));
    *counted = now;
}
