//! A host that lacks what most have: network interfaces, a home, loopback, a terminal that is large and knows UTF-8.

use super::ground::{OUTPUT, TestFolder, short, stages};
use crate::support::rights;

/// Words of `linerate disk` on a small file.
fn disk(ground: &TestFolder) -> Vec<&'static str> {
    ground.file("source", 8 << 20);
    vec!["disk", "--source", "source", "--access", "read", "--seconds", "0.2", "--repeats", "1"]
}

/// `sh` does this, then becomes linerate with these words.
fn after(ground: &TestFolder, unshare: &[&str], script: &str, words: &[&str]) -> std::process::Command {
    let script = format!("{script} && exec \"$0\" \"$@\"");
    let shell = ["sh", "-c", &script, env!("CARGO_BIN_EXE_linerate")];
    ground.command("unshare", &[unshare, &shell[..], words].concat())
}

#[test]
fn no_folder_of_network_interfaces() {
    if !rights::may_mount() {
        return rights::skipped("only root may hide /sys/class/net");
    }
    let ground = TestFolder::new();
    let hidden = "mount -t tmpfs none /sys/class/net";
    let probed = ground.run(&mut after(&ground, &["--mount"], hidden, &["probe"]));
    probed.is_content();
    let words = short("network", &["--protocol", "tcp"]);
    let ended = ground.run(&mut after(&ground, &["--mount"], hidden, &words));
    ended.is_content();
    let stages = stages(&ground.result(OUTPUT));
    assert!(!stages.is_empty() && stages.iter().all(|stage| stage == "network"), "{stages:?} {ended}");
}

#[test]
fn a_loopback_that_is_down() {
    if !rights::may_make_networks() {
        return rights::skipped("only root may make a network namespace");
    }
    let ground = TestFolder::new();
    let words = ["network", "--seconds", "0.2", "--no-save"];
    let ended = ground.run(&mut after(&ground, &["--net"], "true", &words));
    ended.gives(3).says(&["loopback interface is down", "ip link set lo up", "--peer"]);
}

#[test]
fn a_host_without_systemd_and_control_groups() {
    if !rights::may_mount() {
        return rights::skipped("only root may hide /run and /sys/fs/cgroup");
    }
    let ground = TestFolder::new();
    let words = disk(&ground);
    let hidden = "mount -t tmpfs none /run && mount -t tmpfs none /sys/fs/cgroup";
    ground.run(&mut after(&ground, &["--mount"], hidden, &["probe"])).is_content();
    ground
        .run(&mut after(&ground, &["--mount"], hidden, &[&words[..], &["--no-save"]].concat()))
        .is_content();
    ground.run(&mut after(&ground, &["--mount"], hidden, &["watch", "--count", "1", "--json"])).gives(0);
}

#[test]
fn a_root_that_is_read_only() {
    if !rights::may_mount() {
        return rights::skipped("only root may mount the root read-only, in a mount namespace");
    }
    let ground = TestFolder::new();
    let words = disk(&ground);
    let read_only =
        |words: &[&str]| ground.run(&mut after(&ground, &["--mount"], "mount -o remount,bind,ro /", words));
    if !read_only(&["watch", "--count", "1", "--json"]).status.success() {
        return rights::skipped("this root may not be mounted read-only");
    }
    read_only(&words).gives(0).says(&["is not kept", "Read-only file system", "--no-save"]);
    read_only(&["run", "--source", "source", "--output", "out"]).gives(3).says(&[
        "results cannot be saved",
        "Read-only file system",
        "--output",
    ]);
    read_only(&["check"]).gives(3).says(&["Read-only file system", "--source"]);
    read_only(&["agent", "--listen", "127.0.0.1:0", "--key-file", "key"])
        .gives(3)
        .says(&["key", "Read-only"]);
    assert!(read_only(&["list"]).status.success());
}

#[test]
fn no_home_and_no_environment() {
    let ground = TestFolder::new();
    let words = disk(&ground);
    let bare = |words: &[&str]| {
        let program = ["-i", "PATH=/usr/bin:/bin", env!("CARGO_BIN_EXE_linerate")];
        ground.run(&mut ground.command("env", &[&program[..], words].concat()))
    };
    bare(&words).gives(0).says(&["not kept", "no home for it", "XDG_STATE_HOME or HOME", "--no-save"]);
    bare(&["list"]).gives(3).says(&["no home for it", "XDG_STATE_HOME or HOME"]);
    bare(&["check"]).gives(3).says(&["no home for it", "XDG_STATE_HOME or HOME"]);
}

/// What linerate writes to a terminal of 40 columns and 10 rows in the locale C, and its exit status.
fn on_a_small_terminal(ground: &TestFolder, term: &str, words: &[&str]) -> Option<(String, Option<i32>)> {
    if !rights::has("script") {
        rights::skipped("no script (util-linux), which makes a terminal");
        return None;
    }
    let inside = format!("stty rows 10 cols 40; exec {} {}", env!("CARGO_BIN_EXE_linerate"), words.join(" "));
    let inside = format!("sh -c '{inside}'");
    let mut command = ground.command("script", &["--quiet", "--return", "--command", &inside, "/dev/null"]);
    command.env("LC_ALL", "C").env("TERM", term).env_remove("NO_COLOR");
    let ended = ground.run(&mut command);
    Some((ended.stdout.clone(), ended.status.code()))
}

#[test]
fn a_small_terminal_that_knows_ascii_alone() {
    let ground = TestFolder::new();
    let words = disk(&ground);
    for term in ["dumb", "xterm"] {
        let Some((written, status)) = on_a_small_terminal(&ground, term, &words) else { return };
        assert_eq!(status, Some(0), "{written}");
        assert!(written.is_ascii(), "{term}: {written:?}");
        // The line of a figure is standard error's, the table below it standard output's.
        assert!(written.contains("4 KiB x 16"), "{term}: {written:?}");
        assert!(term != "dumb" || !written.contains('\x1b'), "a dumb terminal moves no cursor: {written:?}");
    }
}

#[test]
fn wrong_words_on_a_terminal_that_knows_ascii_alone() {
    let ground = TestFolder::new();
    let words = ["disk", "--seconds", "much"];
    let Some((written, status)) = on_a_small_terminal(&ground, "xterm", &words) else { return };
    assert_eq!(status, Some(2), "{written}");
    assert!(written.is_ascii() && written.contains("--seconds"), "{written:?}");
}
