//! Nothing is left of a lab, however it ends.

use super::named;
use crate::support::process::Ends;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Waits for a child no longer than it may take.
fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if child.try_wait().expect("child").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn up_twice_says_so_and_down_twice_is_no_error() {
    let Some(lab) = named("twice") else { return };
    let up = ["--disks", "1x0", "--nics", "0", "--file-size", "1M"];
    lab.succeed("up", &up);
    let again = lab.call("up", &up);
    assert_eq!(again.status.code(), Some(1));
    assert!(again.stderr.contains("is up already"), "{}", again.stderr);
    lab.succeed("status", &[]);
    lab.succeed("down", &[]);
    lab.succeed("down", &[]);
    lab.assert_nothing_remains("two downs");
}

#[test]
fn down_kills_what_runs_in_it() {
    let Some(lab) = named("kill") else { return };
    lab.succeed("up", &["--disks", "1x0", "--nics", "0", "--file-size", "1M"]);
    let mut children: Vec<Child> = ["run", "peer"]
        .map(|side| lab.command(side, &["--", "sleep", "1000"]).spawn().expect("sleep starts"))
        .into();
    std::thread::sleep(Duration::from_millis(300));
    assert!(children.iter_mut().all(|child| child.try_wait().expect("child").is_none()), "they run");
    lab.succeed("down", &[]);
    assert!(children.iter_mut().all(|child| ends_within(child, Duration::from_secs(2))), "they were killed");
    lab.assert_nothing_remains("down");
}

#[test]
fn failure_midway_leaves_nothing() {
    let Some(lab) = named("midway") else { return };
    let tools = tempfile::tempdir().expect("directory");
    for fails in ["mkfs.xfs", "tc"] {
        let fake = tools.path().join(fails);
        std::fs::write(&fake, "#!/bin/sh\necho 'no luck today' >&2\nexit 1\n").expect("fake tool");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&fake, mode).expect("mode");
        let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").expect("PATH"));
        let output = lab.command("up", &["--disks", "2x50"]).env("PATH", path).ended();
        output.gives(1);
        assert!(output.stderr.contains("no luck today"), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "one sentence: {}", output.stderr);
        lab.assert_nothing_remains(fails);
        std::fs::remove_file(&fake).expect("fake tool");
    }
}

#[test]
fn killed_up_is_cleared_by_down_and_by_the_next_up() {
    let Some(lab) = named("killed") else { return };
    let up = ["--disks", "2x50", "--file-size", "64M"];
    for after_ms in [30, 120, 220, 320, 450] {
        let mut child = lab.command("up", &up).stdout(Stdio::null()).spawn().expect("up starts");
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().expect("SIGKILL");
        child.wait().expect("child");
        lab.succeed("down", &[]);
        lab.assert_nothing_remains(&format!("kill -9 after {after_ms} ms and down"));
    }
    let mut child = lab.command("up", &up).stdout(Stdio::null()).spawn().expect("up starts");
    std::thread::sleep(Duration::from_millis(200));
    child.kill().expect("SIGKILL");
    child.wait().expect("child");
    let next = lab.call("up", &up);
    assert!(next.status.success() || next.stderr.contains("is up already"), "{}", next.stderr);
}

#[test]
fn interrupted_up_leaves_nothing() {
    let Some(lab) = named("stopped") else { return };
    for after_ms in [100, 250, 350] {
        let mut child =
            lab.command("up", &["--disks", "4x50"]).stdout(Stdio::null()).spawn().expect("up starts");
        std::thread::sleep(Duration::from_millis(after_ms));
        let process = child.id().to_string();
        Command::new("kill").args(["-TERM", &process]).stderr(Stdio::null()).status().expect("kill");
        let status = child.wait().expect("child");
        if status.success() {
            lab.succeed("down", &[]); // it was up before the signal came
        }
        lab.assert_nothing_remains(&format!("SIGTERM after {after_ms} ms ({status})"));
    }
}
