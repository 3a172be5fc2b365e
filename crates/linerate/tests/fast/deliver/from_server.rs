//! `linerate run --source URL`: what any server gives is measured, thrown away or stored, and judged.

use super::others::{free_port, has, nginx, python};
use crate::support::process::{Ends, ProcessEnd, signal};
use crate::support::served::{FakeServer, Served, content, place};
use crate::support::{keep_apart, linerate, text};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Three short windows.
const BRIEFLY: [&str; 4] = ["--seconds", "0.2", "--repeats", "3"];
const MIB: usize = 1 << 20;

fn run(state: &Path, words: &[&str]) -> Command {
    let mut command = linerate();
    keep_apart(&mut command, state);
    command.arg("run").args(words).current_dir(state);
    command
}

fn output(state: &Path, words: &[&str]) -> ProcessEnd {
    run(state, &[words, &BRIEFLY].concat()).ended()
}

/// It is refused, or fails, with this status and one sentence.
fn fails(words: &[&str], status: i32, says: &[&str]) {
    let state = tempfile::tempdir().expect("a folder");
    let output = output(state.path(), words);
    let errors = &output.stderr;
    output.gives(status);
    assert!(errors.starts_with("linerate: ") && errors.lines().count() == 1, "{words:?}: {errors}");
    for says in says {
        assert!(errors.contains(says), "{words:?}: “{says}” is not in {errors}");
    }
    assert_eq!(std::fs::read_dir(state.path()).expect("a list").count(), 0, "{words:?} left something");
}

fn assert_measured(run: &Value, flow: &str, url: &str) {
    assert_eq!((&run["stage"], &run["name"]), (&"get".into(), &url.into()), "{run:#}");
    assert_eq!(run["goal"]["flow"], flow);
    let figure = &run["measurements"][0];
    assert!(figure["incoming"] == true && figure["bytes_per_second"].as_f64() > Some(0.0), "{figure:#}");
    assert_eq!(figure["samples"].as_array().map(Vec::len), Some(3), "{figure:#}");
    assert!(figure["interval"].is_array(), "{figure:#}");
    let found = &run["diagnosis"];
    assert!(found["ceiling"]["bytes_per_second"].is_object(), "what the path could carry: {found:#}");
    assert!(found["bottleneck"]["sentence"].is_string(), "{found:#}");
    assert!(found["verdict"].is_null() && found["predicted"].is_null(), "nothing was predicted: {found:#}");
}

#[test]
fn what_a_server_gives_is_measured_kept_and_reported() {
    let (folder, data, _) = place(&content(131, 5 * MIB));
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    let state = folder.path();
    let result = output(state, &["--source", &(url.clone() + "?key=secret"), "--json", "--workers", "2"])
        .gives(0)
        .json();
    assert_measured(&result, "network-to-memory", &url);
    let figure = &result["measurements"][0];
    let workers = figure["workers"].as_array().expect("workers");
    assert!(workers.len() == 2 && workers[0]["source"] == "memory", "{figure:#}");
    let method = figure["method"].as_str().expect("a method");
    assert!(method.starts_with("HTTP/1.1, 2 streams, thrown away"), "{method}");
    assert!(!result.to_string().contains("secret"), "{result:#}");
    let listed = keep_apart(&mut linerate(), state).args(["list", "--all"]).ended();
    assert!(listed.stdout.contains(&url));
    let report = keep_apart(&mut linerate(), state).args(["report", "@-1"]).ended();
    let report = report.stdout.replace('\n', " ");
    assert!(report.contains("the parts of this host allow at best"), "{report}");
}

#[test]
fn what_a_server_gives_is_stored_and_nothing_is_left() {
    let (folder, data, out) = place(&content(132, 5 * MIB));
    std::fs::create_dir(&out).expect("a folder");
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    let words = ["--source", &url, "--sink", text(&out), "--sink-limit", "64M", "--json"];
    let result = output(folder.path(), &words).gives(0).json();
    assert_measured(&result, "network-to-disk", &url);
    let figure = &result["measurements"][0];
    assert!(figure["method"].as_str().is_some_and(|how| how.contains("stored, ")), "{figure:#}");
    assert!(figure["sync_seconds"].as_f64() > Some(0.0), "{figure:#}");
    assert_eq!(std::fs::read_dir(&out).expect("a list").count(), 0);
}

/// HTTP/1.0, a connection for each answer, no parts.
#[test]
fn a_server_without_parts_is_measured_as_well() {
    if !has("python3") {
        return;
    }
    let (folder, data, _) = place(&content(133, 3 * MIB));
    let port = free_port();
    let _server = python(&data, port);
    let url = format!("http://127.0.0.1:{port}/file");
    let result = output(folder.path(), &["--source", &url, "--json"]).gives(0).json();
    assert_measured(&result, "network-to-memory", &url);
}

