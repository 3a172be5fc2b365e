//! Clients that are after something else: paths that lead out, floods, requests that never end, bad words.

use crate::support::process::Ends;
use crate::support::served::{HttpAnswer, Served, content, fails, place};
use crate::support::{linerate, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

#[test]
fn nothing_beside_the_folder_can_be_had() {
    let (folder, data, _) = place(b"inside");
    std::fs::write(folder.path().join("secret"), "outside").expect("written");
    symlink("../secret", data.join("out")).expect("a link");
    symlink(folder.path().join("secret"), data.join("absolute")).expect("a link");
    symlink("/", data.join("top")).expect("a link");
    symlink("file", data.join("in")).expect("a link");
    std::fs::write(data.join(".x.linerate-part"), "unfinished").expect("written");
    let server = Served::start(&[&data], &[]);
    assert_eq!(server.get("/in", "").text(), "inside");
    for path in "/../secret /%2e%2e/secret /.%2e/secret /a/../../secret /..%2fsecret /%2e%2e%2fsecret \
        /..%5csecret /%252e%252e/secret /out /absolute /top/etc/passwd /etc/passwd //etc/passwd \
        /%2fetc%2fpasswd /file%00 /file%00.txt /%00 /out/ /top/ /.x.linerate-part /\\..\\secret \
        /file/../../secret /% /%zz /%c0%ae%c0%ae/secret"
        .split(' ')
    {
        let answer = server.get(path, "");
        assert!((400..=404).contains(&answer.status), "{path}: {}", answer.head);
        for other in ["outside", "root:", "unfinished"] {
            assert!(!answer.text().contains(other), "{path}");
        }
    }
    let list = server.get("/?linerate=list", "").text();
    assert!(!list.contains("out") && !list.contains("absolute") && !list.contains("linerate-part"), "{list}");
    // A folder that becomes a link while it is served.
    std::fs::create_dir(data.join("sub")).expect("a folder");
    std::fs::write(data.join("sub/secret"), "below").expect("written");
    assert_eq!(server.get("/sub/secret", "").text(), "below");
    std::fs::remove_dir_all(data.join("sub")).expect("removed");
    symlink("..", data.join("sub")).expect("a link");
    assert_eq!(server.get("/sub/secret", "").status, 404);
}

#[test]
fn requests_that_are_none_get_one_answer_and_the_server_goes_on() {
    let (_folder, data, _) = place(b"inside");
    let server = Served::start(&[&data], &[]);
    let get = |lines: &str| format!("GET /file HTTP/1.1\r\n{lines}\r\n");
    for (request, status) in [
        ("PUT /file HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc".to_string(), 413),
        ("PUT /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), 405),
        ("DELETE /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), 405),
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), 405),
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), 405),
        ("GET file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), 400),
        (get("Connection: close\r\n"), 400),
        (get("Host: a\r\nHost: b\r\nConnection: close\r\n"), 400),
        (get("Host: h\r\nTransfer-Encoding: chunked\r\n"), 413),
        (get("Host: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n"), 413),
        (get("Host: h\r\nContent-Length: -1\r\n"), 413),
        (get("Host: h\r\nbad line\r\n"), 400),
        (get("Host : h\r\n"), 400),
        ("GET /file HTTP/3.0\r\n\r\n".into(), 505),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}".into(), 400),
        ("\r\n\r\nGET\r\n\r\n".into(), 400),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(9000)), 414),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "a/".repeat(300)), 400),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "x".repeat(300)), 404),
        (get(&format!("A: {}\r\n", "x".repeat(20_000))), 431),
        (get(&"A: b\r\n".repeat(100)), 431),
    ] {
        let answer = server.ask(&request);
        let shown: String = request.chars().take(80).collect();
        assert_eq!(answer.status, status, "{shown:?}: {}", answer.head);
        assert!(!answer.text().contains("inside"), "{shown:?}");
    }
    assert_eq!(server.get("/file", "").text(), "inside");
    assert_eq!(std::fs::read(data.join("file")).expect("there"), b"inside");
}

/// A header that never ends takes no more than its bound; a request that stops in its middle is ended.
#[test]
fn endless_and_unfinished_heads_are_ended() {
    let (_folder, data, _) = place(b"inside");
    let server = Served::start(&[&data], &[]);
    let mut endless = server.send(b"GET /file HTTP/1.1\r\n");
    let line = format!("A: {}\r\n", "x".repeat(4000));
    let begun = Instant::now();
    let sent = (0..100_000).take_while(|_| endless.write_all(line.as_bytes()).is_ok()).count();
    assert!(sent < 100_000, "it was cut off");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let mut stopped = server.send(b"GET /file HTTP/1.1\r\nHost: h");
    let mut silent = server.send(b"");
    assert_eq!(server.get("/file", "").text(), "inside");
    let mut bytes = Vec::new();
    stopped.read_to_end(&mut bytes).expect("its end");
    assert_eq!(HttpAnswer::parse(&bytes).expect("an answer").status, 408);
    assert!(begun.elapsed() >= Duration::from_secs(9));
    assert_eq!(silent.read(&mut [0; 10]).expect("its end"), 0);
}

