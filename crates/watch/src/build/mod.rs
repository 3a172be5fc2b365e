//! From samples to moments: what is known of two readings of a source, section by section.

mod devices;
mod drops;
mod energy;
mod host;
mod queues;

use super::bottleneck;
use super::model::{Moment, SCHEMA};
use super::sample::{WatchSample, WatchSpec};
use super::sources::{Details, DriverReading, FileError, FileReading, KernelReading, NetworkReading};
use linerate_facts::counters::rates::Elapsed;
use linerate_facts::counters::{DiskCounters, Interrupts};
use linerate_facts::usage::Throttle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest reading of a source and the one before it.
#[derive(Debug)]
struct Pair<T> {
    now: Option<Arc<T>>,
    before: Option<Arc<T>>,
}

impl<T> Default for Pair<T> {
    fn default() -> Self {
        Pair { now: None, before: None }
    }
}

impl<T> Pair<T> {
    /// Takes a reading; tells whether it is a new one. A source that is asked seldom keeps its figures in
    /// between.
    fn take(&mut self, reading: Option<&Arc<T>>) -> bool {
        let new = match (reading, &self.now) {
            (Some(reading), Some(now)) => !Arc::ptr_eq(reading, now),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if let (true, Some(reading)) = (new, reading) {
            self.before = self.now.replace(Arc::clone(reading));
        }
        new
    }

    fn now(&self) -> Option<&T> {
        self.now.as_deref()
    }

    /// A table of both readings; none where the newest does not have it.
    fn readings<'a, U>(&'a self, table: impl Fn(&'a T) -> &'a FileReading<U>) -> Option<Readings<'a, U>> {
        let now = table(self.now.as_deref()?).as_ref().ok()?;
        let before = self.before.as_deref().and_then(|before| table(before).as_ref().ok());
        let before = before.and_then(|before| Some((&before.value, Elapsed::between(before.at, now.at)?)));
        Some(Readings { before, now: &now.value })
    }

    /// Of a source that must answer each time and did not: what it said is too old for rates.
    fn forget(&mut self) {
        self.before = None;
    }
}

/// Two readings of one table, the earlier with the time between them.
struct Readings<'a, T> {
    before: Option<(&'a T, Elapsed)>,
    now: &'a T,
}

impl<T> Readings<'_, T> {
    /// The time between them.
    fn span(&self) -> Option<Elapsed> {
        self.before.map(|(_, elapsed)| elapsed)
    }
}

/// Makes moments; keeps what they are compared with.
#[derive(Debug, Default)]
pub struct MomentBuilder {
    host: String,
    nics: Vec<String>,
    disks: Vec<String>,
    measured: BTreeMap<String, f64>,
    kernel: Pair<KernelReading>,
    network: Pair<NetworkReading>,
    disk_counters: Pair<FileReading<Vec<DiskCounters>>>,
    interrupts: Pair<FileReading<Interrupts>>,
    drivers: Pair<DriverReading>,
    details: Pair<Details>,
    energy: energy::Meters,
    /// The highest rate that each disk has shown, bytes per second.
    best: BTreeMap<String, f64>,
    links: devices::Links,
    drops: drops::Drops,
}

impl MomentBuilder {
    /// For a host of this name.
    pub fn new(host: String, spec: &WatchSpec) -> Self {
        MomentBuilder {
            host,
            nics: spec.nics.clone(),
            disks: spec.disks.clone(),
            measured: spec.measured.clone(),
            ..MomentBuilder::default()
        }
    }

    /// The moment of a sample, with the rates since the sample before.
    pub fn moment(&mut self, sample: &WatchSample) -> Moment {
        self.take(sample);
        let none = Details::default();
        let details_now = self.details.now.clone();
        let details = details_now.as_deref().unwrap_or(&none);
        let mut moment = Moment {
            schema: SCHEMA,
            at_ms: sample.at_ms,
            host: self.host.clone(),
            interval_ms: self.interval_ms(),
            slow: sample.slow.clone(),
            ..Moment::default()
        };
        self.kernel_sections(&mut moment, details);
        self.network_sections(&mut moment, details);
        self.set_measured(&mut moment);
        moment.links = self.links.lines(&details.links, sample.at_ms);
        moment.processes = sample.processes.as_deref().cloned().unwrap_or_default();
        self.energy.sections(sample, &mut moment, details);
        self.unknown(&mut moment);
        (moment.bottleneck, moment.bottleneck_by) = bottleneck::bottleneck_of(&moment);
        moment
    }

