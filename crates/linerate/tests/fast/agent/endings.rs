//! How things end: a client or an agent that dies, freezes or idles, a receiver that does not stop, a defect.

use super::running::{COUNTING, RunningAgent, heard, refusal, sample_when, until, worker_stream, workers};
use linerate::agent::{Agent, AgentLimits, AgentSession, AgentSettings, InterfaceOf, Key, Receivers};
use linerate::flow::receive::Terms;
use linerate::flow::stream::{StreamCounters, StreamSocket};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_client_that_dies_takes_its_workers_with_it() {
    let running = RunningAgent::start();
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp, Protocol::Udp, Protocol::Tcp])).expect("opened");
    let mut stream = worker_stream(&session, &opened[0]).expect("a stream");
    assert_eq!(running.agent.load().1, 3);
    drop(session);
    let died = Instant::now();
    running.awaits_load((0, 0, 0));
    assert!(died.elapsed() < Duration::from_secs(6), "two seconds are meant: {:?}", died.elapsed());
    assert_eq!(heard(&mut stream), b"", "the data stream is closed");
}

/// A receiver that never looks at `stop`.
fn stubborn(socket: StreamSocket, _: &Terms, received: &StreamCounters, _: &Stop) -> io::Result<()> {
    let mut stream = socket.into_tcp().expect("TCP");
    let bytes = io::copy(&mut stream, &mut io::sink())?;
    received.progress.add(bytes);
    Ok(())
}

#[test]
fn a_receiver_that_does_not_stop_is_cut() {
    let running =
        RunningAgent::with(AgentLimits::default(), Receivers { worker: stubborn, ..COUNTING }, "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    let _stream = worker_stream(&session, &opened[0]).expect("a stream");
    until("the receiver runs", || running.agent.load() == (1, 1, 0));
    let last = session.close().expect("closed within the time of a call");
    assert!(last.streams[0].ended);
}

fn panicking(_: StreamSocket, _: &Terms, _: &StreamCounters, _: &Stop) -> io::Result<()> {
    panic!("a receiver's defect (wanted by this test)")
}

#[test]
fn a_panic_ends_its_worker_or_session_and_nothing_else() {
    let running = RunningAgent::with(
        AgentLimits::default(),
        Receivers { worker: panicking, ..COUNTING },
        "127.0.0.1:0",
    );
    let session = running.connect();
    let opened = session.open(workers(&[Protocol::Tcp])).expect("opened");
    worker_stream(&session, &opened[0]).expect("admitted");
    let sample = sample_when(&session, |sample| sample.streams[0].ended);
    assert!(sample.streams[0].error.as_deref().is_some_and(|why| why.contains("defect")), "{sample:?}");
    session.close().expect("closed");

    let key = Key::random().expect("a key");
    let sick: InterfaceOf = Arc::new(|_| panic!("a session's defect (wanted by this test)"));
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    let settings = AgentSettings { interface_of: sick, ..AgentSettings::default() };
    let agent = Agent::bind(&listen, key.clone(), settings).expect("an agent");
    let stop = Stop::new();
    std::thread::scope(|scope| {
        scope.spawn(|| agent.serve(&stop));
        for _ in 0..10 {
            let text = refusal(AgentSession::connect(agent.local_addresses()[0], &key));
            assert!(text.contains("gone"), "{text}");
        }
        until("no session is left", || agent.load() == (0, 0, 0));
        stop.end();
    });
}

#[test]
fn an_idle_session_is_dropped_and_the_client_is_reported() {
    let limits = AgentLimits { idle: Duration::from_millis(300), ..AgentLimits::default() };
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
    let session = running.connect();
    session.sample().expect("in time");
    running.awaits_load((0, 0, 0));
    let text = session.sample().expect_err("dropped").to_string();
    assert!(text.contains(&running.address.to_string()) && text.contains("gone"), "{text}");
    let text = session.sample().expect_err("still").to_string();
    assert!(text.contains("gone"), "{text}");
}

#[test]
fn an_agent_that_stops_or_freezes_in_the_middle_is_named_within_seconds() {
    let running = RunningAgent::start();
    let address = running.address;
    let session = running.connect();
    session.open(workers(&[Protocol::Udp])).expect("opened");
    drop(running);
    let text = session.sample().expect_err("gone").to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("Start `linerate agent` there again"),
        "{text}"
    );

    // A relay that stops to relay: the connection stays, nothing comes.
    let running = RunningAgent::start();
    let relay = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = relay.local_addr().expect("an address");
    let frozen = Arc::new(AtomicBool::new(false));
    let (target, freeze) = (running.address, frozen.clone());
    let relaying = std::thread::spawn(move || {
        let (client, _) = relay.accept().expect("a connection");
        let agent = TcpStream::connect(target).expect("a connection");
        std::thread::scope(|scope| {
            for (mut from, mut to) in [(&client, &agent), (&agent, &client)] {
                let freeze = &freeze;
                scope.spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                        if !freeze.load(Ordering::Acquire) {
                            to.write_all(&buffer[..bytes]).expect("relayed");
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        });
    });
    let session = AgentSession::connect(address, &running.key).expect("a session");
    session.sample().expect("a sample");
    frozen.store(true, Ordering::Release);
    let began = Instant::now();
    let text = session.sample().expect_err("frozen").to_string();
    assert!(text.contains(&address.to_string()) && text.contains("no answer"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(session);
    relaying.join().expect("the relay");
}
