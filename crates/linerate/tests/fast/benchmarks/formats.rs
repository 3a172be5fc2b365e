//! Benchmarks in the formats of other tools, held to those tools where they are installed.

use super::sample::{begin, disk, job, measured, memory};
use linerate::measure::Stage;
use linerate::measure::access::{Access, Latency, LatencyQuantile, LatencyShare};
use linerate::report;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// What fio's jobs have and linerate does not measure; told in `report/fio.rs`, too. A `*` ends what begins
/// so.
const LEFT_OUT: &str = "ctx, majf, minf, sync.*, iodepth_level.*, iodepth_submit.*, \
     iodepth_complete.*, read.short_ios, read.drop_ios, read.slat_ns.*, group_kb, job options.*, desc";

/// What a measurement keeps beside the percentiles that are shown.
fn keep_all(latency: &mut Latency) {
    let mean = latency.mean;
    latency.standard_deviation = Some(mean * 0.8);
    let quantiles = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.995, 0.9995];
    let quantile = |quantile: f64| LatencyQuantile { quantile, seconds: mean * 1.8 * quantile };
    latency.quantiles = quantiles.map(quantile).to_vec();
    let shares = [(Some(0.0005), 0.75), (Some(0.004), 0.2), (None, 0.05)];
    latency.distribution =
        shares.map(|(below_seconds, share)| LatencyShare { below_seconds, share }).to_vec();
}

fn mixed() -> linerate::run::Run {
    let mut run = begin(Stage::Disk, "mixed");
    let mut measured = measured(job(Access::Mixed { read_share: 0.7 }, 4, 4096), &[40e6, 41e6, 42e6]);
    if let Some(access) = &mut measured.access {
        access.reads.iter_mut().chain(&mut access.writes).for_each(|side| keep_all(&mut side.latency));
    }
    run.measurements.push(measured);
    run
}

/// Every path to a value that is not a map, with the kind of the value.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<(String, &'static str)>) {
    let kind = match value {
        Value::Object(map) => {
            for (key, value) in map {
                paths(value, &format!("{at}{key}."), found);
            }
            return;
        }
        Value::Number(_) => "number",
        Value::String(_) => "text",
        _ => "other",
    };
    found.insert((at.trim_end_matches('.').to_string(), kind));
}

fn job_paths(json: &str) -> BTreeSet<(String, &'static str)> {
    let value: Value = serde_json::from_str(json).expect("JSON");
    let mut found = BTreeSet::new();
    paths(&value["jobs"][0], "", &mut found);
    found
}

fn is_left_out(path: &str) -> bool {
    // Writes and trims have the same keys as reads.
    let path = path
        .strip_prefix("write.")
        .or(path.strip_prefix("trim."))
        .map_or(path.to_string(), |rest| format!("read.{rest}"));
    LEFT_OUT.split(", ").any(|left| match left.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == left,
    })
}

#[test]
fn fio_json_has_the_keys_of_fio_and_what_it_leaves_out_is_known() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let fio = Command::new("fio")
        .current_dir(place.path())
        .args(
            "--name=keys --filename=data --size=1M --bs=4k --rw=randrw --ioengine=psync --output-format=json"
                .split(' '),
        )
        .output();
    let Ok(fio) = fio else {
        eprintln!("skipped: fio is not installed, so that the keys of fio-json cannot be held to it");
        return;
    };
    let theirs = job_paths(&String::from_utf8_lossy(&fio.stdout));
    let ours = job_paths(&report::fio_json(&mixed()));
    assert!(theirs.len() > 100, "fio said: {}", String::from_utf8_lossy(&fio.stderr));
    for (path, kind) in ours.iter().filter(|(path, _)| !path.starts_with("job options.")) {
        assert!(theirs.contains(&(path.clone(), kind)), "fio has no {path} of kind {kind}");
    }
    let mut lacking =
        theirs.iter().map(|(path, _)| path).filter(|path| !ours.iter().any(|(our, _)| our == *path));
    let unknown = lacking.find(|path| !is_left_out(path));
    assert_eq!(unknown, None, "fio has a key that we neither write nor leave out knowingly");
}

