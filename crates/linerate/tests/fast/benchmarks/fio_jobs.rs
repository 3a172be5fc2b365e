//! `linerate disk` with a job file of fio, and its result in other tools' formats, as a user meets them.

use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn disk(place: &Path, arguments: &[&str]) -> Output {
    let mut command = crate::support::linerate();
    command.current_dir(place).arg("disk").args(arguments).output().expect("linerate runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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
    let output = disk(
        place.path(),
        &["--fio-job", "two.fio", "--repeats", "1", "--rounds", "1", "--output", "fio-json"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("[write] ioengine=sync: done with pread and pwrite"), "{}", said(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("fio's JSON and nothing else");
    let jobs = value["jobs"].as_array().expect("jobs");
    let names: Vec<&str> = jobs.iter().filter_map(|job| job["jobname"].as_str()).collect();
    assert_eq!(names, ["write", "random"]);
    assert_eq!(jobs[0]["write"]["io_bytes"], 4 << 20, "each worker writes its size once");
    assert!(jobs[1]["read"]["total_ios"].as_u64().is_some_and(|count| count > 0));
    assert_eq!(
        (&jobs[1]["job options"]["numjobs"], &jobs[1]["job options"]["rw"]),
        (&"2".into(), &"randread".into())
    );
    let left: Vec<_> = std::fs::read_dir(place.path())
        .expect("the directory")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(
        left,
        ["two.fio"],
        "files that linerate made are gone, and no folder called fio-json was made"
    );
}

#[test]
fn a_result_is_csv_json_or_saved() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let job = [
        "--source",
        ".",
        "--access",
        "read",
        "--pattern",
        "random",
        "--amount",
        "1M",
        "--seconds",
        "0.1",
        "--buffered",
        "--engine",
        "psync",
        "--repeats",
        "1",
    ];
    let with = |more: &[&str]| disk(place.path(), &[&job[..], more].concat());
    let csv = with(&["--format", "csv", "--output", "./csv", "--name", "here"]);
    assert_eq!(csv.status.code(), Some(0), "{}", said(&csv));
    let text = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.starts_with("stage,run,measurement,bytes_per_second,")
            && text.contains("\ndisk,here,\"random read"),
        "{text}"
    );
    for file in ["csv/run.json", "csv/report.html"] {
        assert!(place.path().join(file).exists(), "{file}");
    }
    let json = with(&["--format", "json"]);
    let value: Value = serde_json::from_slice(&json.stdout).expect("JSON and nothing else");
    assert_eq!(value["stage"], "disk");
    assert_eq!(with(&["--json", "--format", "csv"]).status.code(), Some(2));
}

#[test]
fn what_cannot_be_taken_is_one_sentence() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("bad.fio"), "[a]\nrw=read\nverify=crc32c\n").expect("a job file");
    std::fs::write(place.path().join("bytes.fio"), [0xff, 0xfe, 0x00]).expect("a file");
    let cases = [
        ("bad.fio", "bad.fio, line 3: linerate does not take `verify`", 2),
        ("bytes.fio", "is no text", 2),
        ("away.fio", "cannot be read", 3),
    ];
    for (file, expected, status) in cases {
        let output = disk(place.path(), &["--fio-job", file]);
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert_eq!(
            (said(&output).lines().count(), output.status.code()),
            (1, Some(status)),
            "{}",
            said(&output)
        );
    }
    let both = disk(place.path(), &["--fio-job", "bad.fio", "--workers", "4"]);
    assert_eq!(both.status.code(), Some(2), "a job file says its workers itself");
}
