//! The other half is hostile: a thread of the test in its place, behind an `ssh` that only connects to it.

use super::CopyPair;
use crate::bad_input::ground::SECONDS;
use crate::support::names;
use crate::support::process::{ProcessEnd, Started};
use crate::support::served::HttpAnswer;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::sync::mpsc::channel;

/// What the other half does with the request that it got, over this channel.
pub(super) fn with_half(
    copy: impl FnOnce(&CopyPair) -> Started,
    half: impl FnOnce(Value, TcpStream) + Send + 'static,
) -> (CopyPair, ProcessEnd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let lines = format!("exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 & cat >&3; kill %1'");
    let pair = CopyPair::with(&lines);
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let (mut channel, _) = listener.accept().expect("ssh");
        channel.write_all(b"linerate copy-half speaks protocol 3 in version 0.0.7\n").expect("a greeting");
        let mut line = String::new();
        BufReader::new(channel.try_clone().expect("a copy")).read_line(&mut line).expect("a request");
        half(serde_json::from_str(&line).expect("JSON"), channel);
        let _ = done.send(());
    });
    let ended = copy(&pair).end_within(SECONDS);
    is_done.recv_timeout(SECONDS).expect("the test's half did its part");
    (pair, ended)
}

pub(super) fn send(mut channel: &TcpStream, message: &Value) {
    let _ = channel.write_all(format!("{message}\n").as_bytes());
}

pub(super) fn ready(port: u16) -> Value {
    json!({"ready": {"port": port, "address": "127.0.0.1", "addresses": [], "fingerprint": null}})
}