#[test]
fn fio_json_says_what_was_measured() {
    let value: Value = serde_json::from_str(&report::fio_json(&mixed())).expect("JSON");
    let job = &value["jobs"][0];
    assert_eq!(job["job options"]["rw"], "rw");
    let number = |value: &Value| value.as_f64().expect("a number");
    let (read, write) = (&job["read"], &job["write"]);
    assert!((number(&read["bw_bytes"]) - 41e6 * 0.7).abs() < 2.0, "{read}");
    assert!((number(&write["bw"]) - 41e6 * 0.3 / 1024.0).abs() < 2.0, "{write}");
    assert!((number(&read["iops"]) * 4096.0 - 41e6 * 0.7).abs() < 1.0);
    assert!((number(&read["bw_max"]) - 42e6 * 0.7 / 1024.0).abs() < 2.0);
    let p99 = number(&read["clat_ns"]["percentile"]["99.000000"]);
    assert!(p99 > number(&read["clat_ns"]["mean"]) && p99 < number(&read["clat_ns"]["max"]));
    assert_eq!(read["clat_ns"]["percentile"].as_object().map(serde_json::Map::len), Some(17));
    assert!((number(&read["lat_ns"]["stddev"]) / number(&read["lat_ns"]["mean"]) - 0.8).abs() < 1e-6);
    let mut uneven = mixed();
    uneven.measurements[0].samples = vec![40e6, 40e6, 43e6];
    let uneven: Value = serde_json::from_str(&report::fio_json(&uneven)).expect("JSON");
    let (uneven, mean) = (&uneven["jobs"][0]["read"], 41e6 * 0.7);
    assert!((number(&uneven["bw_mean"]) * 1024.0 - mean).abs() < 1.0, "{uneven}: the mean, not the median");
    assert!((number(&uneven["iops_mean"]) * 4096.0 - mean).abs() < 1.0, "{uneven}");
    assert!((number(&uneven["bw_agg"]) - 100.0).abs() < 1e-6, "{uneven}");
    let spread = number(&read["bw_dev"]);
    assert!((spread - 1e6 * 0.7 / 1024.0).abs() < 1.0, "{spread}: of 40, 41 and 42 MB/s");
    let percent = |unit: &str| job[unit].as_object().expect("bounds").values().map(number).sum::<f64>();
    let all: Vec<f64> = ["latency_ns", "latency_us", "latency_ms"].map(percent).to_vec();
    assert!(all[0] == 0.0 && (all[1] - 75.0).abs() < 1e-6 && (all[2] - 25.0).abs() < 1e-6, "{all:?}");
    let longest = number(&job["latency_ms"][">=2000"]);
    assert!(number(&job["latency_us"]["500"]) > 74.9 && (longest - 5.0).abs() < 1e-6, "{longest}");
    assert_eq!(number(&job["trim"]["total_ios"]), 0.0);
    let cpu = number(&job["usr_cpu"]) + number(&job["sys_cpu"]);
    assert!((cpu - 0.031 * 0.041 * 100.0 / 4.0).abs() < 1e-9, "{cpu} % of a core for each worker");
    assert_eq!(value["disk_util"][0]["name"], "loop0");
    let jobs = |run| {
        serde_json::from_str::<Value>(&report::fio_json(&run)).expect("JSON")["jobs"].as_array().map(Vec::len)
    };
    assert_eq!((jobs(disk("xfs", 1.0)), jobs(memory())), (Some(16), Some(0)));
}

#[test]
fn fio_json_of_a_result_that_kept_six_percentiles_claims_no_others() {
    let mut run = mixed();
    let access = run.measurements[0].access.as_mut().expect("a job");
    for side in access.reads.iter_mut().chain(&mut access.writes) {
        side.latency = super::sample::latency(side.latency.mean);
    }
    let value: Value = serde_json::from_str(&report::fio_json(&run)).expect("JSON");
    let job = &value["jobs"][0];
    assert_eq!(job["read"]["clat_ns"]["percentile"].as_object().map(serde_json::Map::len), Some(6));
    assert!(job["read"]["lat_ns"].get("stddev").is_none() && job.get("latency_us").is_none(), "{job}");
}

#[test]
fn csv_has_a_line_for_each_measurement_and_as_many_fields_in_each() {
    for run in [disk("xfs", 1.0), memory(), mixed()] {
        let csv = report::csv(&run);
        assert_eq!(csv.lines().count(), run.measurements.len() + 1);
        // Commas within quotes part nothing.
        let fields =
            |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>() + 1;
        let heads = csv.lines().next().map(fields);
        assert!(csv.lines().all(|line| Some(fields(line)) == heads), "{csv}");
    }
    let csv = report::csv(&mixed());
    let line = csv.lines().nth(1).expect("a measurement");
    assert!(
        line.starts_with("disk,mixed,\"sequential 70 % read, else write, 4 workers, 4 KiB\",41000000,"),
        "{line}"
    );
}
