//! `--bring`: the program is not installed there, or is another version.

use super::{CopyPair, HOST};
use crate::bad_input::ground::{SECONDS, processes_in};
use crate::bad_input::ssh::{RUNS_IT, linerate};
use crate::support::names;
use crate::support::process::{Started, signal_process, until};
use crate::support::served::content;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A pair without linerate on “the other host”, whose programs are put in the place of those of that host.
fn pair(lines: &str, programs: &[(&str, &str)]) -> CopyPair {
    let tmp = "export TMPDIR=${XDG_STATE_HOME%/state}/tmp";
    let pair = CopyPair::with(&format!("{tmp}\n{lines}\n{RUNS_IT}"));
    fs::create_dir(pair.there.join("tmp")).expect("a folder");
    for (name, lines) in programs {
        let program = pair.ground.path().join("bin").join(name);
        fs::write(&program, format!("#!/bin/sh\n{lines}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    fs::write(pair.here.join("file"), content(97, 3 << 20)).expect("written");
    pair
}

fn push(pair: &CopyPair) -> Command {
    let (from, to) = (pair.here.join("file"), format!("{HOST}:{}/came", pair.there.display()));
    // Some CPUs cannot encrypt, which is none of what is shown here.
    let words = ["copy", from.to_str().expect("a path"), &to, "--bring", "--no-encryption"];
    linerate(&pair.ground, &words, false)
}

fn nothing_stays(pair: &CopyPair) {
    pair.ground.deserted();
    assert!(names(&pair.there.join("tmp")).is_empty(), "a folder stays there");
}

#[test]
fn a_program_that_is_not_there_is_brought_and_leaves_nothing() {
    let pair = pair("", &[]);
    Started::of(&mut push(&pair)).end_within(SECONDS).is_content().shows(&["1 file, 3 MiB in "]);
    assert!(fs::read(pair.there.join("came")).expect("copied") == content(97, 3 << 20));
    assert_eq!(names(&pair.there), ["came", "tmp"]);
    nothing_stays(&pair);
    // Who does not ask for it learns of it.
    let from = pair.here.join("file").display().to_string();
    let ended = Started::of(&mut linerate(&pair.ground, &["copy", &from, &format!("{HOST}:y")], false));
    ended.end_within(SECONDS).gives(3).says(&["not installed there", "or --bring takes it there"]);
}

#[test]
fn a_host_that_cannot_take_it_is_one_sentence() {
    for (lines, program, parts) in [
        (
            "",
            ("uname", "echo Linux riscv64"),
            ["it is Linux riscv64, and this program is for", "cannot be brought there"],
        ),
        ("", ("chmod", ""), ["mounted noexec", "cannot be brought there"]),
        (
            "ulimit -f 100",
            ("true", ""),
            ["bytes of the program came: is there no room left in", "cannot be brought there"],
        ),
        (
            "",
            ("cksum", "cat | wc -c | sed 's/^/1 /'"),
            ["the program changed on its way", "cannot be brought there"],
        ),
    ] {
        let pair = pair(lines, &[program]);
        let ended = Started::of(&mut push(&pair)).end_within(SECONDS);
        ended.gives(3).says(&["somebody@localhost: "]).says(&parts);
        assert!(!pair.there.join("came").exists());
        nothing_stays(&pair);
    }
}

#[test]
fn killed_while_the_program_comes_nothing_stays_there() {
    const INTERRUPT: i32 = 2;
    const KILL: i32 = 9;
    for (signal, is_here) in [(INTERRUPT, true), (KILL, true), (KILL, false)] {
        // It never comes to its end.
        let pair = pair("", &[("head", "exec cat >/dev/null")]);
        let started = Started::of(&mut push(&pair));
        let there = || {
            processes_in(&pair.ground.path()).into_iter().filter(|(_, line)| !line.contains("linerate copy"))
        };
        until("it comes", || there().any(|(_, line)| line.starts_with("cat")));
        if is_here {
            started.signal(signal);
        } else {
            there().for_each(|(number, _)| signal_process(number, signal));
        }
        let ended = started.end_within(SECONDS);
        if is_here && signal == INTERRUPT {
            ended.gives(1);
        } else if !is_here {
            ended.gives(3).says(&["ssh was killed"]);
        }
        nothing_stays(&pair);
    }
}