/// Clients that take nothing keep their own connections busy and no others; more than all are turned away.
#[test]
fn more_connections_than_permits_are_turned_away_and_slow_readers_hold_only_their_own() {
    let (_folder, data, _) = place(&content(5, 8 << 20));
    let server = Served::start(&[&data], &["--connections", "8"]);
    // One client may have half of them: all of these are of one address.
    let slow: Vec<TcpStream> =
        (0..4).map(|_| server.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    let mut one = [0];
    for mut stream in &slow {
        stream.read_exact(&mut one).expect("it is served");
    }
    let many: Vec<TcpStream> =
        (0..200).map(|_| server.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    for stream in many {
        let mut stream = stream;
        let mut bytes = Vec::new();
        // Turned away with an answer, or, where the request came too late for it, with a reset.
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.is_empty() || HttpAnswer::parse(&bytes).is_some_and(|answer| answer.status == 503));
    }
    drop(slow);
    let begun = Instant::now();
    while server.get_status() != Some(200) {
        assert!(begun.elapsed() < Duration::from_secs(20), "who left gives its permit back");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (time, summary) = server.stop();
    assert!(time < Duration::from_secs(5), "{time:?}");
    assert!(summary.contains("turned away"), "{summary}");
}

impl Served {
    /// Of a small part; none: turned away.
    fn get_status(&self) -> Option<u16> {
        let mut bytes = Vec::new();
        let request = b"GET /file HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\nConnection: close\r\n\r\n";
        let _ = self.send(request).read_to_end(&mut bytes);
        HttpAnswer::parse(&bytes).map(|answer| if answer.status == 206 { 200 } else { answer.status })
    }
}

#[test]
fn ctrl_c_ends_a_server_with_busy_clients_at_once_and_says_what_was_served() {
    let (_folder, data, _) = place(&content(5, 8 << 20));
    let server = Served::start(&[&data], &["--rate-limit", "1MB/s"]);
    let mut busy = server.send(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut idle = server.send(b"");
    busy.read_exact(&mut [0; 4096]).expect("it is served");
    let (time, summary) = server.stop();
    assert!(time < Duration::from_secs(3), "{time:?}");
    assert!(summary.contains("served ") && summary.contains("cut short"), "{summary}");
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn wrong_words_are_one_sentence() {
    let serve = |words: &[&str]| {
        let output = linerate().arg("serve").args(words).ended();
        (output.status.code(), output.stderr)
    };
    let (folder, data, _) = place(b"x");
    let (data, open) = (text(&data), folder.path().join("open"));
    std::fs::write(&open, "0123456789abcdef").expect("written");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    for (words, status, says) in [
        (vec!["/nonexistent"], 3, "/nonexistent: not there"),
        (vec!["/dev/null"], 3, "only regular files and folders"),
        (vec![data, "--listen", "nonsense"], 2, "not an address to listen on"),
        (vec![data, "--listen", "192.0.2.1:0"], 3, "no interface of this host"),
        (vec![data, "--token-file", "/nonexistent"], 3, "openssl rand"),
        (vec![data, "--token-file", text(&open)], 3, "chmod 600"),
        (vec![data, data], 2, "called data"),
        (vec![], 2, "PATH"),
    ] {
        let (code, error) = serve(&words);
        assert_eq!(code, Some(status), "{words:?}: {error}");
        assert!(error.contains(says), "{words:?}: {error}");
    }
    let url = "http://127.0.0.1:1/file";
    for (words, status, says) in [
        (vec![url], 3, "no connection"),
        (vec![url, url, "--sha256", &"0".repeat(64)], 2, "one URL"),
        (vec!["http://name.invalid/file"], 3, "no connection"),
    ] {
        fails(&words, status, says);
    }
    for (words, says) in [
        (vec!["https://h/f", "--fingerprint", "12"], "64 hexadecimal digits"),
        (vec!["ftp://h/f"], "speaks HTTP and S3, not ftp"),
        (vec!["file"], "no scheme"),
        (vec!["http://a:b@h/"], "--token-file"),
        (vec![url, "--sha256", "12"], "64 hexadecimal digits"),
    ] {
        let output = crate::support::served::get(&words);
        output.gives(2).mentions(&[says]);
    }
}
