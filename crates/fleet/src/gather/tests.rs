//! Members that come over a real connection, and are of another version, have a clock that is off, or say nothing.

use super::*;
use linerate_transport::agent::initiate_as;

const KEY: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

fn key() -> Key {
    Key::from_hex(KEY).expect("a key")
}

fn hello(protocol: u32, version: &str) -> MemberHello {
    MemberHello {
        protocol,
        version: version.into(),
        name: Some("h3".into()),
        host: "h3.example".into(),
        rank: None,
        size: None,
        data_port: 1,
        addresses: Vec::new(),
    }
}

/// What comes of a member that says this and then does that.
fn joining(hello: MemberHello, then: impl FnOnce(&MemberLink) + Send) -> Option<Joining> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let stream = TcpStream::connect(address).expect("the coordinator");
            let wire = DeadlineStream::new(&stream, Duration::from_secs(20));
            let channel = initiate_as(&FLEET_MAGIC, wire, &key()).expect("a channel");
            let link = MemberLink::new(stream, channel).expect("a link");
            link.send(&MemberReply::Hello(hello)).expect("a hello");
            then(&link);
        });
        let (stream, _) = listener.accept().expect("a member");
        open(stream, &key(), Instant::now())
    })
}

/// Answers with clocks that are off by this.
fn answer_clocks(link: &MemberLink, zero: Instant, off_nanos: i64) {
    for _ in 0..CLOCK_READINGS {
        let Ok(MemberRequest::Clock) = link.receive::<MemberRequest>() else { panic!("no question") };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let clock = MemberReply::Clock {
            nanos: zero.elapsed().as_nanos() as i64 + off_nanos,
            unix_nanos: now.as_nanos() as i64 + off_nanos,
        };
        link.send(&clock).expect("an answer");
    }
}

#[test]
fn a_member_of_another_version_is_refused_in_a_sentence_at_both_ends() {
    let mut told = None;
    let joined = joining(hello(FLEET_PROTOCOL + 1, "9.9.9"), |link| {
        told = link.receive::<MemberRequest>().ok();
    });
    let Some(Err(error)) = joined else { panic!("it joined") };
    let sentence = error.to_string();
    assert!(sentence.starts_with("member h3 runs linerate 9.9.9"), "{sentence}");
    assert!(sentence.ends_with("install the same version on all hosts"), "{sentence}");
    let Some(MemberRequest::Refused { why }) = told else { panic!("{told:?}") };
    assert_eq!(why, sentence);
}

/// A window begins by the member's own clock, so what it shows does not matter.
#[test]
fn a_clock_that_is_30_seconds_off_is_known_within_the_round_trip() {
    for off_seconds in [30, -30] {
        let zero = Instant::now();
        let joined = joining(hello(FLEET_PROTOCOL, "9.9.9"), |link| {
            answer_clocks(link, zero, off_seconds * 1_000_000_000);
        });
        let Some(Ok(member)) = joined else { panic!("it did not join") };
        let ClockReading { offset_nanos, error_nanos, time_of_day_nanos } = member.clock;
        let off = |nanos: i64| (nanos as f64 / 1e9 - off_seconds as f64).abs();
        // The coordinator's zero is the moment of its accept, a little after the member's.
        assert!(off(offset_nanos) < 5.0 && error_nanos >= 0, "{offset_nanos} ± {error_nanos}");
        assert!(off(time_of_day_nanos) < 5.0, "{time_of_day_nanos}");
    }
}

#[test]
fn who_shows_another_key_or_another_magic_is_no_member() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    for (bytes, answer) in [(*b"GET ", false), (*b"LRf9", true)] {
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let mut stream = TcpStream::connect(address).expect("the coordinator");
                stream.write_all(&bytes).expect("written");
                let mut said = Vec::new();
                // An end that is reset has said nothing either.
                let _ = stream.read_to_end(&mut said);
                said
            });
            let (stream, _) = listener.accept().expect("a connection");
            assert!(open(stream, &key(), Instant::now()).is_none());
            let said = client.join().expect("the client");
            assert_eq!(said == FLEET_MAGIC, answer, "{said:?}");
        });
    }
}
