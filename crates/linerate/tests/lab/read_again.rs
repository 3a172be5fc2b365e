//! A cache below the device, which no counter of this host shows: what is read again comes faster than at first.

use crate::support::lab::Lab;
use crate::support::process::Ends;
use std::process::Command;

/// The lab's disk lies on a device of 50 MB/s, and its loop device takes the page cache of that one's file system.
#[test]
fn a_cache_below_the_disk_is_found_and_the_disk_is_not_confirmed() {
    let up = &["--disks", "1x0", "--shared", "50", "--nics", "10000"];
    let Some(lab) = Lab::up("read-again", up) else { return };
    let device = lab.device();
    let buffered = Command::new("losetup").args(["--direct-io=off", &device]).status().expect("losetup");
    assert!(buffered.success(), "{device} takes no page cache");
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("run");
    let words = ["--", "--json", "--budget", "12", "--protocol", "tcp", "--stages", "disk,network,path"];
    let ran = lab.command("demo", &words).arg("--output").arg(&output).ended();
    assert!(ran.status.success(), "linerate run: {}", ran.stderr);
    let run = ran.json();
    let figures = run["measurements"].as_array().expect("figures");
    let disk = figures.iter().rfind(|figure| figure["stage"] == "disk" && figure["together"] == true);
    let disk = disk.expect("the disk stage");
    let again = &disk["read_again"][0];
    let rate = |key: &str| again[key].as_f64().unwrap_or_else(|| panic!("no {key}: {disk:#}"));
    let (first, second) = (rate("first_bytes_per_second"), rate("again_bytes_per_second"));
    assert!(first < 100e6 && second > 2.0 * first, "{again}");
    assert!(disk["flags"].as_array().expect("flags").contains(&"read-again".into()), "{}", disk["flags"]);
    let diagnosis = &run["diagnosis"];
    let of_disk = diagnosis["bottleneck"]["kind"] == "disk";
    assert!(!(of_disk && diagnosis["verdict"] == "confirmed"), "{}", diagnosis["bottleneck"]);
    let findings = diagnosis["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|finding| finding["id"] == "read-again"), "{findings:?}");
}
