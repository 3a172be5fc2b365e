//! One place and many who want it: a fast client lets others have their turn, and the end is an end.

use super::hostile_clients::{COOKIE, OTHER, begun, byte, connect, send_parameters, still_serves, strict};
use super::peers::Ours;
use crate::support::connect_from;
use linerate::iperf3::{Iperf3Limits, Iperf3Server};
use linerate_system::stop::Stop;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client at another address of loopback.
fn connect_as(client: [u8; 4], address: SocketAddr) -> TcpStream {
    let stream = connect_from(client, address);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

#[test]
fn who_was_served_lets_another_have_its_turn() {
    let server = Ours::start(strict());
    let fast = begun(server.address);
    let mut slow = connect_as([127, 0, 0, 2], server.address);
    slow.write_all(OTHER).expect("sent");
    assert_eq!(byte(&mut slow), Some(0xff), "busy, as iperf3 says it");
    drop(fast);
    assert!(!server.refused().is_empty());
    // The place is free; the fast one knocks first, again and again.
    for _ in 0..2 {
        let mut again = connect(server.address);
        again.write_all(COOKIE).expect("sent");
        assert_eq!(byte(&mut again), Some(0xff), "it is another's turn");
    }
    let mut slow = connect_as([127, 0, 0, 2], server.address);
    slow.write_all(OTHER).expect("sent");
    assert_eq!(byte(&mut slow), Some(9));
    drop(slow);
    assert!(!server.refused().is_empty());
    still_serves(&server);
}

#[test]
fn streams_that_nobody_asked_for_are_not_the_next_client_s() {
    let server = Ours::start(Iperf3Limits {
        opening: Duration::from_secs(10),
        idle: Duration::from_secs(30),
        ..strict()
    });
    let mut control = begun(server.address);
    send_parameters(&mut control, r#"{"tcp":true,"time":1,"parallel":1}"#);
    assert_eq!(byte(&mut control), Some(10));
    let mut more: Vec<TcpStream> = (0..4).map(|_| connect(server.address)).collect();
    more.iter_mut().for_each(|stream| stream.write_all(COOKIE).expect("sent"));
    assert_eq!(byte(&mut control), Some(1));
    // One is the stream; the others are closed, while the test runs.
    assert_eq!(more.iter().filter(|stream| closed(stream)).count(), 3);
    drop(control);
    still_serves(&server);
}

/// Ended, or turned away, within two seconds.
fn closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    match stream.read(&mut [0]) {
        Ok(0 | 1) => true,
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_listener_s_panic_ends_the_server_and_is_not_waited_for() {
    let server = Iperf3Server::bind(&["127.0.0.1:0".parse().expect("an address")]).expect("a server");
    let address = server.local_addresses()[0];
    let serving = std::thread::spawn(move || {
        let mut hear =
            |_: &linerate::iperf3::ServerEvent| panic!("a listener's defect (wanted by this test)");
        server.serve(&Stop::new(), &strict(), &mut hear)
    });
    let mut client = begun(address);
    client.write_all(&[0xff; 4]).expect("a message that is none");
    let began = Instant::now();
    while !serving.is_finished() {
        assert!(began.elapsed() < Duration::from_secs(20), "the room at the door goes on alone");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(serving.join().is_err());
}

#[test]
fn every_address_of_both_kinds_can_be_named() {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    if TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this host has no IPv6");
        return;
    }
    let every = |port: u16| -> [SocketAddr; 2] { [([0u16; 8], port).into(), ([0u8; 4], port).into()] };
    // Others may take the port meanwhile.
    let bound = (0..10).find_map(|_| {
        let port = free().expect("a free port").port();
        Some((port, Iperf3Server::bind(&every(port)).ok()?))
    });
    let (port, server) = bound.expect("both listen");
    assert_eq!(server.local_addresses(), every(port));
    let (stop, stopped) = (Arc::new(Stop::new()), Stop::new());
    let serving = stop.clone();
    let thread = std::thread::spawn(move || server.serve(&serving, &strict(), &mut |_| {}));
    for client in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(client.parse().expect("an address"), port);
        let test = linerate::iperf3::Iperf3Test {
            seconds: 0.2,
            ..super::peers::short(linerate::protocol::Protocol::Tcp)
        };
        let mut tries = 0;
        // The one before is not quite gone.
        while linerate::iperf3::run_client(address, None, &test, &stopped, &mut |_| {}).is_err() {
            tries += 1;
            assert!(tries < 50, "{client} is not served");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    stop.end();
    thread.join().expect("the server's thread").expect("served");
}
