//! Streams as they are: agent and client with the engine of `flow`, in both directions, and what strangers
//! and forgers reach.

use super::running::{PATIENCE, RunningAgent, connect_stream, sample_when, spec, streams};
use linerate::agent::{AgentLimits, AgentSession, LocalBinding, Receivers};
use linerate::flow::stream::{
    Content, RunningStream, StreamCounters, StreamRole, StreamSocket, StreamSpec, start,
};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

/// Payload of a stream: whole datagrams and whole writes.
const BYTES: u64 = 1400 * 512 * 4;

fn agent() -> RunningAgent {
    RunningAgent::with(AgentLimits::default(), Receivers::default(), "[::]:0")
}

fn session(running: &RunningAgent, host: &str) -> AgentSession {
    let address = SocketAddr::new(host.parse().expect("an address"), running.address.port());
    AgentSession::connect(address, &running.key).expect("a session")
}

fn limited(protocol: Protocol, role: StreamRole) -> StreamSpec {
    let bytes_per_second = (protocol == Protocol::Udp).then_some(20e6);
    StreamSpec { limit_bytes: Some(BYTES), bytes_per_second, verify: true, ..spec(protocol, role) }
}

fn ours(spec: StreamSpec, socket: StreamSocket) -> (Arc<StreamCounters>, RunningStream) {
    let counters = Arc::new(StreamCounters::new(Instant::now()));
    let stop = Arc::new(Stop::new());
    let stream = start(spec, socket, Content::Memory, counters.clone(), stop).expect("a thread");
    (counters, stream)
}