/// nginx gives 4 MB/s a connection: nothing of this host is full, and it is not said to be.
#[test]
fn a_server_that_keeps_a_rate_is_what_limits() {
    if !has("nginx") {
        return;
    }
    let (folder, data, _) = place(&content(134, 8 * MIB));
    let port = free_port();
    let _nginx = nginx(folder.path(), &data, port, "limit_rate 4m;");
    let url = format!("http://127.0.0.1:{port}/file");
    let words = ["--source", &url, "--json", "--workers", "1", "--seconds", "1", "--repeats", "3"];
    let result = run(folder.path(), &words).ended().gives(0).json();
    let found = &result["diagnosis"]["bottleneck"];
    assert_eq!(found["kind"], "sender", "{found:#}");
    assert!(
        found["sentence"].as_str().is_some_and(|said| said.ends_with("so the server or the way from it"))
    );
    let rate = result["measurements"][0]["bytes_per_second"].as_f64();
    assert!(rate.is_some_and(|rate| (2e6..8e6).contains(&rate)), "{rate:?}");
}

#[test]
fn words_that_do_not_go_with_a_server_are_refused() {
    let url = "http://127.0.0.1:9/f";
    for (words, says) in [
        (&["--peer", "127.0.0.1"][..], "--peer"),
        (&["--source", "/etc/hostname"], "no other --source"),
        (&["--protocol", "udp"], "--protocol udp"),
        (&["--flow", "disk-to-disk"], "begins at a disk of this host"),
        (&["--flow", "network-to-disk"], "--sink DIR"),
        (&["--flow", "network-to-memory", "--sink", "."], "leave one of them away"),
        (&["--stages", "path"], "--stages"),
        (&["--verify"], "--verify"),
        (&["--idle"], "--idle"),
        (&["--transfer", "4k"], "--transfer"),
    ] {
        fails(&[&["--source", url][..], words].concat(), 2, &[says]);
    }
    fails(&["--source", "http://"], 2, &["--source http://: "]);
    fails(&["--token-file", "/dev/null"], 2, &["no --source is one"]);
}

#[test]
fn what_is_not_there_to_be_measured_is_one_sentence() {
    let (_folder, data, _) = place(b"short");
    let server = Served::start(&[&data], &[]);
    let closed = format!("http://127.0.0.1:{}/f", free_port());
    for (url, says) in [
        (server.url("none"), "404"),
        (server.url(""), "it is a folder"),
        (server.url("file"), "are too little"),
        (closed, "no connection"),
    ] {
        fails(&["--source", &url], 3, &["127.0.0.1", says]);
    }
    fails(&["--source", &server.url("file"), "--sink", "/nonexistent"], 3, &["too little"]);
}

#[test]
fn a_server_that_lies_or_leaves_is_one_sentence() {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\nAccept-Ranges: bytes\r\nConnection: close\r\n\r\n";
    for (part, says) in [
        (
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3999999/4000000\r\nContent-Length: 4000000\r\n\r\nabc",
            "file:",
        ),
        (
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/4000000\r\nContent-Length: 5\r\n\r\n",
            "file:",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n", "changed"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("nonsense\r\n\r\n", "file:"),
        ("", "file:"),
    ] {
        let server = FakeServer::start(move |asked, stream| {
            let answer = if asked.starts_with("HEAD") { head } else { part };
            let _ = stream.write_all(answer.as_bytes());
        });
        fails(&["--source", &server.url("file")], 3, &["127.0.0.1", says]);
    }
}

#[test]
fn ctrl_c_and_a_server_that_dies_end_with_what_was_measured() {
    for by in ["ctrl-c", "server"] {
        let (folder, data, _) = place(&content(135, 5 * MIB));
        let server = Served::start(&[&data], &["--rate-limit", "40MB/s"]);
        let words = ["--source", &server.url("file"), "--json", "--seconds", "0.3", "--repeats", "200"];
        let mut command = run(folder.path(), &words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // The warm-up and some windows.
        std::thread::sleep(Duration::from_millis(2500));
        let asked = Instant::now();
        if by == "ctrl-c" {
            signal(&child, "INT");
        } else {
            server.kill();
        }
        let output = child.ended();
        assert!(asked.elapsed() < Duration::from_secs(10), "{by}: {:?}", asked.elapsed());
        output.gives(1);
        let result = output.json();
        assert!(result["measurements"][0]["bytes_per_second"].as_f64() > Some(0.0), "{by}: {result:#}");
        let said = result["errors"][0].as_str().unwrap_or_default();
        assert!(said.contains(if by == "ctrl-c" { "interrupted" } else { "127.0.0.1" }), "{by}: {said}");
    }
}
