//! `linerate put` and `linerate serve --writable`: what is put is whole, right and at its place, or not there
//! at all.

use crate::support::process::{Ends, until};
use crate::support::served::{FakeServer, HttpAnswer, Served, content, place};
use crate::support::{linerate, names, text, write_secret};
use linerate::deliver::http::conditions::show_digest;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub const TOKEN: &str = "0123456789abcdef0123";

/// A server that takes files into `data`, which holds one file, and its token's file.
pub fn writable() -> (tempfile::TempDir, PathBuf, PathBuf, Served) {
    let (folder, data, _) = place(b"inside");
    let token = folder.path().join("token");
    write_secret(&token, TOKEN);
    let server = Served::start(&[&data], &["--writable", "--token-file", text(&token)]);
    (folder, data, token, server)
}

pub fn put(words: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    linerate().arg("put").args(words).arg("--json").ended().json_parts()
}

pub fn outcomes(report: &serde_json::Value, outcome: &str) -> usize {
    let files = report["transfer"]["files"].as_array().expect("files");
    files.iter().filter(|file| file["outcome"] == outcome).count()
}

#[test]
fn folders_are_put_whole_and_verified_and_once() {
    let (folder, data, token, server) = writable();
    let set = folder.path().join("set");
    std::fs::create_dir_all(set.join("sub & more/deep")).expect("folders");
    let large = content(51, (3 << 20) + 5);
    std::fs::write(set.join("large"), &large).expect("written");
    std::fs::write(set.join("empty"), b"").expect("written");
    let old = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
    File::open(set.join("empty")).and_then(|file| file.set_modified(old)).expect("a time before 1970");
    for number in 0..40 {
        std::fs::write(set.join(format!("sub & more/deep/{number} %")), vec![number; 100]).expect("written");
    }
    let url = server.url("in/");
    let words = [text(&set), &url, "--token-file", text(&token)];
    let (status, report, errors) = put(&words);
    assert_eq!((status, outcomes(&report, "put")), (Some(0), 42), "{errors} {report}");
    let files = report["transfer"]["files"].as_array().expect("files");
    assert!(files.iter().all(|file| file["verified"][0] == "xxh3-64"), "{report}");
    assert_eq!(report["transfer"]["moved_bytes"].as_u64(), Some(large.len() as u64 + 4000), "{report}");
    let there = data.join("in/set");
    assert!(std::fs::read(there.join("large")).expect("there") == large);
    assert_eq!(std::fs::read(there.join("sub & more/deep/7 %")).expect("there"), vec![7; 100]);
    assert_eq!(names(&there), ["empty", "large", "sub & more"]);
    let modified = |path: &Path| std::fs::metadata(path).expect("there").mtime();
    assert_eq!(modified(&there.join("large")), modified(&set.join("large")));
    // Again: nothing goes.
    let (status, report, errors) = put(&words);
    assert_eq!((status, outcomes(&report, "already-there")), (Some(0), 42), "{errors} {report}");
    assert!(std::fs::read(there.join("large")).expect("there") == large);
    // Another content of the same name is not put over it.
    std::fs::write(set.join("large"), b"other").expect("written");
    let (status, report, errors) = put(&words);
    assert_eq!((status, outcomes(&report, "failed")), (Some(1), 1), "{errors} {report}");
    assert!(errors.contains("1 ") || errors.contains("another file of this name"), "{errors}");
    assert!(std::fs::read(there.join("large")).expect("there") == large);
    let served = server.stop().1;
    assert!(served.contains("took 42 files"), "{served}");
}

