//! `--record`, `--replay`, and what a user may get wrong.

use crate::support::process::{Ends, PATIENCE, signal, until};
use crate::support::watch_running::{RunningWatch, watch};
use linerate::watch::Moment;
use linerate::watch::model::PowerKind;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn ended(words: &[&str]) -> (Option<i32>, String, String) {
    watch(words).ended().parts()
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_recording_is_played_as_it_was_and_whole_after_kill_9() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("x.zst");
    let mut running = RunningWatch::start(watch(&["--json", "--interval", "100ms", "--record", name(&file)]));
    let live: Vec<_> = (0..5).map(|_| running.next().expect("a moment")).collect();
    running.child.kill().expect("SIGKILL");
    running.child.wait().expect("its end");
    let (status, out, told) = ended(&["--replay", name(&file), "--speed", "max", "--json"]);
    assert_eq!(status, Some(0), "{told}");
    let played: Vec<linerate::watch::Moment> =
        out.lines().map(|line| serde_json::from_str(line).expect("a moment")).collect();
    assert!(played.len() >= live.len());
    assert_eq!(played[..live.len()], live[..]);
    // The plain tool reads it, too.
    if let Ok(output) = Command::new("zstd").arg("-dcq").arg(&file).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), played.len() + 1);
    }
    let bytes = std::fs::read(&file).expect("the file");
    std::fs::write(&file, &bytes[..bytes.len() - 9]).expect("cut");
    let (status, out, told) = ended(&["--replay", name(&file), "--speed", "max", "--json"]);
    assert_eq!((status, out.lines().count()), (Some(1), played.len() - 1), "{told}");
    assert!(
        told.contains(&format!("is cut after {} moments", played.len() - 1)) && told.lines().count() == 1,
        "{told}"
    );
    let (status, _, told) = ended(&["--record", name(&file), "--count", "1"]);
    assert_eq!(status, Some(3), "{told}");
    assert!(told.contains("is there already"), "{told}");
}

#[test]
fn a_replay_keeps_the_pace_of_the_recording() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("x");
    let line = |at_ms: i64| format!("{{\"schema\":1,\"at_ms\":{at_ms}}}\n");
    let text = format!("{{\"linerate_watch\":{{\"schema\":1}}}}\n{}{}{}", line(1000), line(2000), line(1500));
    std::fs::write(&file, text).expect("a file");
    let started = Instant::now();
    let (status, out, _) = ended(&["--replay", name(&file), "--speed", "2"]);
    assert_eq!((status, out.lines().count()), (Some(0), 3));
    assert!(started.elapsed() >= Duration::from_millis(500), "one second at twice the speed");
}

