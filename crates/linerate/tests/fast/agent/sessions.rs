//! What a session does: tests one after another, tokens, bounds.

use super::bounds::connect_as;
use super::running::{
    COUNTING, PATIENCE, RunningAgent, refusal, sample_when, token, udp_address, until, worker_stream, workers,
};
use linerate::agent::{AgentLimits, AgentSession};
use linerate::protocol::Protocol;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

#[test]
fn tests_over_tcp_and_udp_follow_one_another_on_one_session() {
    let running = RunningAgent::start();
    let session = running.connect();
    let hello = session.hello().clone();
    assert_eq!((hello.interface.as_deref(), hello.interface_mtu), (Some("lo"), Some(65_536)));
    assert!(hello.instance.len() == 16 && hello.cores > 0 && !hello.host.is_empty(), "{hello:?}");
    assert_eq!(running.connect().hello().instance, hello.instance, "one agent, two connections");

    for round in 1..=3u64 {
        let opened = session.open(workers(&[Protocol::Tcp, Protocol::Udp])).expect("opened");
        let mut tcp = worker_stream(&session, &opened[0]).expect("a stream");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.connect(udp_address(&session, &opened[1])).expect("connected");
        udp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        udp.send(token(&opened[1])).expect("the token");
        udp.recv(&mut [0; 16]).expect("admitted");
        tcp.write_all(&vec![1; 100_000 * round as usize]).expect("bytes");
        tcp.shutdown(std::net::Shutdown::Write).expect("the end");
        for _ in 0..10 {
            udp.send(&[2; 100]).expect("a datagram");
        }
        let sample =
            sample_when(&session, |sample| sample.streams[0].ended && sample.streams[1].datagrams == 10);
        assert_eq!((sample.streams[0].bytes, sample.streams[0].checksum), (100_000 * round, 100_000 * round));
        assert_eq!((sample.streams[1].bytes, sample.streams[1].ended), (1000, false));
        assert!(
            sample
                .streams
                .iter()
                .all(|worker| worker.receive_buffer_bytes >= 128 << 10 && worker.error.is_none())
        );
        assert!(sample.streams[0].bytes_nanos <= sample.host.nanos && sample.host.process_cpu_nanos > 0);
        let last = session.close().expect("closed");
        assert!(last.streams.iter().all(|worker| worker.ended), "{last:?}");
        assert!(session.sample().expect("a sample").streams.is_empty());
    }
}

#[test]
fn ipv4_and_ipv6_reach_an_agent_on_every_address() {
    let running = RunningAgent::with(AgentLimits::default(), COUNTING, "[::]:0");
    for local in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(local.parse().expect("an address"), running.address.port());
        if local == "::1" && UdpSocket::bind("[::1]:0").is_err() {
            println!("skipped: this host has no IPv6");
            continue;
        }
        let session = AgentSession::connect(address, &running.key).expect("a session");
        assert_eq!(session.hello().interface.as_deref(), Some("lo"), "mapped addresses are taken as IPv4");
        let opened = session.open(workers(&[Protocol::Udp])).expect("opened");
        let udp = UdpSocket::bind((local, 0)).expect("a socket");
        udp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let to = udp_address(&session, &opened[0]);
        udp.send_to(token(&opened[0]), to).expect("the token");
        udp.recv(&mut [0; 16]).expect("admitted");
    }
}

#[test]
fn an_unused_token_expires_also_under_forged_datagrams() {
    let limits = AgentLimits { token_life: Duration::from_millis(400), ..AgentLimits::default() };
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp, Protocol::Udp])).expect("opened");
    let forger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = udp_address(&session, &opened[1]);
    for length in [0, 1, 31, 32, 33, 1400] {
        forger.send_to(&vec![0xa5; length], target).expect("a datagram");
    }
    let sample = sample_when(&session, |sample| sample.streams.iter().all(|worker| worker.ended));
    for worker in &sample.streams {
        assert!(worker.error.as_deref().is_some_and(|why| why.contains("not used in time")), "{worker:?}");
        assert_eq!((worker.bytes, worker.datagrams), (0, 0));
    }
    forger.set_nonblocking(true).expect("non-blocking");
    let answer = forger.recv(&mut [0; 64]).expect_err("nothing is sent to who did not show the token");
    assert_eq!(answer.kind(), ErrorKind::WouldBlock);
    assert!(worker_stream(&session, &opened[0]).is_err(), "too late");
    session.close().expect("closed");
    assert_eq!(running.agent.load(), (1, 0, 0));
}

#[test]
fn sessions_and_streams_are_bounded_and_the_refusal_says_so() {
    let limits = AgentLimits { sessions: 4, streams: 3, ..AgentLimits::default() };
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
    let (one, two) = (running.connect(), running.connect());
    let text = refusal(AgentSession::connect(running.address, &running.key));
    assert!(text.contains("2 of its 4 control connections"), "{text}");
    let others =
        [(); 2].map(|()| connect_as(&running, [127, 0, 0, 2]).expect("another client finds a place"));
    let text = refusal(connect_as(&running, [127, 0, 0, 3]));
    assert!(text.contains("4 clients already"), "{text}");
    drop(others);
    let text = one.open(workers(&[Protocol::Tcp; 4])).expect_err("too many").to_string();
    assert!(text.contains("1 to 3"), "{text}");
    assert!(one.open(workers(&[])).is_err());
    one.open(workers(&[Protocol::Udp; 3])).expect("as many as allowed");
    let text = one.open(workers(&[Protocol::Tcp])).expect_err("one test at a time").to_string();
    assert!(text.contains("close it first"), "{text}");
    two.open(workers(&[Protocol::Tcp; 3])).expect("each session has its own");
    drop(one);
    until("a place is free", || running.agent.load() == (1, 3, 0));
    running.connect();
}

#[test]
fn the_largest_test_fits() {
    let running = RunningAgent::start();
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp; 256])).expect("opened");
    assert_eq!(opened.len(), 256);
    assert_eq!(session.sample().expect("a sample").streams.len(), 256);
    session.close().expect("closed");
}
