//! What a client may take: tests, streams, memory, rate, time; and which clients there may be.

use super::running::{
    COUNTING, PATIENCE, RunningAgent, connect_stream, refusal, sample_when, spec, streams, token,
    udp_address, until, worker_stream, workers,
};
use linerate::agent::{
    AgentLimits, AgentSession, AgentSettings, AllowList, ClientLimits, LocalBinding, Receivers, StreamTicket,
};
use linerate::flow::stream::{StreamRole, StreamSpec};
use linerate::protocol::Protocol;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn refused(ticket: &StreamTicket) -> &str {
    match ticket {
        StreamTicket::Refused { why } => why,
        StreamTicket::Granted { .. } => panic!("granted"),
    }
}

fn sends(count: usize) -> Vec<StreamSpec> {
    vec![spec(Protocol::Tcp, StreamRole::Send); count]
}

fn client_limits(client: ClientLimits) -> AgentLimits {
    AgentLimits { client, ..AgentLimits::default() }
}

/// A session of a client at another address of loopback.
pub fn connect_as(
    running: &RunningAgent,
    client: [u8; 4],
) -> Result<AgentSession, linerate::failure::Failure> {
    let way = LocalBinding { local: Some((client, 0).into()), device: None };
    AgentSession::connect_by(running.address, &running.key, way)
}

#[test]
fn a_worker_over_udp_counts_with_the_buffer_that_it_really_asks_for() {
    let limits = client_limits(ClientLimits { memory_bytes: 60 << 20, ..ClientLimits::default() });
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
    // 128 KiB are asked for, and 16 MiB are what a receiver of datagrams takes, which the kernel doubles.
    let opened = running.connect().open(workers(&[Protocol::Udp; 2])).expect("opened");
    assert!(matches!(opened[0], StreamTicket::Granted { .. }), "one fits: {opened:?}");
    assert!(refused(&opened[1]).contains("--memory-limit"), "{opened:?}");
    running.awaits_load((0, 0, 0));
    let session = connect_as(&running, [127, 0, 0, 2]).expect("a session");
    let opened = session.open(workers(&[Protocol::Tcp; 20])).expect("opened");
    assert!(
        opened.iter().all(|ticket| matches!(ticket, StreamTicket::Granted { .. })),
        "over TCP the client's word is the buffer: {opened:?}"
    );
}

fn rate_limit(bytes_per_second: f64) -> AgentLimits {
    client_limits(ClientLimits { bytes_per_second: Some(bytes_per_second), ..ClientLimits::default() })
}

#[test]
fn a_rate_limit_is_dealt_to_the_streams_of_a_client_and_kept() {
    let limit = 8e6;
    let running = RunningAgent::with(rate_limit(limit), COUNTING, "127.0.0.1:0");
    let session = running.connect();
    assert_eq!(session.hello().rate_limit, Some(limit));

    let modest = StreamSpec { bytes_per_second: Some(2e6), ..spec(Protocol::Tcp, StreamRole::Send) };
    let asked = vec![modest, spec(Protocol::Tcp, StreamRole::Send), spec(Protocol::Tcp, StreamRole::Receive)];
    let opened = session.open(streams(asked)).expect("opened");
    let granted: Vec<Option<f64>> = opened
        .iter()
        .map(|ticket| match ticket {
            StreamTicket::Granted { bytes_per_second, .. } => *bytes_per_second,
            StreamTicket::Refused { why } => panic!("{why}"),
        })
        .collect();
    assert_eq!(granted, [Some(2e6), Some(3e6), Some(3e6)]);
    let ours = opened[2].held(spec(Protocol::Tcp, StreamRole::Send));
    assert_eq!(ours.bytes_per_second, Some(3e6), "our end of a stream to the agent is held as well");
    let other = running.connect();
    let late = other.open(streams(sends(1))).expect("opened");
    assert!(refused(&late[0]).contains("--rate-limit"), "nothing is left: {late:?}");

    // The agent's end is told its rate; who moves more all the same is ended, in either direction.
    let take = connect_stream(&session, &opened[1], &sends(1)[0], None, None).expect("a stream");
    let give = connect_stream(&session, &opened[2], &ours, None, None).expect("a stream");
    let (linerate::flow::stream::StreamSocket::Tcp(mut take), linerate::agent::StreamSocket::Tcp(mut give)) =
        (take, give)
    else {
        panic!("both are TCP");
    };
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::copy(&mut take, &mut std::io::sink()));
        scope.spawn(move || while give.write_all(&[1; 100_000]).is_ok() {});
        let sample = sample_when(&session, |sample| sample.streams[1..].iter().all(|stream| stream.ended));
        assert_eq!((sample.streams[0].ended, sample.streams[1].trains), (false, 3_000_000));
        for stream in &sample.streams[1..] {
            assert!(
                stream
                    .error
                    .as_deref()
                    .is_some_and(|why| why.contains("24.0 Mb/s") && why.contains("--rate-limit")),
                "{stream:?}"
            );
        }
        session.close().expect("closed");
    });
}

