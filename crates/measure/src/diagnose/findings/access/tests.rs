//! Each finding with figures that make it speak, and with those that do not.

use super::*;
use crate::diagnose::Severity;
use crate::measure::Stage;
use crate::measure::access::{
    Access, AccessJob, Burst, Checks, Engine, Latency, SideResult, SyncMethod, SyncResult, WriteSync,
};
use linerate_facts::fact::Fact;
use linerate_machine::probe::DiskKind;

/// Random reads of 4 KiB, 16 in flight, on one device that is busy 90 % of the time: nothing to say.
struct Shape {
    job: AccessJob,
    rate: f64,
    utilisation: f64,
    generator_cpu: f64,
    p50: f64,
    flags: Vec<String>,
    burst: Option<Burst>,
}

fn shape() -> Shape {
    let job = AccessJob {
        sources: vec!["/data".into()],
        workers: 1,
        transfer_bytes: 4096,
        block_bytes: 1 << 30,
        queue_depth: 16,
        seconds: Some(2.0),
        seed: 1,
        ..AccessJob::plain(Access::Read, AccessOrder::Random)
    };
    Shape {
        job,
        rate: 80e6,
        utilisation: 0.9,
        generator_cpu: 0.2,
        p50: 0.003,
        flags: Vec::new(),
        burst: None,
    }
}

impl Shape {
    fn measured(self) -> Measurement {
        let operations = self.rate / self.job.transfer_bytes as f64;
        let side = SideResult {
            operations_per_second: operations,
            bytes_per_second: self.rate,
            latency: Latency { p50: self.p50, mean: self.p50, ..Latency::default() },
            ..SideResult::default()
        };
        let device = DeviceUse {
            name: "vdb".into(),
            utilisation: self.utilisation,
            queue_depth: 3.0,
            operations_per_second: operations,
            ..DeviceUse::default()
        };
        let reads = self.job.reads();
        let depth = f64::from(self.job.workers * self.job.queue_depth);
        let access = AccessResult {
            reads: reads.then(|| side.clone()),
            writes: (!reads).then_some(side),
            first_done_bytes_per_second: self.rate,
            last_done_bytes_per_second: self.rate,
            devices: vec![device],
            checks: Checks { generator_cpu: self.generator_cpu, reached_depth: depth, ..Checks::default() },
            burst: self.burst,
            ..AccessResult::of(self.job)
        };
        Measurement {
            stage: Stage::Disk,
            name: "reads".into(),
            resource: "disk:vdb".into(),
            bytes_per_second: self.rate,
            samples: vec![self.rate; 3],
            cpu_seconds_per_gb: 0.1,
            method: "io_uring".into(),
            flags: self.flags,
            seconds: 2.0,
            access: Some(Box::new(access)),
            ..Measurement::default()
        }
    }
}

fn machine() -> Machine {
    let disk = Disk {
        name: "vdb".into(),
        kind: DiskKind::Virtio,
        rotational: Fact::Known(false),
        physical_block_bytes: Fact::Known(4096),
        scheduler: Fact::Known("mq-deadline".into()),
        read_ahead_bytes: Fact::Known(131_072),
        misaligned_bytes: Fact::Known(0),
        ..Disk::default()
    };
    Machine { disks: vec![disk], ..Machine::default() }
}

fn on(machine: &Machine, shapes: Vec<Shape>) -> Vec<Finding> {
    disk_findings(machine, &shapes.into_iter().map(Shape::measured).collect::<Vec<_>>())
}

fn ids(shapes: Vec<Shape>) -> Vec<String> {
    on(&machine(), shapes).into_iter().map(|finding| finding.id).collect()
}

