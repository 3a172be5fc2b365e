//! `--on HOST`: with a program in place of ssh that does the command here, or does what goes wrong on the way to
//! another host.

use crate::bad_input::ground::{SECONDS, TestFolder, processes_in};
use crate::bad_input::ssh::{RUNS_IT, linerate, with_ssh};
use crate::support::process::{ProcessEnd, Started, signal_process};
use crate::support::served::{Served, content, place};
use crate::support::{names, text, write_secret};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HOST: &str = "somebody@elsewhere:2222";
/// Ctrl-C, a kill that cannot be caught.
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;

/// A ground whose `ssh` does the command here, and keeps results apart, as another host does; and that folder.
fn with_other_host() -> (TestFolder, PathBuf) {
    let ground = with_ssh("");
    let there = ground.path().join("there");
    let lines = format!(
        "#!/bin/sh\necho \"$@\" >> {}/ssh-words\nexport XDG_STATE_HOME={}\necho Welcome to this host!\n{RUNS_IT}\n",
        ground.path().display(),
        there.display()
    );
    fs::write(ground.path().join("bin/ssh"), lines).expect("a program");
    (ground, there)
}

fn ends(ground: &TestFolder, words: &[&str]) -> ProcessEnd {
    Started::of(&mut linerate(ground, words, true)).end_within(SECONDS)
}

/// So many results are kept below a state folder.
fn kept(state: &Path) -> Vec<Value> {
    let files = fs::read_dir(state.join("linerate/results")).into_iter().flatten().flatten();
    let json = files.filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok());
    json.collect()
}

#[test]
fn a_file_is_fetched_there_and_reported_and_kept_here() {
    let content = content(91, 9 << 20);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &[]);
    let (ground, there) = with_other_host();
    let url = server.url("file");
    let words = ["get", "--on", HOST, &url, "--output", text(&out)];
    let ended = ends(&ground, &words);
    ended.is_content();
    assert!(fs::read(out.join("file")).expect("fetched") == content);
    let path = out.join("file");
    assert!(ended.stdout.starts_with(&format!("{}: 9 MiB, verified by xxh3-64\n", text(&path))), "{ended}");
    assert!(ended.stdout.lines().count() == 2, "what limited it is last: {ended}");
    assert_eq!(kept(&ground.state()).len(), 1, "{ended}");
    assert_eq!(kept(&ground.state())[0]["stage"], "get");
    assert!(kept(&there).is_empty(), "not there as well");
    let asked = fs::read_to_string(ground.path().join("ssh-words")).expect("what ssh was started with");
    for part in ["BatchMode=yes", "-p 2222 -l somebody -- elsewhere linerate remote-command"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert!(!asked.contains("http"), "the words go by standard input: {asked}");
    // As JSON, and not kept.
    let ended = ends(&ground, &[&words[..], &["--json", "--no-save"]].concat());
    ended.is_content();
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON and nothing else");
    assert_eq!(report["transfer"]["files"][0]["outcome"], "already-there", "{report}");
    assert_eq!(kept(&ground.state()).len(), 1);
    ground.deserted();
}

#[test]
fn names_arrive_as_they_were_given() {
    let (_folder, data, out) = place(b"short");
    let server = Served::start(&[&data], &[]);
    let (ground, _there) = with_other_host();
    let name = OsStr::from_bytes(b"a 'b' \"c\" $HOME\n\xff*");
    let mut command = linerate(&ground, &["get", &server.url("file"), "--on=elsewhere", "--output"], true);
    let ended = Started::of(command.arg(out.join(name))).end_within(SECONDS);
    ended.gives(0);
    assert_eq!(names(&out.join(name)), ["file"], "{ended}");
}