/// It serves these names as a folder, each with the same content.
pub(super) fn serve_names(listener: TcpListener, list: String) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let list = list.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
                while let Some(Ok(first)) = lines.next() {
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                    let body = if first.contains(" /?linerate=list") { list.as_str() } else { "evil" };
                    let body = if first.contains("/link/?linerate=list") { "{\"entries\":[]}" } else { body };
                    let body = if first.starts_with("HEAD") { "" } else { body };
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nLinerate: list\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    if stream.write_all((head + body).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn a_serving_half_writes_nothing_outside_the_destination() {
    let entry =
        |href: &str, kind: &str| json!({"name": "x", "href": href, "kind": kind, "bytes": 4, "modified": 1});
    for (entries, part) in [
        (vec![entry("..%2Fevil", "file")], "not a name of a file"),
        (vec![entry("../evil", "file")], "not a name of a file"),
        (vec![entry("%2Fevil", "file")], "not a name of a file"),
        (vec![entry("../", "folder")], "not a name of a file"),
        (vec![entry(".a.linerate-journal", "file")], "not a name of a file"),
        (vec![entry("a", "file"), entry("a", "file")], "two of the files would be "),
        (vec![entry("link/", "folder")], "it is a link"),
    ] {
        let list = json!({"entries": entries}).to_string();
        let copy = |pair: &CopyPair| {
            fs::create_dir_all(pair.here.join("to")).expect("a folder");
            symlink("..", pair.here.join("to/link")).expect("a link");
            Started::of(&mut pair.copy(&["@set", "to/", "--no-encryption"]))
        };
        let (pair, ended) = with_half(copy, move |_, channel| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            send(&channel, &ready(listener.local_addr().expect("bound").port()));
            serve_names(listener, list);
            // Open until the test ends.
            std::mem::forget(channel);
        });
        assert!(matches!(ended.code(), Some(2 | 3)), "{ended}");
        ended.says(&[part]);
        assert_eq!(names(&pair.here), ["to"], "{ended}");
        assert_eq!(names(&pair.here.join("to")), ["link"], "{ended}");
    }
}

#[test]
fn a_half_that_was_to_encrypt_and_does_not_is_refused() {
    let copy = |pair: &CopyPair| Started::of(&mut pair.copy(&["@set", "to/"]));
    let (_, ended) = with_half(copy, |request, channel| {
        assert_eq!(request["is_encrypted"], true);
        send(&channel, &ready(1));
        // Open until the test ends.
        std::mem::forget(channel);
    });
    ended.gives(3).says(&["it does not encrypt as it was asked to"]);
}

#[test]
fn a_fetching_half_reads_nothing_outside_the_sources_and_changes_nothing() {
    let copy = |pair: &CopyPair| {
        fs::create_dir(pair.here.join("set")).expect("a folder");
        fs::write(pair.here.join("set/file"), "inside").expect("written");
        fs::write(pair.here.join("secret"), "secret").expect("written");
        symlink("../secret", pair.here.join("set/out")).expect("a link");
        symlink("/etc", pair.here.join("set/etc")).expect("a link");
        Started::of(&mut pair.copy(&["set", "@to", "--no-encryption"]))
    };
    let (pair, ended) = with_half(copy, |request, channel| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        send(&channel, &ready(listener.local_addr().expect("bound").port()));
        // To see whether it can be reached.
        drop(listener.accept().expect("a look"));
        let bearer = format!("Authorization: Bearer {}\r\n", request["token"].as_str().expect("a token"));
        let ask = |method: &str, target: &str, lines: &str| {
            let token = "ab".repeat(32);
            send(&channel, &json!({"connect": token}));
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut shown = [0; 32];
            stream.read_exact(&mut shown).expect("the token");
            assert_eq!(shown, [0xab; 32]);
            let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n");
            stream.write_all(text.as_bytes()).expect("asked");
            HttpAnswer::read(stream)
        };
        assert_eq!(ask("GET", "/set/file", &bearer).text(), "inside");
        for target in "/secret /set/../secret /set/..%2Fsecret /%2e%2e/secret /set/out /set/etc/passwd \
        /../../etc/passwd //etc/passwd /set/%2Fetc%2Fpasswd"
            .split(' ')
        {
            let answer = ask("GET", target, &bearer);
            assert!(
                (400..500).contains(&answer.status) && !answer.text().contains("secret"),
                "{target}: {answer:?}"
            );
        }
        assert_eq!(ask("GET", "/set/file", "").status, 401);
        for method in ["PUT", "DELETE"] {
            assert!(ask(method, "/set/new", &(bearer.clone() + "Content-Length: 0\r\n")).status >= 400);
        }
        // More connections than it opens: it opens none of them twice, and goes on.
        for _ in 0..2000 {
            send(&channel, &json!({"connect": "cd".repeat(32)}));
        }
        drop(listener);
        send(&channel, &json!({"refused": {"status": 3, "sentence": "that is all\u{1b}[2J"}}));
    });
    ended.gives(3).says(&["that is all"]);
    assert!(!ended.stderr.contains('\u{1b}'), "{ended}");
    assert_eq!(names(&pair.here.join("set")), ["etc", "file", "out"]);
}

#[test]
fn what_a_half_says_takes_no_more_memory_than_its_largest_message() {
    let copy = |pair: &CopyPair| {
        fs::write(pair.here.join("file"), "one").expect("written");
        // The address space that it has beside what it begins with.
        let mut command = pair.copy(&["file", "@to"]);
        let program = command.get_program().to_os_string();
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut limited = pair.ground.command("prlimit", &["--as=2000000000"]);
        let path = command
            .get_envs()
            .find(|(name, _)| *name == "PATH")
            .and_then(|(_, value)| value)
            .expect("a path");
        limited.arg(program).args(args).env("PATH", path);
        command = limited;
        Started::of(&mut command)
    };
    let (_, ended) = with_half(copy, |_, mut channel| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        send(&channel, &ready(listener.local_addr().expect("bound").port()));
        let filler = vec![b'x'; 1 << 20];
        // Four gigabytes in one message, if they were taken.
        for _ in 0..4096 {
            if channel.write_all(&filler).is_err() {
                return;
            }
        }
    });
    ended.gives(1).says(&["the half of the copy there broke off"]);
}
