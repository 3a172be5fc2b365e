//! The page of the watch: what its server lets in, what a slow reader costs, and the page in a real browser
//! (skipped where there is none).

mod in_browser;

use crate::support::browser::PATIENCE;
use crate::support::connect_from;
use crate::support::served::http;
use crate::watch::fixture::moment as rich;
use linerate::agent::Key;
use linerate::watch::Moment;
use linerate::watch::history::LatestMoment;
use linerate::watch::page::{Page, PageSettings, PageToken};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The token that the tests use.
fn digits() -> String {
    "5a".repeat(32)
}

fn settings(listen: &str, token: bool) -> PageSettings {
    let token = token.then(|| PageToken::of(&Key::from_hex(&digits()).expect("a key")));
    let listen = listen.parse().expect("an address");
    PageSettings { listen, token }
}

/// A page with a moment on its latest.
fn page(token: bool) -> (Arc<LatestMoment>, Page, String) {
    let latest = Arc::new(LatestMoment::default());
    latest.tell(rich());
    let page = Page::start(latest.clone(), settings("127.0.0.1:0", token)).expect("a page");
    let address = page.address().to_string();
    (latest, page, address)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// With these header lines more.
fn get_with(address: &str, path: &str, host: &str, more: &str) -> String {
    http(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"))
}

fn get(address: &str, path: &str) -> String {
    get_with(address, path, address, "")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// Opens the event stream and does not read it.
fn listen(address: &str) -> TcpStream {
    let mut stream = connect(address);
    let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Reads a stream until this text has come.
fn until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut part) = (String::new(), [0; 65536]);
    let start = Instant::now();
    while !all.contains(text) {
        assert!(start.elapsed() < PATIENCE, "no {text:?} in {all}");
        let count = stream.read(&mut part).expect("the stream goes on");
        assert!(count > 0, "it ended without {text:?}: {all}");
        all.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    all
}

#[test]
fn files_come_with_a_strict_policy_and_only_from_here() {
    let (_board, _page, address) = page(false);
    let shown = get(&address, "/");
    assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("<!doctype html>"), "{shown}");
    let policy = shown.lines().find(|line| line.starts_with("content-security-policy")).expect("a policy");
    let all = "default-src 'none'|script-src 'self'|connect-src 'self'|frame-ancestors 'none'|\
                   trusted-types 'none'";
    for part in all.split('|') {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && shown.contains("x-content-type-options: nosniff"));
    assert!(!shown.contains(" onclick") && !shown.contains("style=") && !shown.contains("https://"));
    let mut seen = 0;
    for path in shown.split('"').filter(|part| part.starts_with('/') && part.len() > 1 && !part.contains('>'))
    {
        let file = get(&address, path);
        assert!(file.starts_with("HTTP/1.1 200"), "{path}: {file}");
        assert!(!file.contains("innerHTML") && !file.contains("eval("), "{path}");
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
    // What the modules import is there as well.
    for name in ["past", "chart", "tables", "nics", "disks", "cores", "host", "link", "numbers"] {
        assert!(get(&address, &format!("/{name}.js")).starts_with("HTTP/1.1 200"), "{name}");
    }
    assert!(get(&address, "/nothing").starts_with("HTTP/1.1 404"));
    assert!(http(&address, "GARBAGE\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn on_loopback_foreign_names_and_foreign_pages_get_nothing() {
    let (_board, _page, address) = page(false);
    for path in ["/", "/page.js", "/events", "/history", "/moment", "/metrics"] {
        for host in ["evil.example", "evil.example:80", ""] {
            let refused = get_with(&address, path, host, "");
            assert!(
                refused.starts_with("HTTP/1.1 403") && !refused.contains("streamer7"),
                "{path} {host}: {refused}"
            );
        }
        for origin in ["http://evil.example", "null"] {
            let refused = get_with(&address, path, &address, &format!("Origin: {origin}\r\n"));
            assert!(
                refused.starts_with("HTTP/1.1 403") && !refused.contains("streamer7"),
                "{path} {origin}: {refused}"
            );
        }
    }
    assert!(get_with(&address, "/moment", "localhost", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_newest_moment_the_past_and_metrics_are_served() {
    let latest = Arc::new(LatestMoment::default());
    let page = Page::start(latest.clone(), settings("[::1]:0", false))
        .or_else(|_| Page::start(latest.clone(), settings("127.0.0.1:0", false)));
    let page = page.expect("a page");
    let address = page.address().to_string();
    for path in ["/moment", "/metrics"] {
        assert!(get(&address, path).starts_with("HTTP/1.1 503"), "nothing is measured yet");
    }
    let mut moment = rich();
    for _ in 0..3 {
        moment.at_ms += 1000;
        latest.tell(moment.clone());
    }
    let told: Moment = serde_json::from_str(body(&get(&address, "/moment"))).expect("a moment");
    assert_eq!(told, moment);
    // Prometheus says what it knows.
    let open = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";
    for (more, kind, end) in [
        (open, "application/openmetrics-text; version=1.0.0; charset=utf-8", "# EOF\n"),
        ("", "text/plain; version=0.0.4; charset=utf-8", "\n"),
    ] {
        let metrics = get_with(&address, "/metrics", &address, more);
        assert!(metrics.contains(&format!("content-type: {kind}")), "{metrics}");
        assert!(body(&metrics).ends_with(end) && body(&metrics).contains("enp23s0f0"), "{metrics}");
    }
    for (span, slots) in [("minute", 60), ("hour", 360), ("day", 1440)] {
        let past: Value =
            serde_json::from_str(body(&get(&address, &format!("/history?span={span}")))).expect("JSON");
        let all = past["series"].as_array().expect("series");
        let sent = all.iter().find(|one| one["kind"] == "sum-send").expect("the sum");
        let mean = sent["mean"].as_array().expect("means");
        assert_eq!((mean.len(), past["span"].as_str()), (slots, Some(span)));
        assert!(
            mean.iter().any(|value| value.as_f64().is_some_and(|rate| (rate / 96.576e9 - 1.0).abs() < 1e-6)),
            "{sent}"
        );
        assert!(all.iter().any(|one| one["kind"] == "disk-read" && one["name"] == "nvme0n1"));
    }
    assert!(get(&address, "/history?span=year").starts_with("HTTP/1.1 400"));
}

#[test]
fn without_a_token_only_loopback_is_listened_on() {
    for listen in ["0.0.0.0:0", "192.0.2.1:7414", "[::]:0", "[2001:db8::1]:7414"] {
        let refused = Page::start(Arc::default(), settings(listen, false)).map(drop).expect_err("refused");
        assert_eq!(refused.exit_status(), 2);
        let text = refused.to_string();
        assert!(
            text.contains("--token-file") && text.contains(listen.rsplit(':').next().expect("a port")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
    let page = Page::start(Arc::default(), settings("0.0.0.0:0", true)).expect("with a token it is");
    assert!(page.url().starts_with("http://127.0.0.1:"), "{}", page.url());
    let taken = Page::start(Arc::default(), settings(&format!("127.0.0.1:{}", page.address().port()), false));
    let refused = taken.map(drop).expect_err("the port is taken").to_string();
    assert!(refused.contains("is in use") && refused.contains("--listen"), "{refused}");
}

#[test]
fn with_a_token_nothing_is_shown_without_it() {
    let (_board, _page, address) = page(true);
    let digits = digits();
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for path in ["/", "/events", "/history", "/moment", "/metrics"] {
        for more in [
            String::new(),
            bearer("wrong"),
            bearer(&"5b".repeat(32)),
            format!("Cookie: linerate-watch=1; x={digits}\r\n"),
        ] {
            let refused = get_with(&address, path, &address, &more);
            assert!(
                refused.starts_with("HTTP/1.1 401") && !refused.contains("streamer7"),
                "{path} {more}: {refused}"
            );
            assert!(!refused.contains(&digits[..8]));
        }
    }
    assert!(get(&address, "/").contains("This page wants its token"));
    // Programs. The name that they reach it by does not matter: the token does.
    let metrics = get_with(&address, "/metrics", "streamer7.example:7414", &bearer(&digits));
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("enp23s0f0"), "{metrics}");
    // Browsers: a link with the token, or the form.
    let linked = get(&address, &format!("/?token={digits}"));
    assert!(linked.starts_with("HTTP/1.1 303") && linked.contains("location: /\r\n"), "{linked}");
    let login = |token: &str| {
        let length = token.len();
        http(
            &address,
            &format!(
                "POST /login HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: \
                 close\r\n\r\n{token}"
            ),
        )
    };
    let welcome = login(&digits);
    assert!(welcome.starts_with("HTTP/1.1 200"), "{welcome}");
    for answer in [linked, welcome] {
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(&digits)
        );
        let pair = cookie.split(';').next().expect("a pair");
        let shown = get_with(&address, "/moment", &address, &format!("Cookie: {pair}\r\n"));
        assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("streamer7"), "{shown}");
    }
    for wrong in ["", "5a", &"5b".repeat(32)] {
        let refused = login(wrong);
        assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("set-cookie"), "{refused}");
        assert!(get(&address, &format!("/?token={wrong}")).starts_with("HTTP/1.1 401"));
    }
    assert!(login(&"5".repeat(100_000)).starts_with("HTTP/1.1 413"));
}

#[test]
fn every_moment_comes_as_an_event_and_a_slow_reader_holds_nobody() {
    let (latest, _page, address) = page(false);
    let mut reader = listen(&address);
    let begin = until(&mut reader, "streamer7");
    assert!(begin.contains("content-type: text/event-stream") && begin.contains("event: hello"), "{begin}");
    assert!(begin.contains("content-security-policy"), "{begin}");
    let _deaf = listen(&address);
    let mut moment = rich();
    let start = Instant::now();
    // More than all buffers on the way of the deaf one hold: 3000 moments of 12 KB.
    for number in 1..=3000 {
        moment.at_ms = number;
        latest.tell(moment.clone());
    }
    moment.host = "the last one".into();
    latest.tell(moment);
    assert!(start.elapsed() < Duration::from_secs(8), "the sampler waited: {:?}", start.elapsed());
    let rest = until(&mut reader, "the last one");
    assert!(rest.matches("streamer7").count() < 3000, "moments were lost, not kept");
}

#[test]
fn readers_are_bounded_and_their_places_come_back() {
    let (_board, page, address) = page(false);
    let mut readers: Vec<TcpStream> = (0..32).map(|_| listen(&address)).collect();
    readers.iter_mut().for_each(|reader| drop(until(reader, "streamer7")));
    let refused = get(&address, "/events");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("Too many pages"), "{refused}");
    assert!(get(&address, "/moment").starts_with("HTTP/1.1 200"), "what is not a stream still comes");
    readers.truncate(31);
    let start = Instant::now();
    loop {
        let mut reader = listen(&address);
        let mut first = [0; 12];
        reader.read_exact(&mut first).expect("an answer");
        if first.ends_with(b"200") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the place of a reader that left comes back");
        std::thread::sleep(Duration::from_millis(50));
    }
    let address: SocketAddr = page.address();
    drop(page);
    assert!(TcpStream::connect(address).is_err(), "it ends with its value");
}

/// A HEAD of the events has no stream: its connection is closed.
#[test]
fn connections_without_a_stream_keep_no_reader_out() {
    let (_latest, _page, address) = page(false);
    let address: SocketAddr = address.parse().expect("an address");
    let idle: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = connect_from([127, 0, 0, 2 + number % 2], address);
            let _ = write!(stream, "HEAD /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
            stream
        })
        .collect();
    for _ in 0..10 {
        assert!(get(&address.to_string(), "/moment").starts_with("HTTP/1.1 200"), "a new one is served");
    }
    for mut stream in idle {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(!matches!(ended, Err(std::io::ErrorKind::WouldBlock)), "it is closed");
    }
}
