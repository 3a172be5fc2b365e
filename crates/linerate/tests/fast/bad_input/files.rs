//! Folders and files that are given: results that cannot be saved or are in the way, runs that are none,
//! readers that go away.

use super::ground::{OUTPUT, SECONDS, TestFolder, short};
use crate::support::process::{ProcessEnd, Started};
use crate::support::rights;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

const SOURCE: [&str; 2] = ["--source", "source"];

/// A saved run of the disk stage, in `out`.
fn with_run() -> TestFolder {
    let ground = TestFolder::with_source();
    ground.run(&mut ground.linerate(&short("disk", &SOURCE))).is_content();
    ground
}

#[test]
fn an_output_folder_that_holds_something_of_our_own_or_another_s() {
    for name in ["run.json", "report.html"] {
        let ground = TestFolder::with_source();
        std::fs::create_dir(ground.path().join(OUTPUT)).expect("a folder");
        std::fs::write(ground.path().join(OUTPUT).join(name), "mine").expect("a file");
        ground.run(&mut ground.linerate(&short("disk", &SOURCE))).gives(2).says(&[OUTPUT, name, "--output"]);
    }
    // A link that leads nowhere is one, too.
    let ground = TestFolder::with_source();
    std::fs::create_dir(ground.path().join(OUTPUT)).expect("a folder");
    std::os::unix::fs::symlink("../victim", ground.path().join("out/run.json")).expect("a link");
    ground.run(&mut ground.linerate(&short("disk", &SOURCE))).gives(2).says(&["--output"]);
    assert!(!ground.path().join("victim").exists());
}

#[test]
fn an_output_folder_with_other_files_is_taken_and_they_stay() {
    let ground = TestFolder::with_source();
    std::fs::create_dir(ground.path().join(OUTPUT)).expect("a folder");
    std::fs::write(ground.path().join("out/notes"), "mine").expect("a file");
    ground.run(&mut ground.linerate(&short("disk", &SOURCE))).is_content();
    assert_eq!(ground.result(OUTPUT)["schema"], 2);
}

#[test]
fn an_output_folder_that_cannot_be_made_is_found_out_before_anything_is_measured() {
    let ground = TestFolder::with_source();
    for output in ["source", "source/below", "/proc/here", "/dev/null"] {
        let words = ["run", "--stages", "disk", "--source", "source", "--output", output];
        let ended = ground.run(&mut ground.linerate(&words));
        ended.gives(3).says(&[output, "--output"]);
    }
    let closed = ground.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).expect("a mode");
    // With no source a scratch file would be written first: the folder is asked for before.
    for words in
        [vec!["run", "--output", "closed/new"], vec!["run", "--source", "source", "--output", "closed"]]
    {
        let Some(mut command) = ground.unprivileged(&words) else {
            return rights::skipped("setpriv is missing");
        };
        ground.run(&mut command).gives(3).says(&["closed", "ermission denied", "--output"]);
    }
    assert_eq!(std::fs::read_dir(&closed).expect("a list").count(), 0);
}

#[test]
fn a_run_without_a_folder_leaves_nothing_where_it_was_called() {
    let ground = TestFolder::with_source();
    let words = ["run", "--stages", "disk", "--seconds", "0.1", "--repeats", "1", "--source", "source"];
    let ended = ground.run(&mut ground.linerate(&words));
    let last = ended.is_content().stdout.lines().last().unwrap_or_default().to_string();
    assert!(last.contains("linerate report @1 --html "), "the last line opens it: {ended}");
    ground.no_result();
}

/// `report` of a file with this content, and the same as JSON.
fn given(content: &[u8]) -> [ProcessEnd; 2] {
    let ground = TestFolder::new();
    std::fs::write(ground.path().join("given"), content).expect("a file");
    ["--format=text", "--json"].map(|how| ground.run(&mut ground.linerate(&["report", how, "given"])))
}

#[test]
fn a_run_that_is_missing_or_unreadable() {
    let ground = TestFolder::new();
    std::fs::create_dir(ground.path().join("folder")).expect("a folder");
    let secret = ground.file("secret", 10);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    ground.run(&mut ground.linerate(&["report", "none"])).gives(3).says(&["none", "not there", "run.json"]);
    let ended = ground.run(&mut ground.linerate(&["report", "folder"]));
    ended.gives(3).says(&["folder/run.json", "not there"]);
    let Some(mut unprivileged) = ground.unprivileged(&["report", "secret"]) else { return };
    ground.run(&mut unprivileged).gives(3).says(&["secret", "ermission denied"]);
}

#[test]
fn a_named_pipe_and_a_device_are_no_run() {
    let ground = TestFolder::new();
    assert!(ground.command("mkfifo", &["pipe"]).status().expect("mkfifo").success());
    ground.run(&mut ground.linerate(&["report", "pipe"])).gives(3).says(&["pipe", "run.json"]);
    ground.run(&mut ground.linerate(&["report", "/dev/zero"])).gives(3).says(&["/dev/zero", "run.json"]);
}

