//! Without a browser.

use super::*;
use crate::support::connect_from;
use crate::support::served::http;
use linerate::wall::geometry::TileId;
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message as Frame, WebSocket};

fn get(address: &str, path: &str, host: &str) -> String {
    http(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

/// HMAC-SHA256, written once more with the crate's tools: the key's hex digits are the HMAC's key.
fn answer(secret: &str, challenge: &str) -> String {
    use sha2::{Digest, Sha256};
    let pad = |byte: u8| -> Vec<u8> {
        let mut block = secret.as_bytes().to_vec();
        block.resize(64, 0);
        block.iter().map(|own| own ^ byte).collect()
    };
    let inner = Sha256::digest([pad(0x36).as_slice(), challenge.as_bytes()].concat());
    let outer = Sha256::digest([pad(0x5c).as_slice(), &inner].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Socket = WebSocket<TcpStream>;

fn open(address: &str) -> Socket {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    tungstenite::client(format!("ws://{address}/control"), stream).expect("a socket").0
}

fn read(socket: &mut Socket) -> Value {
    loop {
        if let Frame::Text(text) = socket.read().expect("the connection stands") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

fn say(socket: &mut Socket, request: &ControlRequest) {
    socket.send(Frame::text(serde_json::to_string(request).expect("JSON"))).expect("sent");
}

fn ask(socket: &mut Socket, request: &ControlRequest) -> ControlMessage {
    say(socket, request);
    serde_json::from_value(read(socket)).expect("a message")
}

fn admitted(hub: &Hub) -> Socket {
    let (address, secret) = parts(hub);
    let mut socket = open(&address);
    let challenge = read(&mut socket);
    let text = challenge["challenge"].as_str().expect("a challenge");
    socket.send(Frame::text(json!({ "answer": answer(&secret, text) }).to_string())).expect("sent");
    assert_eq!(read(&mut socket)["is"], "welcome");
    socket
}

/// The code that the server closed with; none: it just ended.
fn closing(socket: &mut Socket) -> (String, Option<u16>) {
    let mut last = String::new();
    loop {
        match socket.read() {
            Ok(Frame::Close(frame)) => return (last, frame.map(|frame| frame.code.into())),
            Ok(Frame::Text(text)) => last = text.to_string(),
            Ok(_) => {}
            Err(_) => return (last, None),
        }
    }
}

#[test]
fn files_come_with_a_strict_policy_and_only_under_names_that_are_our_own() {
    let (_fake, hub) = served(2, 1);
    let (address, secret) = parts(&hub);
    let page = get(&address, "/", &address);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"), "{page}");
    let policy = page.lines().find(|line| line.starts_with("content-security-policy")).expect("a policy");
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && page.contains("x-content-type-options: nosniff"));
    // Nothing from elsewhere, nothing inline, no secret.
    assert!(!page.contains(" onclick") && !page.contains("style=") && !page.contains("https://"));
    for path in page.split('"').filter(|part| part.starts_with('/') && part.len() > 1 && !part.contains('>'))
    {
        let file = get(&address, path, &address);
        assert!(file.starts_with("HTTP/1.1 200") && !file.contains(&secret), "{path}");
        assert!(!file.contains("innerHTML") && !file.contains("eval("), "{path}");
    }
    assert!(get(&address, "/nothing", &address).starts_with("HTTP/1.1 404"));
    assert!(get(&address, "/../../etc/passwd", &address).starts_with("HTTP/1.1 404"));
    for host in ["evil.example", "evil.example:7413", ""] {
        let refused = get(&address, "/", host);
        assert!(!refused.contains("<!doctype"), "{refused}");
    }
    assert!(get(&address, "/control", &address).starts_with("HTTP/1.1 4"), "no WebSocket");
    assert!(http(&address, "GARBAGE\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn another_sites_page_gets_no_socket() {
    let (_fake, hub) = served(1, 1);
    let (address, _) = parts(&hub);
    for (origin, host) in [
        ("http://evil.example", address.as_str()),
        ("null", &address),
        ("https://127.0.0.1", &address),
        ("http://evil.example", "evil.example"),
    ] {
        let mut request = format!("ws://{address}/control").into_client_request().expect("a request");
        request.headers_mut().insert("Origin", origin.parse().expect("a value"));
        request.headers_mut().insert("Host", host.parse().expect("a value"));
        let stream = TcpStream::connect(&address).expect("a connection");
        let refused = tungstenite::client(request, stream).map(drop).expect_err("refused");
        let said = refused.to_string();
        assert!(said.contains("403"), "{origin} {host}: {said}");
    }
}

#[test]
fn every_request_has_its_answer_over_the_socket_too() {
    let (fake, hub) = served(5, 3);
    let mut socket = admitted(&hub);
    let asked = all_that_is_done(2.0);
    for request in &asked {
        assert_eq!(ask(&mut socket, request), ControlMessage::Done, "{request:?}");
    }
    assert_eq!(fake.asked(), asked);
    assert!(matches!(ask(&mut socket, &ControlRequest::Movies), ControlMessage::Movies { .. }));
    assert!(
        matches!(ask(&mut socket, &ControlRequest::Status), ControlMessage::Status(status) if status.tiles.len() == 15)
    );
    let tile = TileId { row: 0, column: 0 };
    assert!(
        matches!(ask(&mut socket, &ControlRequest::Sums { tile, from: 0, count: 3 }), ControlMessage::Sums { sums, .. } if sums == [0, 1, 2])
    );
    assert!(matches!(ask(&mut socket, &ControlRequest::Join { tile }), ControlMessage::Assignment(_)));
    say(&mut socket, &ControlRequest::Report(ScreenReport::default()));
    say(&mut socket, &ControlRequest::Ready { tile, tick: fake::now() });
    assert!(matches!(serde_json::from_value(read(&mut socket)), Ok(ControlMessage::Show { .. })));
    assert_eq!(fake.reports()[0].tile, Some(tile));
    // Watched: timeline, status, and a preview of each tile.
    assert_eq!(ask(&mut socket, &ControlRequest::Watch { per_second: 10.0 }), ControlMessage::Done);
    let mut previews = std::collections::HashSet::new();
    while previews.len() < 15 {
        if let Frame::Binary(bytes) = socket.read().expect("the connection stands") {
            let [width, height] = [bytes[5], bytes[7]].map(usize::from);
            assert_eq!((bytes.len(), bytes[4], bytes[6]), (8 + width * height * 3, 0, 0));
            previews.insert((bytes[1], bytes[3]));
        }
    }
    assert!(previews.contains(&(2, 4)), "{previews:?}");
}

#[test]
fn a_wrong_answer_is_reported_and_garbage_ends_it() {
    let (fake, hub) = served(1, 1);
    let (address, secret) = parts(&hub);
    let mut wrong = open(&address);
    let challenge = read(&mut wrong)["challenge"].as_str().expect("a challenge").to_string();
    wrong
        .send(Frame::text(json!({ "answer": answer(&"0".repeat(64), &challenge) }).to_string()))
        .expect("sent");
    assert_eq!(closing(&mut wrong).1, Some(4001));
    // An answer to another challenge is none, and no two challenges are alike.
    let mut replay = open(&address);
    assert_ne!(read(&mut replay)["challenge"], challenge.as_str());
    replay.send(Frame::text(json!({ "answer": answer(&secret, &challenge) }).to_string())).expect("sent");
    assert_eq!(closing(&mut replay).1, Some(4001));
    for first in [Frame::text("{\"do\":\"play\"}"), Frame::text("{"), Frame::binary(vec![0; 10])] {
        let mut socket = open(&address);
        socket.send(first).expect("sent");
        let (_, code) = closing(&mut socket);
        assert_eq!(code, None);
    }
    assert!(fake.asked().is_empty(), "nobody was admitted");
    let mut socket = admitted(&hub);
    socket.send(Frame::text("garbage")).expect("sent");
    assert_eq!(read(&mut socket)["is"], "refused");
    socket.send(Frame::binary(vec![0xff; 100])).expect("sent");
    assert_eq!(read(&mut socket)["is"], "refused");
    assert_eq!(ask(&mut socket, &ControlRequest::Play), ControlMessage::Done, "it goes on");
    say(&mut socket, &ControlRequest::Open { movie: "x".repeat(70_000) });
    closing(&mut socket);
    assert_eq!(fake.asked(), [ControlRequest::Play]);
}

#[test]
fn a_flooding_page_is_closed_with_a_sentence_and_a_deaf_one_holds_nothing_up() {
    let (_fake, hub) = served(1, 1);
    let mut deaf = admitted(&hub);
    say(&mut deaf, &ControlRequest::Watch { per_second: 10.0 });
    let mut flooder = admitted(&hub);
    for _ in 0..3000 {
        let request =
            serde_json::to_string(&ControlRequest::Pan { right: 1.0, down: 0.0, zoom: 1.0 }).expect("JSON");
        if flooder.send(Frame::text(request)).is_err() {
            break;
        }
    }
    let (last, _) = closing(&mut flooder);
    assert!(last.contains("too many requests"), "{last}");
    let mut other = admitted(&hub);
    assert_eq!(ask(&mut other, &ControlRequest::Play), ControlMessage::Done);
}

#[test]
fn silent_connections_keep_no_client_out() {
    let (_fake, hub) = served(1, 1);
    let mut known = admitted(&hub);
    let (address, _) = parts(&hub);
    let page: SocketAddr = address.parse().expect("an address");
    let silent: Vec<TcpStream> =
        (0..128).map(|number| connect_from([127, 0, 0, 2 + number % 2], page)).collect();
    for _ in 0..10 {
        assert!(get(&address, "/", &address).starts_with("HTTP/1.1 200"), "a new one is served");
    }
    assert_eq!(ask(&mut admitted(&hub), &ControlRequest::Play), ControlMessage::Done, "and admitted");
    assert_eq!(ask(&mut known, &ControlRequest::Pause), ControlMessage::Done, "who was there stays");
    drop(silent);
}

/// Its parts are empty: no bound on the length of a message ends it.
#[test]
fn an_endless_message_without_the_key_delays_no_other_client() {
    let (_fake, hub) = served(1, 1);
    let mut known = admitted(&hub);
    let (address, _) = parts(&hub);
    let mut unproved = open(&address);
    read(&mut unproved);
    let flood = std::thread::spawn(move || {
        let wire = unproved.get_mut();
        wire.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        wire.write_all(&[1, 0x80, 0, 0, 0, 0]).expect("its first part");
        let more = [0, 0x80, 0, 0, 0, 0].repeat(10_000);
        (0..1000).take_while(|_| wire.write_all(&more).is_ok()).count()
    });
    let mut longest = Duration::ZERO;
    while !flood.is_finished() {
        let asked = Instant::now();
        assert_eq!(ask(&mut known, &ControlRequest::Play), ControlMessage::Done);
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(flood.join().expect("it ends") < 1000, "it was ended");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

#[test]
fn pings_count_as_requests() {
    let (_fake, hub) = served(1, 1);
    let mut socket = admitted(&hub);
    for _ in 0..3000 {
        if socket.send(Frame::Ping(Vec::new().into())).is_err() {
            break;
        }
    }
    let (last, _) = closing(&mut socket);
    assert!(last.contains("too many requests"), "{last}");
}
