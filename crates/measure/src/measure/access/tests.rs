//! Jobs on files of a temporary directory: what is made, what is told, what is left.

use super::parts::tests::job;
use super::*;
use crate::event::Kept;
use crate::measure::Measurement;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, probe};
use linerate_system::stop::Stop;
use std::path::Path;

struct TestBench {
    sysroot: Sysroot,
    machine: Machine,
    stop: Stop,
    listener: Kept,
}

impl TestBench {
    fn new() -> Self {
        let sysroot = Sysroot::live();
        let machine = probe(&sysroot);
        TestBench { sysroot, machine, stop: Stop::new(), listener: Kept::default() }
    }

    fn bench(&mut self) -> AccessBench<'_> {
        let bench = AccessBench::new(&self.sysroot, &self.machine, &self.stop, &mut self.listener);
        AccessBench { warm_up_seconds: 0.02, windows: 2, ..bench }
    }

    fn run(&mut self, job: &AccessJob, permissions: Permissions) -> Result<(Measurement, Prepared), Failure> {
        let mut bench = self.bench();
        let mut prepared = Prepared::new(&bench, &job.sources, permissions)?;
        prepared.ready_for(&mut bench, job)?;
        Ok((conduct(&mut bench, job, &prepared)?, prepared))
    }
}

fn in_directory(directory: &Path, workers: u32, layout: FileLayout) -> AccessJob {
    AccessJob { sources: vec![directory.to_path_buf()], ..job(1, workers, layout) }
}

/// A directory on a disk of which more than a tenth is free; none, with a message, where there is none.
fn roomy() -> Option<tempfile::TempDir> {
    for parent in [std::env::temp_dir(), "/dev/shm".into()] {
        let Ok(directory) = tempfile::tempdir_in(parent) else { continue };
        let Ok((free, total)) = linerate_system::file::space_at(directory.path()) else { continue };
        if free.saturating_sub(total / 10) > 64 << 20 {
            return Some(directory);
        }
    }
    eprintln!("skipped: neither the temporary directory nor /dev/shm has room");
    None
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a list");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn each_worker_does_its_part_once() {
    let Some(directory) = roomy() else { return };
    for layout in [FileLayout::FilePerWorker, FileLayout::Segmented, FileLayout::Strided] {
        for access in [Access::Read, Access::Write] {
            let job = AccessJob { access, ..in_directory(directory.path(), 3, layout) };
            let (measurement, _prepared) =
                TestBench::new().run(&job, Permissions::default()).expect("a figure");
            let result = measurement.access.expect("of access");
            let side = if job.reads() { &result.reads } else { &result.writes };
            let side = side.as_ref().expect("the side that was asked for");
            assert_eq!(side.bytes, 3 * 3 * (256 << 10), "{layout:?} {access:?}");
            assert_eq!(side.operations, 3 * 3 * 4);
            assert!(result.errors.is_empty(), "{:?}", result.errors);
            assert!(result.last_done_bytes_per_second > 0.0 && measurement.samples.len() == 1);
            assert!(side.latency.minimum <= side.latency.p50 && side.latency.p50 <= side.latency.p99_99);
        }
    }
    assert!(names(directory.path()).is_empty(), "nothing is left");
}

#[test]
fn a_timed_job_has_its_windows_and_writes_over_what_is_there() {
    let Some(directory) = roomy() else { return };
    let job = AccessJob {
        access: Access::Write,
        seconds: Some(0.1),
        ..in_directory(directory.path(), 2, FileLayout::FilePerWorker)
    };
    let (measurement, _prepared) = TestBench::new().run(&job, Permissions::default()).expect("a figure");
    assert_eq!(measurement.samples.len(), 2);
    assert!(measurement.bytes_per_second > 0.0 && measurement.seconds >= 0.2);
    let result = measurement.access.expect("of access");
    let writes = result.writes.expect("writes");
    let told = writes.operations_per_second * job.transfer_bytes as f64;
    assert!((told / measurement.bytes_per_second - 1.0).abs() < 0.01, "IOPS and rate are of one thing");
    assert!(result.checks.asked_depth == 2.0 && result.checks.little_depth > 0.0);
}

