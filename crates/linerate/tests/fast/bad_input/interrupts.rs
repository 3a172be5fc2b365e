//! Ctrl-C and kill at any moment.

use super::ground::{OUTPUT, SECONDS, TestFolder, errors, short};
use crate::support::process::{ProcessEnd, Started, beside_each_other};
use crate::support::rights;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const INTERRUPT: i32 = 2;
const HANG_UP: i32 = 1;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;
/// The design says a second; tests run beside others.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Runs, sends the signal after this time, and checks all that must hold then.
fn interrupted(ground: &TestFolder, words: &[&str], signal: i32, after: Duration) -> ProcessEnd {
    let before = ground.seen();
    let started = Started::of(&mut ground.linerate(words));
    std::thread::sleep(after);
    let asked = Instant::now();
    started.signal(signal);
    let ended = started.end_within(SECONDS);
    assert!(asked.elapsed() < AT_ONCE, "{after:?}: {:?}\n{ended}", asked.elapsed());
    ground.left_alone(&before, &ended);
    let saved = ground.path().join(OUTPUT).exists();
    if saved {
        let run = ground.result(OUTPUT);
        if ended.status.code() == Some(1) {
            ended.says(&["interrupted"]);
            assert!(errors(&run).iter().any(|error| error.contains("interrupted")), "{after:?}: {run:#}");
            assert!(ground.path().join("out/report.html").is_file(), "{after:?}: {ended}");
        }
        std::fs::remove_dir_all(ground.path().join(OUTPUT)).expect("removed");
    }
    match ended.status.code() {
        Some(1) => ended.says(&["interrupted"]),
        // It was done before.
        Some(0) => ended.is_content(),
        Some(_) => panic!("{after:?}: {ended}"),
        // The program had not begun to catch signals: nothing had been made either.
        None => {
            assert_eq!(ended.status.signal(), Some(signal), "{after:?}: {ended}");
            assert!(ended.stderr.is_empty() && !saved, "{after:?}: {ended}");
            &ended
        }
    };
    ended
}

/// The same moments in each run of the test.
fn moments(seed: u64, count: usize, within: Duration) -> Vec<Duration> {
    let mut state = seed;
    let mut moment =
        || within.mul_f64((linerate_testing::next(&mut state) >> 11) as f64 / (1u64 << 53) as f64);
    (0..count).map(|_| moment()).collect()
}

#[test]
fn ctrl_c_at_any_moment_of_a_run() {
    let words = short("memory,disk,network,path", &["--source", "source", "--json"]);
    let moments = moments(42, 9, Duration::from_secs(6)).into_iter().enumerate();
    beside_each_other(moments, |(index, after)| {
        let ground = TestFolder::with_source();
        let signal = [INTERRUPT, TERMINATE, HANG_UP][index % 3];
        let ended = interrupted(&ground, &words, signal, after);
        if ended.code() == Some(1) && !ended.stdout.is_empty() {
            ended.json();
        }
    });
}

#[test]
fn ctrl_c_in_the_first_moments() {
    let ground = TestFolder::with_source();
    let words = short("disk,network,path", &["--source", "source"]);
    for after in moments(7, 8, Duration::from_millis(250)) {
        interrupted(&ground, &words, INTERRUPT, after);
    }
}

#[test]
fn ctrl_c_while_the_scratch_file_is_written() {
    let ground = TestFolder::new();
    let words = short("disk", &[]);
    for after in moments(11, 5, Duration::from_millis(700)) {
        interrupted(&ground, &words, TERMINATE, after + Duration::from_millis(40));
    }
}

#[test]
fn ctrl_c_while_a_peer_does_not_answer() {
    let ground = TestFolder::with_source();
    std::fs::write(ground.path().join("key"), "00".repeat(32)).expect("a key");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(ground.path().join("key"), mode).expect("a mode");
    // Connections are taken by the kernel and never served.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let peer = listener.local_addr().expect("an address").to_string();
    let words = short("path", &["--source", "source", "--peer", &peer, "--key-file", "key"]);
    let ended = interrupted(&ground, &words, INTERRUPT, Duration::from_millis(700));
    ended.gives(1).says(&["interrupted", "nothing was saved"]);
    assert!(ended.took < Duration::from_millis(2600), "not after the peer's three seconds\n{ended}");
    ground.no_result();
}

#[test]
fn kill_leaves_no_scratch_and_no_receiver() {
    let moments = moments(23, 4, Duration::from_millis(3000)).into_iter().enumerate();
    beside_each_other(moments, |(index, after)| {
        let ground = TestFolder::with_source();
        let before = ground.seen();
        let words = if index % 2 == 0 {
            short("disk,network,path", &["--source", "source"])
        } else {
            short("disk,path", &[])
        };
        let started = Started::of(&mut ground.linerate(&words));
        std::thread::sleep(after);
        started.signal(KILL);
        let ended = started.end_within(SECONDS);
        assert!(ended.status.signal() == Some(KILL) || ended.status.success(), "{ended}");
        let names = std::fs::read_dir(ground.path().join(OUTPUT)).into_iter().flatten().flatten();
        let is_new = |name: std::ffi::OsString| name.as_encoded_bytes().starts_with(b".linerate-new-");
        if !names.map(|entry| entry.file_name()).any(is_new) {
            ground.left_alone(&before, &ended);
        }
        ground.deserted();
        assert!(deleted_files_below(&ground).is_empty(), "scratch that somebody holds");
    });
}

/// Files without a name in this directory that a process still holds.
fn deleted_files_below(ground: &TestFolder) -> Vec<String> {
    let ground = ground.path().display().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let open = processes
        .filter_map(|entry| std::fs::read_dir(entry.path().join("fd")).ok())
        .flat_map(|fds| fds.flatten());
    let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.map(|link| link.display().to_string()).filter(|link| link.starts_with(&ground)).collect()
}

#[test]
fn an_interrupted_probe_or_report_leaves_nothing() {
    if !rights::has("timeout") {
        return rights::skipped("no timeout(1)");
    }
    let ground = TestFolder::new();
    let words = ["-s", "INT", "0.01", env!("CARGO_BIN_EXE_linerate"), "probe"];
    let before = ground.seen();
    let ended = Started::of(&mut ground.command("timeout", &words)).end_within(SECONDS);
    ground.left_alone(&before, &ended);
    ground.no_result();
}