#[test]
fn a_file_is_put_from_there_and_a_server_there_says_what_it_served() {
    let content = content(92, 3 << 20);
    let (folder, data, out) = place(&content);
    let token = folder.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    let (ground, there) = with_other_host();
    let listen = "127.0.0.1:0";
    let words = ["serve", text(&data), "--on", HOST, "--listen", listen, "--writable", "--token-file"];
    let mut command = linerate(&ground, &words, true);
    command.arg(&token).stdout(fs::File::create(ground.path().join("said")).expect("a file"));
    let server = Started::with_streams(&mut command);
    let said = || fs::read_to_string(ground.path().join("said")).unwrap_or_default();
    let begun = Instant::now();
    while !said().contains("http://") {
        assert!(begun.elapsed() < SECONDS, "no URL: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = said()
        .lines()
        .find_map(|line| Some(line.trim().to_string()).filter(|line| line.starts_with("http")))
        .expect("one");
    let token = ["--token-file", text(&token)];
    let (source, new, file) = (data.join("file"), format!("{url}new"), format!("{url}file"));
    let put = [&["put", text(&source), &new, "--on", HOST], &token[..]].concat();
    let ended = ends(&ground, &put);
    ended.is_content();
    assert!(ended.stdout.contains("new: 3 MiB, verified by xxh3-64"), "{ended}");
    assert!(fs::read(data.join("new")).expect("put") == content);
    let get = [&["get", &file, "--output", text(&out), "--on", HOST], &token[..]].concat();
    ends(&ground, &get).is_content();
    server.signal(INTERRUPT);
    server.end_within(SECONDS).gives(0);
    assert!(
        said().contains("\nserved 3 MiB in") && said().contains("\n  took 1 file, 3 MiB\n"),
        "{}",
        said()
    );
    assert_eq!(kept(&ground.state()).len(), 3);
    assert!(kept(&there).is_empty());
    ground.deserted();
}

#[test]
fn what_goes_wrong_on_the_way_is_one_sentence() {
    let greeting = |protocol: &str| {
        format!("echo 'linerate remote-command speaks protocol {protocol} in version 0.0.7'")
    };
    let denied = "echo 'somebody@elsewhere: Permission denied (publickey).' >&2; exit 255";
    let unknown = "echo 'ssh: Could not resolve hostname elsewhere: Name or service not known' >&2; exit 255";
    for (lines, found_there, status, parts) in [
        (denied, true, 3, ["cannot log in", "Permission denied (publickey)"]),
        (unknown, true, 3, ["cannot log in", "Could not resolve hostname"]),
        (RUNS_IT, false, 3, ["not installed there", "not found"]),
        ("exec linerate fetch-for-somebody", true, 3, ["another version", "unrecognized subcommand"]),
        (&greeting("99"), true, 3, ["another version: 0.0.7", "install the same on both"]),
        ("head -c 300000 /dev/urandom", true, 3, ["another version, or another program", "--on"]),
        ("kill -9 $$", true, 3, ["ssh was killed", "--on"]),
        (
            &greeting("1"),
            true,
            1,
            ["the get there broke off: ssh ended with exit status: 0", "goes on where it ended"],
        ),
        (
            &(greeting("1") + "; echo nonsense; exec sleep 100"),
            true,
            1,
            ["is no message of linerate", "--on"],
        ),
        (
            &(greeting("1") + "; echo 'Connection to elsewhere closed by remote host.' >&2; exit 255"),
            true,
            1,
            ["ssh ended with exit status: 255 (Connection to elsewhere closed by remote host.)", "--on"],
        ),
    ] {
        let ground = with_ssh(lines);
        let ended =
            ground.run(&mut linerate(&ground, &["get", "http://127.0.0.1:9/f", "--on", HOST], found_there));
        ended.gives(status).says(&["--on somebody@elsewhere:2222: "]).says(&parts);
        assert!(ended.took < Duration::from_secs(10), "{ended}");
    }
}

#[test]
fn what_fails_there_is_said_here_with_its_status() {
    let (ground, _there) = with_other_host();
    let closed = ["get", "http://127.0.0.1:9/f", "--on", HOST];
    ends(&ground, &closed).gives(3).says(&["127.0.0.1:9"]);
    let usage = ["put", "/nonexistent", "http://127.0.0.1:9/", "--on", HOST];
    let ended = ends(&ground, &usage);
    let here = ends(&ground, &usage[..3]);
    assert_eq!((ended.status.code(), &ended.stderr), (here.status.code(), &here.stderr));
    let sha256 = "0".repeat(64);
    let two = ["get", "http://127.0.0.1:9/a", "http://127.0.0.1:9/b", "--sha256", &sha256, "--on", HOST];
    ends(&ground, &two).gives(2).says(&["--sha256 is of one file"]);
}

#[test]
fn a_host_that_is_none_is_refused() {
    let (ground, _there) = with_other_host();
    for host in ["-oProxyCommand=x", "http://host", "a b", "host:0", "@host"] {
        let on = format!("--on={host}");
        ends(&ground, &["get", "http://127.0.0.1:9/f", &on]).refuses(&[host, "write ssh://HOST"]);
    }
    let mut command = ground.linerate(&["get", "http://127.0.0.1:9/f", "--on", "h"]);
    let ended = Started::of(command.env("PATH", ground.path())).end_within(SECONDS);
    ended.gives(3).says(&["OpenSSH", "--on h"]);
}

/// A large file that is fetched slowly.
struct SlowGet {
    _folder: tempfile::TempDir,
    _server: Served,
    content: Vec<u8>,
    out: PathBuf,
    ground: TestFolder,
    words: Vec<String>,
}

impl SlowGet {
    fn new(seed: u64) -> Self {
        let content = content(seed, 24 << 20);
        let (folder, data, out) = place(&content);
        let server = Served::start(&[&data], &[]);
        let (ground, _there) = with_other_host();
        let words = ["get", "--on", HOST, &server.url("file"), "--output", text(&out)];
        let words = words.iter().map(|word| word.to_string()).collect();
        SlowGet { _folder: folder, _server: server, content, out, ground, words }
    }

    /// Begun, with a part of the file there.
    fn half_way(&self) -> Started {
        let words: Vec<&str> =
            self.words.iter().map(String::as_str).chain(["--rate-limit", "8MB/s"]).collect();
        let started = Started::of(&mut linerate(&self.ground, &words, true));
        let begun = Instant::now();
        let journal = self.out.join(".file.linerate-journal");
        while fs::read_to_string(&journal).unwrap_or_default().lines().count() < 2 {
            assert!(begun.elapsed() < SECONDS, "nothing came");
            std::thread::sleep(Duration::from_millis(20));
        }
        started
    }

    /// The process on “the other host”.
    fn there(&self) -> u32 {
        let all = processes_in(&self.ground.path());
        all.into_iter().find(|(_, line)| line.starts_with("linerate remote-command")).expect("it runs").0
    }

    /// The same command goes on.
    fn goes_on(&self) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let ended = ends(&self.ground, &words);
        ended.is_content();
        assert!(ended.stdout.contains(", of which ") && ended.stdout.contains(" were there"), "{ended}");
        assert!(fs::read(self.out.join("file")).expect("fetched") == self.content);
    }
}

#[test]
fn ctrl_c_ends_it_there_and_the_same_command_goes_on() {
    let get = SlowGet::new(93);
    let started = get.half_way();
    let asked = Instant::now();
    started.signal(INTERRUPT);
    let ended = started.end_within(SECONDS);
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}\n{ended}", asked.elapsed());
    ended.gives(1);
    assert!(
        ended.stdout.starts_with("1 file unfinished: the same command goes on where it ended\n"),
        "{ended}"
    );
    get.ground.deserted();
    get.goes_on();
}

#[test]
fn it_ends_there_when_we_are_killed() {
    let get = SlowGet::new(94);
    let started = get.half_way();
    started.signal(KILL);
    started.end_within(SECONDS);
    get.ground.deserted();
    get.goes_on();
}

#[test]
fn a_death_there_is_said_here_and_the_same_command_goes_on() {
    let get = SlowGet::new(95);
    let started = get.half_way();
    signal_process(get.there(), KILL);
    started.end_within(SECONDS).gives(1).says(&["--on ", "the get there broke off: ssh ended with "]);
    get.goes_on();
}

/// Nobody but linerate sends what this reads.
#[test]
fn the_other_end_without_a_command_is_refused() {
    let ground = TestFolder::new();
    let ended = ground.run(&mut ground.linerate(&["remote-command"]));
    ended.gives(2).says(&["it is for linerate's own use"]);
}
