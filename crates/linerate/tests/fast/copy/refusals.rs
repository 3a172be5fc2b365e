//! What cannot be copied is one sentence, and nothing is lost or half there.

use super::CopyPair;
use crate::bad_input::ground::SECONDS;
use crate::bad_input::ssh::{RUNS_IT, linerate};
use crate::support::names;
use crate::support::process::{Started, until};
use crate::support::served::content;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

#[test]
fn what_goes_wrong_on_the_way_is_one_sentence() {
    let greeting =
        |protocol: &str| format!("echo 'linerate copy-half speaks protocol {protocol} in version 0.0.7'");
    let denied = "echo 'somebody@localhost: Permission denied (publickey).' >&2; exit 255";
    let unknown = "echo 'ssh: Could not resolve hostname nowhere: Name or service not known' >&2; exit 255";
    let ready = greeting("3")
        + "; echo '{\"ready\":{\"port\":1,\"address\":\"127.0.0.1\",\"addresses\":[],\"fingerprint\":null}}'; exec sleep 100";
    for (lines, found_there, parts) in [
        (denied, true, ["cannot log in", "Permission denied (publickey)"]),
        (unknown, true, ["cannot log in", "Could not resolve hostname"]),
        (RUNS_IT, false, ["not installed there", "not found"]),
        ("exec linerate fetch-for-somebody", true, ["another version", "is not a command"]),
        (&greeting("99"), true, ["another version: 0.0.7", "install the same on both"]),
        ("head -c 300000 /dev/urandom", true, ["another version, or another program", "install"]),
        ("kill -9 $$", true, ["ssh was killed", "localhost"]),
        (&greeting("3"), true, ["another version, or another program", "install"]),
        (
            &(greeting("3") + "; echo nonsense; exec sleep 100"),
            true,
            ["is not a message of linerate", "localhost"],
        ),
        (&ready, true, ["its port for files does not answer", "firewall"]),
    ] {
        let pair = CopyPair::with(lines);
        fs::write(pair.here.join("file"), "one").expect("written");
        let file = pair.here.join("file");
        let words = ["copy", file.to_str().expect("a path"), "somebody@localhost:file"];
        let ended = Started::of(&mut linerate(&pair.ground, &words, found_there)).end_within(SECONDS);
        ended.gives(3).says(&["somebody@localhost: "]).says(&parts);
        assert!(ended.took < Duration::from_secs(10), "{ended}");
        pair.ground.deserted();
    }
    let pair = CopyPair::new();
    let mut command = pair.ground.linerate(&["copy", "host:a", "b"]);
    let ended = Started::of(command.env("PATH", pair.ground.path())).end_within(SECONDS);
    ended.gives(3).says(&["OpenSSH", "host: "]);
}

#[test]
fn places_that_cannot_be_are_refused_on_both_ends() {
    let pair = CopyPair::new();
    for (folder, name) in [(&pair.here, "file"), (&pair.there, "taken")] {
        fs::write(folder.join(name), "one").expect("written");
    }
    fs::create_dir_all(pair.here.join("a/same")).expect("folders");
    fs::create_dir_all(pair.here.join("b/same")).expect("folders");
    for (words, status, part) in [
        (vec!["absent", "@to"], 3, "not there; check the path"),
        (vec!["@absent", "to"], 3, "not there; check the path"),
        (vec!["a", "@taken"], 2, "it is a file, and a folder or several files cannot get its place"),
        (vec!["a/same", "b/same", "@to"], 2, "two of the paths are called same"),
        (vec!["file", "b"], 2, "both ends are this host"),
        (vec!["@file", "@b"], 2, "neither end is this host"),
    ] {
        pair.ends(&words).gives(status).says(&[part]);
        assert_eq!(names(&pair.there), ["taken"], "{words:?}");
        assert_eq!(fs::read(pair.there.join("taken")).expect("there"), b"one");
    }
    pair.ground.deserted();
}

/// As the limit of a quota.
#[test]
fn a_file_larger_than_there_may_be_keeps_nothing_under_the_name() {
    let bounded = "for last; do :; done; ulimit -f 2048; exec sh -c \"$last\"";
    let pair = CopyPair::with(bounded);
    fs::write(pair.here.join("file"), content(94, 12 << 20)).expect("written");
    pair.ends(&["file", "@file"]).gives(3).says(&["File too large"]);
    assert!(!pair.there.join("file").exists());
}

#[test]
fn a_source_that_changes_and_two_copies_to_one_place_are_said() {
    let pair = CopyPair::new();
    fs::write(pair.here.join("file"), content(95, 24 << 20)).expect("written");
    let slow = ["file", "@file", "--rate-limit=8MB/s"];
    let first = Started::of(&mut pair.copy(&slow));
    let part = pair.there.join(".file.linerate-part");
    until("it has begun", || part.exists());
    pair.ends(&slow).gives(3).says(&["another linerate fetches it just now"]);
    fs::write(pair.here.join("file"), content(96, 24 << 20)).expect("changed");
    first.end_within(SECONDS).gives(1).says(&["the file changed on the server meanwhile"]);
    assert!(names(&pair.there).is_empty(), "nothing of it stays");
}

#[test]
fn nothing_goes_through_a_link_that_is_there() {
    let pair = CopyPair::new();
    fs::create_dir_all(pair.here.join("set/sub")).expect("folders");
    fs::write(pair.here.join("set/sub/file"), "one").expect("written");
    fs::create_dir_all(pair.there.join("to/set")).expect("folders");
    fs::create_dir(pair.there.join("elsewhere")).expect("a folder");
    symlink("../../elsewhere", pair.there.join("to/set/sub")).expect("a link");
    pair.ends(&["set", "@to"]).gives(2).says(&["to/set/sub: it is a link"]);
    assert!(names(&pair.there.join("elsewhere")).is_empty());
}
