//! `--peer ssh://HOST`: with a program in place of ssh that runs the command here, or does what goes wrong on
//! the way to another host.

use super::ground::{OUTPUT, SECONDS, TestFolder, processes_in, short, stages};
use super::peers::{long, path_stage_runs};
use crate::support::process::Started;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the last word says is done here.
pub const RUNS_IT: &str = "for last; do :; done; exec sh -c \"$last\"";

/// A ground with a source, and with an `ssh` of these lines in `bin`.
pub fn with_ssh(lines: &str) -> TestFolder {
    let ground = TestFolder::with_source();
    let folder = ground.path().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let program = folder.join("ssh");
    std::fs::write(&program, format!("#!/bin/sh\n{lines}\n")).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    ground
}

/// `linerate` with these words, our `ssh` before all others, and (where wanted) `linerate` itself to be found
/// on “the other host”.
pub fn linerate(ground: &TestFolder, words: &[&str], found_there: bool) -> Command {
    let mut command = ground.linerate(words);
    let mut path = format!("{}:/usr/bin:/bin", ground.path().join("bin").display());
    if found_there {
        let folder = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().expect("a folder");
        path = format!("{path}:{}", folder.display());
    }
    command.env("PATH", path);
    command
}

fn over(peer: &str) -> Vec<&str> {
    short("path", &["--source", "source", "--peer", peer])
}

#[test]
fn an_agent_is_started_over_ssh_and_goes_with_the_run() {
    let record = TestFolder::new();
    let seen = record.path().join("seen");
    let ground =
        with_ssh(&format!("echo \"$@\" > {}\necho Welcome to this host!\n{RUNS_IT}", seen.display()));
    ground.run(&mut linerate(&ground, &over("ssh://somebody@localhost:2222"), true)).is_content();
    assert_eq!(stages(&ground.result(OUTPUT)), ["path", "path"]);
    let words = std::fs::read_to_string(seen).expect("what ssh was told");
    for part in ["BatchMode=yes", "-p 2222", "-l somebody", "-- localhost linerate agent"] {
        assert!(words.contains(part), "{part} in {words}");
    }
    let digits = words.split(|letter: char| !letter.is_ascii_hexdigit()).map(str::len).max();
    assert!(digits.is_some_and(|longest| longest < 32), "no key among the words: {words}");
}

#[test]
fn what_goes_wrong_on_the_way_is_reported() {
    let denied = "echo 'somebody@localhost: Permission denied (publickey).' >&2; exit 255";
    let unknown = "echo 'ssh: Could not resolve hostname nowhere: Name or service not known' >&2; exit 255";
    let garbage = "head -c 300000 /dev/urandom; head -c 3000 /dev/urandom >&2";
    let lies =
        "echo 'linerate agent listens on nowhere'; echo 'linerate agent listens on 127.0.0.1:99999999'";
    for (lines, found_there, parts) in [
        (denied, true, ["cannot log in", "Permission denied (publickey)"]),
        (unknown, true, ["cannot log in", "Could not resolve hostname"]),
        (RUNS_IT, false, ["not installed there", "not found"]),
        (garbage, true, ["without telling a port", "linerate"]),
        (lies, true, ["without telling a port", "linerate"]),
        ("kill -9 $$", true, ["ssh was killed", "linerate agent"]),
        ("exec sh -c 'linerate agent --listen nonsense --own'", true, ["status 2", "nonsense"]),
    ] {
        let ground = with_ssh(lines);
        let ended = ground.run(&mut linerate(&ground, &over("ssh://localhost"), found_there));
        ended
            .gives(3)
            .says(&["ssh://localhost"])
            .says(&parts)
            .says(&["start `linerate agent` there yourself"]);
        ground.no_result();
    }
}

#[test]
fn an_absent_ssh_is_reported() {
    let ground = TestFolder::with_source();
    let mut command = ground.linerate(&over("ssh://localhost"));
    ground.run(command.env("PATH", ground.path())).gives(3).says(&["OpenSSH", "ssh://localhost"]);
    ground.no_result();
}

#[test]
fn an_ssh_that_hangs_is_given_up() {
    let ground = with_ssh("head -c 300000 /dev/zero; echo waiting for the second factor >&2; exec sleep 100");
    let ended = ground.run(&mut linerate(&ground, &over("ssh://localhost"), true));
    ended.gives(3).says(&["reported its port", "the second factor", "ssh -o BatchMode=yes localhost"]);
    ground.no_result();
}

#[test]
fn ctrl_c_ends_the_waiting_for_ssh() {
    let ground = with_ssh("exec sleep 100");
    let started = Started::of(&mut linerate(&ground, &over("ssh://localhost"), true));
    let patience = Instant::now() + SECONDS;
    while !processes_in(&ground.path()).iter().any(|(_, line)| line.contains("sleep")) {
        assert!(Instant::now() < patience, "ssh was not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = Instant::now();
    started.signal(2);
    let ended = started.end_within(SECONDS);
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}\n{ended}", asked.elapsed());
    ended.gives(1).says(&["interrupted"]);
    ground.deserted();
}

/// Something happens to the run in the middle: the agent on “the other host” ends as well.
fn agent_goes(happen: impl Fn(&Started)) {
    let ground = with_ssh(RUNS_IT);
    let started = Started::of(&mut linerate(&ground, &long(&["--peer", "ssh://localhost"]), true));
    path_stage_runs(&ground);
    let agents =
        || processes_in(&ground.path()).into_iter().filter(|(_, line)| line.contains(" agent --own")).count();
    assert!(agents() > 0, "an agent runs");
    happen(&started);
    started.end_within(SECONDS);
    ground.deserted();
}

#[test]
fn ctrl_c_in_the_middle_ends_the_agent_there() {
    agent_goes(|started| started.signal(2));
}

#[test]
fn an_agent_there_ends_when_we_are_killed() {
    agent_goes(|started| started.signal(9));
}
