//! `linerate disk` on file systems that fill up or may not be written, and on devices that fail.

use crate::support::disk::{QUICK, disk, json, ran};
use crate::support::disk_places::{LoopDevice, Tmpfs, can_mount, succeed};
use crate::support::process::Ends;
use crate::support::{names, text};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_mount_that_is_read_only() {
    let Some(()) = can_mount() else { return };
    let place = Tmpfs::new(64, ",ro");
    let words = [&["--source", text(&place.path), "--buffered"], &QUICK[..]].concat();
    ran(&words).refused(3, &["read-only"]);
}

#[test]
fn a_disk_that_becomes_full_while_files_are_written() {
    let Some(()) = can_mount() else { return };
    let place = Tmpfs::new(600, "");
    let line = format!("--source {} --buffered --access read --amount 500M --repeats 1", text(&place.path));
    let words: Vec<&str> = line.split(' ').collect();
    let child = disk(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // As soon as something is there, the rest of the disk is taken.
    let used = || Command::new("df").args(["--output=used", "-k"]).arg(&place.path).ended();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let text = used().stdout;
        if text
            .lines()
            .nth(1)
            .and_then(|used| used.trim().parse::<u64>().ok())
            .is_some_and(|used| used > 2048)
        {
            break;
        }
    }
    let filler = place.path.join("filler");
    let _ = Command::new("fallocate").args(["-l", "560M"]).arg(&filler).stderr(Stdio::null()).status();
    let _ = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=600", "status=none"])
        .arg(format!("of={}", place.path.join("rest").display()))
        .stderr(Stdio::null())
        .status();
    child.ended().refused(3, &["became full"]);
    assert!(names(&place.path).iter().all(|name| name == "filler" || name == "rest"));
}

#[test]
fn a_disk_that_becomes_full_while_it_is_measured_gives_what_there_was() {
    let Some(()) = can_mount() else { return };
    let place = Tmpfs::new(200, "");
    let line = format!(
        "--source {} --buffered --access write --transfer 1M --amount 150M --rate-limit 25MB/s --repeats 1 --rounds 1 --json",
        text(&place.path)
    );
    let words: Vec<&str> = line.split(' ').collect();
    let child = disk(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(1500));
    let rest = format!("of={}", place.path.join("rest").display());
    let _ = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=400", "status=none", &rest])
        .stderr(Stdio::null())
        .status();
    let output = child.ended();
    output.gives(1);
    assert!(output.stderr.contains("became full"), "{}", output.stderr);
    let run = output.json();
    let written = run["measurements"][0]["access"]["writes"]["bytes"].as_u64().expect("bytes");
    assert!(written > 0 && written < 150 << 20, "{written}");
    assert_eq!(names(&place.path), ["rest"]);
}

#[test]
fn one_device_of_two_that_fails_is_named_and_the_other_finishes() {
    let Some(()) = can_mount() else { return };
    // A loop device on a file that has no room left: its writes fail as those of a broken disk do, with EIO.
    let (roomy, tight) = (Tmpfs::new(64, ""), Tmpfs::new(8, ""));
    let good = LoopDevice::on(&roomy.path, "good", 32);
    let bad = LoopDevice::on(&tight.path, "bad", 32);
    let devices = format!(
        "--source {good} --source {bad} --destroy-data {good} --destroy-data {bad}",
        good = good.text(),
        bad = bad.text()
    );
    let line = devices + " --access write --amount 16M --transfer 1M --repeats 1 --rounds 1 --fsync";
    let words: Vec<&str> = line.split(' ').collect();
    let output = disk(&words).arg("--json").ended();
    output.gives(1);
    let run = output.json();
    let errors = run["errors"].to_string();
    let name = |device: &LoopDevice| device.device.file_name().expect("a name").to_string_lossy().to_string();
    assert!(errors.contains(&format!("{}: ", name(&bad))), "{errors}");
    assert!(!errors.contains(&format!("{}: ", name(&good))), "{errors}");
    assert!(output.stderr.contains(&name(&bad)), "{}", output.stderr);
    let written = run["measurements"][0]["access"]["writes"]["bytes"].as_u64().expect("bytes");
    assert!((16 << 20..32 << 20).contains(&written), "the good one is whole: {written}");
}

#[test]
fn a_block_device_is_read_freely_and_written_only_where_nobody_uses_it() {
    let Some(()) = can_mount() else { return };
    let memory = Tmpfs::new(64, "");
    let device = LoopDevice::on(&memory.path, "image", 32);
    let words = [&["--source", device.text(), "--access", "read"], &QUICK[..]].concat();
    json(&words, 0);
    let write = [&["--source", device.text(), "--access", "write"], &QUICK[..]].concat();
    ran(&write).refused(2, &["--destroy-data"]);
    let allowed = [&write[..], &["--destroy-data", device.text()]].concat();
    let run = json(&[&allowed[..], &["--prepare", "discard,fill"]].concat(), 0);
    let changes = run["changes"].to_string();
    assert!(changes.contains("discarded all data of") && changes.contains("filled"), "{changes}");
    if Command::new("mkfs.ext4").arg("-V").stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: no mkfs.ext4 to mount the device with");
        return;
    }
    succeed("mkfs.ext4", &["-q", device.text()]);
    let place = tempfile::tempdir().expect("a directory");
    succeed("mount", &[device.text(), text(place.path())]);
    let output = ran(&allowed);
    succeed("umount", &[text(place.path())]);
    output.refused(3, &["mounted at"]);
}
