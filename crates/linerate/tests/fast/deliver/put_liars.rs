//! Servers that lie to `linerate put`: it ends in its time with a sentence, and counts nothing as put that was not.

use super::puts::{outcomes, put};
use crate::support::served::{FakeServer, content, place};
use crate::support::text;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// More than a server is asked for before it is sent.
const LARGE_BYTES: usize = 3 << 20;

/// A server of another kind, which has no file and answers a PUT so.
fn other(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> FakeServer {
    FakeServer::start(move |head, stream| match head.starts_with("PUT") {
        true => answer(head, stream),
        false => reply(stream, "404 Not Found", "Content-Length: 0\r\n"),
    })
}

/// `linerate serve`, by its own word, which answers a PUT so, and this to what it holds of a file.
fn own(held: String, answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> FakeServer {
    FakeServer::start(move |head, stream| {
        let line = head.lines().next().unwrap_or_default();
        if line.starts_with("PUT") {
            return answer(head, stream);
        }
        if line.contains("linerate=held") {
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nLinerate: held\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{held}",
                held.len()
            );
            return;
        }
        reply(stream, "404 Not Found", "Content-Length: 0\r\nLinerate: list, put\r\n");
    })
}

fn reply(stream: &mut TcpStream, status: &str, lines: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{lines}\r\n");
}

pub fn length(head: &str) -> usize {
    let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    line.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The body of a PUT, after the word that it may come.
fn body(head: &str, stream: &mut TcpStream) -> Vec<u8> {
    if head.contains("Expect: 100-continue") {
        let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    let mut body = vec![0; length(head)];
    let _ = stream.read_exact(&mut body);
    body
}

/// It fails within a minute with a sentence that says this; nothing counts as put.
fn fails(server: &FakeServer, bytes: usize, exit: i32, says: &str) {
    let (folder, _, _) = place(b"x");
    let file = folder.path().join("file");
    std::fs::write(&file, content(61, bytes)).expect("written");
    let begun = Instant::now();
    let (status, report, errors) = put(&[text(&file), &server.url("new"), "--timeout", "1s"]);
    assert_eq!((status, outcomes(&report, "failed")), (Some(exit), 1), "{errors} {report}");
    assert!(errors.contains(says), "{says}: {errors}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{says}: {:?}", begun.elapsed());
    assert_eq!(std::fs::read(&file).expect("there").len(), bytes, "the source is as it was");
}

#[test]
fn a_file_that_was_taken_before_it_was_sent_does_not_count() {
    let early = other(|_, stream| reply(stream, "201 Created", "Content-Length: 0\r\n"));
    fails(&early, LARGE_BYTES, 3, "answered 201 before it had the file");
}

#[test]
fn answers_that_never_come_or_never_end_are_given_up() {
    let silent = other(|head, stream| {
        body(head, stream);
        std::thread::sleep(Duration::from_secs(90));
    });
    fails(&silent, 100, 1, "next to nothing");
    let endless = other(|head, stream| {
        body(head, stream);
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\n");
        while stream.write_all(b"X-More: and more\r\n").is_ok() {}
    });
    fails(&endless, 100, 3, "no HTTP: the head has more than 64 lines");
    let interim = other(|head, stream| {
        body(head, stream);
        while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
    });
    fails(&interim, 100, 3, "102");
}

/// It has the file by its own word; what it says beside is not read.
#[test]
fn a_vast_answer_is_not_waited_for() {
    let vast = other(|head, stream| {
        body(head, stream);
        reply(stream, "201 Created", &format!("Content-Length: {}\r\n", u64::MAX / 2));
    });
    let (folder, _, _) = place(b"x");
    let file = folder.path().join("file");
    std::fs::write(&file, b"content").expect("written");
    let (status, report, errors) = put(&[text(&file), &vast.url("new"), "--timeout", "30s"]);
    assert_eq!((status, outcomes(&report, "put")), (Some(0), 1), "{errors} {report}");
    assert!(report["measurements"][0]["seconds"].as_f64().is_some_and(|seconds| seconds < 25.0), "{report}");
}

#[test]
fn a_server_that_sends_on_or_closes_in_the_middle_is_named() {
    let elsewhere = other(|head, stream| {
        body(head, stream);
        reply(
            stream,
            "307 Temporary Redirect",
            "Location: http://127.0.0.1:1/there\r\nContent-Length: 0\r\n",
        );
    });
    fails(&elsewhere, 100, 3, "(307)");
    let closes = other(|head, stream| {
        let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        let _ = stream.read_exact(&mut vec![0; length(head) / 2]);
    });
    fails(&closes, LARGE_BYTES, 1, "127.0.0.1");
}

/// What it says it holds is not gone on with unless it is the file's own beginning.
#[test]
fn bytes_that_a_server_claims_to_hold_are_compared() {
    for held in [
        r#"{"hash":"xxh3-64","bytes":1000000000000000000,"tail_sum":"0000000000000000"}"#,
        r#"{"hash":"xxh3-64","bytes":2000000,"tail_sum":"0123456789abcdef"}"#,
        r#"{"hash":"md5","bytes":2000000,"tail_sum":"0123456789abcdef"}"#,
        "no JSON",
    ] {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = std::sync::Arc::clone(&seen);
        let server = own(held.into(), move |head, stream| {
            kept.lock().expect("kept").push(head.lines().next().unwrap_or_default().to_string());
            body(head, stream);
            reply(stream, "422 Unprocessable Content", "Content-Length: 0\r\nLinerate: list, put\r\n");
        });
        fails(&server, LARGE_BYTES, 1, "127.0.0.1");
        let seen = seen.lock().expect("seen");
        assert!(seen.iter().any(|line| line.contains("from=0")), "{held}: {seen:?}");
        assert!(
            seen.iter().all(|line| !line.contains("from=") || line.contains("from=0")),
            "{held}: {seen:?}"
        );
    }
}
