//! One sample: what each source says now, all asked at once and waited for only so long.

use super::model::Processes;
use super::pace::{NoThread, PolledSource};
use super::sources::{
    self, Details, DriverReading, FileReading, KernelReading, MetersReading, NetworkReading,
};
use linerate_facts::counters::meters::{Program, TimedWatts, ipmi, power_command};
use linerate_facts::counters::{DiskCounters, Interrupts};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// What is to be watched.
#[derive(Clone, Debug, Default)]
pub struct WatchSpec {
    /// Time between two samples.
    pub interval: Duration,
    /// These interfaces; empty: all but `lo`.
    pub nics: Vec<String>,
    /// These disks; empty: all.
    pub disks: Vec<String>,
    /// Each prints the watts of its meter; together they are the machine's.
    pub power_commands: Vec<String>,
    /// What was measured of NICs and disks on this host, bytes per second by id (`disk:nvme0n1`): their bars
    /// end there.
    pub measured: BTreeMap<String, f64>,
    /// Only what a view beside a measurement shows: no drivers' own counters (they take locks of the
    /// network), no interrupts, no meters.
    pub lean: bool,
}

/// What each source said last, each at its own time; none where it has not yet.
#[derive(Clone, Debug, Default)]
pub struct WatchSample {
    /// Unix time, milliseconds.
    pub at_ms: i64,
    pub kernel: Option<Arc<KernelReading>>,
    pub network: Option<Arc<NetworkReading>>,
    pub disks: Option<Arc<FileReading<Vec<DiskCounters>>>>,
    pub interrupts: Option<Arc<FileReading<Interrupts>>>,
    pub drivers: Option<Arc<DriverReading>>,
    pub details: Option<Arc<Details>>,
    pub processes: Option<Arc<Processes>>,
    pub rapl: Option<Arc<MetersReading>>,
    pub hwmon: Option<Arc<MetersReading>>,
    pub ipmi: Option<Arc<Option<TimedWatts>>>,
    /// As many as were ordered.
    pub commands: Vec<Option<Arc<TimedWatts>>>,
    /// Sources that keep one waiting, in words.
    pub slow: Vec<String>,
}

/// The first answers are waited for longer: there is nothing to show without them.
const FIRST: Duration = Duration::from_secs(2);
/// What changes seldom is looked at this often.
const SELDOM: Duration = Duration::from_secs(5);
/// A program or a bus that takes longer is called slow.
const LONG: Duration = Duration::from_secs(3);

/// Takes samples.
#[derive(Debug)]
pub struct Sampler {
    /// How long a sample waits for the sources that it needs.
    deadline: Duration,
    kernel: PolledSource<KernelReading>,
    network: PolledSource<NetworkReading>,
    disks: PolledSource<FileReading<Vec<DiskCounters>>>,
    details: PolledSource<Details>,
    /// None of a lean order.
    interrupts: Option<PolledSource<FileReading<Interrupts>>>,
    drivers: Option<PolledSource<DriverReading>>,
    processes: Option<PolledSource<Processes>>,
    rapl: Option<PolledSource<MetersReading>>,
    hwmon: Option<PolledSource<MetersReading>>,
    ipmi: Option<PolledSource<Option<TimedWatts>>>,
    commands: Vec<PolledSource<TimedWatts>>,
    programs: Vec<Program>,
    taken: bool,
}

impl Sampler {
    /// Starts the sources.
    pub fn start(sysroot: &Sysroot, spec: &WatchSpec) -> Result<Self, NoThread> {
        let every = spec.interval;
        let deadline = (every / 4).clamp(Duration::from_millis(20), Duration::from_millis(250));
        let mut programs = vec![Program::default()];
        let seldom = every.max(SELDOM);
        let command = |words: &String| {
            programs.push(Program::default());
            let read = power_command(words, &programs[programs.len() - 1]);
            PolledSource::start("power command", every, LONG, read)
        };
        let commands = spec.power_commands.iter().map(command).collect::<Result<_, _>>()?;
        // What a lean order leaves out is not even started.
        let full = !spec.lean;
        Ok(Sampler {
            deadline,
            kernel: PolledSource::start("kernel counters", every, deadline, sources::kernel(sysroot))?,
            network: PolledSource::start("network counters", every, deadline, sources::network(sysroot))?,
            disks: PolledSource::start("disk counters", every, deadline, sources::disks(sysroot))?,
            details: PolledSource::start("devices", seldom, LONG, sources::details(sysroot))?.sparing(),
            interrupts: full
                .then(|| sparing("interrupts", every, sources::interrupts(sysroot)))
                .transpose()?,
            drivers: full
                .then(|| sparing("drivers", every, sources::drivers(sysroot, &spec.nics)))
                .transpose()?,
            processes: full
                .then(|| {
                    let source = sparing("processes", every, sources::processes(sysroot))?;
                    Ok(source.learning(sources::FIRST_READINGS))
                })
                .transpose()?,
            rapl: full.then(|| sparing("RAPL", every, sources::rapl(sysroot))).transpose()?,
            hwmon: full.then(|| sparing("hwmon", every, sources::hwmon(sysroot))).transpose()?,
            ipmi: full
                .then(|| {
                    let read = ipmi(sysroot, &programs[0]);
                    PolledSource::start("IPMI", every.max(2 * SELDOM), 2 * LONG, read)
                })
                .transpose()?,
            commands,
            programs,
            taken: false,
        })
    }

