//! What limits a flow by experiment, on a server of known speeds: what is full loses what is taken from it, and nothing
//! else does.

use crate::support::lab::Lab;
use crate::support::process::Ends;
use serde_json::Value;

/// `linerate run` of its path alone, with as much time as an experiment takes.
fn experiment(lab: &Lab) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run");
    let words =
        ["--", "--json", "--protocol", "tcp", "--stages", "path", "--budget", "40", "--no-save", "--output"];
    let ran = lab.command("demo", &words).arg(&output).ended();
    assert!(ran.status.success(), "linerate run: {}", ran.stderr);
    ran.json()
}

fn share<'a>(run: &'a Value, kind: &str) -> &'a Value {
    let shares = run["diagnosis"]["shares"].as_array().expect("shares");
    let of_kind = |share: &&Value| share["resource"].as_str().is_some_and(|id| id.starts_with(kind));
    shares.iter().find(of_kind).unwrap_or_else(|| panic!("no share of {kind}: {shares:?}"))
}

/// The run of a lab in which this part is full, to within so much of its share, and that one has room.
fn limited_by(full: &str, within: f64, room: &str, lab: &Lab) -> Value {
    let run = experiment(lab);
    let (full, room) = (share(&run, full), share(&run, room));
    let of = |share: &Value| share["share"].as_f64().unwrap_or(f64::NAN);
    assert!((of(full) - 1.0).abs() < within && of(room).abs() < 0.3, "{full} {room}");
    let found = &run["diagnosis"]["bottleneck"];
    let is_named =
        full["resource"].as_str().is_some_and(|id| found["kind"] == id[..id.find(':').unwrap_or(0)]);
    assert!(is_named && run["diagnosis"]["verdict"] == "confirmed", "{found:#}");
    run
}

/// A NIC of 1 Gb/s that a disk of 600 MB/s fills.
#[test]
fn a_full_nic_loses_what_is_taken_and_a_disk_with_room_nothing() {
    let options = ["--disks", "1x600", "--nics", "1000", "--file-size", "256M"];
    let Some(lab) = Lab::up("experiment-nic", &options) else { return };
    let run = limited_by("nic:", 0.1, "disk:", &lab);
    let sentence = run["diagnosis"]["bottleneck"]["sentence"].as_str().unwrap_or_default();
    assert!(sentence.contains("of it taken cost the flow"), "{sentence}");
    // Three rounds, and half a second each of what was only observed.
    let path = run["measurements"].as_array().and_then(|all| all.iter().find(|one| one["stage"] == "path"));
    assert!(path.is_some_and(|path| path["samples"].as_array().is_some_and(|all| all.len() > 6)), "{path:?}");
    // Raising the flow's workers raises nothing where the NIC is full.
    assert!(share(&run, "raise:")["share"].as_f64().is_some_and(|gain| gain.abs() < 0.1), "{run:#}");
}

/// A disk of 300 MB/s behind a NIC with room for more.
#[test]
fn a_throttled_disk_is_measured_though_it_never_looks_busy() {
    let options = ["--disks", "1x300", "--nics", "10000", "--file-size", "256M"];
    let Some(lab) = Lab::up("experiment-disk", &options) else { return };
    limited_by("disk:", 0.25, "nic:", &lab);
}
