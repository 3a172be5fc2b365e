//! `linerate disk` with a job file of fio, and its result in other tools' formats, as a user meets them.

use crate::support::process::{Ends, ProcessEnd};
use std::path::Path;

fn disk(place: &Path, arguments: &[&str]) -> ProcessEnd {
    let mut command = crate::support::linerate();
    command.current_dir(place).arg("disk").args(arguments).ended()
}

const JOBS: &str = "\
[global]
directory=.
size=4m
ioengine=sync

[write]
rw=write
bs=1m

[random]
stonewall
rw=randread
runtime=200ms
time_based
numjobs=2
";

#[test]
fn sections_are_done_in_turn_under_their_names() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("two.fio"), JOBS).expect("a job file");
    let words = ["--fio-job", "two.fio", "--repeats", "1", "--rounds", "1", "--format", "fio-json"];
    let output = disk(place.path(), &words);
    output.gives(0);
    assert!(output.stderr.contains("[write] ioengine=sync: done with pread and pwrite"), "{}", output.stderr);
    let value = output.json();
    let jobs = value["jobs"].as_array().expect("jobs");
    let names: Vec<&str> = jobs.iter().filter_map(|job| job["jobname"].as_str()).collect();
    assert_eq!(names, ["write", "random"]);
    assert_eq!(jobs[0]["write"]["io_bytes"], 4 << 20, "each worker writes its size once");
    assert!(jobs[1]["read"]["total_ios"].as_u64().is_some_and(|count| count > 0));
    let options = &jobs[1]["job options"];
    assert!(options["numjobs"] == "2" && options["rw"] == "randread", "{options}");
    // Files that linerate made are gone, and no folder called fio-json was made.
    let left = std::fs::read_dir(place.path()).expect("the directory").flatten();
    assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["two.fio"]);
}

/// Two sections at once, one of them a log on a file that fio would make, and a third behind a wall.
const AT_ONCE: &str = "\
[global]
size=4m
runtime=200ms
time_based

[readers]
rw=randread
numjobs=2

[log]
filename=wal
rw=write
bs=2300
fdatasync=4

[after]
stonewall
rw=randrw
rwmixread=80
rate_iops=2000
";

#[test]
fn sections_without_a_wall_run_at_once_each_with_its_figure() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("at-once.fio"), AT_ONCE).expect("a job file");
    let output = disk(place.path(), &["--fio-job", "at-once.fio", "--repeats", "2", "--json"]);
    output.gives(0);
    assert!(output.stderr.contains("[log] wal is not there"), "{}", output.stderr);
    let run = output.json();
    let of = |index: usize| &run["measurements"][index];
    let names: Vec<_> = (0..3).map(|index| of(index)["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["readers", "log", "after"]);
    assert!(
        (0..3).all(|index| of(index)["samples"].as_array().is_some_and(|samples| samples.len() == 2)),
        "{run}"
    );
    assert_eq!(
        (of(0)["access"]["job"]["workers"].as_u64(), &run["errors"]),
        (Some(2), &serde_json::json!([]))
    );
    let (writes, syncs) = (&of(1)["access"]["writes"], &of(1)["access"]["syncs"]);
    let count = |of: &serde_json::Value| of["operations"].as_u64().expect("a count");
    assert!(count(writes).abs_diff(4 * count(syncs)) <= 4, "{writes} {syncs}");
    assert!(of(2)["access"]["reads"].is_object() && of(2)["access"]["writes"].is_object());
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("the directory").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_sections_at_once_read_is_checked() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("linerate-disk-a"), [1; 1 << 16]).expect("a file");
    let job = "[global]\nfilename=linerate-disk-a\nsize=64k\nrw=read\n[a]\n[b]\n";
    std::fs::write(place.path().join("two.fio"), job).expect("a job file");
    let run =
        disk(place.path(), &["--fio-job", "two.fio", "--verify", "--repeats", "1", "--json"]).gives(1).json();
    assert!(run["errors"][0].as_str().is_some_and(|why| why.starts_with("corrupt: ")), "{run}");
}

#[test]
fn a_result_is_csv_json_or_saved() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let job: Vec<&str> = "--source . --access read --pattern random --amount 1M --seconds 0.1 --buffered \
        --engine psync --repeats 1"
        .split(' ')
        .collect();
    let with = |more: &[&str]| disk(place.path(), &[&job[..], more].concat());
    let csv = with(&["--format", "csv", "--output", "./csv", "--name", "here"]);
    csv.gives(0);
    let text = &csv.stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.starts_with("stage,run,measurement,bytes_per_second,")
            && text.contains("\ndisk,here,\"random read"),
        "{text}"
    );
    for file in ["csv/run.json", "csv/report.html"] {
        assert!(place.path().join(file).exists(), "{file}");
    }
    assert_eq!(with(&["--format", "json"]).json()["stage"], "disk");
    with(&["--json", "--format", "csv"]).gives(2);
}

#[test]
fn what_cannot_be_taken_is_one_sentence() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("bad.fio"), "[a]\nrw=read\nverify=crc32c\n").expect("a job file");
    std::fs::write(place.path().join("bytes.fio"), [0xff, 0xfe, 0x00]).expect("a file");
    let cases = [
        ("bad.fio", "bad.fio, line 3: linerate does not take `verify`", 2),
        ("bytes.fio", "is not text", 2),
        ("away.fio", "cannot be read", 3),
    ];
    for (file, expected, status) in cases {
        disk(place.path(), &["--fio-job", file]).gives(status).says(&[expected]);
    }
    // A job file says its workers itself.
    disk(place.path(), &["--fio-job", "bad.fio", "--workers", "4"]).gives(2);
}