#[test]
fn both_directions_over_both_transports_at_once() {
    let running = agent();
    for host in ["127.0.0.1", "::1"] {
        if host == "::1" && UdpSocket::bind("[::1]:0").is_err() {
            println!("skipped: this host has no IPv6");
            continue;
        }
        let session = session(&running, host);
        let theirs: Vec<StreamSpec> = [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .flat_map(|protocol| {
                [limited(protocol, StreamRole::Send), limited(protocol, StreamRole::Receive)]
            })
            .collect();
        let opened = session.open(streams(theirs.clone())).expect("opened");
        let at_work: Vec<_> = theirs
            .iter()
            .zip(&opened)
            .map(|(spec, ticket)| {
                let spec = StreamSpec { role: spec.role.other(), ..spec.clone() };
                let socket = connect_stream(&session, ticket, &spec, None, None).expect("a stream");
                ours(spec, socket)
            })
            .collect();
        let last = sample_when(&session, |sample| sample.streams.iter().all(|stream| stream.ended));
        for (index, ((counters, stream), theirs)) in at_work.into_iter().zip(&last.streams).enumerate() {
            stream.join().expect("our end is content");
            let ours = counters.sample();
            assert_eq!(theirs.error, None, "{host} {index}");
            assert_eq!(
                (ours.bytes + ours.lost * 1400, theirs.bytes + theirs.lost * 1400),
                (BYTES, BYTES),
                "{host} {index}: {ours:?} {theirs:?}"
            );
            if index < 2 {
                assert_eq!((ours.checksum, ours.bytes), (theirs.checksum, BYTES), "TCP, {host} {index}");
            }
        }
        session.close().expect("closed");
    }
}

/// The client's socket of a UDP stream to the agent, as the engine holds it.
fn udp_stream(
    session: &AgentSession,
    role: StreamRole,
    local: Option<SocketAddr>,
) -> (UdpSocket, StreamSocket, StreamSpec) {
    let theirs = StreamSpec { limit_bytes: None, ..limited(Protocol::Udp, role) };
    let opened = session.open(streams(vec![theirs.clone()])).expect("opened");
    let spec = StreamSpec { role: role.other(), ..theirs };
    let socket = connect_stream(session, &opened[0], &spec, local, None).expect("admitted");
    let StreamSocket::Udp { socket: plain, .. } = &socket else { panic!("UDP") };
    (plain.try_clone().expect("another handle"), socket, spec)
}

#[test]
fn forged_datagrams_are_counted_and_not_believed() {
    let running = agent();
    let session = session(&running, "127.0.0.1");
    let (forger, socket, spec) = udp_stream(&session, StreamRole::Receive, None);
    let (counters, stream) = ours(StreamSpec { limit_bytes: Some(BYTES), ..spec }, socket);
    // From the right address and port, but without the tag of the stream; some as long as its datagrams.
    for number in 0..200u32 {
        let _ = forger.send(&vec![number as u8; 1 + 7 * number as usize]);
    }
    let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    elsewhere.send_to(&[1; 1400], forger.peer_addr().expect("the agent's end")).expect("sent");
    let sample = sample_when(&session, |sample| sample.streams[0].ended);
    stream.join().expect("our end is content");
    let received = &sample.streams[0];
    assert!(received.foreign > 0, "{received:?}");
    assert_eq!(received.bytes + received.lost * 1400, BYTES, "{received:?}");
    assert_eq!((received.duplicated, counters.sample().bytes), (0, BYTES), "{received:?}");
    elsewhere.set_nonblocking(true).expect("non-blocking");
    assert_eq!(elsewhere.recv(&mut [0; 64]).expect_err("no answer").kind(), ErrorKind::WouldBlock);
}

#[test]
fn datagrams_go_only_to_the_address_that_the_session_came_from() {
    let running = agent();
    let elsewhere = Some(SocketAddr::from(([127, 0, 0, 9], 0)));
    let first = session(&running, "127.0.0.1");
    let (socket, _, _) = udp_stream(&first, StreamRole::Send, elsewhere);
    let sample = sample_when(&first, |sample| sample.streams[0].ended);
    let why = sample.streams[0].error.as_deref().expect("a reason");
    assert!(why.contains("127.0.0.9") && why.contains("127.0.0.1"), "{why}");
    assert_eq!((sample.streams[0].datagrams, sample.streams[0].bytes), (0, 0));
    socket.set_nonblocking(true).expect("non-blocking");
    let mut largest = 0;
    while let Ok(length) = socket.recv(&mut [0; 2000]) {
        largest = largest.max(length);
    }
    assert!(largest <= 36, "{largest} bytes came: more than an answer to the token");

    // A session from there may.
    let address = SocketAddr::from(([127, 0, 0, 1], running.address.port()));
    let second =
        AgentSession::connect_by(address, &running.key, LocalBinding { local: elsewhere, device: None })
            .expect("a session");
    let (_, socket, spec) = udp_stream(&second, StreamRole::Send, elsewhere);
    let (counters, stream) = ours(spec, socket);
    let began = Instant::now();
    while counters.sample().bytes < 100_000 {
        assert!(began.elapsed() < PATIENCE, "{:?}", counters.sample());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    second.close().expect("closed");
    let _ = stream.join();
}

#[test]
fn a_stream_to_nobody_ends_with_its_session_and_a_stop_with_its_last_bytes() {
    let running = agent();
    let session = session(&running, "127.0.0.1");
    // Nobody runs our ends: the agent's sender waits, its receiver too.
    let theirs = vec![
        spec(Protocol::Udp, StreamRole::Send),
        spec(Protocol::Tcp, StreamRole::Send),
        spec(Protocol::Udp, StreamRole::Receive),
    ];
    let opened = session.open(streams(theirs.clone())).expect("opened");
    let held: Vec<_> = theirs
        .iter()
        .zip(&opened)
        .map(|(spec, ticket)| {
            let spec = StreamSpec { role: spec.role.other(), ..spec.clone() };
            connect_stream(&session, ticket, &spec, None, None).expect("a stream")
        })
        .collect();
    sample_when(&session, |sample| sample.streams[1].bytes > 0);
    let last = session.close().expect("closed");
    assert!(last.streams.iter().all(|stream| stream.ended), "{last:?}");
    running.awaits_load((1, 0, 0));
    drop(held);
}

#[test]
fn a_receiver_that_freezes_is_not_flooded_for_ever() {
    let running = agent();
    let session = session(&running, "127.0.0.1");
    let (_, _held, _) = udp_stream(&session, StreamRole::Send, None);
    // It never says that it is ready: nothing but questions comes.
    let sample = sample_when(&session, |sample| sample.streams[0].ended);
    assert_eq!(sample.streams[0].bytes, 0, "{:?}", sample.streams[0]);
}
