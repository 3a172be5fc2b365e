//! What is asked for before the answer to the last request is there: small files, the next part of a large
//! one, and the sums over a connection of their own.

use super::liars::sums_of;
use crate::support::process::PATIENCE;
use crate::support::served::{content, get_json, listener, place};
use crate::support::{names, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that keeps its connections: a function has each of them to itself.
fn serve(connection: impl Fn(Requests) + Send + Sync + 'static) -> u16 {
    listener(move |stream| connection(Requests { stream, buffer: Vec::new() })).port()
}

struct Requests {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Requests {
    /// The next head that comes within this time.
    fn next(&mut self, time: Duration) -> Option<String> {
        self.stream.set_read_timeout(Some(time)).expect("a timeout");
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(read @ 1..) => self.buffer.extend_from_slice(&chunk[..read]),
                _ => return None,
            }
        }
    }

    fn reply(&mut self, head: &str, lines: &str, body: &[u8]) {
        let status = if lines.contains("Content-Range") { "206 Partial Content" } else { "200 OK" };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\n\r\n");
        let _ = self.stream.write_all(answer.as_bytes());
        if !head.starts_with("HEAD") {
            let _ = self.stream.write_all(body);
        }
    }
}

/// A list of so many small files; the content of each is its name, often.
fn list(count: usize) -> Vec<u8> {
    let entry = |number: usize| {
        format!(
            "{{\"name\":\"f{number}\",\"href\":\"f{number}\",\"kind\":\"file\",\"bytes\":{}}}",
            small(number).len()
        )
    };
    let entries: Vec<String> = (0..count).map(entry).collect();
    format!("{{\"entries\":[{}]}}", entries.join(",")).into_bytes()
}

fn small(number: usize) -> Vec<u8> {
    format!("f{number} ").repeat(100 + number).into_bytes()
}

/// Answers one request of a folder of small files.
fn of_small(requests: &mut Requests, head: &str, count: usize) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    match target.strip_prefix("/f").and_then(|number| number.parse().ok()) {
        Some(number) => requests.reply(head, "", &small(number)),
        None => requests.reply(head, "Linerate: list\r\n", &list(count)),
    }
}

fn all_are_there(out: &std::path::Path, count: usize) {
    assert_eq!(names(out).len(), count);
    for number in 0..count {
        let own = std::fs::read(out.join(format!("f{number}"))).expect("there");
        assert!(own == small(number), "f{number}");
    }
}

