//! Who has no key, says what nobody understands, or takes too much.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn another_key_gets_no_byte_and_is_refused_here() {
    let (_fake, hub) = served(1, 1);
    let other = Key::from_hex(&"5b".repeat(32)).expect("a key");
    let failure =
        Client::connect(&hub.addresses()[0].to_string(), &other, PATIENCE).map(drop).expect_err("refused");
    assert!(failure.to_string().contains("another key"), "{failure}");
    // The agent's channel under the same key is none of our own, and the other way round.
    let mut agents = TcpStream::connect(hub.addresses()[0]).expect("a connection");
    agents.write_all(b"LRc1").expect("sent");
    agents.write_all(&[0; 50]).expect("sent");
    let mut answer = Vec::new();
    agents.read_to_end(&mut answer).ok();
    assert_eq!(answer, b"");
    // Another version is told ours, and nothing else.
    let mut newer = TcpStream::connect(hub.addresses()[0]).expect("a connection");
    newer.write_all(b"LRw9").expect("sent");
    newer.read_to_end(&mut answer).ok();
    assert_eq!(answer, b"LRw1");
    // What answers there is none of our own.
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = foreign.local_addr().expect("an address").to_string();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = foreign.accept().expect("a connection");
        stream.write_all(&[b'x'; 100]).ok();
        std::io::copy(&mut stream, &mut std::io::sink()).ok();
    });
    let failure = Client::connect(&address, &key(), PATIENCE).map(drop).expect_err("refused");
    assert!(failure.to_string().contains("not a server of a wall"), "{failure}");
    web.join().expect("it ends");
    let failure = Client::connect(&address, &key(), PATIENCE).map(drop).expect_err("nobody is there");
    assert!(failure.to_string().contains("nothing listens"), "{failure}");
}

#[test]
fn a_silent_unknown_client_and_garbage_are_closed_without_a_byte() {
    let (_fake, hub) = served(1, 1);
    let strangers: Vec<TcpStream> =
        [&b""[..], b"L", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], b"LRw1", b"LRw1\0\x30garbage"]
            .iter()
            .map(|bytes| {
                let mut stream = TcpStream::connect(hub.addresses()[0]).expect("a connection");
                stream.write_all(bytes).ok();
                stream
            })
            .collect();
    let mut client = client(&hub);
    for mut stream in strangers {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut answer = Vec::new();
        // A reset is an end as well.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"");
    }
    client.ask(&ControlRequest::Status, PATIENCE).expect("the others go on");
}

#[test]
fn what_is_not_understood_is_refused_and_too_much_is_closed() {
    let (fake, hub) = served(1, 1);
    let mut client = client(&hub);
    let odd = client.ask(&ControlRequest::Speed { speed: f64::NAN }, PATIENCE).expect("an answer");
    assert!(
        matches!(odd, ControlMessage::Refused { why } if why.contains("not understood")),
        "JSON has no NaN"
    );
    client.ask(&ControlRequest::Play, PATIENCE).expect("the connection goes on");
    // Beyond 64 KiB it is not a request.
    client.send(&ControlRequest::Open { movie: "x".repeat(70_000) }).expect("sent");
    let why = ending(&mut client);
    assert!(why.contains("closed") || why.contains("lost"), "{why}");
    assert!(!fake.asked().iter().any(|request| matches!(request, ControlRequest::Open { .. })));
}

#[test]
fn a_flooder_is_closed_with_a_sentence_and_a_joystick_beside_it_is_not_disturbed() {
    let (fake, hub) = served(1, 1);
    let (mut flooder, mut joystick) = (client(&hub), client(&hub));
    let flood = std::thread::spawn(move || {
        for _ in 0..200_000 {
            if let Err(failure) = flooder.send(&ControlRequest::Pan { right: 1.0, down: 0.0, zoom: 1.0 }) {
                return failure.to_string();
            }
            // It reads what it is told.
            loop {
                match flooder.next(Duration::ZERO) {
                    Ok(Some(ControlMessage::Refused { why })) => return why,
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(failure) => return failure.to_string(),
                }
            }
        }
        "it was never closed".to_string()
    });
    for _ in 0..120 {
        let answer = joystick
            .ask(&ControlRequest::Pan { right: 0.0, down: 1.0, zoom: 1.0 }, PATIENCE)
            .expect("an answer");
        assert_eq!(answer, ControlMessage::Done);
        std::thread::sleep(Duration::from_millis(10));
    }
    let why = flood.join().expect("it ends");
    assert!(why.contains("too many requests"), "{why}");
    let of_flooder =
        fake.asked().iter().filter(|asked| matches!(asked, ControlRequest::Pan { right: 1.0, .. })).count();
    assert!((600..20_000).contains(&of_flooder), "{of_flooder}");
}

#[test]
fn who_asks_and_does_not_read_is_closed_and_the_hub_keeps_little() {
    let (_fake, hub) = served(60, 60);
    let mut deaf = client(&hub);
    let mut other = client(&hub);
    // A status of 3,600 tiles is two megabytes: a few of them fill the sockets' buffers, then the queue.
    let began = Instant::now();
    let mut failed = None;
    while failed.is_none() && began.elapsed() < PATIENCE {
        failed = deaf.send(&ControlRequest::Status).err();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(failed.is_some(), "it was never closed");
    assert_eq!(other.ask(&ControlRequest::Play, PATIENCE).expect("an answer"), ControlMessage::Done);
}