#[test]
fn kept_files_are_named_and_stay() {
    let Some(directory) = roomy() else { return };
    let job = in_directory(directory.path(), 2, FileLayout::FilePerWorker);
    let keep = Permissions { keep: true, ..Permissions::default() };
    let (_, prepared) = TestBench::new().run(&job, keep).expect("a figure");
    assert_eq!(prepared.kept_files().len(), 2);
    drop(prepared);
    let names = names(directory.path());
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("linerate-disk-")), "{names:?}");
}

#[test]
fn a_file_of_the_user_is_read_as_it_is_and_never_written() {
    let Some(directory) = roomy() else { return };
    let file = directory.path().join("theirs");
    let content: Vec<u8> = (0..1_000_000u32).map(|index| index as u8).collect();
    std::fs::write(&file, &content).expect("written");
    let job = in_directory(&file, 2, FileLayout::Segmented);
    let (measurement, _prepared) = TestBench::new().run(&job, Permissions::default()).expect("a figure");
    let read = measurement.access.and_then(|result| result.reads).expect("reads");
    assert_eq!(read.bytes, 2 * 7 * (64 << 10), "whole requests of half the file each");
    assert!(measurement.flags.iter().any(|flag| flag == "short-file"), "{:?}", measurement.flags);
    let write = AccessJob { access: Access::Write, ..job };
    let refused = TestBench::new().run(&write, Permissions::default()).map(drop).expect_err("refused");
    assert_eq!(refused.exit_status(), 2);
    assert_eq!(std::fs::read(&file).expect("read"), content);
}

#[test]
fn a_job_that_cannot_be_is_one_sentence() {
    let Some(directory) = roomy() else { return };
    let good = in_directory(directory.path(), 2, FileLayout::FilePerWorker);
    let jobs = [
        (AccessJob { transfer_bytes: 1000, block_bytes: 1000, direct: true, ..good.clone() }, 2, "sector"),
        (AccessJob { block_bytes: 100_000, ..good.clone() }, 2, "multiple of the transfer size"),
        (AccessJob { segments: 1 << 40, ..good.clone() }, 3, "no room"),
        (AccessJob { queue_depth: 4, ..good.clone() }, 2, "one request in flight"),
        (
            AccessJob { requests_per_second: Some(1.0), limit_bytes_per_second: Some(1.0), ..good.clone() },
            2,
            "--rate",
        ),
        (
            AccessJob {
                workers: 60_000,
                transfer_bytes: 1 << 30,
                block_bytes: 1 << 30,
                access: Access::Write,
                ..good.clone()
            },
            3,
            "",
        ),
    ];
    for (job, status, says) in jobs {
        let failure = TestBench::new().run(&job, Permissions::default()).map(drop).expect_err(says);
        assert_eq!(failure.exit_status(), status, "{failure}");
        assert!(failure.to_string().contains(says), "{failure}");
    }
    assert!(names(directory.path()).is_empty(), "nothing is left");
}

#[test]
fn buffers_beyond_the_memory_are_refused_before_anything_starts() {
    let Some(directory) = roomy() else { return };
    let file = directory.path().join("theirs");
    std::fs::File::create(&file).expect("made").set_len(1 << 40).expect("sparse");
    let job = AccessJob {
        workers: 512,
        transfer_bytes: 1 << 30,
        block_bytes: 1 << 30,
        segments: 1,
        ..in_directory(&file, 512, FileLayout::Segmented)
    };
    let failure = TestBench::new().run(&job, Permissions::default()).map(drop).expect_err("too much");
    assert_eq!(failure.exit_status(), 3);
    assert!(failure.to_string().contains("with their buffers"), "{failure}");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let Some(directory) = roomy() else { return };
    let mut room = TestBench::new();
    let job =
        AccessJob { seconds: Some(0.05), ..in_directory(directory.path(), 1, FileLayout::FilePerWorker) };
    let mut bench = room.bench();
    bench.windows = 1_000_000;
    let mut prepared = Prepared::new(&bench, &job.sources, Permissions::default()).expect("looked at");
    prepared.ready_for(&mut bench, &job).expect("ready");
    let stop = bench.stop;
    let measurement = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(900));
            stop.end();
        });
        conduct(&mut bench, &job, &prepared).expect("what there is")
    });
    assert!(!measurement.samples.is_empty() && measurement.bytes_per_second > 0.0);
    assert!(measurement.flags.iter().any(|flag| flag == "cut-short"));
}