fn only(machine: &Machine, shapes: Vec<Shape>) -> Finding {
    let mut findings = on(machine, shapes);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

#[test]
fn a_disk_without_anything_to_say_has_none() {
    assert_eq!(ids(vec![shape()]), Vec::<String>::new());
    assert_eq!(ids(Vec::new()), Vec::<String>::new());
    // Without a figure, whatever else it holds.
    assert_eq!(ids(vec![Shape { rate: 0.0, utilisation: 1.0, ..shape() }]), Vec::<String>::new());
}

/// A log whose syncs take this long at the 99th percentile, seconds.
fn log(p99: f64) -> Measurement {
    let sync = Some(WriteSync { method: SyncMethod::Data, every: 1 });
    let job = AccessJob {
        access: Access::Write,
        order: AccessOrder::Sequential,
        queue_depth: 1,
        sync,
        ..shape().job
    };
    let mut measured = Shape { job, rate: 4096.0 * 0.7 / p99, utilisation: 0.5, ..shape() }.measured();
    let latency = Latency { p50: p99 / 2.0, p99, maximum: p99 * 2.0, ..Latency::default() };
    let syncs = SyncResult { operations_per_second: 0.7 / p99, latency, ..SyncResult::default() };
    let access = measured.access.as_mut().expect("a job of files");
    (access.syncs, access.checks.asked_depth) = (Some(syncs), 1.0);
    measured
}

#[test]
fn a_sync_is_held_against_what_programs_ask_for() {
    for (p99, severity, says) in [
        (0.001, Severity::Note, "a second; enough for etcd (p99 below 10 ms), etcd under heavy load"),
        (0.005, Severity::Slow, "; too slow for etcd under heavy load (500/s of one writer)"),
        (
            0.02,
            Severity::Slow,
            "35 a second; enough for ZooKeeper (warns from 1 s on); too slow for etcd (p99",
        ),
    ] {
        // The slowest of several counts; a device that waits for its flush is not one with too little to do.
        let mut findings = disk_findings(&machine(), &[log(0.0005), log(p99)]);
        let found = findings.remove(0);
        assert!(
            findings.is_empty() && found.id == "durable-writes" && found.severity == severity,
            "{findings:?}"
        );
        assert!(found.text.starts_with("fdatasync in “reads”") && found.text.contains(says), "{found:?}");
        assert!(found.remedy.contains("https://etcd.io/"), "{}", found.remedy);
    }
    let in_memory = Measurement { flags: vec!["in-memory".into()], ..log(0.02) };
    assert_eq!(disk_findings(&machine(), &[in_memory]), []);
}

#[test]
fn a_full_processor_is_named_and_no_device_is_blamed() {
    let full = || Shape { generator_cpu: 0.97, utilisation: 1.0, ..shape() };
    let found = only(&machine(), vec![full(), shape()]);
    assert_eq!((found.id.as_str(), found.severity), ("generator-cpu", Severity::Slow));
    assert!(found.text.contains("97 %") && found.text.contains("“reads”"), "{}", found.text);
}

#[test]
fn memory_that_answered_is_reported_and_no_device_is_blamed() {
    let cached = Shape { flags: vec!["page-cache".into()], utilisation: 0.3, ..shape() };
    assert_eq!(ids(vec![cached]), ["page-cache"]);
    // A remedy names an option that somebody used, or one that helps.
    let remedy = |job: AccessJob| {
        let shape = Shape { job, flags: vec!["page-cache".into()], utilisation: 0.3, ..shape() };
        disk_findings(&machine(), &[shape.measured()])[0].remedy.clone()
    };
    let buffered = remedy(AccessJob { direct: false, ..shape().job });
    assert!(buffered.contains("without --buffered") && !buffered.contains("--engine"), "{buffered}");
    let mapped = remedy(AccessJob { direct: false, engine: Engine::Mmap, ..shape().job });
    assert!(mapped.contains("not --engine mmap") && !mapped.contains("--buffered"), "{mapped}");
    let written = remedy(AccessJob { direct: false, access: Access::Write, ..shape().job });
    assert!(written.contains("--fsync") && !buffered.contains("--fsync"), "{written}");
}

#[test]
fn a_device_without_a_pause_is_what_holds_it() {
    let found = only(&machine(), vec![Shape { utilisation: 0.99, ..shape() }, shape()]);
    assert_eq!(found.id, "device-busy");
    assert!(
        found.text.contains("vdb had no pause in 1 of 2 measurements, at most 80.0 MB/s"),
        "{}",
        found.text
    );
    // Held to a rate, it has what it was offered.
    let mut paced = Shape { utilisation: 0.99, ..shape() };
    paced.job.requests_per_second = Some(19_000.0);
    assert_eq!(ids(vec![paced]), Vec::<String>::new());
}

#[test]
fn a_device_that_waits_for_requests_gets_too_few() {
    let found = only(&machine(), vec![Shape { utilisation: 0.6, ..shape() }]);
    assert_eq!((found.id.as_str(), found.severity), ("queue-too-shallow", Severity::Slow));
    assert!(found.text.contains("40 % of the time") && found.text.contains("16.0 requests"), "{found:?}");
    assert!((found.gain - (80e6 / 0.6 - 80e6)).abs() < 1.0, "{}", found.gain);
    // A core that was full kept it waiting.
    let flags = vec!["core-saturated".to_string()];
    assert_eq!(ids(vec![Shape { utilisation: 0.6, flags, ..shape() }]), Vec::<String>::new());
    // No counters of the device: nothing is known.
    let mut unseen = Shape { utilisation: 0.6, ..shape() }.measured();
    unseen.access.as_mut().expect("access").devices.clear();
    assert_eq!(disk_findings(&machine(), &[unseen]), Vec::new());
}

#[test]
fn more_in_flight_that_brought_more() {
    let of = |queue_depth: u32, rate: f64| {
        let mut shape = Shape { rate, ..shape() };
        shape.job.queue_depth = queue_depth;
        shape
    };
    let found = only(&machine(), vec![of(1, 20e6), of(16, 80e6), of(64, 82e6)]);
    assert_eq!(found.id, "deeper-is-faster");
    assert_eq!(found.evidence["in_flight"], serde_json::json!([1, 64]));
    assert_eq!(found.gain, 62e6);
    assert_eq!(ids(vec![of(1, 70e6), of(16, 80e6)]), Vec::<String>::new());
    // Another job is no deeper one.
    let mut other = of(64, 400e6);
    other.job.order = AccessOrder::Sequential;
    assert_eq!(ids(vec![of(16, 80e6), other]), Vec::<String>::new());
}

#[test]
fn a_number_of_requests_that_does_not_change_with_their_size_is_a_limit() {
    let of = |transfer_bytes: u64, operations: f64| {
        let mut shape = Shape { rate: operations * transfer_bytes as f64, ..shape() };
        shape.job.transfer_bytes = transfer_bytes;
        shape
    };
    let found = only(&machine(), vec![of(4096, 3000.0), of(16_384, 2990.0)]);
    assert_eq!((found.id.as_str(), found.severity), ("request-limit", Severity::Slow));
    assert!(found.text.starts_with("3000 requests a second of 4 KiB, and 2990 of 16 KiB"), "{}", found.text);
    assert_eq!(ids(vec![of(4096, 3000.0), of(16_384, 2000.0)]), Vec::<String>::new());
}

#[test]
fn writes_of_less_than_a_physical_sector() {
    let mut small = Shape { rate: 10e6, ..shape() };
    (small.job.access, small.job.transfer_bytes) = (Access::Write, 512);
    let found = only(&machine(), vec![small]);
    assert_eq!((found.id.as_str(), found.severity), ("partial-sectors", Severity::Slow));
    let mut reads = Shape { rate: 10e6, ..shape() };
    reads.job.transfer_bytes = 512;
    assert_eq!(ids(vec![reads]), Vec::<String>::new());
}

#[test]
fn a_device_that_cannot_rotate_so_fast() {
    let mut turning = machine();
    turning.disks[0].rotational = Fact::Known(true);
    let found = only(&turning, vec![Shape { p50: 90e-6, ..shape() }]);
    assert_eq!(found.id, "rotational-claim");
    assert!(found.text.contains("90 µs") && found.remedy.contains("/sys/block/vdb/queue/rotational"));
    assert_eq!(on(&turning, vec![Shape { p50: 0.008, ..shape() }]), Vec::new());
}

#[test]
fn a_scheduler_in_the_way_of_many_requests() {
    let many = || Shape { rate: 150_000.0 * 4096.0, ..shape() };
    assert_eq!(only(&machine(), vec![many()]).id, "scheduler");
    let mut none = machine();
    none.disks[0].scheduler = Fact::Known("none".into());
    assert_eq!(on(&none, vec![many()]), Vec::new());
}

#[test]
fn a_misaligned_device_counts_where_it_was_measured() {
    let mut off = machine();
    off.disks[0].misaligned_bytes = Fact::Known(512);
    assert_eq!(only(&off, vec![shape()]).id, "misaligned");
    off.disks[0].name = "vdc".into();
    assert_eq!(on(&off, vec![shape()]), Vec::new());
}

#[test]
fn reading_ahead_too_little_shows_beside_direct_reads() {
    let of = |direct: bool, rate: f64| {
        let mut shape = Shape { rate, ..shape() };
        (shape.job.direct, shape.job.order, shape.job.transfer_bytes) =
            (direct, AccessOrder::Sequential, 1 << 20);
        shape
    };
    let found = only(&machine(), vec![of(false, 400e6), of(true, 900e6)]);
    assert_eq!((found.id.as_str(), found.gain), ("read-ahead", 500e6));
    assert!(found.remedy.contains("blockdev --setra 2048 /dev/vdb"), "{}", found.remedy);
    assert_eq!(ids(vec![of(false, 800e6), of(true, 900e6)]), Vec::<String>::new());
}

#[test]
fn a_bucket_that_empties_is_reported_with_its_size() {
    let burst = Burst {
        burst_bytes_per_second: 300e6,
        sustained_bytes_per_second: 80e6,
        until_bytes: 3e9,
        bucket_bytes: 2.2e9,
        seconds: 10.0,
    };
    let found = only(&machine(), vec![Shape { burst: Some(burst), ..shape() }]);
    assert_eq!(found.id, "burst");
    assert!(found.text.contains("300 MB/s for 10.0 s, then at 80.0 MB/s"), "{}", found.text);
}