#[test]
fn who_is_not_on_the_list_gets_no_answer() {
    let only = ["127.0.0.1", "192.0.2.0/24"].map(|text| text.parse().expect("a network"));
    let settings = AgentSettings { allow: AllowList::new(only), ..AgentSettings::default() };
    let running = RunningAgent::with(settings, COUNTING, "[::]:0");
    let target = std::net::SocketAddr::from(([127, 0, 0, 1], running.address.port()));
    let session = AgentSession::connect(target, &running.key).expect("on the list");
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    for opening in [
        linerate::agent::CONTROL_MAGIC.as_slice(),
        b"LRc9",
        &[linerate::agent::DATA_MAGIC.as_slice(), token(&opened[0])].concat(),
    ] {
        let mut stranger = crate::support::connect_from([127, 0, 0, 2], target);
        let _ = stranger.write_all(opening);
        stranger.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(!matches!(stranger.read(&mut [0; 16]), Ok(1..)), "{opening:?} was answered");
    }
    // With the key, too.
    let way = linerate::agent::LocalBinding { local: Some(([127, 0, 0, 3], 0).into()), device: None };
    let text = refusal(AgentSession::connect_by(target, &running.key, way));
    assert!(text.contains("--allow"), "{text}");
    assert_eq!(running.agent.load().2, 0, "no thread was spent on them");
    worker_stream(&session, &opened[0]).expect("the token was not taken by the stranger");
}

#[test]
fn a_silent_client_is_not_sent_datagrams_for_long() {
    let limits = AgentLimits { idle_sending: Duration::from_millis(500), ..AgentLimits::default() };
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
    let (quiet, receiving) = (running.connect(), running.connect());
    let began = Instant::now();
    quiet.open(streams(vec![spec(Protocol::Udp, StreamRole::Send)])).expect("opened");
    receiving.open(streams(vec![spec(Protocol::Udp, StreamRole::Receive)])).expect("opened");
    until("the quiet one is dropped", || running.agent.load().0 == 1);
    assert!(began.elapsed() >= Duration::from_millis(500));
    receiving.sample().expect("who sends to the agent may be silent");
    assert!(quiet.sample().is_err());
}

#[test]
fn the_workers_of_a_run_are_read_no_faster_than_the_rate() {
    let limit = 8e6;
    let running = RunningAgent::with(rate_limit(limit), Receivers::default(), "127.0.0.1:0");
    let (one, two) = (running.connect(), running.connect());
    let began = Instant::now();
    let mut held = Vec::new();
    for session in [&one, &two] {
        let opened =
            session.open(workers(&[Protocol::Tcp; 2])).expect("workers of two paths under one limit");
        for ticket in &opened {
            held.push(worker_stream(session, ticket).expect("a worker"));
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut worker in held {
            let stop = &stop;
            scope.spawn(move || {
                worker.set_write_timeout(Some(Duration::from_millis(50))).expect("a timeout");
                while !stop.load(Ordering::Relaxed) {
                    let _ = worker.write(&[1; 64 << 10]);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        let samples = [one.sample().expect("a sample"), two.sample().expect("a sample")];
        let most = limit * (began.elapsed().as_secs_f64() + 0.02);
        stop.store(true, Ordering::Relaxed);
        let workers: Vec<_> = samples.iter().flat_map(|sample| &sample.streams).collect();
        let moved: u64 = workers.iter().map(|worker| worker.bytes).sum();
        // Each worker may have read one block that is not paid yet.
        assert!((moved as f64) < most + 4.0 * 65_536.0, "{moved} bytes of at most {most}");
        assert!(moved as f64 > 0.5 * limit, "{moved} bytes: held, and not stopped");
        assert!(workers.iter().all(|worker| !worker.ended && worker.bytes > 0), "{workers:?}");
    });
}

#[test]
fn datagrams_of_a_worker_come_from_who_is_on_the_list_only() {
    let only = AllowList::new(["127.0.0.1".parse().expect("a network")]);
    let settings = AgentSettings { allow: only, ..AgentSettings::default() };
    let running = RunningAgent::with(settings, Receivers::default(), "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Udp; 2])).expect("opened");
    let show = |from: &str, worker: usize| {
        let socket = UdpSocket::bind((from, 0)).expect("a socket");
        let to = udp_address(&session, &opened[worker]);
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        socket.send_to(&linerate::flow::wire::admission(token(&opened[worker])), to).expect("sent");
        socket.recv(&mut [0; 64]).is_ok()
    };
    assert!(!show("127.0.0.2", 0), "its token was shown from elsewhere");
    let sample = sample_when(&session, |sample| sample.streams[0].ended);
    let why = sample.streams[0].error.as_deref().expect("a reason");
    assert!(why.contains("127.0.0.2") && why.contains("--allow"), "{why}");
    // A thread that has not started yet answers the next time.
    assert!((0..20).any(|_| show("127.0.0.1", 1)), "who is on the list is let in");
}
