//! Clients that mean our server no good: they cost it a bounded time and room, and the next client gets its
//! test.

use super::peers::{Ours, our_client, short};
use linerate::iperf3::{Iperf3Limits, Iperf3Test};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345672345\0";
pub const OTHER: &[u8; 37] = b"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\0";

/// Patient enough for the tests, impatient enough for them to be short.
pub fn strict() -> Iperf3Limits {
    Iperf3Limits {
        message: Duration::from_secs(1),
        opening: Duration::from_secs(1),
        idle: Duration::from_secs(1),
        ..Iperf3Limits::default()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// The next byte; none: closed.
pub fn byte(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(0) => None,
        Ok(_) => Some(byte[0]),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

/// A client that was told to send its parameters.
pub fn begun(address: SocketAddr) -> TcpStream {
    for _ in 0..50 {
        let mut stream = connect(address);
        stream.write_all(COOKIE).expect("sent");
        match byte(&mut stream) {
            Some(9) => return stream,
            // The client before is not quite gone.
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    panic!("the server stays busy");
}

pub fn send_parameters(stream: &mut TcpStream, text: &str) {
    stream.write_all(&(text.len() as u32).to_be_bytes()).expect("sent");
    stream.write_all(text.as_bytes()).expect("sent");
}

/// The number of the error that a client with these parameters gets.
fn error_for(address: SocketAddr, text: &str) -> u32 {
    let mut stream = begun(address);
    send_parameters(&mut stream, text);
    assert_eq!(byte(&mut stream), Some(0xfe), "{text}");
    let mut numbers = [0; 8];
    stream.read_exact(&mut numbers).expect("two numbers");
    u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]])
}

/// An honest client gets its test.
pub fn still_serves(server: &Ours) {
    for _ in 0..50 {
        let test = Iperf3Test { seconds: 0.2, ..short(Protocol::Tcp) };
        let answer = linerate::iperf3::run_client(server.address, None, &test, &Stop::new(), &mut |_| {});
        match answer {
            Ok(outcome) => {
                assert_eq!(outcome.error, None);
                assert!(outcome.local[0].bytes > 0);
                return;
            }
            Err(error) => assert!(error.to_string().contains("busy"), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server stays busy");
}

#[test]
fn parameters_beyond_bounds_get_iperf3s_numbers() {
    let server = Ours::start(Iperf3Limits { bits_per_second: Some(1_000_000), seconds: 60.0, ..strict() });
    for (text, number) in [
        (r#"{"tcp":true,"time":1,"parallel":1000}"#, 6),
        (r#"{"tcp":true,"time":1,"parallel":-3}"#, 6),
        (r#"{"tcp":true,"time":3600}"#, 5),
        (r#"{"udp":true,"time":1,"len":3}"#, 20),
        (r#"{"tcp":true,"time":1,"len":1073741824}"#, 7),
        (r#"{"udp":true,"time":1,"len":1000,"bandwidth":10000000}"#, 27),
        (r#"{"sctp":true}"#, 13),
        ("[]", 114),
    ] {
        assert_eq!(error_for(server.address, text), number, "{text}");
        assert!(!server.refused().is_empty());
    }
}

#[test]
fn messages_that_are_none_end_the_conversation() {
    let server = Ours::start(strict());
    let attacks: [&[u8]; 4] =
        [&[0xff; 4], &[0x7f, 0xff, 0xff, 0xff, b'{'], &[0, 0, 0, 2, b'{', b'{'], &[0, 0]];
    for attack in attacks {
        let mut stream = begun(server.address);
        stream.write_all(attack).expect("sent");
        assert_eq!(byte(&mut stream), None, "{attack:?}");
        assert!(!server.refused().is_empty());
    }
    still_serves(&server);
}

#[test]
fn a_client_that_never_opens_its_streams_is_left() {
    let server = Ours::start(strict());
    for protocol in ["tcp", "udp"] {
        let mut stream = begun(server.address);
        send_parameters(&mut stream, &format!(r#"{{"{protocol}":true,"time":1,"parallel":2,"len":1000}}"#));
        assert_eq!(byte(&mut stream), Some(10));
        assert_eq!(byte(&mut stream), Some(0xfe), "told that its streams are missing");
        let why = server.refused();
        assert!(why.contains("0 of 2 streams"), "{why}");
    }
    still_serves(&server);
}

#[test]
fn a_stream_without_the_cookie_is_none() {
    let server = Ours::start(Iperf3Limits { opening: Duration::from_secs(10), ..strict() });
    let mut control = begun(server.address);
    send_parameters(&mut control, r#"{"tcp":true,"time":1,"parallel":1}"#);
    assert_eq!(byte(&mut control), Some(10));
    let mut stranger = connect(server.address);
    stranger.write_all(OTHER).expect("sent");
    assert_eq!(byte(&mut stranger), Some(0xff), "denied");
    let mut stream = connect(server.address);
    stream.write_all(COOKIE).expect("sent");
    assert_eq!(byte(&mut control), Some(1));
    assert_eq!(byte(&mut control), Some(2));
    // Running, and then a state that no client sends.
    control.write_all(&[0x80]).expect("sent");
    let outcome = server.ended();
    assert!(outcome.error.as_ref().is_some_and(|error| error.contains("-128")), "{:?}", outcome.error);
    still_serves(&server);
}

#[test]
fn a_second_client_is_reported_that_the_server_is_busy() {
    let server = Ours::start(Iperf3Limits { message: Duration::from_secs(10), ..strict() });
    let first = begun(server.address);
    let error =
        linerate::iperf3::run_client(server.address, None, &short(Protocol::Tcp), &Stop::new(), &mut |_| {});
    assert!(error.expect_err("busy").to_string().contains("busy with another test"));
    drop(first);
    still_serves(&server);
}

#[test]
fn udp_goes_only_to_the_address_of_the_control_connection() {
    let server = Ours::start(Iperf3Limits { opening: Duration::from_secs(10), ..strict() });
    let mut control = begun(server.address);
    send_parameters(&mut control, r#"{"udp":true,"time":1,"parallel":1,"len":1000,"reverse":true}"#);
    assert_eq!(byte(&mut control), Some(10));
    let ask = |from: &str| {
        let socket = UdpSocket::bind((from, 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        socket.connect(server.address).expect("connected");
        socket.send(b"6789").expect("sent");
        let mut datagram = [0; 2000];
        (socket.recv(&mut datagram).map(|length| datagram[..length].to_vec()), socket)
    };
    // A sender that may be forged: not a byte, neither now nor when the test runs.
    let (answer, stranger) = ask("127.0.0.2");
    assert!(answer.is_err(), "{answer:?}");
    let (answer, socket) = ask("127.0.0.1");
    assert_eq!(answer.expect("an answer"), b"9876");
    assert_eq!(byte(&mut control), Some(1));
    assert_eq!(byte(&mut control), Some(2));
    assert_eq!(socket.recv(&mut [0; 2000]).expect("data"), 1000);
    assert!(stranger.recv(&mut [0; 2000]).is_err());
    control.write_all(&[12]).expect("sent");
    assert!(server.ended().error.is_some_and(|error| error.contains("stopped")));
}

#[test]
fn connections_are_read_no_faster_than_the_allowed_rate() {
    let limit = 10_000_000;
    let server = Ours::start(Iperf3Limits { bits_per_second: Some(limit), ..strict() });
    let test = Iperf3Test { seconds: 1.5, parallel: 2, bits_per_second: None, ..short(Protocol::Tcp) };
    let outcome = our_client(server.address, &test);
    assert_eq!(outcome.error, None, "held back, not ended");
    let received = server.ended();
    let bytes: u64 = received.local.iter().map(|stream| stream.bytes).sum();
    let seconds = received.local.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    // Each stream may have read one block that is not paid yet, and what comes after the end is read for 0.4
    // s.
    let most = limit as f64 / 8.0 * (seconds + 0.42) + 2.0 * 16_384.0;
    assert!((bytes as f64) <= most && bytes as f64 > most / 10.0, "{bytes} bytes of {most} in {seconds} s");
    // What the server itself sends, it keeps within the limit.
    let test = Iperf3Test {
        seconds: 0.5,
        direction: linerate::iperf3::TestDirection::Receive,
        bits_per_second: None,
        ..test
    };
    let outcome = our_client(server.address, &Iperf3Test { parallel: 2, ..test });
    let rate: f64 = outcome.local.iter().map(|stream| stream.bits_per_second()).sum();
    assert!(rate > 1e6 && rate < 12e6, "{rate}");
}

#[test]
fn more_datagrams_than_allowed_end_a_test_before_a_second_is_over() {
    let server = Ours::start(Iperf3Limits { bits_per_second: Some(10_000_000), ..strict() });
    let test = Iperf3Test { seconds: 10.0, bits_per_second: None, ..short(Protocol::Udp) };
    let outcome = our_client(server.address, &test);
    assert!(
        outcome.error.as_ref().is_some_and(|error| error.contains("above its limit")),
        "{:?}",
        outcome.error
    );
    let seconds = server.ended().local[0].seconds;
    assert!(seconds < 0.9, "seen after {seconds} s");
}