#[test]
fn a_put_is_refused_with_its_reason_and_writes_nothing() {
    let (folder, data, _, server) = writable();
    symlink("..", data.join("up")).expect("a link");
    symlink("../beside", data.join("nowhere")).expect("a link");
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    let before = names(&data);
    for (target, lines, status) in [
        ("/new", "Content-Length: 3\r\n".to_string(), 401),
        ("/file", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/file", format!("{shown}Content-Length: 3\r\nIf-None-Match: *\r\n"), 412),
        ("/new", format!("{shown}Content-Length: 3\r\nIf-Match: \"a\"\r\n"), 412),
        ("/", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new/", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new", format!("{shown}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400),
        ("/new", format!("{shown}Transfer-Encoding: gzip, chunked\r\n"), 501),
        ("/new", format!("{shown}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 501),
        ("/file", format!("{shown}Transfer-Encoding: chunked\r\n"), 409),
        ("/new", shown.clone(), 411),
        ("/new", format!("{shown}Content-Length: x\r\n"), 400),
        ("/new", format!("{shown}Content-Length: 3\r\nContent-Range: bytes 0-2/9\r\n"), 400),
        ("/new", format!("{shown}Content-Length: 3\r\nContent-Encoding: gzip\r\n"), 415),
        ("/new", format!("{shown}Content-Length: 3\r\nExpect: something\r\n"), 417),
        ("/new", format!("{shown}Content-Length: 3\r\nRepr-Digest: sha-256=:AA==:\r\n"), 400),
        ("/new", format!("{shown}Content-Length: 3\r\nRepr-Digest: {}\r\n", show_digest(&[1; 32])), 422),
        ("/new", format!("{shown}Content-Length: 9223372036854775807\r\n"), 507),
        ("/new", format!("{shown}Content-Length: 9223372036854775808\r\n"), 507),
        ("/new", format!("{shown}Content-Length: 18446744073709551615\r\n"), 507),
        ("/new?linerate=hold&from=0", format!("{shown}Content-Length: 18446744073709551615\r\n"), 507),
        ("/../beside", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/%2e%2e/beside", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/..%2fbeside", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/up/beside", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/up/new/beside", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/nowhere", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/file/x", format!("{shown}Content-Length: 3\r\n"), 404),
        ("/.x.linerate-part", format!("{shown}Content-Length: 3\r\n"), 404),
        (&format!("/{}", "x".repeat(250)), format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new?linerate=hold&from=x", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new?linerate=hold&from=-1", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new?linerate=hold&from=5", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/new?linerate=hold&from=18446744073709551615", format!("{shown}Content-Length: 3\r\n"), 507),
        ("/file?linerate=hold&from=0", format!("{shown}Content-Length: 3\r\n"), 409),
        ("/../beside?linerate=hold&from=0", format!("{shown}Content-Length: 3\r\n"), 400),
        ("/new?linerate=land&sum=0123456789abcdef", format!("{shown}Content-Length: 0\r\n"), 409),
    ] {
        let request = format!("PUT {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\nabc");
        let answer = server.ask(&request);
        assert_eq!(answer.status, status, "{target} {lines}: {} {}", answer.head, answer.text());
        assert_eq!(names(&data), before, "{target} {lines}");
    }
    assert_eq!(names(folder.path()), ["data", "token"], "nothing was written beside the folder");
    assert_eq!(std::fs::read(data.join("file")).expect("there"), b"inside");
    // What brings a body is PUT alone.
    let post = format!("POST /new HTTP/1.1\r\nHost: h\r\n{shown}Content-Length: 3\r\n\r\nabc");
    assert_eq!(server.ask(&post).status, 413);
}

/// As `curl -T -` sends what it reads from a pipe.
#[test]
fn a_body_in_chunks_is_taken_whole_or_not_at_all() {
    let (_folder, data, _, server) = writable();
    let head = |target: &str, lines: &str| {
        format!(
            "PUT {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n{lines}Transfer-Encoding: chunked\r\n\r\n"
        )
    };
    let chunks = |content: &[u8], of: usize| {
        let mut body = Vec::new();
        for chunk in content.chunks(of) {
            body.extend(format!("{:x};name=value\r\n", chunk.len()).bytes());
            body.extend([chunk, b"\r\n"].concat());
        }
        [&body, &b"0\r\nTrailer: x\r\n\r\n"[..]].concat()
    };
    let large = content(54, (1 << 20) + 7);
    // What follows the last chunk is the next request.
    let both = [
        head("/large", "").into_bytes(),
        chunks(&large, 9_999),
        head("/small", "Connection: close\r\n").into_bytes(),
        chunks(b"abc", 1),
    ];
    let mut answers = String::new();
    server.send(&both.concat()).read_to_string(&mut answers).expect("answers");
    assert_eq!(answers.matches("HTTP/1.1 201").count(), 2, "{answers}");
    assert!(std::fs::read(data.join("large")).expect("there") == large);
    assert_eq!(std::fs::read(data.join("small")).expect("there"), b"abc");
    let before = names(&data);
    let ask = |lines: &str, body: &[u8]| {
        let request = [head("/new", &format!("Connection: close\r\n{lines}")).as_bytes(), body].concat();
        HttpAnswer::read(server.send(&request)).status
    };
    assert_eq!(ask("", b"3\r\nabcd\r\n0\r\n\r\n"), 400);
    assert_eq!(ask("", b"-3\r\nabc\r\n0\r\n\r\n"), 400);
    assert_eq!(ask(&format!("Repr-Digest: {}\r\n", show_digest(&[1; 32])), &chunks(b"abc", 2)), 422);
    let cut = server.send(&[head("/new", "").as_bytes(), b"3\r\nabc\r\n"].concat());
    cut.shutdown(std::net::Shutdown::Write).expect("an end");
    until("nothing of them is left", || names(&data) == before);
}

#[test]
fn a_digest_is_compared_and_a_large_body_is_asked_for() {
    use sha2::{Digest, Sha256};
    let (_folder, data, _, server) = writable();
    let sha256: [u8; 32] = Sha256::digest(b"abc").into();
    let head = |target: &str, lines: &str| {
        format!("PUT {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n{lines}\r\n")
    };
    let lines =
        format!("Connection: close\r\nContent-Length: 3\r\nRepr-Digest: {}\r\n", show_digest(&sha256));
    assert_eq!(server.ask(&(head("/new", &lines) + "abc")).status, 201);
    // What is known of it is said, of the whole file also with a part; of others, and of what changed, nothing.
    let shown = show_digest(&sha256);
    let said = |method: &str, target: &str, lines: &str| {
        let answer =
            server.ask(&head(target, &format!("{lines}Connection: close\r\n")).replace("PUT", method));
        answer.line("Repr-Digest").map(str::to_string)
    };
    for (method, lines) in [("GET", ""), ("HEAD", ""), ("GET", "Range: bytes=0-1\r\n")] {
        assert_eq!(said(method, "/new", lines), Some(shown.clone()), "{method} {lines}");
    }
    assert_eq!((said("GET", "/file", ""), said("GET", "/new", "Range: bytes=9-\r\n")), (None, None));
    std::fs::write(data.join("new"), b"xyz").expect("written");
    assert_eq!(said("GET", "/new", ""), None);
    // Asked first: the answer comes before the body, or in its place.
    let expects = "Connection: close\r\nContent-Length: 3\r\nExpect: 100-continue\r\n";
    assert_eq!(server.ask(&head("/file", expects)).status, 409);
    let mut stream = server.send(head("/more", expects).as_bytes());
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("an answer");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    std::io::Write::write_all(&mut stream, b"xyz").expect("sent");
    assert_eq!(HttpAnswer::read(stream).status, 201);
    assert_eq!(std::fs::read(data.join("more")).expect("there"), b"xyz");
}

#[test]
fn the_server_keeps_room_free_and_takes_no_more_than_its_limit() {
    let (folder, data, token, server) = writable();
    drop(server);
    let file = folder.path().join("new");
    std::fs::write(&file, content(57, 600 << 10)).expect("written");
    for (words, says) in [(["--keep", "1000T"], "no room"), (["--limit", "500K"], "no room")] {
        let options = [&["--writable", "--token-file", text(&token)][..], &words].concat();
        let server = Served::start(&[&data], &options);
        let (status, _, errors) = put(&[text(&file), &server.url(""), "--token-file", text(&token)]);
        assert!(status == Some(3) && errors.contains(says), "{words:?}: {status:?} {errors}");
        assert_eq!(names(&data), ["file"], "{words:?}");
    }
}

#[test]
fn curl_puts_too_and_wrong_words_are_one_sentence() {
    let (folder, data, token, server) = writable();
    let big = folder.path().join("big");
    let bytes = content(55, 3 << 20);
    std::fs::write(&big, &bytes).expect("written");
    if super::others::has("curl") {
        let header = format!("Authorization: Bearer {TOKEN}");
        let url = server.url("curl");
        let words = ["-s", "-T", text(&big), "-H", &header, "-w", "%{http_code}", "-o", "/dev/null", &url];
        assert_eq!(super::others::run("curl", &words), "201");
        assert!(std::fs::read(data.join("curl")).expect("there") == bytes);
        assert_eq!(super::others::run("curl", &words), "409");
    }
    let fails = |words: &[&str], status: i32, says: &str| {
        let (code, _, errors) = put(words);
        assert!(code == Some(status) && errors.contains(says), "{words:?}: {code:?} {errors}");
    };
    let url = server.url("");
    let with = ["--token-file", text(&token)];
    fails(&[text(&big), &url], 3, "--token-file");
    fails(&[&[text(&big), text(&big), &url], &with[..]].concat(), 2, "two of the paths");
    fails(&[&[text(&data), &server.url("x")], &with[..]].concat(), 2, "slash");
    fails(&["/nonexistent", &url], 3, "/nonexistent");
    fails(&["/dev/null", &url], 3, "neither a file nor a folder");
    fails(&[text(&big), "http://127.0.0.1:1/"], 3, "no connection");
    let (_other, read_only, _) = place(b"x");
    let read_only = Served::start(&[&read_only], &[]);
    fails(&[text(&big), &read_only.url("")], 3, "read-only");
    let output = linerate().args(["serve", text(&data), "--writable"]).ended();
    assert_eq!(output.status.code(), Some(2), "without a token anyone could write");
    for limit in ["--keep", "--limit"] {
        linerate().args(["serve", text(&data), limit, "1G"]).ended().gives(2).mentions(&["--writable"]);
    }
}

/// A server of another kind is asked whether the file is there, and gets it by a plain PUT.
#[test]
fn other_servers_get_a_plain_put_where_nothing_is_there() {
    use std::sync::{Arc, Mutex};
    let kept: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    let own = Arc::clone(&kept);
    let other = FakeServer::start(move |head, stream| {
        let mut kept = own.lock().expect("kept");
        let answer = match (head.split(' ').next(), kept.as_ref()) {
            (Some("PUT"), None) => {
                assert!(head.contains("If-None-Match: *") && !head.contains("linerate=hold"), "{head}");
                let mut body = vec![0; length(head)];
                stream.read_exact(&mut body).expect("the body");
                *kept = Some(body);
                "201 Created\r\nContent-Length: 0".to_string()
            }
            (Some("HEAD"), Some(there)) if head.starts_with("HEAD /new ") => {
                format!("200 OK\r\nContent-Length: {}", there.len())
            }
            _ => "404 Not Found\r\nContent-Length: 0".into(),
        };
        let _ = write!(stream, "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n");
    });
    let (folder, _, _) = place(b"x");
    let file = folder.path().join("own");
    std::fs::write(&file, b"content").expect("written");
    let url = other.url("new");
    let (status, report, errors) = put(&[text(&file), &url]);
    assert_eq!((status, outcomes(&report, "put")), (Some(0), 1), "{errors} {report}");
    assert_eq!(report["transfer"]["files"][0]["verified"], serde_json::json!([]), "nothing was compared");
    assert_eq!(kept.lock().expect("kept").as_deref(), Some(&b"content"[..]));
    let (status, _, errors) = put(&[text(&file), &url]);
    assert_eq!(status, Some(3), "{errors}");
    assert!(errors.contains("another file of this name"), "{errors}");
}

/// What a head says of the body that follows it.
fn length(head: &str) -> usize {
    let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    line.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// It has the file by its own word, whatever it says beside; or does not take it.
#[test]
fn an_answer_without_end_is_not_read_and_one_that_sends_on_is_named() {
    for (answer, exit, outcome, says) in [
        ("201 Created\r\nContent-Length: 9223372036854775807", 0, "put", ""),
        ("307 Redirect\r\nLocation: http://127.0.0.1:1/there\r\nContent-Length: 0", 3, "failed", "(307)"),
    ] {
        let other = FakeServer::start(move |head, stream| {
            let is_put = head.starts_with("PUT");
            let _ = stream.read_exact(&mut vec![0; length(head)]);
            let answer = if is_put { answer } else { "404 Not Found\r\nContent-Length: 0" };
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n");
        });
        let (_folder, data, _) = place(b"content");
        let (status, report, errors) = put(&[text(&data.join("file")), &other.url("new")]);
        assert_eq!((status, outcomes(&report, outcome)), (Some(exit), 1), "{errors} {report}");
        assert!(errors.contains(says), "{errors}");
    }
}
