//! One sentence, the right exit status, nothing lost, no file left.

use super::places::{Loop, Tmpfs, lacking, succeed};
use super::{QUICK, disk, json, names, place, ran, said, text};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// It ended so, with one sentence that says this.
fn refused(output: &Output, status: i32, says: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("linerate: ") && said.contains(says), "no “{says}” in: {said}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn words_that_contradict_each_other() {
    let Some(place) = place() else { return };
    let source = text(place.path());
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--transfer", "1000", "--block", "1000"], 2, "sector"),
        (&["--transfer", "1M", "--block", "1500k"], 2, "multiple of the transfer size"),
        (&["--engine", "psync", "--queue-depth", "8"], 2, "one request in flight"),
        (&["--amount", "100G", "--segments", "1000"], 3, "no room"),
        (&["--workers", "100000", "--amount", "1G"], 3, ""),
        (&["--source", "/nonexistent/place"], 3, "not there"),
        (&["--source", "/dev/null"], 3, "neither a directory, a file nor a block device"),
        (&["--verify", "--transfer", "1000", "--block", "1000", "--buffered"], 2, ""),
        (&["--discard", "--destroy-data", "x"], 2, "block devices"),
    ];
    for (words, status, says) in cases {
        refused(&ran(&[&["--source", source], words].concat()), status, says);
    }
    assert!(names(place.path()).is_empty());
}

#[test]
fn more_workers_than_memory_for_their_buffers() {
    let Some(place) = place() else { return };
    let file = place.path().join("theirs");
    File::create(&file).expect("made").set_len(1 << 40).expect("sparse");
    let words = ["--source", text(&file), "--workers", "1000", "--transfer", "1G", "--queue-depth", "4"];
    refused(&ran(&words), 3, "with their buffers");
}

#[test]
fn a_file_of_the_user_is_never_written_unless_its_loss_is_named() {
    let Some(place) = place() else { return };
    let file = place.path().join("theirs");
    std::fs::write(&file, vec![7; 8 << 20]).expect("written");
    let words = [&["--source", text(&file), "--access", "write"], &QUICK[..]].concat();
    refused(&ran(&words), 2, "--destroy-data");
    assert!(std::fs::read(&file).expect("read").iter().all(|byte| *byte == 7));
    json(&[&words[..], &["--destroy-data", text(&file)]].concat(), 0);
    assert_eq!(std::fs::metadata(&file).expect("there").len(), 8 << 20, "it keeps its length");
}

#[test]
fn a_mount_that_is_read_only() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let place = Tmpfs::new(64, ",ro");
    let words = [&["--source", text(&place.path), "--buffered"], &QUICK[..]].concat();
    refused(&ran(&words), 3, "read-only");
}

#[test]
fn a_disk_that_becomes_full_while_files_are_written() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let place = Tmpfs::new(600, "");
    let words = [
        "--source",
        text(&place.path),
        "--buffered",
        "--access",
        "read",
        "--amount",
        "500M",
        "--repeats",
        "1",
    ];
    let child = disk(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // As soon as something is there, the rest of the disk is taken.
    let used = || Command::new("df").args(["--output=used", "-k"]).arg(&place.path).output().expect("df");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let text = String::from_utf8_lossy(&used().stdout).to_string();
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
    refused(&child.wait_with_output().expect("it ends"), 3, "became full");
    assert!(names(&place.path).iter().all(|name| name == "filler" || name == "rest"));
}

#[test]
fn a_disk_that_becomes_full_while_it_is_measured_gives_what_there_was() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let place = Tmpfs::new(200, "");
    let words = [
        "--source",
        text(&place.path),
        "--buffered",
        "--access",
        "write",
        "--transfer",
        "1M",
        "--amount",
        "150M",
        "--limit",
        "25MB/s",
        "--repeats",
        "1",
        "--rounds",
        "1",
        "--json",
    ];
    let child = disk(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(1500));
    let rest = format!("of={}", place.path.join("rest").display());
    let _ = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=400", "status=none", &rest])
        .stderr(Stdio::null())
        .status();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("became full"), "{}", said(&output));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let written = run["measurements"][0]["access"]["writes"]["bytes"].as_u64().expect("bytes");
    assert!(written > 0 && written < 150 << 20, "{written}");
    assert_eq!(names(&place.path), ["rest"]);
}

#[test]
fn one_device_of_two_that_fails_is_named_and_the_other_finishes() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    // A loop device on a file that has no room left: its writes fail as those of a broken disk do, with EIO.
    let (roomy, tight) = (Tmpfs::new(64, ""), Tmpfs::new(8, ""));
    let good = Loop::new(&roomy.path, "good", 32);
    let bad = Loop::new(&tight.path, "bad", 32);
    let words = [
        "--source",
        good.text(),
        "--source",
        bad.text(),
        "--destroy-data",
        good.text(),
        "--destroy-data",
        bad.text(),
        "--access",
        "write",
        "--amount",
        "16M",
        "--transfer",
        "1M",
        "--repeats",
        "1",
        "--rounds",
        "1",
        "--fsync",
    ];
    let output = disk(&words).arg("--json").output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors = run["errors"].to_string();
    let name = |device: &Loop| device.device.file_name().expect("a name").to_string_lossy().to_string();
    assert!(errors.contains(&format!("{}: ", name(&bad))), "{errors}");
    assert!(!errors.contains(&format!("{}: ", name(&good))), "{errors}");
    assert!(said(&output).contains(&name(&bad)), "{}", said(&output));
    let written = run["measurements"][0]["access"]["writes"]["bytes"].as_u64().expect("bytes");
    assert!((16 << 20..32 << 20).contains(&written), "the good one is whole: {written}");
}

#[test]
fn a_block_device_is_read_freely_and_written_only_where_nobody_uses_it() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    let memory = Tmpfs::new(64, "");
    let device = Loop::new(&memory.path, "image", 32);
    let words = [&["--source", device.text(), "--access", "read"], &QUICK[..]].concat();
    json(&words, 0);
    let write = [&["--source", device.text(), "--access", "write"], &QUICK[..]].concat();
    refused(&ran(&write), 2, "--destroy-data");
    let allowed = [&write[..], &["--destroy-data", device.text()]].concat();
    let run = json(&[&allowed[..], &["--discard", "--fill"]].concat(), 0);
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
    refused(&output, 3, "mounted at");
}

#[test]
fn ctrl_c_gives_the_results_so_far_and_leaves_nothing() {
    let Some(place) = place() else { return };
    let words = ["--source", text(place.path()), "--access", "read", "--seconds", "0.05", "--block", "4M"];
    let mut child = disk(&[&words[..], &["--repeats", "1000", "--json"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut output = child.stdout.take().expect("its output");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.read_to_end(&mut text).map(|_| text)
    });
    std::thread::sleep(Duration::from_secs(4));
    succeed("kill", &["-INT", &child.id().to_string()]);
    let asked = Instant::now();
    let status = child.wait().expect("it ends");
    // A second on an idle machine.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(status.code(), Some(1));
    let text = reader.join().expect("a reader").expect("its text");
    let run: Value = serde_json::from_slice(&text).expect("what there is, as JSON");
    assert!(run["errors"].to_string().contains("interrupted"));
    assert!(run["measurements"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(names(place.path()).is_empty());
}