#[test]
fn what_is_no_recording_is_refused_in_one_sentence() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("x");
    for (content, expected) in [
        ("", "is empty"),
        ("hello", "is not a recording"),
        ("{\"linerate_watch\":{\"schema\":99}}\n", "schema 99"),
    ] {
        std::fs::write(&file, content).expect("a file");
        let (status, out, told) = ended(&["--replay", name(&file)]);
        assert_eq!((status, out.as_str(), told.lines().count()), (Some(3), "", 1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    let (status, _, told) = ended(&["--replay", name(&place.path().join("none"))]);
    assert!(status == Some(3) && told.contains("cannot be read"), "{told}");
    for words in [&["--nic", "nosuch9"][..], &["--disk", "nosuch9"], &["--root", "/nowhere"]] {
        let (status, _, told) = ended(&[words, &["--count", "1"]].concat());
        assert_eq!((status, told.lines().count()), (Some(3), 1), "{words:?}: {told}");
    }
    assert_eq!(ended(&["--interval", "1ms"]).0, Some(2));
    assert_eq!(ended(&["--speed", "2"]).0, Some(2), "a speed is a replay's");
}

/// A file that keeps its reader waiting: another process holds a lease on it, so that the kernel lets nobody
/// open it for a while.
#[test]
fn a_file_that_hangs_is_named_and_the_others_go_on() {
    let tree = crate::support::watch_tree::tree(2, 2);
    let sensor = tree.path().join("sys/class/hwmon/hwmon0/power1_input");
    std::fs::create_dir_all(sensor.parent().expect("a parent")).expect("directories");
    std::fs::write(sensor.with_file_name("name"), "power_meter\n").expect("a file");
    std::fs::write(&sensor, "1000000\n").expect("a file");
    let script = "import fcntl, signal, sys, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nf = \
                  open(sys.argv[1], 'r+')\n\
                  fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True)\ntime.sleep(60)";
    let mut holder =
        match Command::new("python3").args(["-c", script]).arg(&sensor).stdout(Stdio::piped()).spawn() {
            Ok(child) => RunningWatch::start_with(child),
            Err(_) => return println!("skipped: python3 is not installed"),
        };
    if !holder.says_held() {
        return println!("skipped: this file system has no leases");
    }
    let started = Instant::now();
    let words = ["--json", "--interval", "250ms", "--count", "20", "--root", name(tree.path())];
    let mut running = RunningWatch::start(watch(&words));
    let mut last = None;
    while let Some(moment) = running.next() {
        assert_eq!(moment.disks.len(), 2, "the others go on");
        last = Some(moment);
    }
    assert!(running.child.wait().expect("its end").success());
    assert!(started.elapsed() < Duration::from_secs(25), "it waited for the file: {:?}", started.elapsed());
    let slow = last.expect("a moment").slow;
    assert!(slow.iter().any(|words| words.starts_with("hwmon: no answer for ")), "{slow:?}");
}

/// The first moment of a watch in which each of these commands has answered.
fn answered(commands: &[&str]) -> Moment {
    let mut command = watch(&["--json", "--interval", "200ms"]);
    command.env("LINERATE_POWER_COMMAND", commands.join("\n"));
    let mut running = RunningWatch::start(command);
    let begun = Instant::now();
    loop {
        let moment = running.next().expect("a moment");
        if moment.power.iter().filter(|meter| meter.kind == PowerKind::Command).count() == commands.len() {
            return moment;
        }
        assert!(begun.elapsed() < PATIENCE, "no answer of {commands:?}");
    }
}

#[test]
fn a_power_command_is_read_and_one_that_hangs_ends_with_the_watch() {
    let first = answered(&["echo 250.5 W"]);
    assert_eq!(first.power.last().and_then(|meter| meter.watts.known().copied()), Some(250.5));
    assert_eq!(first.energy.watts, Some(250.5));
    let two = ["echo 250.5 W", "echo 100"];
    assert_eq!(answered(&two).energy.watts, Some(350.5), "two meters of one machine are summed");
    let one_fails = ["echo 250.5 W", "echo nothing"];
    assert_eq!(answered(&one_fails).energy.watts, None, "a part of the machine is not its power");
    let mark = format!("600.{}", std::process::id());
    let mut hanging = watch(&["--json", "--interval", "200ms", "--count", "1"]);
    hanging.env("LINERATE_POWER_COMMAND", format!("sleep {mark}; echo 1")).ended().gives(0);
    // A busy machine takes a moment to end what was killed.
    let runs = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).starts_with(&format!("sleep\0{mark}"))
    };
    until("the command's end", || !std::fs::read_dir("/proc").expect("/proc").flatten().any(runs));
}

/// With a page, a recording that has ended stays on it until the user goes.
#[test]
fn the_end_of_a_recording_is_said_on_the_page_and_beside_it() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("x");
    let text = "{\"linerate_watch\":{\"schema\":1}}\n{\"schema\":1,\"at_ms\":1000,\"host\":\"first\"}\n{\"schema\":1,\"at_ms\":2000,\"host\":\"last\"}\n";
    std::fs::write(&file, text).expect("a file");
    let words = ["--replay", name(&file), "--speed", "max", "--listen", "127.0.0.1:0"];
    let child = watch(&words).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("linerate starts");
    let mut running = RunningWatch::start_with(child);
    let mut told = BufReader::new(running.child.stderr.take().expect("its errors")).lines();
    let page = told.next().expect("a line").expect("text");
    let address = page.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let end = told.next().expect("a line").expect("text");
    assert!(end.contains("the recording has ended; the page shows it until Ctrl-C"), "{end}");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    stream.write_all(format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).expect("sent");
    let mut came = String::new();
    for line in BufReader::new(stream).lines() {
        came.push_str(&line.expect("text"));
        if came.contains("event: ended") {
            break;
        }
    }
    assert!(came.contains("\"host\":\"last\"") && !came.contains("\"host\":\"first\""), "{came}");
    signal(&running.child, "INT");
    assert_eq!(running.child.wait().expect("its end").code(), Some(0));
}