#[test]
fn small_files_are_asked_for_while_others_are_on_their_way() {
    const COUNT: usize = 60;
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let port = serve(move |mut requests| {
        let mut waiting = Vec::new();
        let mut answered = 0;
        // The first is answered at once: the client learns that the connection is kept. Then nothing is until
        // eight wait, or no more come.
        while let Some(head) =
            requests.next(if waiting.is_empty() { PATIENCE } else { Duration::from_secs(2) })
        {
            waiting.push(head);
            seen.fetch_max(waiting.len(), Ordering::SeqCst);
            if answered == 0 || waiting.len() >= 8 || answered + waiting.len() >= COUNT - 8 {
                answered += waiting.len();
                waiting.drain(..).for_each(|head| of_small(&mut requests, &head, COUNT));
            }
        }
    });
    let (_folder, _, out) = place(b"");
    let url = format!("http://127.0.0.1:{port}/");
    let (status, report, errors) = get_json(&[&url, "--output", text(&out), "--streams", "1"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    all_are_there(&out, COUNT);
    assert!(most.load(Ordering::SeqCst) >= 8, "{}", most.load(Ordering::SeqCst));
}

#[test]
fn a_connection_that_closes_among_answers_loses_no_file() {
    const COUNT: usize = 50;
    let port = serve(|mut requests| {
        for _ in 0..7 {
            let Some(head) = requests.next(PATIENCE) else { return };
            of_small(&mut requests, &head, COUNT);
        }
    });
    let (_folder, _, out) = place(b"");
    let url = format!("http://127.0.0.1:{port}/");
    let (status, report, errors) = get_json(&[&url, "--output", text(&out), "--streams", "2"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    all_are_there(&out, COUNT);
}

/// The last byte of a part comes once the next part was asked for.
#[test]
fn the_next_part_is_asked_for_before_this_one_ends() {
    let whole = Arc::new(content(41, 40 << 20));
    let (parts, ahead) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (own, counts) = (Arc::clone(&whole), (Arc::clone(&parts), Arc::clone(&ahead)));
    let port = serve(move |mut requests| {
        let mut next = None;
        while let Some(head) = next.take().or_else(|| requests.next(PATIENCE)) {
            let lines = "ETag: \"a\"\r\nAccept-Ranges: bytes\r\n";
            let Some(range) = head.lines().find_map(|line| line.strip_prefix("Range: bytes=")) else {
                requests.reply(&head, lines, &own);
                continue;
            };
            let (first, last) = range.split_once('-').expect("a range");
            let (first, last): (usize, usize) =
                (first.parse().expect("digits"), last.parse().expect("digits"));
            let answer = format!(
                "HTTP/1.1 206 Partial Content\r\n{lines}Content-Range: bytes {first}-{last}/{}\r\nContent-Length: {}\r\n\r\n",
                own.len(),
                last + 1 - first
            );
            let _ = requests.stream.write_all(answer.as_bytes());
            let _ = requests.stream.write_all(&own[first..last]);
            counts.0.fetch_add(1, Ordering::SeqCst);
            if last + 1 < own.len() {
                next = requests.next(Duration::from_secs(10));
                counts.1.fetch_add(usize::from(next.is_some()), Ordering::SeqCst);
            }
            let _ = requests.stream.write_all(&own[last..=last]);
        }
    });
    fetched_by_one_stream(port, &whole);
    let (parts, ahead) = (parts.load(Ordering::SeqCst), ahead.load(Ordering::SeqCst));
    assert!(parts >= 3 && ahead == parts - 1, "{ahead} of {parts} were asked for ahead");
}

/// The file comes whole; the result.
fn fetched_by_one_stream(port: u16, whole: &[u8]) -> serde_json::Value {
    let (_folder, _, out) = place(b"");
    let url = format!("http://127.0.0.1:{port}/file");
    let (status, report, errors) = get_json(&[&url, "--output", text(&out), "--streams", "1"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert!(std::fs::read(out.join("file")).expect("there") == whole);
    report
}

/// A server that takes two seconds for any sum holds up no part: the parts have come before the first sums
/// are there.
#[test]
fn no_stream_waits_for_sums_while_there_are_parts() {
    let whole = Arc::new(content(43, 32 << 20));
    let (own, early) = (Arc::clone(&whole), Arc::new(AtomicUsize::new(0)));
    let (sent, counts) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&early));
    let port = serve(move |mut requests| {
        while let Some(head) = requests.next(PATIENCE) {
            let lines = "ETag: \"a\"\r\nAccept-Ranges: bytes\r\nLinerate: blocks\r\n";
            let target = head.split(' ').nth(1).unwrap_or_default();
            if let Some((_, query)) = target.split_once('?') {
                std::thread::sleep(Duration::from_secs(2));
                counts.fetch_max(sent.load(Ordering::SeqCst), Ordering::SeqCst);
                requests.reply(&head, lines, &sums_of(&own, query));
            } else if let Some(range) = head.lines().find_map(|line| line.strip_prefix("Range: bytes=")) {
                let (first, last) = range.split_once('-').expect("a range");
                let (first, last): (usize, usize) =
                    (first.parse().expect("digits"), last.parse().expect("digits"));
                let named = format!("{lines}Content-Range: bytes {first}-{last}/{}\r\n", own.len());
                requests.reply(&head, &named, &own[first..=last]);
                sent.fetch_add(last + 1 - first, Ordering::SeqCst);
            } else {
                requests.reply(&head, lines, &own);
            }
        }
    });
    let report = fetched_by_one_stream(port, &whole);
    assert_eq!(report["transfer"]["files"][0]["verified"][0], "xxh3-64", "{report}");
    assert_eq!(early.load(Ordering::SeqCst), whole.len(), "all parts came while the sums were computed");
}