    /// Asks all that are due, and gives what has come by the deadline.
    pub fn sample(&mut self) -> WatchSample {
        let now = clock::now();
        self.ask(now);
        let until = now + if self.taken { self.deadline } else { FIRST };
        self.kernel.wait(until);
        self.network.wait(until);
        self.disks.wait(until);
        // The others come with the next sample, where they are late.
        let until = if self.taken { now + self.deadline / 4 } else { until };
        self.details.wait(until);
        wait(&mut self.interrupts, until);
        wait(&mut self.drivers, until);
        wait(&mut self.processes, until);
        wait(&mut self.rapl, until);
        wait(&mut self.hwmon, until);
        self.taken = true;
        self.collected()
    }

    fn ask(&mut self, now: Instant) {
        self.kernel.ask(now);
        self.network.ask(now);
        self.disks.ask(now);
        self.details.ask(now);
        ask(&mut self.interrupts, now);
        ask(&mut self.drivers, now);
        ask(&mut self.processes, now);
        ask(&mut self.rapl, now);
        ask(&mut self.hwmon, now);
        ask(&mut self.ipmi, now);
        self.commands.iter_mut().for_each(|command| command.ask(now));
    }

    fn collected(&mut self) -> WatchSample {
        let now = clock::now();
        let unix = clock::date().duration_since(UNIX_EPOCH).unwrap_or_default();
        let slow = [
            self.kernel.slow(now),
            self.network.slow(now),
            self.disks.slow(now),
            self.details.slow(now),
            slow(&self.interrupts, now),
            slow(&self.drivers, now),
            slow(&self.processes, now),
            slow(&self.rapl, now),
            slow(&self.hwmon, now),
            slow(&self.ipmi, now),
        ];
        let commands = self.commands.iter().map(|command| command.slow(now));
        WatchSample {
            at_ms: i64::try_from(unix.as_millis()).unwrap_or(i64::MAX),
            kernel: self.kernel.latest(),
            network: self.network.latest(),
            disks: self.disks.latest(),
            details: self.details.latest(),
            interrupts: self.interrupts.as_mut().and_then(PolledSource::latest),
            drivers: self.drivers.as_mut().and_then(PolledSource::latest),
            processes: self.processes.as_mut().and_then(PolledSource::latest),
            rapl: self.rapl.as_mut().and_then(PolledSource::latest),
            hwmon: self.hwmon.as_mut().and_then(PolledSource::latest),
            ipmi: self.ipmi.as_mut().and_then(PolledSource::latest),
            slow: slow.into_iter().chain(commands).flatten().collect(),
            commands: self.commands.iter_mut().map(PolledSource::latest).collect(),
        }
    }
}

/// A source that is asked more seldom where it costs much, and that nobody waits for.
fn sparing<T: Send + 'static>(
    name: &'static str,
    every: Duration,
    read: impl FnMut() -> T + Send + 'static,
) -> Result<PolledSource<T>, NoThread> {
    PolledSource::start(name, every, LONG, read).map(PolledSource::sparing)
}

fn ask<T: Send + 'static>(source: &mut Option<PolledSource<T>>, now: Instant) {
    source.iter_mut().for_each(|source| source.ask(now));
}

fn wait<T: Send + 'static>(source: &mut Option<PolledSource<T>>, until: Instant) {
    source.iter_mut().for_each(|source| source.wait(until));
}

fn slow<T: Send + 'static>(source: &Option<PolledSource<T>>, now: Instant) -> Option<String> {
    source.as_ref().and_then(|source| source.slow(now))
}

impl Drop for Sampler {
    /// A program that reads a meter does not outlive the watch.
    fn drop(&mut self) {
        for program in &self.programs {
            program.end();
        }
    }
}