    fn take(&mut self, sample: &WatchSample) {
        if !self.kernel.take(sample.kernel.as_ref()) {
            self.kernel.forget();
        }
        if !self.network.take(sample.network.as_ref()) {
            self.network.forget();
        }
        if !self.disk_counters.take(sample.disks.as_ref()) {
            self.disk_counters.forget();
        }
        self.interrupts.take(sample.interrupts.as_ref());
        self.drivers.take(sample.drivers.as_ref());
        self.details.take(sample.details.as_ref());
    }

    /// Between the readings of the CPUs' times, else of the interfaces.
    fn interval_ms(&self) -> f64 {
        let kernel = self.kernel.readings(|reading| &reading.stat).and_then(|stat| stat.span());
        let network = || self.network.readings(|reading| &reading.nics)?.span();
        kernel.or_else(network).map_or(0.0, |span| (span.seconds() * 1e6).round() / 1e3)
    }

    fn kernel_sections(&mut self, moment: &mut Moment, details: &Details) {
        let interrupts = self.interrupts.readings(|table| table);
        if let Some(stat) = self.kernel.readings(|reading| &reading.stat) {
            let softirqs = self.kernel.readings(|reading| &reading.softirqs);
            moment.cpus = host::cpus(&stat, softirqs.as_ref(), interrupts.as_ref(), &details.nodes);
            moment.cpus.throttled_share = self.throttled();
        }
        if let Some(interrupts) = &interrupts {
            moment.irqs = queues::irqs(interrupts, details);
        }
        if let Some(reading) = self.kernel.now() {
            moment.memory =
                reading.memory.as_ref().map(|memory| host::memory(&memory.value)).unwrap_or_default();
            moment.pressure = host::pressure(self.kernel.before.as_deref(), reading);
        }
        if let Some(readings) = self.disk_counters.readings(|table| table) {
            moment.disks = devices::disks(&readings, details, &self.disks, &mut self.best);
        }
    }

    fn network_sections(&mut self, moment: &mut Moment, details: &Details) {
        if let Some(readings) = self.network.readings(|reading| &reading.nics) {
            let drivers = (self.drivers.before.as_deref(), self.drivers.now());
            moment.nics = devices::nics(&readings, drivers, &moment.irqs, details, &self.nics);
        }
        if let Some(readings) = self.network.readings(|reading| &reading.softnet) {
            moment.softnet = drops::softnet(&readings);
        }
        if let Some(now) = self.network.now() {
            (moment.tcp, moment.udp) = drops::tcp_and_udp(self.network.before.as_deref(), now);
        }
        moment.drops = self.drops.lines(self.network.now(), self.drivers.now(), &self.nics);
    }

    fn set_measured(&self, moment: &mut Moment) {
        let of = |kind: &str, name: &str| self.measured.get(&format!("{kind}:{name}")).copied();
        for disk in &mut moment.disks {
            disk.measured_bytes_per_second = of("disk", &disk.name);
        }
        for nic in &mut moment.nics {
            nic.measured_bits_per_second = of("nic", &nic.name).map(|rate| rate * 8.0);
        }
    }

    /// Share of the periods in which the quota held this control group.
    fn throttled(&self) -> Option<f64> {
        let has = |details: &Details| details.throttle.quota_cores > 0.0;
        let (before, now): (Throttle, Throttle) =
            (self.details.before.as_deref()?.throttle, self.details.now().filter(|now| has(now))?.throttle);
        Some(now.share_since(&before))
    }

    /// What could not be read, and why.
    fn unknown(&self, moment: &mut Moment) {
        let mut add = |name: &str, why: Option<&FileError>| {
            if let Some(why) = why {
                moment.unknown.insert(name.to_string(), why.to_string());
            }
        };
        if let Some(reading) = self.kernel.now() {
            add("CPUs", reading.stat.as_ref().err());
            add("softirqs", reading.softirqs.as_ref().err());
            add("memory", reading.memory.as_ref().err());
            // Without PSI there is no such file, and a kernel may lack `irq` alone.
            add("pressure", reading.pressure.first().and_then(|read| read.as_ref().err()));
        }
        if let Some(reading) = self.network.now() {
            add("NICs", reading.nics.as_ref().err());
            add("softnet", reading.softnet.as_ref().err());
            add("TCP and UDP", reading.snmp.as_ref().err());
            add("TCP's causes", reading.netstat.as_ref().err());
        }
        add("disks", self.disk_counters.now().and_then(|read| read.as_ref().err()));
        add("interrupts", self.interrupts.now().and_then(|read| read.as_ref().err()));
        let unseen = host::unknown(&moment.processes);
        moment.unknown.extend(unseen.map(|(name, why)| (name.to_string(), why)));
    }
}