#[test]
fn a_run_that_is_none() {
    let random: Vec<u8> = (0..5000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let deep = "[".repeat(100_000);
    for (content, part) in [
        (&b""[..], "not JSON"),
        (&random, "not JSON"),
        (deep.as_bytes(), "not JSON"),
        (b"{}", "schema"),
        (b"[1]", "schema"),
        (b"{\"schema\": 3, \"version\": \"9.0.0\"}", "has schema 3; this linerate reads schema 2"),
        (b"{\"schema\": 0}", "schema 0"),
        (b"{\"schema\": -1}", "schema -1"),
        (b"{\"schema\": 1}", "has schema 1; this linerate reads schema 2"),
        (b"{\"schema\": 2}", "not a whole run"),
    ] {
        for ended in given(content) {
            ended.gives(2).says(&["given", part]);
        }
    }
}

#[test]
fn a_run_cut_short_anywhere_is_reported_and_a_whole_one_is_read() {
    let ground = with_run();
    let text = std::fs::read(ground.path().join("out/run.json")).expect("the run");
    for part in 1..8 {
        for ended in given(&text[..text.len() * part / 8]) {
            ended.gives(2).says(&["given", "not JSON", "linerate run"]);
        }
    }
    for words in [["report", "out"], ["report", "out/run.json"]] {
        let ended = ground.run(&mut ground.linerate(&words));
        assert!(ended.is_content().stdout.contains("disk"), "{ended}");
    }
    let words = ["report", "out", "--html", "missing/page.html"];
    ground.run(&mut ground.linerate(&words)).gives(3).says(&["missing/page.html"]);
}

/// With standard output or error that nobody reads any more.
fn ends_without_readers(ground: &TestFolder, words: &[&str], status: i32) {
    for both in [false, true] {
        let mut command = ground.linerate(words);
        command.stdin(Stdio::null()).stdout(closed_pipe());
        command.stderr(if both { closed_pipe() } else { Stdio::piped() });
        let ended = Started::with_streams(&mut command).end_within(SECONDS);
        ended.gives(status);
        assert!(!ended.stderr.contains("panic") && !ended.stderr.contains("pipe"), "{ended}");
    }
}

/// The writing end of a pipe whose reader is gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    Stdio::from(writer)
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let ground = with_run();
    let ends = |words: &[&str], status| ends_without_readers(&ground, words, status);
    ends(&["probe"], 0);
    ends(&["probe", "--json"], 0);
    ends(&["report", "out"], 0);
    ends(&["report", "out", "--json"], 0);
    ends(&["--help"], 0);
    ends(&["generate", "completions", "bash"], 0);
    ends(
        &["run", "--seconds", "0.1", "--repeats", "1", "--stages", "disk", "--source", "source", "--json"],
        0,
    );
    ends(&["report", "none"], 3);
    ends(&["run", "--block", "3"], 2);
}

#[test]
fn a_full_standard_output_takes_nothing_from_the_results() {
    let ground = TestFolder::with_source();
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").expect("/dev/full"));
    let mut command = ground.linerate(&short("disk", &SOURCE));
    let ended = Started::with_streams(command.stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped()));
    ended.end_within(SECONDS).gives(1).says(&["standard output"]);
    assert_eq!(ground.result(OUTPUT)["schema"], 2);
    let mut command = ground.linerate(&["probe"]);
    let ended = Started::with_streams(command.stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped()));
    ended.end_within(SECONDS).gives(3).says(&["standard output"]);
}

#[test]
fn recorded_machines_that_are_none() {
    let ground = TestFolder::new();
    ground.file("file", 10);
    std::fs::create_dir(ground.path().join("empty")).expect("a folder");
    for (root, remedy) in
        [("missing", "name a file"), ("file", "file"), ("empty", "name a folder of listings")]
    {
        ground.run(&mut ground.linerate(&["probe", root])).gives(3).says(&[root, remedy]);
    }
    for part in ["sys", "proc"] {
        std::fs::create_dir_all(ground.path().join("bare").join(part)).expect("a folder");
    }
    ground.run(&mut ground.linerate(&["probe", "bare"])).is_content();
    assert!(Path::new(&ground.path().join("bare")).is_dir());
}

#[test]
fn what_a_file_holds_does_not_act_on_the_terminal() {
    let ground = TestFolder::new();
    // A variant that there is none of: the JSON reader's complaint repeats it.
    let text =
        include_str!("../../../../../fixtures/run-partial.json").replacen("\"tcp\"", "\"\\u001b[31m\"", 1);
    std::fs::write(ground.path().join("run.json"), text).expect("a file");
    let ended = ground.run(&mut ground.linerate(&["report", "run.json"]));
    ended.gives(2).says(&["run.json", "[31m"]);
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
}
